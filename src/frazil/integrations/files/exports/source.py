"""The nodes to export: an array, or the arrays and groups below a group, with their paths in the file. Nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.array.array import Array
from frazil.array.group import Group
from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.integrations.files.imports.selection import is_named


class Exported(Record):
    """groups: by path, "" the root;  arrays: by path; for a single array, by its name"""

    groups: dict[str, Group]
    arrays: dict[str, Array]

    @property
    def nbytes(self) -> int:
        """Of all elements."""
        return sum(array.nbytes for array in self.arrays.values())


def exported(
    node: Array | Group, name: str, variables: Sequence[str] | None = None, skip: Sequence[str] = ()
) -> Exported:
    """The exported part of a node.

    name   of an array that is exported alone and is the root of its hierarchy
    variables, skip  paths of arrays, as for an import
    Raises InvalidInputError for a name that no array has, and if nothing is left."""
    if isinstance(node, Array):
        return Exported({}, {node.path.rpartition("/")[2] or name: node})
    below = dict(node.members(max_depth=None))
    arrays = {path: found for path, found in below.items() if isinstance(found, Array)}
    for pattern in (*skip, *(variables or ())):
        if not any(is_named(path, [pattern]) for path in arrays):
            raise InvalidInputError(f"there is no array {pattern!r}", path=node.path or "/")
    selected = {
        path: array
        for path, array in arrays.items()
        if not is_named(path, skip) and (variables is None or is_named(path, variables))
    }
    if not selected:
        raise InvalidInputError("there are no arrays to be exported", path=node.path or "/")
    groups = {"": node, **{path: found for path, found in below.items() if not isinstance(found, Array)}}
    return Exported(dict(sorted(groups.items())), selected)
