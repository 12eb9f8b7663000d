"""The codecs of object arrays of Zarr v2: `json2`, `msgpack2` and `pickle` of numcodecs. A chunk is one document: the elements, nested by the shape of the
chunk, then the dtype and the shape.

`pickle` is in no registry, because loading a pickle runs code that its author chose. Users who trust the author add it: `registry.with_codec(Pickle)`. Even
then elements have the types of the other two codecs: text, bytes, numbers, lists and dicts."""

from __future__ import annotations

import json
import pickle
from abc import abstractmethod
from collections.abc import Mapping
from math import prod
from typing import ClassVar, Final

import numpy as np

from frazil.codecs.array_to_bytes.vlen import MOST_BYTES
from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec
from frazil.errors import ChunkDecodeError, FormatError, InvalidInputError, MetadataError
from frazil.formats.msgpack import DEPTH_LIMIT, Reader, pack
from frazil.metadata.types.core import OBJECT_VIEW
from frazil.metadata.types.heap import elements_of_views, views_of_elements
from frazil.metadata.types.objects import from_bytes, to_bytes

_DTYPE: Final = "|O"


class _Objects(ArrayToBytes):
    """Shared code of the three codecs: they differ in the form of the document."""

    def check(self, spec: ChunkSpec, path: str) -> None:
        if spec.dtype != OBJECT_VIEW:
            raise MetadataError(f"codec {self.name} encodes objects, not elements of {spec.dtype}", path=path)

    def bound(self, spec: ChunkSpec) -> int:
        return MOST_BYTES

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        assert spec.heap is not None, "a write has one"
        return self._dump([from_bytes(data) for data in elements_of_views(array, spec.heap)], spec.shape)

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        assert spec.heap is not None, "a read has one"
        try:
            values = self._load(data, spec)
            encoded = [to_bytes(value) for value in values]
        except (InvalidInputError, FormatError, ValueError, RecursionError) as error:
            raise ChunkDecodeError(f"codec {self.name}: {error}") from error
        views = views_of_elements(encoded, spec.heap, text=False)
        return views.view(spec.dtype).reshape(spec.shape)

    @abstractmethod
    def _dump(self, values: list[object], shape: tuple[int, ...]) -> bytes:
        """A chunk of these objects, in C order."""

    @abstractmethod
    def _load(self, data: bytes, spec: ChunkSpec) -> list[object]:
        """Its objects in C order. Raises ValueError, FormatError, InvalidInputError, ChunkDecodeError."""


class _Document(_Objects):
    """A chunk as a list."""

    def _dump(self, values: list[object], shape: tuple[int, ...]) -> bytes:
        return self._dump_document([*_nested(values, shape or (1,)), _DTYPE, list(shape)])

    def _load(self, data: bytes, spec: ChunkSpec) -> list[object]:
        document = self._load_document(data)
        if not isinstance(document, list) or len(document) < 2 or not isinstance(document[-2], str):
            raise ChunkDecodeError(f"codec {self.name}: a chunk must be a list that ends with a dtype and a shape")
        if document[-1] != list(spec.shape):
            raise ChunkDecodeError(
                f"codec {self.name}: a chunk of shape {list(spec.shape)} says that its shape is {document[-1]!r:.80}"
            )
        return _flattened(document[:-2], spec.shape or (1,), self.name)

    @abstractmethod
    def _dump_document(self, document: list[object]) -> bytes: ...

    @abstractmethod
    def _load_document(self, data: bytes) -> object: ...


class Json2(_Document):
    """json2: JSON text, which may contain NaN and Infinity without quotes. The members are the arguments of numcodecs.JSON, which are those of Python's
    json."""

    name = "numcodecs.json2"
    _dumped: ClassVar = ("skipkeys", "ensure_ascii", "check_circular", "allow_nan", "sort_keys", "indent", "separators")
    optional = ("encoding", "strict", *_dumped)

    def __init__(self, encoding: str = "utf-8", **members: object) -> None:
        defaults: dict[str, object] = {"skipkeys": False, "ensure_ascii": True, "check_circular": True}
        defaults |= {"allow_nan": True, "sort_keys": True, "indent": None, "separators": [",", ":"], "strict": True}
        self.encoding, self._members = encoding, {**defaults, **members}
        try:
            self._encoder().encode([]).encode(encoding).decode(encoding)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise MetadataError(f"these are not arguments of Python's json: {error}") from None

    def configuration(self) -> dict[str, object] | None:
        return {"encoding": self.encoding, **self._members}

    def _encoder(self) -> json.JSONEncoder:
        members: Mapping[str, object] = {name: self._members[name] for name in self._dumped}
        separators = members["separators"]
        if isinstance(separators, list):
            members = {**members, "separators": tuple(separators)}
        return json.JSONEncoder(**members)  # type: ignore[arg-type] # tried when the codec is created

    def _dump_document(self, document: list[object]) -> bytes:
        try:
            return self._encoder().encode(document).encode(self.encoding)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"codec {self.name}: {error}", hint="JSON has no bytes: store text, or use msgpack2"
            ) from None

    def _load_document(self, data: bytes) -> object:
        return json.loads(data.decode(self.encoding), strict=bool(self._members["strict"]))


