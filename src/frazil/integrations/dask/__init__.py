"""Arrays as dask arrays, and dask arrays written as one commit. Public as `frazil.dask`.

dask is imported only when it is used."""
