"""Zarr v2: `.zarray`, `.zgroup`, `.zattrs` and `.zmetadata`, and the keys of a hierarchy.

The values that documents become are in metadata/model.py. Data types, fill values and the codecs of numcodecs are read with the code of the older dialect of
the 2022 draft, which took them from Zarr v2 (metadata/draft/)."""

from frazil.base.late import late_modules

late_modules(__name__, "documents", "layout", "objects")
