"""References of kerchunk: a JSON file that has the documents of a Zarr hierarchy, and where its chunks lie in other files.

They become virtual chunks of a repository."""
