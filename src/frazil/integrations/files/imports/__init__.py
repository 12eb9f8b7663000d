"""Import: the arrays of a scanned file, copied into a destination or referenced.

scanner.py and the packages of the formats scan files."""

from frazil.base.late import late_modules

late_modules(__name__, "import_file", "importer", "layout", "selection")
