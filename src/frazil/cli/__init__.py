"""The command line: parsing and printing only. One file a command; what commands do is in operations/ and below."""
