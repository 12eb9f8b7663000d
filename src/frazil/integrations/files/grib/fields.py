"""GRIB files, scanned with cfgrib: each of its variables as an array with a field in each chunk, and coordinates; and the decoding of one field by eccodes.

Damaged messages make eccodes write outside its memory, so both run in another process (libraries/scan_worker.py).
cfgrib decides which fields form one variable, with which dimensions, coordinates and attributes, as for xarray's engine "cfgrib". Its index files are neither
read nor written, because they are pickles."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, BinaryIO, Final

import numpy as np

from frazil.base.arrays import Values
from frazil.base.optional_package import load_package
from frazil.errors import ChunkDecodeError, FormatError, FrazilError, InvalidInputError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.grib.messages import Field, read_field, read_messages, split_fields
from frazil.integrations.files.runs import check_dtype
from frazil.integrations.files.scanned import (
    Library,
    ScannedArray,
    ScannedFile,
    Skipped,
    as_attribute,
    bytes_codec,
    check_shape,
    no_chunks,
)
from frazil.metadata.json_text import Json
from frazil.metadata.paths import check_name

_DTYPE: Final = np.dtype("<f4")  # of values in cfgrib
_NOT_KEPT: Final = frozenset({"history"})  # an attribute with the time at which this machine read the file
_FIELDS: Final = "field_id_index"  # the attribute by which cfgrib marks variables whose values are fields
_PARAMETER: Final = "paramId"
_SPLIT: Final = (
    "typeOfLevel",
    "stepType",
    "gridType",
    _PARAMETER,
)  # keys that split fields into datasets: the first one with several values
# of a grid that any message may have: if all values are the same, a message has none of them
_FEW_POINTS: Final = 2**26
_POINTS_OF_BYTE: Final = 64  # of a larger grid, for each byte of the message: more than any packing achieves
_TURNED: Final = "alternativeRowScanning"  # whether every other row is stored from its end
_REASON: Final = "GRIB packs the values of each field in its own way"


def load_eccodes(module: str = "eccodes") -> ModuleType:
    """The module, of eccodes or cfgrib. Raises InvalidInputError where it is not installed."""
    return load_package(module, "GRIB files are read with", "grib")


def scan_grib(file: BinaryIO, name: str, state: FileCheck, step: Callable[[], None] = lambda: None) -> ScannedFile:
    """The variables of a file that is open for reading. If they do not fit in one group (other levels, other kinds of steps), each set of them has a group,
    which is named after the common values of its fields.

    The whole file is read, because the description of a field is in its message.

    state  of the file;  step: called after each message
    Raises InvalidInputError without cfgrib and eccodes, FormatError for a damaged message."""
    load_eccodes("cfgrib")
    fields = _Fields(file, state.size, name, step)
    try:
        datasets = list(_datasets(fields))
    except (FrazilError, OSError):
        raise
    except Exception as error:  # cfgrib and eccodes raise errors of many classes for damaged files
        raise FormatError(f"the GRIB file cannot be read: {type(error).__name__}: {error}", key=name) from error
    groups: dict[str, dict[str, Json]] = {"": {}}
    arrays: list[ScannedArray] = []
    skipped: list[Skipped] = []
    for keys, dataset in datasets:
        group = "" if len(datasets) == 1 else _group_name(keys, dataset, groups)
        groups[group] = _attributes(dataset.attributes, group, skipped)
        for variable_name, variable in dataset.variables.items():
            path = f"{group}/{variable_name}".removeprefix("/")
            try:
                check_name(variable_name)
                arrays.append(_scanned(path, variable, skipped))
            except InvalidInputError as error:
                skipped.append(Skipped(path, None, error.message))
    return ScannedFile("GRIB", state, groups, tuple(arrays), tuple(skipped))


class _Fields(Mapping[Field, Any]):
    """The fields of a file as messages of cfgrib, by position."""

    def __init__(self, file: BinaryIO, size: int, name: str, step: Callable[[], None]) -> None:
        self._file, self._size, self._name, self._step = file, size, name, step
        self._found: list[Field] = []

    def items(self) -> Iterator[tuple[Field, Any]]:  # type: ignore[override] # the only method that cfgrib calls
        """All fields, in the order of the file."""
        self._found.clear()
        for at, message in read_messages(self._file, self._size, self._name):
            for number, field in enumerate(split_fields(message, at, self._name)):
                self._found.append(Field(at, len(message), number))
                yield self._found[-1], _opened(field, self._name)
            self._step()

    def __getitem__(self, field: Field) -> Any:
        return _opened(read_field(self._file, field, self._name), self._name)

    def __iter__(self) -> Iterator[Field]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _opened(message: bytes, name: str) -> Any:
    """A message of cfgrib. Raises FormatError for a grid that takes gigabytes to decode, although the message is too short for its values."""
    eccodes = load_eccodes()
    handle = eccodes.codes_new_from_message(message)
    points = eccodes.codes_get(handle, "numberOfDataPoints", int)
    if points > max(_FEW_POINTS, _POINTS_OF_BYTE * len(message)):
        eccodes.codes_release(handle)
        raise FormatError(
            f"a field has a grid of {points} points in a message of {len(message)} bytes: the file is damaged",
            key=name,
            hint="take the other messages out of it: grib_copy -w",
        )
    return load_eccodes("cfgrib.messages").Message(handle)


def _datasets(fields: _Fields) -> Iterator[tuple[dict[str, Any], Any]]:
    """The datasets that cfgrib makes of the fields, and the keys with a common value in each. Raises the errors of cfgrib and eccodes."""
    cfgrib = load_eccodes("cfgrib.dataset")
    keys = cfgrib.compute_index_keys()
    index = load_eccodes("cfgrib.messages").FieldsetIndex.from_fieldset(
        fields, keys, load_eccodes("cfgrib.cfmessage").COMPUTED_KEYS
    )
    waiting: list[dict[str, Any]] = [{}]
    while waiting:
        query = waiting.pop(0)
        part = index.subindex(query)
        part.computed_keys = index.computed_keys
        if not part.field_ids_index:
            continue
        try:
            opened = cfgrib.open_from_index(part, errors="raise", cache_geo_coords=False)
        except cfgrib.DatasetBuildError as error:
            if len(error.args) > 2:  # several values of a key, of which a dataset can have only one
                waiting[:0] = [{**query, **more} for more in error.args[2]]
                continue
            # variables whose coordinates differ
            key = next((key for key in _SPLIT if len(part.header_values.get(key, ())) > 1), None)
            if key is None:
                raise
            waiting[:0] = [{**query, key: value} for value in part[key]]
            continue
        yield query, opened


def _group_name(keys: Mapping[str, Any], dataset: Any, groups: Mapping[str, object]) -> str:
    """A name from the common values of the fields of a group; with a number if another group has it."""
    variables = [name for name, variable in dataset.variables.items() if hasattr(variable.data, _FIELDS)]
    named_keys = {**keys, _PARAMETER: "_".join(variables)} if _PARAMETER in keys else keys
    parts = [str(value).replace("/", "_") for value in named_keys.values() if value not in (None, "undef")]
    name = "_".join(parts) or "others"
    return next(each for each in (name, *[f"{name}_{i}" for i in range(2, len(groups) + 3)]) if each not in groups)


def _attributes(found: Mapping[str, Any], path: str, skipped: list[Skipped]) -> dict[str, Json]:
    attributes: dict[str, Json] = {}
    for name, value in found.items():
        if name in _NOT_KEPT:
            continue
        try:
            attributes[name] = as_attribute(value)
        except InvalidInputError as error:
            skipped.append(Skipped(path, name, error.message))
    return attributes


def _scanned(path: str, variable: Any, skipped: list[Skipped]) -> ScannedArray:
    """Raises InvalidInputError for a variable that cannot be an array here."""
    names = tuple(map(str, variable.dimensions))
    attributes = _attributes(variable.attributes, path, skipped)
    if hasattr(variable.data, _FIELDS):
        return _of_fields(path, variable.data, names, attributes)
    values = np.asarray(variable.data)
    if values.dtype.kind == "U":
        raise InvalidInputError("it is a coordinate of text")
    check_dtype(values.dtype)
    values = values.astype(values.dtype.newbyteorder("<"))
    shape = tuple([max(extent, 1) for extent in values.shape])
    inline_chunks = (((0,) * values.ndim, values.tobytes()),) if values.size else ()
    fill = np.zeros(1, values.dtype)[0]
    codecs = (bytes_codec(values.dtype),)
    return ScannedArray(
        path, values.shape, values.dtype, shape, codecs, fill, attributes, names, no_chunks(values.ndim), inline_chunks
    )


def _of_fields(path: str, data: Any, names: tuple[str, ...], attributes: dict[str, Json]) -> ScannedArray:
    """A variable whose values are fields, one in each chunk."""
    shape = tuple(map(int, data.shape))
    check_shape(shape)
    before = shape[: len(shape) - data.geo_ndim]
    table: list[Field | None] = [None] * math.prod(before)
    for header, fields in data.field_id_index.items():
        if len(fields) > 1:
            raise InvalidInputError(f"{len(fields)} of its fields have the same position, {tuple(map(int, header))}")
        table[int(np.ravel_multi_index(header, before)) if before else 0] = fields[0]
    library = Library("eccodes", json.dumps([len(before), [field and list(field) for field in table]]), _REASON)
    chunk_shape = (*[1] * len(before), *shape[len(before) :])
    fill = np.full(1, np.nan, _DTYPE)[0]
    codecs = (bytes_codec(_DTYPE),)
    chunks = no_chunks(len(shape))
    return ScannedArray(
        path, shape, _DTYPE, chunk_shape, codecs, fill, attributes, names, chunks, chunked=True, library=library
    )


# --- fields that eccodes decodes -------------------------------------------------------------------------------------------------------


def decode_field(message: bytes, shape: Sequence[int]) -> Values:
    """The values of a field, as float32, of a shape that ends with that of its grid; NaN where a bitmap marks missing values.

    Raises ChunkDecodeError for a damaged message, InvalidInputError without eccodes."""
    eccodes = load_eccodes()
    try:
        values, turned = _values(eccodes, message)
    except Exception as error:  # eccodes raises errors of many classes
        raise ChunkDecodeError(f"eccodes cannot decode it: {error}") from error
    if values.size != math.prod(shape):
        raise ChunkDecodeError(f"a field has {values.size} values where {math.prod(shape)} are expected")
    values = values.reshape(shape)
    if turned and len(shape) > 1:
        rows = values.reshape(shape[-2:])
        rows[1::2] = rows[1::2, ::-1].copy()
    return values


def _values(eccodes: ModuleType, message: bytes) -> tuple[Values, bool]:
    handle = eccodes.codes_new_from_message(message)
    try:
        missing = float(np.finfo(np.float32).max)
        eccodes.codes_set(handle, "missingValue", missing)
        values = np.asarray(eccodes.codes_get_values(handle))
        turned = bool(eccodes.codes_is_defined(handle, _TURNED) and eccodes.codes_get(handle, _TURNED, int))
    finally:
        eccodes.codes_release(handle)
    return np.where(values == missing, np.nan, values).astype(_DTYPE), turned
