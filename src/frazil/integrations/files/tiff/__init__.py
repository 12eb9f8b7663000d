"""TIFF and OME-TIFF files: their series, and the positions of their tiles.

They are read with tifffile (`pip install 'frazil[tiff]'`)."""
