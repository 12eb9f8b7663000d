"""The public functions for maintenance of repositories: cleanup, verification, repair and inspection. Arguments are checked here, and chunks are decoded
through the array engine.

Not here: the work on repository files, which is in the packages with these names in repository/."""
