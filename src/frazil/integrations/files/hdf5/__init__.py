"""HDF5 and NetCDF4 files: their datasets, types, filters and dimensions, and the positions of their chunks.

imports/ decides how the values are imported."""
