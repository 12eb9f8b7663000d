"""Arrays as dask's, and dask's arrays written as one commit. Public as `frazil.dask`.

Nothing of dask is imported before it is used."""
