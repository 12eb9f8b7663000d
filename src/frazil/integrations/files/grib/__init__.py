"""GRIB files, editions 1 and 2: where their fields are, and the variables that cfgrib makes of them.

Values are decoded by eccodes (`pip install 'frazil[grib]'`)."""
