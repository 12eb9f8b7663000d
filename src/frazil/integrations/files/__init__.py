"""Files of other formats: what is in them (`scanner.py`, `scanned.py`), and their import into repositories.

Each format has a sub-package. The commands are in cli/commands/."""
