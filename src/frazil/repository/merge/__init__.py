"""Changes of two sides, ours and theirs: differences, conflicts, rebase and forks.

repository/commit/ writes changes to files."""
