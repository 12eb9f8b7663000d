"""Hierarchies: the dialect of each, and its nodes as documents or behind a port.

The public classes Array and Group are in array/array.py and array/group.py."""

from frazil.base.late import late_modules

late_modules(
    __name__, "consolidated", "hidden_nodes", "members", "move", "node_changes", "repository_locations", "root", "tree"
)
