"""Import: the arrays of a scanned file, copied into a destination or referred to.

What is in a file is found by scanner.py and the packages of the formats."""
