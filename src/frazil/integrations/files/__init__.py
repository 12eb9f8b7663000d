"""Files of other formats (NetCDF, HDF5): scanned, and imported into repositories.

The command is in cli/commands/write/import_.py."""
