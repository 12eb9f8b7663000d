"""Export: arrays and groups written as files of other formats, or as plain Zarr.

Files are read by the packages of the formats and by imports/."""
