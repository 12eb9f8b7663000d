"""Selections as pictures: overviews, colours, PNG files.

The command is in cli/commands/read/view.py."""
