"""The command line: parsing and printing. commands/ has one file for each command; the other modules are shared by several commands.

The work of the commands is not here, but in operations/ and the layers below."""
