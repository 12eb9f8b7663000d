"""The header of a NetCDF classic file, bytes -> values: CDF-1, CDF-2 (64-bit offset) and CDF-5 (64-bit data), according to "The NetCDF Classic Format
Specification". Pure; classic.py checks the header against the data.

A header may be hostile: memory is allocated only for bytes that it contains, not for sizes that it declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.errors import FormatError

T = TypeVar("T")

MAGIC: Final = {b"CDF\x01": 1, b"CDF\x02": 2, b"CDF\x05": 5}
STREAMING: Final = -1  # a number of records that means: as many as the file has
CHAR: Final = 2
# the type in the file, by its number
TYPES: Final = dict(enumerate(("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8"), 1))
_OF_OLD_FORMATS: Final = 6  # the last number in CDF-1 and CDF-2

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_NAME_LIMIT: Final = 2**16


class Dimension(Record):
    """length 0: the dimension of records."""

    name: str
    length: int


class Attribute(Record):
    """values: bytes of characters, or numbers in the file's byte order."""

    name: str
    type: int
    values: bytes | Values


class Variable(Record):
    """dimensions are indexes of the header's dimensions. begin: the first byte of the data, of its first record."""

    name: str
    dimensions: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    type: int
    begin: int


class Header(Record):
    """records: their number, or STREAMING. end: the first byte behind the header."""

    version: int
    records: int
    dimensions: tuple[Dimension, ...]
    attributes: tuple[Attribute, ...]
    variables: tuple[Variable, ...]
    end: int


def parse_header(data: bytes, key: str | None = None) -> Header:
    """The header at the beginning of a file; `data` contains all of it, and may be longer. Raises FormatError, with the byte, for a header that is invalid or
    incomplete."""
    version = MAGIC.get(data[:4])
    if version is None:
        raise FormatError("it is not a NetCDF classic file: those begin with CDF and 1, 2 or 5, at byte 0", key=key)
    reader = _Reader(data, version, key)
    records = reader.records()
    dimensions = reader.items("dimensions", _DIMENSIONS, reader.dimension)
    if sum(dimension.length == 0 for dimension in dimensions) > 1:
        raise reader.fail("a file has one dimension of records, this one has several")
    reader.distinct("dimension", [dimension.name for dimension in dimensions])
    attributes = reader.items("attributes", _ATTRIBUTES, reader.attribute)
    variables = reader.items("variables", _VARIABLES, lambda: reader.variable(dimensions))
    reader.distinct("variable", [variable.name for variable in variables])
    return Header(version, records, dimensions, attributes, variables, reader.at)


class _Reader:
    """Reads one value after the other; `at` is the offset of the next."""

    __slots__ = ("at", "count_bytes", "data", "key", "offset_bytes", "version")

    def __init__(self, data: bytes, version: int, key: str | None) -> None:
        self.data, self.version, self.key, self.at = data, version, key, 4
        self.count_bytes = 8 if version == 5 else 4
        self.offset_bytes = 4 if version == 1 else 8

    def fail(self, message: str, at: int | None = None) -> FormatError:
        return FormatError(f"{message}, at byte {self.at if at is None else at}", key=self.key)

    def take(self, size: int, label: str) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise self.fail(f"the header is cut short within {label}")
        self.at += size
        return found

    def number(self, size: int, label: str) -> int:
        """A number that is not negative."""
        start = self.at
        value = int.from_bytes(self.take(size, label), "big")
        if value >> (8 * size - 1):
            raise self.fail(f"{label} must not be negative", start)
        return value

    def records(self) -> int:
        start = self.at
        found = self.take(self.count_bytes, "the number of records")
        if found == b"\xff" * self.count_bytes:
            return STREAMING
        self.at = start
        if self.version != 5:  # some programs use it without a sign
            return int.from_bytes(self.take(4, "the number of records"), "big")
        return self.number(8, "the number of records")

    def items(self, label: str, tag: int, read: Callable[[], T]) -> tuple[T, ...]:
        start = self.at
        found = int.from_bytes(self.take(4, label), "big")
        count = self.number(self.count_bytes, f"the number of {label}")
        if found != tag and (found or count):
            raise self.fail(f"a list of {label} begins with {tag}, found {found}", start)
        return tuple([read() for _ in range(count)])

    def padded(self, size: int, label: str) -> bytes:
        found = self.take(size, label)
        self.take(-size % 4, f"the padding of {label}")
        return found

    def name(self, label: str) -> str:
        start = self.at
        size = self.number(self.count_bytes, f"the length of the name of {label}")
        if not 0 < size <= _NAME_LIMIT:
            raise self.fail(f"the name of {label} must have 1 to {_NAME_LIMIT} bytes, found {size}", start)
        # old programs counted the NULs behind a name, where it ends for the netCDF library
        name = self.padded(size, f"the name of {label}").partition(b"\0")[0]
        if not name:
            raise self.fail(f"the name of {label} is empty", start)
        try:
            return name.decode()
        except UnicodeDecodeError:
            raise self.fail(f"the name of {label} must be UTF-8", start) from None

    def distinct(self, label: str, names: list[str]) -> None:
        previous: set[str] = set()
        for name in names:
            if name in previous:
                raise self.fail(f"two {label}s have the name {name!r}")
            previous.add(name)

    def dimension(self) -> Dimension:
        return Dimension(self.name("a dimension"), self.number(self.count_bytes, "the length of a dimension"))

    def type(self, label: str) -> int:
        start = self.at
        found = self.number(4, f"the type of {label}")
        if found not in TYPES or (found > _OF_OLD_FORMATS and self.version != 5):
            raise self.fail(f"the type {found} of {label} is none of CDF-{self.version}", start)
        return found

    def attribute(self) -> Attribute:
        name = self.name("an attribute")
        kind = self.type(f"the attribute {name!r}")
        dtype = np.dtype(TYPES[kind])
        count = self.number(self.count_bytes, f"the number of values of the attribute {name!r}")
        values = self.padded(count * dtype.itemsize, f"the attribute {name!r}")
        return Attribute(name, kind, values if kind == CHAR else np.frombuffer(values, dtype))

    def variable(self, dimensions: tuple[Dimension, ...]) -> Variable:
        name = self.name("a variable")
        label = f"the variable {name!r}"
        rank = self.number(self.count_bytes, f"the number of dimensions of {label}")
        if rank > (len(self.data) - self.at) // self.count_bytes:
            raise self.fail(f"the header is cut short within {label}")
        start = self.at
        numbers = tuple([self.number(self.count_bytes, f"a dimension of {label}") for _ in range(rank)])
        for i, number in enumerate(numbers):
            if number >= len(dimensions):
                raise self.fail(f"{label} has the dimension {number}, and there are {len(dimensions)}", start)
            if i and dimensions[number].length == 0:
                raise self.fail(f"{label} does not have its records along its first dimension", start)
        attributes = self.items(f"attributes of {label}", _ATTRIBUTES, self.attribute)
        kind = self.type(label)
        # redundant: follows from its dimensions, and is not exact for large variables
        self.take(self.count_bytes, f"the size of {label}")
        return Variable(name, numbers, attributes, kind, self.number(self.offset_bytes, f"the place of {label}"))
