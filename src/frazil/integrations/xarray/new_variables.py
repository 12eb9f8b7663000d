"""The plan for each variable of a dataset: a new array with its arguments, or a region of an existing one, as in Dataset.to_zarr. Only `create` writes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from inspect import signature
from typing import Final, Literal, TypeAlias

import numpy as np
from xarray import Dataset, Variable
from xarray.backends.chunks import validate_grid_chunks_alignment
from xarray.backends.zarr import encode_zarr_variable, extract_zarr_variable_encoding

from frazil.api.nodes import create_group
from frazil.array.arguments import check_mapping
from frazil.array.array import Array
from frazil.array.creation.defaults import default_codecs
from frazil.array.group import Group
from frazil.base.record import Record
from frazil.codecs.codec import Codec
from frazil.errors import FrazilError, InvalidInputError, NotFoundError, shown
from frazil.integrations.xarray.attributes import FILL, decode_fill, encode_attributes
from frazil.integrations.xarray.layout import Layout, laid_out
from frazil.integrations.xarray.packed_values import checked
from frazil.integrations.xarray.times import check_units, encode_times, has_times
from frazil.metadata.types.variable_length import STRING, STRINGS
from frazil.stores.memory import MemoryStore

Mode: TypeAlias = Literal["w", "w-", "a", "a-", "r+"]

_AUTO: Final = "auto"
_ENGINE_ONLY: Final = ("cache_metadata", "write_empty_chunks")  # encodings of zarr-python without effect here
_CODECS: Final = ("filters", "serializer", "compressors")
_TEXT: Final = "OT"  # kinds of text of any length
_FORMAT: Final[Mapping[str, Literal[3]]] = (  # older versions of xarray have no such parameter
    {"zarr_format": 3} if "zarr_format" in signature(encode_zarr_variable).parameters else {}
)


class Target(Record):
    """The options of a write. layout: chunks and shards of new arrays; region and append_dim: the place in existing arrays; append_later: a dimension along
    which later writes append the other variables"""

    mode: Mode
    region: Mapping[str, slice] | None
    append_dim: str | None
    layout: Layout
    safe_chunks: bool
    align_chunks: bool
    append_later: str | None = None


class Planned(Record):
    """One array to write. arguments: of create_array, None for an existing one; shape: its new shape, if it grows; region: the place of the data"""

    name: str
    data: object
    existing: Array | None
    arguments: Mapping[str, object] | None
    shape: tuple[int, ...] | None
    region: tuple[slice, ...]


def variable_name(key: Hashable) -> str:
    """The name of a variable's array. Raises TypeError for a name that is not text, InvalidInputError."""
    if not isinstance(key, str):
        raise TypeError(f"Invalid name {shown(key)} for a variable; it must be text")
    if not key or "/" in key:
        raise InvalidInputError(f"Invalid name {shown(key)} for a variable", hint="a name is text without a slash")
    return key


def check_encoding(encoding: object, dataset: Dataset) -> None:
    """Raises NotFoundError for encodings of variables that are not in the dataset; InvalidInputError for encodings that are not mappings, or have an invalid
    dtype."""
    if encoding is None:
        return
    check_mapping(encoding, "encoding")
    for name, each in encoding.items():  # type: ignore[attr-defined] # a mapping
        if name not in dataset.variables:
            raise NotFoundError(
                f"encoding names the variable {shown(name)}, which is not in the dataset",
                path="encoding",
                hint=f"its variables: {', '.join(map(str, dataset.variables)) or 'none'}",
            )
        if not isinstance(each, Mapping):
            raise InvalidInputError(
                f"the encoding of {name!r} is {shown(each)}; it must be castable to a dict", path=name
            )
        try:
            np.dtype(each.get("dtype"))
        except TypeError as error:
            raise InvalidInputError(
                f"variable {name!r}: dtype {shown(each['dtype'])} is not a NumPy dtype", path=name
            ) from error


def check_new_names(target: Target, new: Sequence[str]) -> None:
    """Raises InvalidInputError for variables that the mode may not create."""
    if target.mode == "r+" and new:
        raise InvalidInputError(
            f"dataset contains non-pre-existing variables {list(new)!r}, which is not allowed with mode='r+'",
            hint="mode='a' writes new variables too",
        )


