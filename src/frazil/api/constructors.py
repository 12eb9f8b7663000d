"""Functions that make, save and load arrays in one call, with the names of zarr-python: zeros, full, array, from_array, save, load, group, ...

Opening and creating at a location is in nodes.py. Without a location these functions keep the array in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.api.nodes import create_array, create_group, open_group, open_node
from frazil.array.array import Array
from frazil.array.group import Group
from frazil.array.interface.zarr_group import like
from frazil.errors import InvalidInputError, NotFoundError
from frazil.late import LateModule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.array.creation.array_metadata import Lengths
    from frazil.stores import memory
    from frazil.stores.locations import Location

else:
    memory = LateModule("frazil.stores.memory")

_KEPT: Final = ("fill_value", "dimension_names")
_KINDS: Final = ("filters", "serializer", "compressors")
_KEEP: Final = "keep"


def create(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array at a location, or in memory. The other arguments are those of frazil.create_array, which says what is raised; dtype: float64 where it is left out."""
    return _new(store, {"dtype": "float64", **arguments, "shape": shape})


def empty(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array of zeros, as nothing is stored of it; arguments as for `create`."""
    return create(shape, store=store, **arguments)


def zeros(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array of zeros; arguments as for `create`."""
    return full(shape, 0, store=store, **arguments)


def ones(shape: Lengths, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array of ones; arguments as for `create`."""
    return full(shape, 1, store=store, **arguments)


def full(shape: Lengths, fill_value: object, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array whose elements are all `fill_value`; arguments as for `create`."""
    return _new(store, {"dtype": "float64", **arguments, "shape": shape, "fill_value": fill_value})


def empty_like(a: object, *, store: Location | None = None, **arguments: object) -> Array:
    """As `empty`, with the shape, the data type and, of a frazil.Array, the chunks and shards of another array."""
    return _new(store, like(a, arguments))


def zeros_like(a: object, *, store: Location | None = None, **arguments: object) -> Array:
    """As `zeros`, with what empty_like takes from another array."""
    return _new(store, {**like(a, arguments), "fill_value": 0})


def ones_like(a: object, *, store: Location | None = None, **arguments: object) -> Array:
    """As `ones`, with what empty_like takes from another array."""
    return _new(store, {**like(a, arguments), "fill_value": 1})


def full_like(a: object, fill_value: object = None, *, store: Location | None = None, **arguments: object) -> Array:
    """As `full`, with what empty_like takes from another array; its fill value where none is given."""
    fill = getattr(a, "fill_value", None) if fill_value is None else fill_value
    return _new(store, {**like(a, arguments), "fill_value": fill})


def array(data: object, *, store: Location | None = None, **arguments: object) -> Array:
    """A new array with these elements, at a location or in memory; arguments as for frazil.create_array. Layout and codecs are those of data where it is a frazil.Array."""
    return _new(store, _copied(data, arguments, write_data=True))


def from_array(
    store: Location, *, data: object, name: str | None = None, write_data: bool = True, **arguments: object
) -> Array:
    """A new array with the elements of another one, which may be larger than memory.

    data        a frazil.Array, whose layout, codecs, fill value, names of dimensions and attributes are kept where no argument or "keep" is given; or what frazil.create_array takes
    name        path below the location
    write_data  False: the elements are not copied
    The other arguments are those of frazil.create_array, which says what is raised."""
    return _new(store, {"name": name, **_copied(data, arguments, write_data=write_data)})


def _copied(data: object, arguments: Mapping[str, object], *, write_data: bool) -> dict[str, object]:
    """Arguments of create_array for a copy of `data`."""
    given = {key: value for key, value in arguments.items() if not (isinstance(value, str) and value == _KEEP)}
    if isinstance(data, Array):
        kept = like(data, given)
        kept.update({key: getattr(data, key) for key in _KEPT}, attributes=data.attrs.asdict())
        if not {"codecs", *_KINDS} & set(given):
            kept["codecs"] = data.codecs
        elif "codecs" not in given:
            kept.update({kind: getattr(data, kind) for kind in _KINDS})
        given = {**kept, **given}
    shaped = data if hasattr(data, "shape") and hasattr(data, "dtype") else np.asarray(data)
    return {"data": shaped, **given} if write_data else {"shape": shaped.shape, "dtype": shaped.dtype, **given}


def save_array(store: Location, arr: object, *, path: str = "", **arguments: object) -> None:
    """Writes one array, over what is there; arguments as for frazil.create_array."""
    _new(store, {**_copied(arr, arguments, write_data=True), "path": path, "overwrite": True})


def save_group(store: Location, *args: object, path: str = "", **kwargs: object) -> None:
    """Writes several arrays into a group, over arrays of these names: by their keywords, the others as arr_0, arr_1, ... Raises InvalidInputError where there are none."""
    named = {**{f"arr_{i}": value for i, value in enumerate(args)}, **kwargs}
    if not named:
        raise InvalidInputError("there is nothing to save", hint="give at least one array")
    group = open_group(store, "a", path=path)
    for name, value in named.items():
        group[name] = value


def save(store: Location, *args: object, path: str = "", **kwargs: object) -> None:
    """save_array of a single array without a name, otherwise save_group."""
    if len(args) == 1 and not kwargs:
        save_array(store, args[0], path=path)
    else:
        save_group(store, *args, path=path, **kwargs)


def load(store: Location, path: str = "") -> NDArray[np.generic] | dict[str, NDArray[np.generic]]:
    """All elements of the array at a location, or of the arrays of the group there, by their names. Raises NotFoundError, MetadataError, DataError, StoreError."""
    node = open_node(store, path=path)
    return node.read() if isinstance(node, Array) else {name: member.read() for name, member in node.arrays()}


def group(
    store: Location | None = None,
    *,
    overwrite: bool = False,
    path: str = "",
    attributes: Mapping[str, object] | None = None,
    zarr_format: int | str | None = None,
) -> Group:
    """The group at a location, to be read and written; made where there is none, or with overwrite=True anew; in memory without a location.
    Raises InvalidInputError where an array is, MetadataError, ReadOnlyError, StoreError."""
    location = _at(store)
    if overwrite:
        return create_group(location, overwrite=True, path=path, attributes=attributes, zarr_format=zarr_format)
    try:
        return open_group(location, "r+", path=path)
    except NotFoundError:
        return open_group(location, "a", path=path, attributes=attributes, zarr_format=zarr_format)


def _at(store: Location | None) -> Location:
    return memory.MemoryStore() if store is None else store


def _new(store: Location | None, arguments: Mapping[str, object]) -> Array:
    return create_array(_at(store), **arguments)  # type: ignore[arg-type] # which checks them
