"""A snapshot and the changes of a session on top of it: nodes, and chunks (pending, packed, virtual, adopted).

repository/commit/ commits these changes, repository/merge/ merges them with other commits. The store of Zarr keys over them is in stores/array_storage/."""
