"""Other programs and their files: files/ imports and exports files of other formats, dask/ reads and writes arrays of dask, xarray/ datasets and trees of
xarray, zarr/ serves zarr-python.

Not here: code that lower layers need; no lower layer imports this package."""
