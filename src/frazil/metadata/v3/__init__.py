"""The final dialect, Zarr v3.1: `zarr.json` documents and the keys of a hierarchy.

The values that documents become are in metadata/model.py."""
