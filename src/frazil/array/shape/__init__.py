"""The shape of an array and of its chunks.

Contains: resizing, the extents of chunks and shards, arrays with rectilinear grids. Does not contain: the documents of grids, which are in metadata/grids/."""

from frazil.base.late import late_modules

late_modules(__name__, "rectilinear", "resize")
