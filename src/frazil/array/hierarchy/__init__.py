"""Hierarchies: the dialect of each, and its nodes as documents or behind a port.

The public classes Array and Group are in array/array.py and array/group.py."""
