"""Data types: one family in each file, and their fill values.

Not here: the registry that finds a family by name (metadata/registry.py), and the names that the draft of 2022 uses (metadata/draft/types.py)."""

from frazil.base.late import late_modules

late_modules(__name__, "datetimes", "heap", "objects", "structs", "variable_length")
