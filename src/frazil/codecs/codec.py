"""The port of codecs: the three kinds of Zarr v3, as base classes that a user subclasses to add one.

Each codec has a file of its own; the work of a whole chain is in chain/."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias, TypeVar, cast

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Dtype, Values
from frazil.base.record import Record
from frazil.errors import (
    ChecksumError,
    ChunkDecodeError,
    DataError,
    FormatError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    shown,
)
from frazil.metadata.extension_guard import ExtensionCall
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json
from frazil.metadata.types.core import BYTES_VIEW, OBJECT_VIEW, TEXT_VIEW

if TYPE_CHECKING:
    from frazil.metadata.types.heap import Heap

Array: TypeAlias = "Values"
Failed = TypeVar("Failed", bound=FrazilError)
NativeCodec = tuple[object, ...]  # the kernel's form of a bytes-to-bytes codec (see _kernel.program)


_VIEWS: Final = (TEXT_VIEW, BYTES_VIEW, OBJECT_VIEW)


class ChunkSpec(Record):
    """A decoded chunk: its shape, its NumPy dtype in native order, the items of an element that have a byte order, as (offset, width, count), and the bytes of
    the fill value.

    heap: the memory that the views of its elements point into, while a chunk of variable-length elements is encoded or decoded"""

    shape: tuple[int, ...]
    dtype: Dtype
    swaps: tuple[tuple[int, int, int], ...]
    fill: bytes
    heap: Heap | None = None

    @property
    def views(self) -> bool:
        """Whether its elements are views of text, bytes or objects of any length."""
        return self.dtype in _VIEWS

    @property
    def has_views(self) -> bool:
        """Whether its elements are, or have, such views, as those of optional text."""
        optional = self.dtype.fields if "value" in (self.dtype.names or ()) else None
        return self.views or (optional is not None and optional["value"][0] in _VIEWS)

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape)


# (a list of codecs as in a document, the path of its member) -> codecs
ParseCodecs = Callable[[object, str], "tuple[Codec, ...]"]


class Codec(ABC):
    """A codec with its configuration: a value, compared by its entry in a document.

    Its constructor takes the members of the configuration by name, checks them, and raises MetadataError with the member as `path`."""

    name: ClassVar[str]
    _part: ClassVar[int]  # position in a chain: 0: array to array, 1: array to bytes, 2: bytes to bytes
    required: ClassVar[tuple[str, ...]] = ()  # members of the configuration
    optional: ClassVar[tuple[str, ...]] = ()
    nested: ClassVar[tuple[str, ...]] = ()  # required members that are lists of codecs
    # members that are None if a user leaves them open; a document must leave them out
    not_null: ClassVar[tuple[str, ...]] = ()
    omits_null: ClassVar[bool] = False  # whether documents leave out members that are None

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, object], parse: ParseCodecs) -> Self:
        """From the configuration of a document, which has all required members and no others except the optional ones."""
        for member in cls.not_null:
            if member in configuration and configuration[member] is None:
                raise MetadataError(f"{member} is null", path=member, hint="leave it out, or give a value")
        nested = {member: parse(configuration[member], member) for member in cls.nested}
        return cast("Callable[..., Self]", cls)(**{**configuration, **nested})

    def configuration(self) -> dict[str, object] | None:
        """Its full configuration in a document; None when the codec has no configuration. By default its attributes that are named like the members, with
        tuples as lists and codecs as their entries."""
        members = {member: _as_entry(getattr(self, member)) for member in (*self.required, *self.optional)}
        return {name: value for name, value in members.items() if value is not None or not self.omits_null} or None

    def extension(self) -> Extension:
        """Its entry in the `codecs` of a document."""
        return Extension(self.name, self.configuration())

    def to_dict(self) -> dict[str, Json]:
        """The same as a JSON object: a name of zarr-python."""
        return self.extension().to_json()

    def resolved(self, spec: ChunkSpec) -> Self:
        """The same codec with all open arguments filled in for chunks of this spec; done once, when an array is created."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Codec) and type(self) is type(other) and self.configuration() == other.configuration()

    def __hash__(self) -> int:
        return hash((self.name, repr(self.configuration())))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in (self.configuration() or {}).items())
        return f"{type(self).__name__}({arguments})"


def _as_entry(value: object) -> object:
    if isinstance(value, tuple):
        return [_as_entry(item) for item in value]
    return value.extension().to_json() if isinstance(value, Codec) else value


