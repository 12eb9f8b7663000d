"""Chunk key encodings: coordinates in the chunk grid to keys below the array's prefix, and back (Zarr v3.1 core, Chunk key encodings)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self

import numpy as np

from frazil.base.arrays import Columns, Flags, Octets
from frazil.metadata.extensions import Extension, NamedExtension
from frazil.metadata.json_text import member
from frazil.metadata.members import INT64_MAX, Members, refusal
from frazil.metadata.value import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEPARATORS: Final = ("/", ".")
SUFFIX: Final = r"[._-][A-Za-z0-9][A-Za-z0-9._-]*"  # others could be a part of a number, or of the name of another file


class ChunkKeyEncoding(Protocol):
    """Names for the chunks of an array; a value, compared with ==. Coordinates are never negative."""

    def extension(self) -> Extension:
        """The extension that names this encoding."""

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        """The key of one chunk, after `prefix`."""

    def encode_all(self, coordinates: Columns, prefix: str = "") -> list[str]:
        """The keys of the chunks at int64[n, d], each after `prefix`."""

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates of a key without its prefix; None if encode_one never returns this key for `ndim` dimensions."""


class _Decoding(Protocol):
    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None: ...


class SeparatedKeys(Value):
    """Decimal coordinates with a separator between them, after a fixed text: the form of every encoding of the core."""

    __slots__ = ("separator",)
    separator: str
    name: ClassVar[str]
    default_separator: ClassVar[str]
    alone: ClassVar[str]  # the key where there are no dimensions

    def __init__(
        self, separator: str | None = None, *, path: str = "chunk_key_encoding.configuration.separator"
    ) -> None:
        chosen = self.default_separator if separator is None else separator
        if chosen not in SEPARATORS:
            raise refusal(path, '"/" or "."', separator)
        self.separator = chosen

    @classmethod
    def read(cls, extension: Extension, path: str) -> Self:
        """The encoding of an entry in a document."""
        members = Members(extension.configuration, member(path, "configuration"))
        separator = members.choice("separator", SEPARATORS, cls.default_separator)
        members.finish()
        return cls(separator)

    @property
    def lead(self) -> str:
        """The text before the first coordinate."""
        return ""

    @property
    def form(self) -> tuple[str, str]:
        """The texts before the first coordinate of a key, and between two; not for the key of an array without dimensions."""
        return self.lead, self.separator

    def extension(self) -> Extension:
        return Extension(self.name, {"separator": self.separator})

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        if not coordinates:
            return prefix + self.alone
        return prefix + self.lead + self.separator.join(map(str, coordinates))

    def encode_all(self, coordinates: Columns, prefix: str = "") -> list[str]:
        count, ndim = coordinates.shape
        if not count:
            return []
        if not ndim:
            return [prefix + self.alone] * count
        if "\n" in prefix:
            return [prefix + key for key in self.encode_all(coordinates)]
        # one formatting call for all of them is three times as fast as one for each key
        row = f"{prefix.replace('%', '%%')}{self.lead}{self.separator.join(['%d'] * ndim)}"
        return ("\n".join([row] * count) % tuple(coordinates.ravel().tolist())).split("\n")

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        if not ndim:
            return () if key == self.alone else None
        if not key.startswith(self.lead):
            return None
        parts = key[len(self.lead) :].split(self.separator)
        if len(parts) != ndim:
            return None
        for part in parts:
            if not (part.isascii() and part.isdigit()) or (part[0] == "0" and part != "0") or len(part) > 19:
                return None
        coordinates = tuple(map(int, parts))
        return coordinates if max(coordinates) <= INT64_MAX else None

    def decode_all(self, keys: Sequence[str], ndim: int, skip: int) -> tuple[Columns, Columns]:
        """For keys with a prefix of `skip` characters: the rows of those that `decode` finds coordinates for, int64[m], and these coordinates, int64[m, d]."""
        data = np.frombuffer(("\0".join(keys) + "\0").encode("ascii", "replace"), np.uint8)
        ends = np.flatnonzero(data == 0)
        if not ndim or len(ends) != len(keys):
            return decode_each(self, keys, ndim, skip)
        starts = np.append(-1, ends[:-1]) + 1 + skip
        good = starts + len(self.lead) < ends
        for letter in self.lead.encode():
            good &= data[np.minimum(starts, ends)] == letter
            starts = starts + 1
        starts = np.minimum(starts, ends)
        is_separator, is_digit = data == ord(self.separator), (data >= ord("0")) & (data <= ord("9"))
        separators, digits = _counts(is_separator, starts, ends), _counts(is_digit, starts, ends)
        rows = np.flatnonzero(good & (separators == ndim - 1) & (digits == ends - starts - (ndim - 1)))
        positions = np.flatnonzero(is_separator)
        between = positions[np.searchsorted(positions, starts[rows])[:, None] + np.arange(ndim - 1)]
        first = np.concatenate((starts[rows, None], between + 1), axis=1)
        length = np.concatenate((between, ends[rows, None]), axis=1) - first
        right = (length > 0) & (length <= 19) & ((length == 1) | (data[first] != ord("0")))
        right &= (values := _numbers(data, first, length)) <= INT64_MAX
        whole = right.all(axis=1)
        return rows[whole], values[whole].astype(np.int64)


