"""Selections -> plans in columns for the kernel. Pure: no I/O, no data type, no codec.

selection.py normalises selections; box.py (with axes.py) and points.py make plans of them; single_chunk.py has the short path for one chunk. Not here: the
execution of plans (array/io/)."""

from frazil.base.late import late_modules

late_modules(__name__, "selection")
