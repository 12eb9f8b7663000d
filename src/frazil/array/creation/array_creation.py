"""Creates an array from the arguments of create_array: metadata, document, data. data_source.py cuts the data into boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from math import prod
from typing import Any

from frazil.array.arguments import check_flag, checked_progress
from frazil.array.array import Array, with_limit
from frazil.array.creation import zarr_arguments
from frazil.array.creation.array_metadata import array_metadata
from frazil.array.creation.data_source import Box, DataSource, addresses_read, data_source
from frazil.array.hierarchy.node_changes import create_nodes, remove_node
from frazil.array.hierarchy.nodes import NodeLocation, as_stored, find_node
from frazil.base.arrays import ArrayLike
from frazil.errors import ConflictError, FrazilError, InvalidInputError
from frazil.metadata.model import ArrayMetadata
from frazil.stores import location_overlap


def new_array(
    location: NodeLocation,
    overwrite: bool,
    data: object,
    progress: Callable[[int], object] | None = None,
    *,
    explicit_groups: bool = False,
    replaces: str | None = None,
    **arguments: object,
) -> Array:
    """Creates an array from the arguments of array_metadata, completed from `data` where given, and writes the data. Other arguments as in create_array and
    create_nodes.

    Of the data, the first box is read before an existing node is removed; in a session the new array takes the path, and is visible, when it is complete. If
    the data cannot be read or written, the new array is removed again. Raises ConflictError as NodeStorage.new_array; InvalidInputError for data that is read
    from a node that overwrite removes, as far as addresses_read finds it."""
    report = checked_progress(progress)
    source = None if data is None else _source(data, location)
    write_data = arguments.pop("write_data", True)
    check_flag(write_data, "write_data")
    for name, value in () if source is None else (("shape", source.shape), ("dtype", source.dtype)):
        arguments[name] = value if arguments.get(name) is None else arguments[name]
    source = source if write_data else None
    for name in ("shape", "dtype"):
        if arguments.get(name) is None:
            raise InvalidInputError(
                f"{name} is missing; give shape and dtype, or data (blocks need shape, too)",
                path=location.path or "/",
            )
    if {"zarr_format", "zarr_version"} & arguments.keys():
        _check_format(arguments, location)
    metadata = array_metadata(location.registry, zarr_format=location.layout.zarr_format, **arguments)  # type: ignore[arg-type]
    metadata = as_stored(location, metadata)
    array = Array(location._replace(nodes=None), metadata)  # before an existing node may be removed
    if source is not None:
        _check(source, array)
        if overwrite and location.nodes is None and source.sliced is not None:
            _check_no_overlap(source.sliced, location, replaces)
    half = location.runtime.checked().bytes_in_flight // 2  # of the budget, for data that is not in memory
    boxes = None if source is None else _boxes(array, source, half)
    filled = array if source is None or source.values is not None else with_limit(array, half)
    if boxes is not None and location.nodes is not None:
        location.require_writable()
        check_flag(overwrite, "overwrite")
        check_flag(explicit_groups, "explicit_groups")
        with location.nodes.new_array(location.path, metadata, overwrite=overwrite) as nodes:
            apart = filled._location._replace(nodes=nodes)
            stored = stored_array(apart)
            _fill(Array(apart, stored), boxes, report)
        return Array(location, stored)
    create_nodes(
        location,
        {location.path: metadata},
        overwrite=overwrite,
        explicit_groups=explicit_groups,
        replaces=replaces,
    )
    if location.nodes is not None:  # which gives the chunks of existing arrays, and may store only part of it
        return Array(location, stored_array(location))
    if boxes is not None:
        try:
            _fill(filled, boxes, report)
        except BaseException:
            with suppress(FrazilError):
                remove_node(location)
            raise
    return array


def _check_format(arguments: dict[str, object], location: NodeLocation) -> None:
    """Takes zarr_format and zarr_version out of the arguments. Raises InvalidInputError for a format other than that of the hierarchy."""
    zarr_format: Any = arguments.pop("zarr_format", None)
    requested, present = zarr_arguments.format_of(zarr_format, arguments), location.layout.zarr_format
    if requested not in (None, present):
        raise InvalidInputError(
            f"zarr_format is {requested!r}, and that of the group {present!r}: an array must have the format of its group",
            path=location.path or "/",
            hint="frazil.convert writes a hierarchy in another format",
        )


def _boxes(array: Array, source: DataSource, most_bytes: int) -> Iterator[tuple[Box, ArrayLike]]:
    """The boxes of the data, of which the first has been read."""
    most = most_bytes // max(1, array.dtype.itemsize)
    boxes = source.parts(array.shape, array.shards or array.chunks, array.chunks, array.dtype, most)
    first = list(islice(boxes, 1))
    return chain((first.pop() for _ in range(len(first))), boxes)  # popped, so that it is not held to the end


def _fill(array: Array, boxes: Iterator[tuple[Box, ArrayLike]], report: Callable[[int], object]) -> None:
    """Writes all elements. The document has just been written: the first write need not compare it."""
    array._access.document.mark_new()
    for box, values in boxes:
        array[box] = values
        del values  # before the next ones are read
        report(prod(part.stop - part.start for part in box) * array.dtype.itemsize)


def _source(data: object, location: NodeLocation) -> DataSource:
    try:
        return data_source(data)
    except InvalidInputError as error:
        error.path = location.path or "/"
        raise


def _check(source: DataSource, array: Array) -> None:
    """Refuses data that does not fit, before anything is written."""
    if source.values is not None:
        array.check_values(source.values)
    elif source.sliced is not None and source.shape != array.shape:
        raise InvalidInputError(f"data has the shape {source.shape}, the array {array.shape}", path=array.path or "/")


def _check_no_overlap(data: object, location: NodeLocation, replaces: str | None) -> None:
    """Refuses data that would be removed before it is read: a plain store would then give fill values. replaces: as in create_nodes"""
    erased = [(location.store, prefix) for prefix in location.layout.prefixes(location.path)]
    if replaces is not None:
        erased.append((location.entry_store or location.store, replaces))
    for address in addresses_read(data):
        for store, prefix in erased:
            location_overlap.check_no_overlap(
                address,
                location_overlap.address_of(store, prefix),
                "the data would be removed before it is read: read it into memory first, as data=a[...]; or write to another path",
            )


def stored_array(location: NodeLocation) -> ArrayMetadata:
    """The metadata that a new array has, as stored."""
    node = find_node(location)
    if not isinstance(node, ArrayMetadata):
        raise ConflictError(
            "the new array is gone", path=location.path or "/", hint="another process removed it; check the location"
        )
    return node
