"""Repository files: those that two programs' libraries wrote, files made by hand, and files with errors."""
