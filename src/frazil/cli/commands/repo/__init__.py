"""The commands `frazil repo ...`: on a repository as a whole, its history, branches and tags.

Commands of read/ read arrays in repositories, at LOCATION@REF."""
