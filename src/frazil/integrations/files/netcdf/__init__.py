"""NetCDF classic files: their header, and where the data of their variables lies.

NetCDF4 files are HDF5 files: hdf5/."""
