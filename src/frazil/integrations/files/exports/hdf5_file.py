"""Arrays and groups as an HDF5 or NetCDF4 file, written with h5py: chunk by chunk, compressed with deflate and shuffle.

A NetCDF4 file is an HDF5 file whose dimensions are datasets (dimension scales), as netCDF-C and xarray read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from frazil.array.array import Array, with_limit
from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.integrations.files.exports.hdf5_output import Output
from frazil.integrations.files.exports.hdf5_values import StoredValues, is_plain, stored_values
from frazil.integrations.files.exports.source import Exported
from frazil.integrations.files.hdf5.types import NOT_COORDINATE, load_h5py
from frazil.metadata.json_text import as_json
from frazil.metadata.v3.fill_attribute import FILL_ATTRIBUTE, decode_fill
from frazil.operations.slabs import element_nbytes, plan_slabs, read_slabs

_LEVEL: Final = 4  # of deflate
_EXACT: Final = 2**53  # largest integer up to which floats have all
_ALONE: Final = "This is a netCDF dimension but not a netCDF variable. "  # begins the NAME of a scale without variable
_OWN: Final = frozenset(
    {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict"}
)  # fmt: skip # attributes in which HDF5 and NetCDF4 store dimensions: other values of these names crash the library


class Form(Record):
    """netcdf: whether dimensions are scales; budget: most bytes in memory"""

    netcdf: bool
    budget: int


def write_hdf5(source: Exported, file: str, form: Form, report: Callable[[int], object]) -> None:
    """Writes a new file; report is called on another thread. Raises InvalidInputError without h5py, and for a data type that the format does not have;
    StoreError, DataError, OSError."""
    h5py = load_h5py()
    for path in source.arrays:
        if path.rpartition("/")[2].startswith(NOT_COORDINATE):
            raise InvalidInputError(
                f"the name of an array in HDF5 cannot begin with {NOT_COORDINATE}, which netCDF leaves out",
                path=path,
                hint="leave it out: skip=",
            )
    stored = {path: stored_values(h5py, path, array, netcdf=form.netcdf) for path, array in source.arrays.items()}
    with open(file, "w+b", buffering=0) as stream:
        Output(stream).fill(lambda target: _write(h5py, target, source, stored, form, report))


def _write(
    h5py: Any,
    target: Output,
    source: Exported,
    stored: Mapping[str, StoredValues],
    form: Form,
    report: Callable[[int], object],
) -> None:
    with h5py.File(target, "w", track_order=True) as output:
        for path, group in source.groups.items():
            node = output.require_group(path) if path else output
            for name, value in group.attrs.items():
                _set_attribute(node, path, name, _attribute(value))
        hidden = _hidden_arrays(source) if form.netcdf else {}
        datasets = {
            path: _dataset(output, hidden.get(path, path), array, stored[path]) for path, array in source.arrays.items()
        }
        if form.netcdf:
            _add_dimensions(output, source, datasets, hidden)
        else:
            for path, array in source.arrays.items():
                for axis, dimension in enumerate(array.dimension_names or ()):
                    datasets[path].dims[axis].label = dimension or ""
        for path, array in source.arrays.items():
            for nbytes in _copied(array, datasets[path], stored[path], form.budget):
                target.check()
                report(nbytes)


def _dataset(output: Any, path: str, array: Array, stored: StoredValues) -> Any:
    plain = not array.shape or 0 in array.shape
    packed = not plain and not stored.is_text
    dataset = output.create_dataset(
        path,
        shape=array.shape,
        dtype=stored.dtype,
        chunks=None if plain else tuple(map(min, array.chunks, array.shape)),
        compression="gzip" if packed else None,
        compression_opts=_LEVEL if packed else None,
        shuffle=packed and stored.dtype.itemsize > 1,
        fillvalue=stored.fill,
    )
    for name, value in array.metadata.attributes.items():
        fill = decode_fill(as_json(value, name), array.dtype) if name == FILL_ATTRIBUTE and not stored.is_text else None
        converted = _attribute(value) if fill is None else stored.of(np.asarray(fill), path)[()].astype(stored.dtype)
        _set_attribute(dataset, path, name, converted)
    for name, own in stored.attributes.items():
        dataset.attrs[name] = own
    return dataset


def _set_attribute(owner: Any, path: str, name: str, value: object) -> None:
    """Raises InvalidInputError for an attribute that the format cannot hold."""
    if name in _OWN or not name or "\0" in name:
        raise InvalidInputError(
            f"an attribute in HDF5 cannot have the name {name!r}", path=path or "/", hint="rename it, or remove it"
        )
    try:
        owner.attrs[name] = value
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"HDF5 cannot hold the attribute {name!r}: {error}", path=path or "/", hint="change it, or remove it"
        ) from error


def _attribute(value: object) -> object:
    """An attribute's value in a type of HDF5; values without one become JSON text."""
    if isinstance(value, bool):
        return np.int8(value)
    if isinstance(value, str):
        return value if is_plain(value) else json.dumps(value)
    if isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**64):
        return value
    if isinstance(value, list) and value:
        if all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
            # integers from both ends of 64 bits have no common type, and floats have not all of them
            integers = [item for item in value if isinstance(item, int)]
            whole = len(integers) == len(value)
            numbers = np.asarray(
                value, np.uint64 if whole and min(value) >= 0 and 2**63 <= max(value) < 2**64 else None
            )
            if numbers.dtype.kind in ("iu" if whole else "f") and (
                whole or max(map(abs, integers), default=0) <= _EXACT
            ):
                return numbers
        elif all(isinstance(item, str) and is_plain(item) for item in value):
            return list(value)
    return json.dumps(value)