def _counts(marks: Flags, starts: Columns, ends: Columns) -> Columns:
    """How many marks there are in each range."""
    before = np.append(0, np.cumsum(marks))
    return np.asarray(before[ends] - before[starts], np.int64)


def _numbers(data: Octets, first: Columns, length: Columns) -> NDArray[np.uint64]:
    """The numbers that digits form, of 19 digits at most."""
    values = np.zeros(first.shape, np.uint64)
    for position in range(min(int(length.max(initial=0)), 19)):
        inside = position < length
        digits = data[np.where(inside, first + position, 0)].astype(np.uint64) - np.uint64(ord("0"))
        values = np.where(inside, values * np.uint64(10) + digits, values)
    return values


def decode_each(encoding: _Decoding, keys: Sequence[str], ndim: int, skip: int) -> tuple[Columns, Columns]:
    """SeparatedKeys.decode_all for any encoding: key by key."""
    found = [(row, at) for row, key in enumerate(keys) if (at := encoding.decode(key[skip:], ndim)) is not None]
    rows, coordinates = [row for row, _ in found], [at for _, at in found]
    return np.array(rows, np.int64), np.array(coordinates, np.int64).reshape(len(found), ndim)


class DefaultKeys(SeparatedKeys):
    """`c/1/0`, or `c.1.0`; `c` without dimensions."""

    name = "default"
    default_separator = "/"
    alone = "c"

    @property
    def lead(self) -> str:
        return "c" + self.separator


class V2Keys(SeparatedKeys):
    """`1.0`, or `1/0`, as in Zarr v2; `0` without dimensions."""

    name = "v2"
    default_separator = "."
    alone = "0"


class SuffixedKeys(Value):
    """The keys of `default` with a fixed text behind each, such as `c/1/0.tiff`: the encoding `zarrs.default_suffix`. Raises MetadataError for a suffix that is
    not one of a file name: `frazil serve` could not tell its keys from other files."""

    __slots__ = ("keys", "suffix")
    keys: DefaultKeys
    suffix: str
    name: ClassVar[str] = "zarrs.default_suffix"

    def __init__(self, suffix: str, separator: str | None = None) -> None:
        if not is_suffix(suffix):
            raise refusal("chunk_key_encoding.configuration.suffix", 'a suffix such as ".tiff"', suffix)
        self.keys, self.suffix = DefaultKeys(separator), suffix

    @classmethod
    def read(cls, extension: Extension, path: str) -> SuffixedKeys:
        """As in SeparatedKeys."""
        members = Members(extension.configuration, member(path, "configuration"))
        separator = members.choice("separator", SEPARATORS, DefaultKeys.default_separator)
        suffix = members.string("suffix")
        members.finish()
        return cls(suffix, separator)

    def extension(self) -> Extension:
        return Extension(self.name, {"separator": self.keys.separator, "suffix": self.suffix})

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        return self.keys.encode_one(coordinates, prefix) + self.suffix

    def encode_all(self, coordinates: Columns, prefix: str = "") -> list[str]:
        return [key + self.suffix for key in self.keys.encode_all(coordinates, prefix)]

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        return self.keys.decode(key.removesuffix(self.suffix), ndim) if key.endswith(self.suffix) else None


def is_suffix(value: object) -> bool:
    return isinstance(value, str) and (not value or re.fullmatch(SUFFIX, value) is not None)


DEFAULT = NamedExtension[ChunkKeyEncoding](DefaultKeys.name, DefaultKeys.read)
V2 = NamedExtension[ChunkKeyEncoding](V2Keys.name, V2Keys.read)
DEFAULT_SUFFIX = NamedExtension[ChunkKeyEncoding](SuffixedKeys.name, SuffixedKeys.read)
