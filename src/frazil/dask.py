"""Frazil's arrays with dask: `pip install 'frazil[dask]'`.

from_array  a frazil.Array as a dask array, with chunks that match its shards
store       dask arrays into frazil.Arrays; into a repository as one commit, by any number of workers
"""

from frazil.integrations.dask.arrays import from_array, store

__all__ = ["from_array", "store"]
