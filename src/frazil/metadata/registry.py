"""The registry of data types, chunk grids and chunk key encodings. A value; codecs have their own registry (codecs/registry.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar, cast

import numpy as np

from frazil.base.arrays import Dtype
from frazil.base.late import imported
from frazil.metadata.extension_guard import GRID, KEYS, ExtensionCall, with_methods
from frazil.metadata.extensions import Extension, ExtensionFamily, is_extension_name, names_of, parse_extension, pick
from frazil.metadata.grids.chunk_grids import BOUNDED, RECTANGULAR, RECTILINEAR, REGULAR, ChunkGrid, usable_grid
from frazil.metadata.grids.chunk_keys import DEFAULT, DEFAULT_SUFFIX, V2, ChunkKeyEncoding
from frazil.metadata.json_text import as_json
from frazil.metadata.result_cache import ResultCache
from frazil.metadata.types import structs
from frazil.metadata.types.core import (
    CoreDataTypes,
    DataType,
    DataTypeFamily,
    RawDataTypes,
    native_dtype,
    unknown_dtype,
)
from frazil.metadata.value import Value

T = TypeVar("T")


class LateTypes(Value):
    """A family of data types that is imported when no family before it reads a type: its module, its class, and the arguments of that class."""

    __slots__ = ("arguments", "module", "name")
    module: str
    name: str
    arguments: tuple[object, ...]

    def __init__(self, module: str, name: str, *arguments: object) -> None:
        self.module, self.name, self.arguments = module, name, arguments

    def load(self) -> DataTypeFamily:
        return cast("DataTypeFamily", getattr(imported(self.module), self.name)(*self.arguments))

    @property
    def names(self) -> tuple[str, ...]:
        return self.load().names

    def matches(self, name: str) -> bool:
        return self.load().matches(name)

    def parse(self, extension: Extension, path: str) -> DataType:
        return self.load().parse(extension, path)

    def from_numpy(self, dtype: Dtype) -> DataType | None:
        return self.load().from_numpy(dtype)


class MetadataExtensions(Value, excluded=("parsed",)):
    """Extensions that documents may name. `with_...` return a new value in which the new family comes first, so that it may replace an older one.

    fallbacks           whether a data type that is not registered may be read as the fallback that its document names (draft of 2022)
    warns_of_fallbacks  whether a fallback causes a FallbackWarning
    parsed              cached nodes of documents of the final dialect that were parsed with these extensions, and without a warning. Not part of the value"""

    __slots__ = ("chunk_grids", "chunk_key_encodings", "data_types", "fallbacks", "parsed", "warns_of_fallbacks")
    data_types: tuple[DataTypeFamily, ...]
    chunk_grids: tuple[ExtensionFamily[ChunkGrid], ...]
    chunk_key_encodings: tuple[ExtensionFamily[ChunkKeyEncoding], ...]
    fallbacks: bool
    warns_of_fallbacks: bool
    parsed: ResultCache

    def __init__(
        self,
        data_types: Sequence[DataTypeFamily],
        chunk_grids: Sequence[ExtensionFamily[ChunkGrid]],
        chunk_key_encodings: Sequence[ExtensionFamily[ChunkKeyEncoding]],
        fallbacks: bool = True,
        warns_of_fallbacks: bool = True,
        parsed: ResultCache | None = None,
    ) -> None:
        self.data_types = tuple(data_types)
        self.chunk_grids = tuple(chunk_grids)
        self.chunk_key_encodings = tuple(chunk_key_encodings)
        self.fallbacks, self.warns_of_fallbacks = fallbacks, warns_of_fallbacks
        self.parsed = ResultCache() if parsed is None else parsed

    def replaced(self, **fields: object) -> MetadataExtensions:
        """The same with these arguments of the constructor instead of its own. It does not share parsed nodes, unless `parsed` is given."""
        return MetadataExtensions(**{**dict(self._fields()), **fields})  # type: ignore[arg-type]

    def with_data_type(self, family: DataTypeFamily) -> MetadataExtensions:
        """The type is also allowed as the type of a field in a struct."""
        loaded = [other.load() if isinstance(other, LateTypes) else other for other in self.data_types]
        others = [
            other.with_field_type(family) if isinstance(other, structs.StructTypes) else other for other in loaded
        ]
        return self.replaced(data_types=(family, *others))

    def with_chunk_grid(self, family: ExtensionFamily[ChunkGrid]) -> MetadataExtensions:
        return self.replaced(chunk_grids=(family, *self.chunk_grids))

    def with_chunk_key_encoding(self, family: ExtensionFamily[ChunkKeyEncoding]) -> MetadataExtensions:
        return self.replaced(chunk_key_encodings=(family, *self.chunk_key_encodings))

    def without_fallbacks(self) -> MetadataExtensions:
        return self.replaced(fallbacks=False)

    def without_warnings(self) -> MetadataExtensions:
        return self.replaced(warns_of_fallbacks=False, parsed=self.parsed)

    def data_type(self, extension: Extension, path: str = "data_type") -> DataType:
        """The data type of an extension; UnknownExtensionError if no family has its name."""
        family = _family(self.data_types, extension, path, "data type")
        return read_type(family, extension, path)

    def chunk_grid(self, extension: Extension, path: str = "chunk_grid") -> ChunkGrid:
        """The chunk grid of an extension; UnknownExtensionError if no family has its name."""
        family = _family(self.chunk_grids, extension, path, "chunk grid")
        if family is REGULAR:
            return REGULAR.parse(extension, path)
        call = ExtensionCall("chunk grid", extension.name, path)
        grid = with_methods(call, lambda: family.parse(extension, path), GRID, "a ChunkGrid")
        with call:
            return usable_grid(grid, path)

    def chunk_key_encoding(self, extension: Extension, path: str = "chunk_key_encoding") -> ChunkKeyEncoding:
        """The chunk key encoding of an extension; UnknownExtensionError if no family has its name."""
        family = _family(self.chunk_key_encodings, extension, path, "chunk key encoding")
        if family is DEFAULT:
            return DEFAULT.parse(extension, path)
        call = ExtensionCall("chunk key encoding", extension.name, path)
        return with_methods(call, lambda: family.parse(extension, path), KEYS, "a ChunkKeyEncoding")

    def from_numpy(self, dtype: object) -> DataType:
        """The data type for a dtype in any of NumPy's notations and either byte order; the type itself is native.

        Raises InvalidInputError for a value that is not a dtype, UnknownExtensionError for one without a registered type."""
        native = native_dtype(dtype)  # type: ignore[arg-type]
        for family in self.data_types:
            if isinstance(family, _OWN):
                data_type = family.from_numpy(native)
            else:
                with ExtensionCall("data type", type(family).__name__, "data_type") as call:
                    data_type = family.from_numpy(native)
                    if data_type is not None:
                        _check_type(call, data_type)
            if data_type is not None:
                return data_type
        raise unknown_dtype(native, names_of(self.data_types))

    def data_type_from_user(self, dtype: object) -> DataType:
        """As from_numpy, and also a DataType, an Extension, a registered name ("r24") or an extension's JSON object."""
        if isinstance(dtype, DataType):
            return dtype
        if isinstance(dtype, Extension):
            return self.data_type(dtype)
        if dtype is str or dtype is bytes or (isinstance(dtype, str) and dtype == "str"):
            return self.data_type(Extension("bytes" if dtype is bytes else "string"))
        if isinstance(dtype, dict) and "name" in dtype:
            return self.data_type(parse_extension(as_json(dtype, "data_type"), "data_type", may_ignore=False))
        if isinstance(dtype, str) and is_extension_name(dtype):
            extension = Extension(dtype)
            with ExtensionCall("data type", dtype, "dtype"):
                matches = any(family.matches(dtype) for family in self.data_types)
            if matches:
                return self.data_type(extension)
            try:
                np.dtype(dtype)
            except (TypeError, ValueError):
                return self.data_type(extension)  # raises, because it is neither
        return self.from_numpy(dtype)


