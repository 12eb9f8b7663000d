"""Datasets of VirtualiZarr: datasets of xarray in which some variables are manifests, with the places of chunks in files. Other variables are in memory, and
are encoded as xarray writes them.

Neither package is imported here: manifests are recognised by their attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from importlib import import_module
from math import prod
from typing import Any, Final, Protocol, TypeGuard

import numpy as np

from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import FrazilError, InvalidInputError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.kerchunk.reference_columns import ChunkReferences, url_of, virtual_array
from frazil.integrations.files.missing_values import set_missing_values
from frazil.integrations.files.runs import check_dtype
from frazil.integrations.files.scanned import (
    ChunkColumns,
    ScannedArray,
    ScannedFile,
    Skipped,
    as_attribute,
    bytes_codec,
    no_chunks,
)
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.paths import check_name
from frazil.metadata.v3.documents import parse_node
from frazil.metadata.v3.fill_attribute import FILL_ATTRIBUTE

NAME: Final = "a dataset of VirtualiZarr"
_ENCODED: Final = (
    "scale_factor",
    "add_offset",
    "units",
    "calendar",
)  # attributes that may be in the encoding of a variable
_COORDINATES: Final = "coordinates"
_SEPARATOR: Final = re.compile(r"[./]")


class VirtualDataset(Protocol):
    """The attributes of a Dataset or a DataTree of xarray that are used here."""

    @property
    def variables(self) -> Mapping[Hashable, object]: ...
    @property
    def coords(self) -> Mapping[Hashable, object]: ...
    @property
    def attrs(self) -> Mapping[Hashable, object]: ...


def is_dataset(source: object) -> TypeGuard[VirtualDataset]:
    """Whether this is a Dataset or a DataTree of xarray."""
    return all(hasattr(source, name) for name in ("variables", "coords", "attrs", "dims"))


def scan_dataset(dataset: VirtualDataset) -> ScannedFile:
    """The variables of a Dataset or a DataTree. Variables that are not manifests are read now.

    Raises InvalidInputError if no variable is a manifest: the accessor `frazil` writes such datasets."""
    nodes: list[Any] = list(getattr(dataset, "subtree", [dataset]))
    groups: dict[str, dict[str, Json]] = {}
    arrays: list[ScannedArray] = []
    skipped: list[Skipped] = []
    for node in nodes:
        path = getattr(node, "path", "/").strip("/")
        variables = {str(name): variable for name, variable in node.variables.items()}
        attributes = _attributes(node.attrs.items(), path, skipped)
        beside = sorted([str(name) for name in node.coords if name not in node.dims])
        if beside and _COORDINATES not in attributes:
            attributes[_COORDINATES] = " ".join(beside)
        groups[path] = attributes
        for name, variable in variables.items():
            below = f"{path}/{name}".removeprefix("/")
            try:
                check_name(name)
                scanned = (
                    _virtual(below, variable, skipped) if is_manifest(variable) else _loaded(below, variable, skipped)
                )
                arrays.append(scanned)
            except InvalidInputError as error:
                skipped.append(Skipped(below, None, error.message))
    if not any(is_manifest(variable) for node in nodes for variable in node.variables.values()):
        raise InvalidInputError(
            "the dataset has no variable that is a manifest of VirtualiZarr",
            hint="dataset.frazil.write(target) writes values",
        )
    return ScannedFile(NAME, FileCheck(0), groups, tuple(arrays), tuple(skipped), in_memory=True)


def is_manifest(variable: object) -> bool:
    """Whether the chunks of a variable of xarray are in files. Its data is not read."""
    return hasattr(getattr(variable, "_data", None), "manifest")


def _virtual(path: str, variable: Any, skipped: list[Skipped]) -> ScannedArray:
    """Raises InvalidInputError for a variable that cannot be an array here."""
    manifest_array = variable._data
    document = {**manifest_array.metadata.to_dict(), "attributes": {}}
    try:
        array = parse_node(json.dumps(document, default=_as_json).encode(), DEFAULT_REGISTRY.metadata, key=path)
    except (FrazilError, TypeError) as error:
        raise InvalidInputError(f"its metadata cannot be read: {getattr(error, 'message', error)}") from error
    assert isinstance(array, ArrayMetadata)
    encoded = [(name, variable.encoding[name]) for name in _ENCODED if name in variable.encoding]
    attributes = _attributes([*encoded, *variable.attrs.items()], path, skipped)
    result = virtual_array(
        path,
        array,
        attributes,
        attributes.get(FILL_ATTRIBUTE),
        lambda _, array: _chunks(manifest_array, array),
        skipped,
    )
    return result._replace(dimension_names=tuple(map(str, variable.dims)))


def _chunks(manifest_array: Any, array: ArrayMetadata) -> ChunkReferences:
    """The references of a manifest. Raises InvalidInputError for an invalid place."""
    entries = manifest_array.manifest.dict()
    coordinates = np.array(
        [[int(part) for part in _SEPARATOR.split(key)] if array.ndim else [] for key in entries], np.int64
    ).reshape(len(entries), array.ndim)
    if len(entries) and (coordinates >= np.array(array.grid_shape, np.int64)).any():
        raise InvalidInputError("its manifest has chunks outside of the array")
    offsets, lengths = (
        np.array([entry[name] for entry in entries.values()], np.int64) for name in ("offset", "length")
    )
    order = np.lexsort(coordinates.T[::-1]) if array.ndim else np.arange(len(entries))
    urls = [url_of(str(entry["path"])) for entry in entries.values()]
    columns = ChunkColumns(np.ascontiguousarray(coordinates[order]), offsets[order], lengths[order])
    return ChunkReferences(columns, tuple([urls[row] for row in order]), ())


def _loaded(path: str, variable: Any, skipped: list[Skipped]) -> ScannedArray:
    """A variable whose values are in memory, encoded with the CF conventions as xarray writes it."""
    variable = import_module("xarray.conventions").encode_cf_variable(variable, name=path)
    values = np.asarray(variable.values)
    check_dtype(values.dtype)
    values = values.astype(values.dtype.newbyteorder("<"))
    declared_fill = variable.attrs.get(FILL_ATTRIBUTE)
    attributes = _attributes(
        [(name, value) for name, value in variable.attrs.items() if name != FILL_ATTRIBUTE], path, skipped
    )
    fill = set_missing_values(attributes, declared_fill, values.dtype, path, skipped)
    return ScannedArray(
        path,
        values.shape,
        values.dtype,
        tuple([max(extent, 1) for extent in values.shape]),
        (bytes_codec(values.dtype),),
        np.zeros(1, values.dtype)[0] if fill is None else fill,
        attributes,
        tuple(map(str, variable.dims)),
        no_chunks(values.ndim),
        (((0,) * values.ndim, values.tobytes()),) if prod(values.shape) else (),
    )


def _attributes(found: Iterable[tuple[object, object]], path: str, skipped: list[Skipped]) -> dict[str, Json]:
    """Attributes as JSON; lists and objects stay as they are."""
    attributes: dict[str, Json] = {}
    for name, value in found:
        try:
            attributes[str(name)] = (
                json.loads(json.dumps(value)) if isinstance(value, list | Mapping) else as_attribute(value)
            )
        except (InvalidInputError, TypeError, ValueError) as error:
            skipped.append(Skipped(path, str(name), str(getattr(error, "message", error))))
    return attributes


def _as_json(value: object) -> object:
    """Scalars of NumPy in a document."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be expressed in JSON")