class ArrayToArray(Codec):
    """Converts an array into another array.

    keeps_order: the result has the same elements as the input in the same C order, so that `bytes` behind it makes the same bytes."""

    _part: ClassVar[int] = 0
    keeps_order: ClassVar[bool] = False

    @abstractmethod
    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        """The chunk that it encodes this one to. Raises MetadataError with `path` when it cannot."""

    @abstractmethod
    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        """The array of `encoded_spec`; `spec` is that of `array`. Both are in native byte order."""

    @abstractmethod
    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        """Undoes encode; `spec` is that of the decoded chunk."""


class ArrayToBytes(Codec):
    """Converts an array into bytes."""

    _part: ClassVar[int] = 1
    _vlen: ClassVar[bool] = False  # whether the kernel's decode_elements can read its chunks

    def check(self, spec: ChunkSpec, path: str) -> None:
        """Raises MetadataError with `path` when it cannot encode such a chunk."""

    @abstractmethod
    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        """The bytes of a chunk, whose `spec` is that of `array`."""

    @abstractmethod
    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        """The array, of the shape and dtype of spec. Raises DataError."""

    def encoded_size(self, spec: ChunkSpec) -> int | None:
        """Bytes of an encoded chunk where that does not depend on its values, else None."""
        return None

    def bound(self, spec: ChunkSpec) -> int:
        """The most bytes that an encoded chunk may have; a longer one is refused before it is decoded."""
        size = self.encoded_size(spec)
        return 2 * spec.nbytes + 2**16 if size is None else size


class Sharding(ArrayToBytes):
    """An array-to-bytes codec that makes shards: chain/compilation.py plans it instead of running it. The members are described in sharding_indexed.py."""

    chunk_shape: tuple[int, ...]
    codecs: tuple[Codec, ...]
    index_codecs: tuple[Codec, ...]
    index_location: str


class BytesToBytes(Codec):
    """Converts bytes into bytes. A codec of the kernel returns its form there (`native`) and needs no other methods.

    most_bytes: the most that it can take at once; None: there is no limit."""

    _part: ClassVar[int] = 2
    most_bytes: ClassVar[int | None] = None

    def native(self) -> NativeCodec | None:
        """Its form in the kernel; None: `encode` and `decode` run in Python."""
        return None

    def encode(self, data: bytes) -> bytes:
        return bytes(_kernel.encode_bytes([self._native()], [data], 1)[0])

    def decode(self, data: bytes, limit: int) -> bytes:
        """Undoes encode. Raises DataError, also when there are more than `limit` bytes."""
        rows, lengths = np.array([[-1, 0, len(data)]], np.int64), np.empty(1, np.int64)
        segments, failures = _kernel.decode_bytes(
            [self._native()], None, [data], rows, np.array([limit], np.int64), lengths, 1
        )
        if failures:
            _, code, text = failures[0]
            raise decode_error(code)(f"codec {self.name}: {text}")
        return bytes(segments[0])

    def encoded_size(self, nbytes: int) -> int | None:
        """Bytes that it makes of nbytes if that does not depend on their values, else None."""
        return None

    def bound(self, nbytes: int) -> int:
        """The most bytes that it makes of nbytes."""
        size = self.encoded_size(nbytes)
        return nbytes + nbytes // 8 + 4096 if size is None else size

    def _native(self) -> NativeCodec:
        native = self.native()
        if native is None:
            raise MetadataError(f"codec {self.name} has neither encode and decode nor a native form", path="codecs")
        return native


class Refusal(str):
    """The text of a failure, as the kernel reports its own, together with the error that a user's codec raised."""

    __slots__ = ("error",)
    error: FrazilError | MemoryError

    def __new__(cls, error: FrazilError | MemoryError) -> Self:
        self = super().__new__(cls, error)
        self.error = error
        return self


def decode_error(code: int) -> type[DataError]:
    """The class of errors for a failure of the kernel to decode a chunk."""
    return {_kernel.FAILED_CHECKSUM: ChecksumError, _kernel.FAILED_RANGE: FormatError}.get(code, ChunkDecodeError)


def caused(error: Failed, text: str) -> Failed:
    """An error with what is known of it, if a failure came from a user's codec. Raises a MemoryError, as such data are not wrong."""
    if isinstance(text, Refusal):
        if isinstance(text.error, MemoryError):
            raise text.error
        error.__cause__ = text.error.__cause__
        if isinstance(error, ChunkDecodeError):
            error.codec_failed = getattr(text.error, "codec_failed", not isinstance(text.error, DataError))
    return error


def failed_codec(text: str, refusal: type[FrazilError]) -> FrazilError:
    """The error for a codec that failed for a reason of its own: only an error of its decoding that is a DataError says that the bytes are wrong."""
    error = refusal(text)
    if isinstance(error, ChunkDecodeError):
        error.codec_failed = True
    return error


