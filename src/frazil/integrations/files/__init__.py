"""Files of other formats: scanning their content (`scanner.py`, `scanned.py`), and import and export.

Each format has a sub-package. The commands are in cli/commands/."""