# --- dimensions of NetCDF4 -------------------------------------------------------------------------------------------------------------


def _hidden_arrays(source: Exported) -> dict[str, str]:
    """The paths in the file of arrays that have the name of a dimension of their group, but are not its coordinate: netCDF adds a prefix to their names."""
    used: dict[str, set[str]] = {}
    for path, array in source.arrays.items():
        names = zip(array.dimension_names or (), array.shape, strict=False)
        used.setdefault(path.rpartition("/")[0], set()).update(_dimension_name(name, length) for name, length in names)
    found: dict[str, str] = {}
    for path, array in source.arrays.items():
        group, slash, name = path.rpartition("/")
        if name in used[group] and (array.ndim != 1 or array.dimension_names != (name,)):
            found[path] = f"{group}{slash}{NOT_COORDINATE}{name}"
    return found


def _add_dimensions(output: Any, source: Exported, datasets: Mapping[str, Any], hidden: Mapping[str, str]) -> None:
    """Creates a scale for each dimension, in the first group that uses it: its coordinate variable, or an empty dataset."""
    scales: dict[tuple[str, str], Any] = {}  # by group and name
    number = 0
    for path in sorted(source.arrays, key=lambda path: (path.count("/"), path)):
        array, group = source.arrays[path], path.rpartition("/")[0]
        names = array.dimension_names or (None,) * array.ndim
        occupied: list[str] = []
        for axis, (name, length) in enumerate(zip(names, array.shape, strict=True)):
            name = _free_name(_dimension_name(name, length), length, group, scales, source, occupied, hidden)
            occupied.append(name)
            scale = _find_dimension(name, length, group, scales)
            if scale is None:
                at = f"{group}/{name}".removeprefix("/")
                coordinate = None if at in hidden else datasets.get(at)
                scale, number = _new_scale(output, at, length, number, coordinate), number + 1
                scales[group, name] = scale
            if scale != datasets[path]:
                datasets[path].dims[axis].attach_scale(scale)


def _dimension_name(name: str | None, length: int) -> str:
    """A name that a dataset may have."""
    plain = (name or "").replace("/", "_").replace("\0", "_")
    return plain if plain.strip(".") else f"dim_{length}"


def _find_dimension(name: str, length: int, group: str, scales: Mapping[tuple[str, str], Any]) -> Any:
    """The dimension of this name and length in the group or above it; None if there is none."""
    while True:
        scale = scales.get((group, name))
        if scale is not None and scale.shape[0] == length:
            return scale
        if not group:
            return None
        group = group.rpartition("/")[0]


def _free_name(
    name: str,
    length: int,
    group: str,
    scales: Mapping[tuple[str, str], Any],
    source: Exported,
    occupied: Sequence[str],
    hidden: Collection[str],
) -> str:
    """The name, or one with a number if another dimension, or an array that is not its coordinate, has the name."""
    tried, count = name, 0
    while True:
        scale, path = scales.get((group, tried)), f"{group}/{tried}".removeprefix("/")
        coordinate = None if path in hidden else source.arrays.get(path)
        is_free = coordinate is None or (coordinate.dimension_names == (tried,) and coordinate.shape == (length,))
        fits = scale is None or scale.shape[0] == length
        if fits and is_free and path not in source.groups and tried not in occupied:
            return tried
        count += 1
        tried = f"{name}_{count}"


def _new_scale(output: Any, path: str, length: int, number: int, coordinate: Any) -> Any:
    """coordinate: the dataset of the coordinate variable; None if the dimension has none"""
    alone = coordinate is None
    dataset = output.create_dataset(path, shape=(length,), dtype=">f4") if alone else coordinate
    dataset.make_scale(f"{_ALONE}{length:10d}" if alone else path.rpartition("/")[2])
    dataset.attrs["_Netcdf4Dimid"] = np.int32(number)
    return dataset


# --- values ----------------------------------------------------------------------------------------------------------------------------


def _copied(array: Array, dataset: Any, stored: StoredValues, budget: int) -> Iterator[int]:
    """Writes the elements slab by slab, each of whole chunks. Yields the bytes of each."""
    plan = plan_slabs(array.shape, element_nbytes(array), array.chunks, array.chunks, budget // 2, array.shards)
    for slab in read_slabs(with_limit(array, budget // 8), plan):  # clients of remote stores hold up to twice as much
        dataset[slab.box] = stored.of(slab.values, dataset.name)
        yield slab.values.nbytes
