"""Other programs and their files: files/ imports NetCDF and HDF5, dask/ reads and writes arrays of dask, xarray/ datasets and trees of xarray.

Not here: anything that lower layers need; none of them knows of this package."""
