"""The store on a local disk, and its knowledge of files and folders.

Bytes are read and published by the kernel; the port is in stores/store.py."""

from frazil.base.late import late_modules

late_modules(__name__, "case_folding", "leftovers", "new_files")
