"""Changes of two sides: differences, conflicts, rebase and forks.

How changes become files is in repository/commit/."""
