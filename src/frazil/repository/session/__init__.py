"""One snapshot and the changes of a session on top of it: nodes, chunks (pending, packed, virtual, adopted), and a store of Zarr keys.

How changes become a commit is in repository/commit/, how they meet others' in repository/merge/."""
