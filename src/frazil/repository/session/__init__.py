"""One snapshot and the changes of a session on top of it: nodes, and chunks (pending, packed, virtual, adopted).

How changes become a commit is in repository/commit/, how they meet others' in repository/merge/. The store of Zarr keys over them is in stores/array_storage/."""
