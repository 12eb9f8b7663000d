"""Hierarchies: which dialect one has, and its nodes as documents or behind a port.

Array and Group, which users touch, are in array/array.py and array/group.py."""
