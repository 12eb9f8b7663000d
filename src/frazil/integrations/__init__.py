"""Other programs and their files: importers that see arrays of Zarr in files of other formats. Nothing below this layer knows of them."""
