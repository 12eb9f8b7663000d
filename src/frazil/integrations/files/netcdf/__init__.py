"""NetCDF classic files: their header, and the positions of the data of their variables.

NetCDF4 files are HDF5 files: hdf5/."""
