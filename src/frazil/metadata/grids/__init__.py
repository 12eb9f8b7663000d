"""Grids of chunks in documents, and the keys of chunks.

Contains: regular and rectilinear grids, chunk key encodings. Does not contain: selections over a grid, which are in indexing/; changes of a shape, in
array/shape/."""

from frazil.base.late import late_modules

late_modules(__name__, "rectilinear")