def encoded_variable(variable: Variable, name: str, *, exists: bool = False) -> Variable:
    """A variable as it is stored, by CF conventions. Text of any length is `string`, as in the zarr engine. Raises InvalidInputError for elements without a
    data type, and for numbers and times outside the range of the encoding. exists: whether that is the encoding of an array that exists"""
    if variable.dtype.kind == "O" and variable.encoding.get("dtype") == STRINGS:
        variable = variable.copy(deep=False)  # without the dtype of an opened variable, which makes text of None
        variable.encoding = {key: value for key, value in variable.encoding.items() if key != "dtype"}

    elif variable.dtype.kind == "T" and variable.dtype == STRINGS and _has_fill(variable):
        # with an object for missing values, because xarray takes empty text for one otherwise
        text = variable._data if variable.chunks is not None else np.asarray(variable.data)
        data = text.astype(np.dtypes.StringDType(na_object=None))  # type: ignore[union-attr] # an array of NumPy or of dask
        variable = Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)

    def encode(variable: Variable) -> Variable:
        encoded: Variable = encode_zarr_variable(variable, name=name, **_FORMAT)
        return encoded

    if has_times(variable):
        return encode_times(variable, name, encode, exists=exists)
    encoded = encode(checked(variable, name, exists=exists))
    return _as_strings(encoded, name) if encoded.dtype.kind in _TEXT else encoded


def _has_fill(variable: Variable) -> bool:
    return any(variable.encoding.get(key) is not None for key in (FILL, "missing_value"))


def _as_strings(variable: Variable, name: str) -> Variable:
    """Text of any length in the dtype of the data type `string`. Raises InvalidInputError for elements that are not text."""
    if variable.dtype == STRINGS and STRINGS.kind == "T":
        return variable
    data = variable._data if variable.chunks is not None else np.asarray(variable.data)
    if (
        isinstance(data, np.ndarray)
        and data.dtype.kind == "O"
        and not all(isinstance(value, str) for value in data.flat)
    ):
        raise _no_text(name)
    try:
        converted = data.astype(STRINGS)  # type: ignore[union-attr] # an array of NumPy or of dask
    except (TypeError, ValueError) as error:
        raise _no_text(name) from error
    return Variable(variable.dims, converted, variable.attrs, variable.encoding, fastpath=True)


def _no_text(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"variable {name!r} has elements that are not Unicode text", path=name, hint="encode it as bytes or numbers"
    )


def matched_to_existing(name: str, variable: Variable, existing: Variable, array: Array, target: Target) -> Variable:
    """A variable encoded like the existing array, with dimensions in the array's order. existing: the content of the array, decoded. Raises InvalidInputError
    if it does not fit."""
    simple = variable.dtype.kind in "biufcmMO"
    strings = array.metadata.data_type.name == STRING
    in_bytes = array.dtype.kind == "S" and "_Encoding" in existing.encoding  # text, as its UTF-8
    unlike = variable.dtype != existing.dtype and variable.dtype.kind not in (
        "UT" if strings else "UOT" if in_bytes else _TEXT
    )
    if not simple and unlike:
        raise _mismatch(name, existing.dtype, variable.dtype)
    copied = variable.copy(deep=False)
    copied.encoding = dict(existing.encoding)
    if strings or (variable.dtype.kind in "SUOT" and array.dtype.kind in "SU"):
        copied.encoding.pop("dtype", None)  # it would truncate long text, and convert numbers to text
    if in_bytes and variable.dtype.kind in "UOT":
        # loaded, because xarray encodes all chunks of dask in the length of the first one
        loaded = Variable(copied.dims, np.asarray(copied.data), copied.attrs, {**copied.encoding, "dtype": "S1"})
        copied = _with_fixed_length(_as_strings(loaded, name) if loaded.dtype.kind == "O" else loaded, name)
    encoded = encoded_variable(copied, name, exists=True)
    check_units(name, encoded, existing)
    if variable.dtype == object and not variable.size:  # xarray makes numbers of an empty object array
        encoded = encoded.astype(array.dtype)
    encoded = _encoded_like(encoded, name, array)
    if encoded.dims != existing.dims:
        if set(encoded.dims) != set(existing.dims):
            raise InvalidInputError(
                f"variable {name!r} already exists with different dimension names {existing.dims} != {encoded.dims}",
                path=name,
                hint="dimensions of a variable cannot be changed",
            )
        encoded = encoded.transpose(*existing.dims)
    expected_sizes = {
        dimension: len(range(*(target.region or {}).get(str(dimension), slice(None)).indices(size)))
        for dimension, size in existing.sizes.items()
        if dimension != target.append_dim
    }
    sizes = {dimension: size for dimension, size in encoded.sizes.items() if dimension != target.append_dim}
    if expected_sizes != sizes:
        raise InvalidInputError(
            f"variable {name!r} already exists with different dimension sizes: {expected_sizes} != {sizes}; "
            f"sizes change only along append_dim, which is {target.append_dim!r}",
            path=name,
            hint="region= writes a part of what exists",
        )
    return encoded


