"""Zip archives as stores: zip_store.py is the store, directory.py knows the format and the entries, archive_file.py writes.

Reading is done in place, through any store that reads ranges of objects. Not here: files of NumPy, whose arrays are members of archives
(integrations/files)."""

from frazil.base.late import late_modules

late_modules(__name__, "zip_store")