class MsgPack2(_Document):
    """msgpack2: MessagePack. raw: text was written as bytes, and is read as bytes; use_single_float, use_bin_type: options of numcodecs' writer. Here floats
    have 64 bits, and bytes are written as bytes."""

    name = "numcodecs.msgpack2"
    optional = ("use_single_float", "use_bin_type", "raw")

    def __init__(self, use_single_float: bool = False, use_bin_type: bool = True, raw: bool = False) -> None:
        if raw or use_single_float or not use_bin_type:
            raise MetadataError("msgpack2 can be read only with its default settings", path="raw")
        self.use_single_float, self.use_bin_type, self.raw = use_single_float, use_bin_type, raw

    def _dump_document(self, document: list[object]) -> bytes:
        try:
            return pack(document)
        except InvalidInputError as error:
            raise InvalidInputError(f"codec {self.name}: {error.message}", hint=error.hint) from None

    def _load_document(self, data: bytes) -> object:
        reader = Reader(data, None)
        value = _read(reader, DEPTH_LIMIT)
        reader.finish("the chunk")
        return value


def _read(reader: Reader, depth: int) -> object:
    """One value, which may hold bytes."""
    kind, label = reader.kind(), "the chunk"
    if kind == "binary data":
        return reader.binary(label)
    if kind not in ("an array", "a map"):
        return reader.value(label)
    if not depth:
        raise reader.fail("a chunk nests too deep")
    if kind == "an array":
        return [_read(reader, depth - 1) for _ in range(reader.array(label))]
    return {reader.text("a key"): _read(reader, depth - 1) for _ in range(reader.map(label))}


class Pickle(_Objects):
    """pickle: Python's pickles of object arrays."""

    name = "numcodecs.pickle"
    optional = ("protocol",)

    def __init__(self, protocol: int = 5) -> None:
        if protocol not in range(pickle.HIGHEST_PROTOCOL + 1):
            raise MetadataError(f"protocol is {protocol!r}; Python has 0 to {pickle.HIGHEST_PROTOCOL}", path="protocol")
        self.protocol = protocol

    def _dump(self, values: list[object], shape: tuple[int, ...]) -> bytes:
        array = np.empty(len(values), object)
        for i, value in enumerate(values):
            array[i] = value
        return pickle.dumps(array.reshape(shape), protocol=self.protocol)

    def _load(self, data: bytes, spec: ChunkSpec) -> list[object]:
        array = pickle.loads(data)
        if not isinstance(array, np.ndarray) or array.size != prod(spec.shape):
            raise ChunkDecodeError(f"codec {self.name}: a chunk must be an array of shape {list(spec.shape)}")
        return list(array.reshape(-1))


def _nested(values: list[object], shape: tuple[int, ...]) -> list[object]:
    """Values in C order as nested lists."""
    for extent in reversed(shape[1:]):
        values = [values[first : first + extent] for first in range(0, len(values), extent)]
    return values


def _flattened(items: list[object], shape: tuple[int, ...], name: str) -> list[object]:
    """Undoes _nested. Raises ChunkDecodeError where lists have other lengths than the shape requires."""
    level = items
    for axis in range(len(shape)):
        if len(level) != prod(shape[: axis + 1]):
            break
        if axis == len(shape) - 1:
            return level
        if not all(isinstance(inner, list) and len(inner) == shape[axis + 1] for inner in level):
            break
        level = [item for inner in level for item in inner]  # type: ignore[attr-defined] # they are lists
    raise ChunkDecodeError(f"codec {name}: the elements of a chunk do not have the shape {list(shape)}")