def codec_call(codec: Codec, path: str) -> ExtensionCall:
    """Wraps calls of a codec, which may be the user's, when an array is opened or created."""
    return ExtensionCall("codec", codec.name, path)


def encoded_spec(codec: ArrayToArray, spec: ChunkSpec, path: str) -> ChunkSpec:
    """codec.encoded_spec; any exception or invalid result of a user's codec becomes a MetadataError."""
    with codec_call(codec, path) as call:
        result: object = codec.encoded_spec(spec, path)
        if not isinstance(result, ChunkSpec):
            raise call.wrong(result, "a ChunkSpec")
        return result


def size_of(codec: Codec, compute: Callable[[], object], path: str) -> int | None:
    """A number of bytes from a codec, or None where it depends on the values."""
    with codec_call(codec, path) as context:
        nbytes = compute()
        if nbytes is not None and (isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0):
            raise context.wrong(nbytes, "a number of bytes", repr(nbytes))
        return nbytes


def bound_of(codec: Codec, compute: Callable[[], object], path: str) -> int:
    """The most bytes that a codec makes, according to itself."""
    bound = size_of(codec, compute, path)
    if bound is None:
        raise codec_call(codec, path).wrong(bound, "a number of bytes")
    return bound


@contextmanager
def running(name: str, refusal: type[FrazilError]) -> Iterator[None]:
    """Runs a codec, which may be the user's and raise any exception."""
    try:
        yield
    except (FrazilError, MemoryError):
        raise
    except Exception as error:
        raise failed_codec(f"codec {name}: {type(error).__name__}: {error}", refusal) from error


def run_decode(codec: BytesToBytes, data: bytes, limit: int) -> bytes:
    """codec.decode; any exception or invalid result of a user's codec becomes a DataError."""
    with running(codec.name, ChunkDecodeError):
        decoded = as_bytes(codec.decode(data, limit), codec.name, ChunkDecodeError)
    if len(decoded) > limit:
        raise ChunkDecodeError(f"codec {codec.name} made {len(decoded)} bytes; at most {limit} are possible")
    return decoded


def run_encode(codec: BytesToBytes, data: bytes) -> bytes:
    """codec.encode; any exception or invalid result of a user's codec becomes an InvalidInputError."""
    with running(codec.name, InvalidInputError):
        return as_bytes(codec.encode(data), codec.name, InvalidInputError)


def as_bytes(result: object, name: str, refusal: type[FrazilError]) -> bytes:
    """The output of a user's codec, checked to be bytes."""
    if not isinstance(result, bytes | bytearray | memoryview):
        raise failed_codec(f"codec {name} made {type(result).__name__} instead of bytes", refusal)
    return bytes(result)


def resolve(codecs: Iterable[Codec], spec: ChunkSpec) -> tuple[Codec, ...]:
    """Codecs with all open arguments filled in, each for the output of those before it. An invalid chain stays as it is from the invalid codec
    on; compile_chain reports the error."""
    resolved = list(codecs)
    for i, codec in enumerate(resolved):
        with codec_call(codec, f"codecs[{i}]") as call:
            result: object = codec.resolved(spec)
            if not isinstance(result, type(codec)):
                raise call.wrong(result, "a codec of its kind")
            resolved[i] = codec = result
        if isinstance(codec, ArrayToArray):
            try:
                spec = encoded_spec(codec, spec, codec.name)
            except MetadataError:
                break
    return tuple(resolved)


def integer(value: object, name: str, low: int, high: int) -> int:
    """An argument of a codec, checked: a whole number from low to high."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= int(value) <= high:
        raise MetadataError(f"{name} is {shown(value)}; it must be a whole number from {low} to {high}", path=name)
    return int(value)


def choice(value: object, name: str, allowed: Sequence[str]) -> str:
    """An argument of a codec, checked: one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise MetadataError(f"{name} is {shown(value)}; it must be one of {', '.join(allowed)}", path=name)
    return value


def codec_list(value: object, name: str) -> tuple[Codec, ...]:
    """An argument of a codec, checked: the codecs in it. Their entries in documents are no codecs: only a registry knows which codec an entry is."""
    if isinstance(value, str | Codec | Mapping) or not isinstance(value, Iterable):
        raise MetadataError(f"{name} is {shown(value)}; it must be a list of codecs", path=name)
    codecs = tuple(value)
    for i, codec in enumerate(codecs):
        if not isinstance(codec, Codec):
            raise MetadataError(
                f"{name}[{i}] is {shown(codec)}; it must be a codec, such as frazil.codecs.Zstd()",
                path=f"{name}[{i}]",
                hint='where the outer codec is given as {"name": ..., "configuration": ...}, those in it are given so too',
            )
    return codecs
