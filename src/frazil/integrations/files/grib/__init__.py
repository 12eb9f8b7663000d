"""GRIB files, editions 1 and 2: the positions of their fields, and the variables that cfgrib combines them into.

Values are decoded by eccodes (`pip install 'frazil[grib]'`)."""