def _encoded_like(encoded: Variable, name: str, array: Array) -> Variable:
    """An encoded variable with text in the form of the existing array. Raises InvalidInputError if the array cannot hold it."""
    kind = encoded.dtype.kind
    if array.metadata.data_type.name == STRING:
        if kind == "U":
            return _as_strings(encoded, name)
        if kind not in _TEXT:
            raise _mismatch(name, array.dtype, encoded.dtype)
        return encoded
    if kind in _TEXT and array.dtype.kind == "U":
        encoded = _with_fixed_length(encoded, name)
    if encoded.dtype.kind in "SUOT" and not np.can_cast(encoded.dtype, array.dtype):
        raise _mismatch(name, array.dtype, encoded.dtype)
    return encoded


def _with_fixed_length(variable: Variable, name: str) -> Variable:
    """Text of fixed length, the length of the longest one. Raises InvalidInputError for text that ends in NUL."""
    values = np.asarray(variable.data, dtype=object)
    fixed = values.astype(np.str_)
    if any(value != fixed_value for value, fixed_value in zip(values.flat, fixed.flat, strict=True)):
        raise InvalidInputError(
            f"variable {name!r} has text that ends in NUL, which the array cannot hold", path=name, hint="encode it"
        )
    return Variable(variable.dims, fixed, variable.attrs, variable.encoding, fastpath=True)


def _mismatch(name: str, stored: object, new: object) -> InvalidInputError:
    return InvalidInputError(
        f"Mismatched dtypes for variable {name}: the array has {stored}, the dataset {new}",
        path=name,
        hint="astype changes that of the dataset",
    )


def planned_variable(name: str, variable: Variable, existing: Array | None, target: Target, checked: bool) -> Planned:
    """The plan of an encoded variable. checked: whether its encoding may not have unknown entries. Raises InvalidInputError."""
    fill = variable.encoding.pop("fill_value", None)
    if fill is None and variable.dtype.kind == "f":
        fill = np.nan
    if variable.encoding.get("_FillValue") is not None:
        raise InvalidInputError(
            "_FillValue is not an encoding of Zarr v3 arrays", path=name, hint="encoding: fill_value"
        )
    variable.encoding.pop("_FillValue", None)
    explicit = checked and "chunks" in variable.encoding
    if existing is None and not explicit:
        encoding = laid_out(target.layout, variable.encoding, variable.dims, variable.shape, variable.dtype.itemsize)
        variable = Variable(variable.dims, variable._data, variable.attrs, encoding, fastpath=True)
    encoding = extract_zarr_variable_encoding(variable, raise_on_invalid=checked, name=name, zarr_format=3)
    encoding["chunks"] = _chunks(encoding["chunks"], variable.shape)
    region = [(target.region or {}).get(str(dimension), slice(None)) for dimension in variable.dims]
    shape: tuple[int, ...] | None = None
    if existing is not None:
        encoding["chunks"], encoding["shards"] = existing.chunks, existing.shards
        if target.append_dim is not None and target.append_dim in variable.dims:
            axis = variable.dims.index(target.append_dim)
            old = existing.shape[axis]
            shape = (*existing.shape[:axis], old + variable.shape[axis], *existing.shape[axis + 1 :])
            region[axis] = slice(old, shape[axis])
    whole = shape or (variable.shape if existing is None else existing.shape)
    _check_aligned(name, variable, encoding, tuple(region), whole, target)
    arguments = None if existing is not None else _arguments(name, variable, encoding, fill)
    return Planned(name, variable.data, existing, arguments, shape, tuple(region))


def planned_lengths(plan: Planned, old: Mapping[str, int] | None) -> Mapping[str, int]:
    """The lengths of the dimensions of an array after the write. old: those of the existing one, in its order"""
    if plan.arguments is None:
        return dict(zip(old or (), plan.shape or (old or {}).values(), strict=False))
    return dict(zip(plan.arguments["dimension_names"], plan.arguments["shape"], strict=True))  # type: ignore[call-overload]


def _chunks(chunks: object, shape: tuple[int, ...]) -> object:
    """Chunks with -1 replaced by the whole dimension. For a dimension without elements dask has chunks of length 0, which are 1 here."""
    if not isinstance(chunks, tuple) or len(chunks) != len(shape):
        return chunks
    return tuple(
        [
            max(length, 1) if extent == -1 else extent or int(not length)
            for extent, length in zip(chunks, shape, strict=True)
        ]
    )


