"""HDF5 and NetCDF4 files: their datasets, types, filters and dimensions, and where their chunks lie.

What becomes of the values is decided in imports/."""
