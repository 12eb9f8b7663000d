"""Functions that make, save and load arrays in one call, with the names of zarr-python: zeros, full, array, from_array, save, load, group, ...

Opening and creating at a location is in nodes.py. Without a location these functions keep the array in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np

from frazil._kernel import kernel_info
from frazil.api import destinations
from frazil.api.nodes import create_array, create_group, open_array, open_group, open_node, planned_group
from frazil.array.array import Array
from frazil.array.creation import data_source
from frazil.array.group import Group
from frazil.array.interface.zarr_group import like, node_arguments
from frazil.base.arrays import Values
from frazil.errors import InvalidInputError, NotFoundError
from frazil.stores import memory
from frazil.stores.locations import Location, given_location

if TYPE_CHECKING:
    from frazil.array.creation.array_metadata import Lengths
    from frazil.array.creation.modes import Mode
    from frazil.array.creation.zarr_arguments import GroupArguments
    from frazil.array.hierarchy import tree as _tree

_COPIED: Final = ("fill_value", "dimension_names")
_KINDS: Final = ("filters", "serializer", "compressors")
_FROM_DATA: Final = "keep"
_ROOT_ARGUMENTS: Final = ("attributes", "zarr_format", "explicit_groups", "entry_point", "registry", "runtime")


def create(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array at a location, or in memory. Other arguments and errors as in frazil.create_array; dtype: float64 where it is left out."""
    return _create_by_mode(store, {"dtype": "float64", **arguments, "shape": shape})


