"""The shape of an array and of its chunks.

Contains: resizing, the extents of chunks and shards, arrays with rectilinear grids. Does not contain: the documents of grids, which are in metadata/grids/."""
