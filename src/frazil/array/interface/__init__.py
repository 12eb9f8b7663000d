"""Parts of Array and Group beside reading, writing and changing nodes: names of zarr-python (zarr_array.py, zarr_group.py), lazy views, HTML.

Not here: how anything is read or stored (array.py, group.py, io/)."""

from frazil.base.late import late_modules

late_modules(__name__, "html", "html_table", "indexer", "lazy_view")