def _check_aligned(
    name: str,
    variable: Variable,
    encoding: Mapping[str, object],
    region: tuple[slice, ...],
    shape: tuple[int, ...],
    target: Target,
) -> None:
    """Raises InvalidInputError if chunks of dask are not aligned with write units, unless the writer rechunks them."""
    unit = encoding.get("shards") or encoding["chunks"]
    if variable.chunks is None or not isinstance(unit, tuple) or target.align_chunks or not target.safe_chunks:
        return
    try:
        validate_grid_chunks_alignment(
            nd_v_chunks=variable.chunks,
            enc_chunks=unit,
            region=region,
            allow_partial_chunks=target.mode != "r+",
            name=name,
            backend_shape=shape,
        )
    except ValueError as error:
        raise InvalidInputError(str(error), path=name, hint="with align_chunks=True dask rechunks them") from None


# --- new arrays ------------------------------------------------------------------------------------------------------------------------


def _arguments(name: str, variable: Variable, encoding: Mapping[str, object], fill: object) -> dict[str, object]:
    arguments: dict[str, object] = {
        "shape": variable.shape,
        "dtype": STRING if variable.dtype.kind in _TEXT else variable.dtype,
        "dimension_names": variable.dims,
        "attributes": encode_attributes(variable.attrs, variable.dtype),
        "fill_value": fill,
        "codecs": _codecs(name, encoding, variable.dtype),
    }
    others = {*_CODECS, *_ENGINE_ONLY}
    arguments |= {key: value for key, value in encoding.items() if key not in others and value is not None}
    return arguments


def _codecs(name: str, encoding: Mapping[str, object], dtype: np.dtype[np.generic]) -> object:
    supplied = {key: encoding.get(key, _AUTO) for key in _CODECS}
    if all(isinstance(value, str) and value == _AUTO for value in supplied.values()):
        return _AUTO
    chain: list[object] = []
    for key, value in supplied.items():
        if isinstance(value, str) and value == _AUTO:
            chain += default_codecs(dtype) if key == "compressors" else ()
        elif value is not None:
            parts = value if isinstance(value, list | tuple) else [value]
            chain += [_codec(name, part) for part in parts]
    return chain


def _codec(name: str, codec: object) -> object:
    """A codec for create_array; one of zarr-python is converted through its entry in a document."""
    if isinstance(codec, Codec):
        return codec
    if hasattr(codec, "to_dict"):
        return codec.to_dict()
    if hasattr(codec, "get_config"):
        raise InvalidInputError(
            f"variable {name!r} is encoded with {shown(codec)}, which is not a codec of Zarr v3",
            path=name,
            hint="ds.drop_encoding(), or encoding= with codecs of Zarr v3",
        )
    return codec


def create(group: Group, plans: Sequence[Planned]) -> dict[str, Array]:
    """Creates the new arrays of the plans, in one batch; by name. Raises MetadataError, AlreadyExistsError, and UnknownExtensionError, which name the
    variable."""
    new = {plan.name: plan.arguments for plan in plans if plan.arguments is not None}
    if not new:
        return {}
    zarr_format = group.metadata.zarr_format
    if zarr_format not in (2, 3):
        raise InvalidInputError(
            f"new variables are written as Zarr v3 or v2, and the group is one of {zarr_format}",
            path=group.path or "/",
            hint="write the dataset to another location, and convert it with frazil.convert",
        )
    if zarr_format == 2:
        new = {name: _v2_arguments(arguments) for name, arguments in new.items()}
    try:
        return group.create_arrays(new)
    except InvalidInputError:
        for name, arguments in new.items():
            _check_array(name, arguments, zarr_format)
        raise


def _v2_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments for the same array in Zarr v2, where the fill value itself marks missing values, as the attribute `_FillValue` does in Zarr v3; without
    this attribute it is null, which marks none."""
    attributes: dict[str, object] = {**arguments["attributes"]}  # type: ignore[dict-item] # a mapping
    stored = attributes.pop(FILL, None)
    dtype = STRINGS if arguments["dtype"] == STRING else np.dtype(arguments["dtype"])  # type: ignore[call-overload]
    fill = None if stored is None else decode_fill(stored, dtype)
    return {**arguments, "attributes": attributes, "fill_value": fill}


def _check_array(name: str, arguments: Mapping[str, object], zarr_format: int | str) -> None:
    """Raises the error of one array, with its name."""
    try:
        create_group(MemoryStore(), zarr_format=zarr_format).create_arrays({"array": arguments})
    except FrazilError as error:
        error.message = f"variable {name!r}: {error.message}"
        raise
