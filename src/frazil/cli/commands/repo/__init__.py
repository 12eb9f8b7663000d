"""The commands `frazil repo ...`: on a repository as a whole, its history, branches and tags.

Arrays in repositories are read by the commands of read/, at LOCATION@REF."""
