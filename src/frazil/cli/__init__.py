"""The command line: parsing and printing. commands/ has one file for each command; the other modules are what several of them share.

Not here: what commands do (operations/ and below)."""
