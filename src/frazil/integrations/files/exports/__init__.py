"""Export: arrays and groups written as files of other formats, or as plain Zarr.

The packages of the formats and imports/ read files."""

from frazil.base.late import late_modules

late_modules(__name__, "export_file")
