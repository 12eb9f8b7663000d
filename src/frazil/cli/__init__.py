"""The command line: parsing and printing. commands/ has one file for each command; arguments/ and the modules beside it serve several commands.

The work of the commands is not here, but in operations/ and the layers below."""
