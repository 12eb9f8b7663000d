"""Maintenance of repositories as users ask for it: cleanup, verification, repair and inspection. Arguments are checked here, and chunks are decoded through the array engine.

Not here: the work on repository files, which is in the packages of these names in repository/."""