def empty(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array of zeros, none of which is stored; arguments as for `create`."""
    return create(shape, store=store, **arguments)


def zeros(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array of zeros; arguments as for `create`."""
    return full(shape, 0, store=store, **arguments)


def ones(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array of ones; arguments as for `create`."""
    return full(shape, 1, store=store, **arguments)


def full(shape: Lengths, fill_value: object, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array whose elements are all `fill_value`; arguments as for `create`."""
    return _create_by_mode(store, {"dtype": "float64", **arguments, "shape": shape, "fill_value": fill_value})


def empty_like(a: object, *, store: Location | None = None, **arguments: object) -> Array:
    """As `empty`, with the shape, the data type and, of a frazil.Array, the chunks, shards and fill value of another array."""
    return _create_by_mode(store, like(a, arguments))


def zeros_like(a: object, *, store: Location | None = None, **arguments: object) -> Array:
    """As `zeros`, with the arguments that empty_like takes from another array."""
    return _create_by_mode(store, {**like(a, arguments), "fill_value": 0})


def ones_like(a: object, *, store: Location | None = None, **arguments: object) -> Array:
    """As `ones`, with the arguments that empty_like takes from another array."""
    return _create_by_mode(store, {**like(a, arguments), "fill_value": 1})


def full_like(a: object, fill_value: object = None, *, store: Location | None = None, **arguments: object) -> Array:
    """As `full`, with the arguments that empty_like takes from another array; by default also its fill value."""
    fill = getattr(a, "fill_value", None) if fill_value is None else fill_value
    return _create_by_mode(store, {**like(a, arguments), "fill_value": fill})


def array(data: object, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array with these elements, at a location or in memory; arguments as for frazil.create_array. Layout and codecs are those of data where it is a
    frazil.Array."""
    return _create_by_mode(store, _copied(data, arguments, write_data=True))


def from_array(
    store: Location, *, data: object, name: str | None = None, write_data: bool = True, **arguments: object
) -> Array:
    """A new array with the elements of another one, which may be larger than memory.

    data        a frazil.Array, whose layout, codecs, fill value, names of dimensions and attributes are kept where the argument is missing or "keep"; or data
                as in frazil.create_array
    name        path below the location
    write_data  False: the elements are not copied
    Other arguments and errors as in frazil.create_array."""
    return _create_by_mode(store, {"name": name, **_copied(data, arguments, write_data=write_data)})


def _copied(data: object, arguments: Mapping[str, object], *, write_data: bool) -> dict[str, object]:
    """Arguments of create_array for a copy of `data`."""
    supplied = {key: value for key, value in arguments.items() if not (isinstance(value, str) and value == _FROM_DATA)}
    if isinstance(data, Array):
        arguments_of_data = like(data, supplied)
        arguments_of_data.update({key: getattr(data, key) for key in _COPIED}, attributes=data.metadata.attributes)
        if not {"codecs", *_KINDS} & set(supplied):
            arguments_of_data["codecs"] = data.codecs
        elif "codecs" not in supplied:
            arguments_of_data.update({kind: getattr(data, kind) for kind in _KINDS})
        supplied = {**arguments_of_data, **supplied}
    shaped = data if hasattr(data, "shape") and hasattr(data, "dtype") else data_source.as_array(data)
    return {"data": shaped, **supplied} if write_data else {"shape": shaped.shape, "dtype": shaped.dtype, **supplied}


def save_array(store: Location, arr: object, *, path: str | None = "", **arguments: object) -> None:
    """Writes one array, in place of an existing node; arguments as for frazil.create_array."""
    _create_by_mode(store, {**_copied(arr, arguments, write_data=True), "path": path, "overwrite": True})


def save_group(
    store: Location,
    *args: object,
    path: str | None = "",
    zarr_format: int | str | None = None,
    zarr_version: int | None = None,
    storage_options: Mapping[str, object] | None = None,
    **kwargs: object,
) -> None:
    """Writes several arrays into a group, over arrays of these names: by their keywords, the others as arr_0, arr_1, ... InvalidInputError without arrays."""
    named = {**{f"arr_{i}": value for i, value in enumerate(args)}, **kwargs}
    if not named:
        raise InvalidInputError("there is nothing to save", hint="give at least one array")
    group = open_group(
        store,
        "a",
        path=path,
        zarr_format=zarr_format,
        zarr_version=zarr_version,
        storage_options=storage_options,
    )
    trial = create_group(memory.MemoryStore(), zarr_format=group.metadata.zarr_format)
    for name, value in named.items():  # all are checked before one is replaced
        trial.create_array(name, data=value, write_data=False)
    destinations.check_storable(group._location, named)
    for name, value in named.items():
        group[name] = value


def save(
    store: Location,
    *args: object,
    path: str | None = "",
    zarr_format: int | str | None = None,
    zarr_version: int | None = None,
    storage_options: Mapping[str, object] | None = None,
    **kwargs: object,
) -> None:
    """save_array of a single array without a name, otherwise save_group."""
    target: dict[str, Any] = {
        "path": path,
        "zarr_format": zarr_format,
        "zarr_version": zarr_version,
        "storage_options": storage_options,
    }
    if len(args) == 1 and not kwargs:
        save_array(store, args[0], **target)
    else:
        save_group(store, *args, **target, **kwargs)  # type: ignore[arg-type] # the arrays are objects


def load(
    store: Location,
    path: str | None = "",
    zarr_format: int | str | None = None,
    zarr_version: int | None = None,
    *,
    storage_options: Mapping[str, object] | None = None,
) -> Values | dict[str, Values]:
    """All elements of the array at a location, or of the arrays of the group there, by their names. zarr_version: the older name of zarr_format. Raises
    NotFoundError, MetadataError, DataError, StoreError."""
    node = open_node(
        store, path=path, zarr_format=zarr_format, zarr_version=zarr_version, storage_options=storage_options
    )
    return node.read() if isinstance(node, Array) else {name: member.read() for name, member in node.arrays()}


def group(
    store: Location | None = None,
    *,
    overwrite: bool = False,
    path: str | None = "",
    attributes: Mapping[str, object] | None = None,
    zarr_format: int | str | None = None,
    storage_options: Mapping[str, object] | None = None,
    **zarr: Unpack[GroupArguments],
) -> Group:
    """The group at a location, for reading and writing; created if there is none, or with overwrite=True in its place; in memory without a location.
    zarr: other names of zarr-python, as in open_group. Raises InvalidInputError for an array, MetadataError, ReadOnlyError, StoreError."""
    location = given_location(_location_or_memory(store), None, storage_options)
    if not overwrite:
        try:
            return open_group(location, "r+", path=path, **zarr)
        except NotFoundError:
            pass
    mode: Mode = "w" if overwrite else "a"
    return open_group(location, mode, path=path, attributes=attributes, zarr_format=zarr_format, **zarr)


def create_hierarchy(
    *, store: Location, nodes: Mapping[str, object], overwrite: bool = False
) -> Iterator[tuple[str, Array | Group]]:
    """Creates many nodes at a location. Returns their paths and the new nodes. nodes and errors as in Group.create_hierarchy; the path "" is the root.

    overwrite  whether existing nodes at these paths are removed first; with a root among the paths, the whole hierarchy"""
    named: dict[str, object] = {}
    for path, node in nodes.items():
        if (inner := path.strip("/")) in named:
            raise InvalidInputError("two of the new nodes have one path", path=inner or "/")
        named[inner] = node
    if "" not in named:
        try:
            found = open_group(store, "r+")
        except NotFoundError:
            planned_group(store)[0]._planned_hierarchy(named)  # before the root is created
            found = open_group(store, "a")
        return found.create_hierarchy(named, overwrite=overwrite)
    arguments = node_arguments("", named.pop(""))
    if "shape" not in arguments:
        _check_below(store, named, overwrite, arguments)
        group = create_group(store, overwrite=overwrite, **arguments)  # type: ignore[arg-type] # which checks them
        return chain([("", group)], group.create_hierarchy(named))
    if named:
        raise InvalidInputError("an array has no nodes below it", path=min(named))
    return iter([("", create_array(store, overwrite=overwrite, **arguments))])  # type: ignore[arg-type] # as above


def _check_below(
    store: Location, nodes: Mapping[str, object], overwrite: bool, arguments: Mapping[str, object]
) -> None:
    """Checks the nodes of create_hierarchy below a root with these arguments, before the root is created."""
    for name in arguments:
        if name not in _ROOT_ARGUMENTS:
            raise InvalidInputError(f"{name} is not an argument of a group", path="/", hint="an array has a shape")
    supplied: dict[str, Any] = {name: value for name, value in arguments.items() if name != "explicit_groups"}
    planned_group(store, overwrite=overwrite, **supplied)[0]._planned_hierarchy(nodes)


def open_like(a: object, path: str, *, store: Location | None = None, **arguments: object) -> Array:
    """open_array in mode a; a new array gets the shape, the data type and, from a frazil.Array, the chunks, shards and fill value of another array.

    path  the location, or a path in `store` if that is given"""
    at, below = (path, "") if store is None else (store, path)
    return open_array(at, path=below, **{"mode": "a", **like(a, arguments)})  # type: ignore[arg-type] # which checks them


def tree(
    grp: Group | Location,
    expand: bool | None = None,  # noqa: ARG001
    level: int | None = None,
) -> _tree.Tree:
    """Group.tree of a group, or of the group at a location. level: its depth, None for all levels; expand: without effect."""
    found = grp if isinstance(grp, Group) else open_group(grp)
    return found.tree(level)


def print_debug_info() -> None:
    """Prints the kind of system, and the versions of Python, NumPy, Frazil, its kernel and the kernel's codecs, for reports of errors."""
    from importlib.metadata import version  # takes 10 ms, and is only needed here

    versions = {
        "platform": sys.platform,
        "frazil": version("frazil"),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        **kernel_info(),
    }
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in versions.items()))


def _location_or_memory(store: Location | None) -> Location:
    return memory.MemoryStore() if store is None else store


def _create_by_mode(store: Location | None, arguments: Mapping[str, object]) -> Array:
    """create_array, with the modes of zarr-python: w overwrites; raises InvalidInputError for modes that only open."""
    supplied = {**arguments}
    mode = supplied.pop("mode", None)
    if mode not in (None, "a", "w", "w-"):
        raise InvalidInputError(
            f"mode is {mode!r}, but this creates a new array", hint='"w" overwrites; frazil.open_array opens'
        )
    if mode == "w":
        supplied["overwrite"] = True
    return create_array(_location_or_memory(store), **supplied)  # type: ignore[arg-type] # which checks them
