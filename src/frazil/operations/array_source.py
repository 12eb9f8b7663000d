"""Opens the array that an operation reads: a given Array, or the array at a location, with the limits of the operation."""

from __future__ import annotations

from frazil.api.nodes import open_node
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.errors import InvalidInputError, NodeKindError
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.locations import Location


def open_source(source: Location | Array, path: str = "", runtime: Runtime | None = None) -> Array:
    """The array at a location and a path below it; a given Array itself, with other limits if a runtime is given. Raises NotFoundError, MetadataError,
    InvalidInputError for a group, or if a path is given with an Array."""
    if runtime is not None and not isinstance(runtime, Runtime):
        raise InvalidInputError(f"runtime is {runtime!r}; it must be a frazil.Runtime")
    if isinstance(source, Array):
        if path:
            raise InvalidInputError("an array has no nodes below it", path=path, hint="leave the path out")
        return source if runtime is None else Array(source._location._replace(runtime=runtime), source.metadata)
    if isinstance(source, Group):
        raise _no_array(source)
    node = open_node(source, path=path, runtime=DEFAULT if runtime is None else runtime)
    if isinstance(node, Group):
        raise _no_array(node)
    return node


def _no_array(group: Group) -> NodeKindError:
    return NodeKindError(
        "a group is there, not an array", path=group.path or "/", hint="name an array below it; tree() shows them"
    )
