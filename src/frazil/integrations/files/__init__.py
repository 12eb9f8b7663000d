"""Files of other formats: scanning their content (`scanner.py`, `scanned.py`), and import and export.

Each format has a sub-package. The commands are in cli/commands/."""

from frazil.base.late import late_modules

late_modules(__name__, "scanner")
