"""Import: the arrays of a scanned file, copied into a destination or referenced.

scanner.py and the packages of the formats scan files."""
