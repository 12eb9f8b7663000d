"""Zarr v2: `.zarray`, `.zgroup`, `.zattrs` and `.zmetadata`, and the keys of a hierarchy.

The values that documents become are in metadata/model.py. Data types, fill values and the codecs of numcodecs are read as in the older dialect of the 2022 draft, which has
them from Zarr v2 (metadata/draft/)."""