def _family(families: Sequence[ExtensionFamily[T]], extension: Extension, path: str, kind: str) -> ExtensionFamily[T]:
    """The first family that reads the extension, which may be the user's."""
    with ExtensionCall(kind, extension.name, path):
        return pick(families, extension, path, kind)


def read_type(family: ExtensionFamily[DataType], extension: Extension, path: str) -> DataType:
    """The data type that a family returns for an extension. Raises MetadataError for an invalid result."""
    if isinstance(family, _OWN):
        return family.parse(extension, path)
    with ExtensionCall("data type", extension.name, path) as call:
        data_type = family.parse(extension, path)
        _check_type(call, data_type)
        return data_type


def _check_type(call: ExtensionCall, data_type: object) -> None:
    """Refuses the result of a user's family if it is not a data type that elements can have."""
    if not isinstance(data_type, DataType):
        raise call.wrong(data_type, "a DataType")
    if not isinstance(data_type.name, str) or not isinstance(data_type.dtype, np.dtype) or not data_type.dtype.itemsize:
        raise call.wrong(data_type, "a data type with a name, and a dtype of some bytes")
    if not data_type.dtype.isnative or data_type.dtype.hasobject:
        raise call.wrong(data_type, f"a data type of native bytes ({data_type.dtype} is none)")
    swaps: object = data_type.swaps
    fits = isinstance(swaps, tuple) and all(
        isinstance(swap, tuple)
        and len(swap) == 3
        and all(type(number) is int for number in swap)
        and swap[0] >= 0 < min(swap[1:])
        and swap[0] + swap[1] * swap[2] <= data_type.dtype.itemsize
        for swap in swaps
    )
    if not fits:
        raise call.wrong(
            data_type, f"a data type whose swaps are within its {data_type.dtype.itemsize} bytes ({swaps!r} do not)"
        )


_OWN: Final = (CoreDataTypes, RawDataTypes, LateTypes)
_SIMPLE: Final[tuple[DataTypeFamily, ...]] = (
    CoreDataTypes(),
    RawDataTypes(),
    LateTypes("frazil.metadata.types.datetimes", "DatetimeTypes"),
    LateTypes("frazil.metadata.types.strings", "StringTypes"),
    LateTypes("frazil.metadata.types.small_numbers", "SmallNumberTypes"),
    LateTypes("frazil.metadata.types.registered_complex", "RegisteredComplexTypes"),
)
_VARIABLE: Final = LateTypes("frazil.metadata.types.variable_length", "VariableLengthTypes")
_STRUCTS: Final = LateTypes("frazil.metadata.types.structs", "StructTypes", _SIMPLE)
_OPTIONAL: Final = LateTypes("frazil.metadata.types.optional", "OptionalTypes", (*_SIMPLE, _STRUCTS, _VARIABLE))
CORE_EXTENSIONS: Final = MetadataExtensions(
    (*_SIMPLE, _STRUCTS, _VARIABLE, _OPTIONAL),
    (REGULAR, RECTILINEAR, RECTANGULAR, BOUNDED),
    (DEFAULT, V2, DEFAULT_SUFFIX),
)
