"""TIFF and OME-TIFF files: their series, and where the tiles of these lie.

They are read with tifffile (`pip install 'frazil[tiff]'`)."""
