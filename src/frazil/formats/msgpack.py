"""MessagePack in repository files: a strict reader that reports the offset of errors, and functions that write.

The reader accepts every form of a value (wide headers, long numbers, a struct as array or as map with names). It allocates memory in proportion to the existing
bytes, never to a length in a header. alpha/ defines what the values mean."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from frazil import _kernel
from frazil.errors import FormatError, InvalidInputError, shown
from frazil.formats.json_values import Json

T = TypeVar("T")

DEPTH_LIMIT: Final = 200  # levels of nesting; the functions below recurse once per level

_HIGH: Final = 2**64 - 1
_LOW: Final = -(2**63)

_INTEGER: Final = "a number without fraction"
_MAP: Final = "a map"
_ARRAY: Final = "an array"
_TEXT: Final = "a string"
_NIL: Final = "nil"
_BOOLEAN: Final = "a boolean"
_BINARY: Final = "binary data"
_EXTENSION: Final = "an extension"
_FLOATS: Final = {4: "a 32-bit float", 8: "a 64-bit float"}
# for each first byte: the kind of the value, its number or length, or the number of following bytes that hold these
_HEADS: Final = [
    *[(_INTEGER, number, 0) for number in range(128)],
    *[(_MAP, length, 0) for length in range(16)],
    *[(_ARRAY, length, 0) for length in range(16)],
    *[(_TEXT, length, 0) for length in range(32)],
    *[(_NIL, 0, 0), ("a byte that begins no value", 0, 0), (_BOOLEAN, False, 0), (_BOOLEAN, True, 0)],
    *[(_BINARY, 0, width) for width in (1, 2, 4)],
    *[(_EXTENSION, 0, width) for width in (1, 2, 4)],
    *[(kind, 0, width) for width, kind in _FLOATS.items()],
    *[(_INTEGER, 0, width) for width in (1, 2, 4, 8)],
    *[(_INTEGER, _LOW, width) for width in (1, 2, 4, 8)],  # signed
    *[(_EXTENSION, 0, 0)] * 5,
    *[(_TEXT, 0, width) for width in (1, 2, 4)],
    *[(_ARRAY, 0, width) for width in (2, 4)],
    *[(_MAP, 0, width) for width in (2, 4)],
    *[(_INTEGER, number, 0) for number in range(-32, 0)],
]
RESTORE: Final = (  # a damaged file
    "`frazil repo verify` shows all damage; restore the file from a copy of the repository, or `frazil repo repair`"
)
_END: Final = ("the end of the file", 0, 0)
_KINDS: Final = [kind for kind, _, _ in _HEADS]


class Reader:
    """Reads values one after the other; `at` is the offset of the next. Every method raises FormatError, with the byte and `key`, if a value is missing
    or of another kind; `label` names the value in its message."""

    __slots__ = ("at", "data", "key")

    def __init__(self, data: bytes, key: str | None, at: int = 0) -> None:
        self.data, self.key, self.at = data, key, at

    def fail(self, message: str, at: int | None = None, hint: str | None = None) -> FormatError:
        """The error for the value at `at` (None: at the reader's offset)."""
        hint = hint or (None if self.key is None else RESTORE)
        return FormatError(f"{message}, at byte {self.at if at is None else at}", key=self.key, hint=hint)

    def finish(self, label: str) -> None:
        """Refuses bytes after the last value."""
        if self.at != len(self.data):
            raise self.fail(f"{label} has {len(self.data) - self.at} bytes behind its end")

    def kind(self) -> str:
        """The kind of the next value, in words."""
        return _KINDS[self.data[self.at]] if self.at < len(self.data) else _END[0]

    def _refuse(self, label: str, expected: str) -> FormatError:
        if self.at >= len(self.data):
            return self._truncated(label)
        return self.fail(f"{label} must be {expected}, found {self.kind()}")

    def _truncated(self, label: str) -> FormatError:
        return self.fail(
            f"the file ends within {label}", hint="it was cut short; restore it from a copy, or `frazil repo repair`"
        )

    def _head(self, label: str, expected: str) -> tuple[int, int]:
        """The number or length in a head, and the end of the head; `at` does not move."""
        data, at = self.data, self.at
        kind, number, width = _HEADS[data[at]] if at < len(data) else _END
        if kind != expected:
            raise self._refuse(label, expected)
        end = at + 1 + width
        if width:
            if end > len(data):
                raise self._truncated(label)
            number = int.from_bytes(data[at + 1 : end], "big", signed=number < 0)
        return number, end

    def _count(self, label: str, kind: str, values: int) -> int:
        """values: the number of values of each item, of at least one byte each"""
        count, start = self._head(label, kind)
        if values * count > len(self.data) - start:
            raise self._truncated(label)
        self.at = start
        return count

    def text(self, label: str) -> str:
        """A string of UTF-8."""
        data, at = self.data, self.at
        tag = data[at] if at < len(data) else 0
        if 0xA0 <= tag < 0xC0:  # short, as most are
            length, start = tag - 0xA0, at + 1
        else:
            length, start = self._head(label, _TEXT)
        end = start + length
        if end > len(data):
            raise self._truncated(label)
        try:
            text = data[start:end].decode()
        except UnicodeDecodeError:
            raise self.fail(f"{label} must be UTF-8") from None
        self.at = end
        return text

    def binary(self, label: str) -> bytes:
        length, start = self._head(label, _BINARY)
        if length > len(self.data) - start:
            raise self._truncated(label)
        self.at = start + length
        return self.data[start : self.at]

    def array(self, label: str) -> int:
        """The number of items, which follow."""
        return self._count(label, _ARRAY, 1)

    def map(self, label: str) -> int:
        """The number of entries; keys and values follow alternately."""
        return self._count(label, _MAP, 2)

    def nil(self) -> bool:
        """Whether nil comes next; if so, it is read."""
        found = self.data[self.at : self.at + 1] == b"\xc0"
        self.at += found
        return found

    def boolean(self, label: str) -> bool:
        number, self.at = self._head(label, _BOOLEAN)
        return bool(number)

    def integer(self, label: str, low: int = 0, high: int = _HIGH) -> int:
        """A whole number, in any of its lengths, from low to high."""
        data, at = self.data, self.at
        if at < len(data) and data[at] < 0x80:  # small, as most are
            number, end = data[at], at + 1
        else:
            number, end = self._head(label, _INTEGER)
        if not low <= number <= high:
            raise self.fail(f"{label} must be from {low} to {high}, found {number}")
        self.at = end
        return number

    def u16(self, label: str) -> int:
        return self.integer(label, 0, 2**16 - 1)

    def u32(self, label: str) -> int:
        return self.integer(label, 0, 2**32 - 1)

    def float_bits(self, label: str, size: int) -> bytes:
        """The bits of a float of `size` bytes, big-endian; any other number is rounded to it."""
        offset, kind, value = self.at, self.kind(), 0.0
        if kind == _FLOATS[size]:  # a signalling NaN keeps its bits
            bits, self.at = self._head(label, kind)
            return bits.to_bytes(size, "big")
        if kind == _FLOATS[12 - size]:
            bits, self.at = self._head(label, kind)
            (value,) = struct.unpack(_FLOAT_FORMATS[12 - size], bits.to_bytes(12 - size, "big"))
        elif kind == _INTEGER:
            value = self.integer(label, _LOW)
        else:
            raise self._refuse(label, "a number")
        try:
            return struct.pack(_FLOAT_FORMATS[size], value)
        except OverflowError:
            raise self.fail(f"{label} must fit {8 * size} bits, found {value}", offset) from None

    def skip(self, label: str, count: int = 1) -> None:
        """Skips values of any kind."""
        end = _kernel.skip_values(self.data, self.at, count)
        if end < 0:
            raise self.fail(f"{label} is cut short, or is not MessagePack")
        self.at = end

    def raw(self, label: str) -> bytes:
        """One value of any kind, as encoded."""
        start = self.at
        self.skip(label)
        return self.data[start : self.at]

    def value(self, label: str, depth: int = DEPTH_LIMIT) -> Json:
        """One JSON value, or one with the floats that JSON lacks (NaN, infinities). Of duplicate keys the last is used."""
        kind = _KINDS[self.data[self.at]] if self.at < len(self.data) else _END[0]
        if kind == _TEXT:
            return self.text(label)
        if kind == _INTEGER:
            return self.integer(label, _LOW)
        if kind in (_ARRAY, _MAP):
            if depth == 0:
                raise self.fail(f"{label} must not nest deeper than {DEPTH_LIMIT} levels")
            if kind == _MAP:
                return self.members(label, depth)
            return [self.value(label, depth - 1) for _ in range(self.array(label))]
        if kind in _FLOATS.values():
            number: float = struct.unpack(">d", self.float_bits(label, 8))[0]
            return number
        if kind in (_NIL, _BOOLEAN):
            return None if self.nil() else self.boolean(label)
        raise self._refuse(label, "what JSON has")

    def members(self, label: str, depth: int = DEPTH_LIMIT) -> dict[str, Json]:
        """A JSON object."""
        members: dict[str, Json] = {}
        inside = f"a member's name in {label}"
        for _ in range(self.map(label)):
            name = self.text(inside)
            members[name] = self.value(label, depth - 1)
        return members

    def struct(self, label: str, make: Callable[..., T], fields: Fields, optional: Sequence[str] = ()) -> T:
        """The result of `make` for the fields of a struct, each read by its function, in this order; None for a missing optional one. The struct is an
        array of all fields, or a map by name in any order, whose other entries are skipped."""
        offset = self.at
        if self.kind() == _ARRAY:
            if (count := self.array(label)) != len(fields):
                raise self.fail(f"{label} must have {len(fields)} fields, found {count}", offset, _LATER_FORMATS)
            return make(*[read(self, name) for name, read in fields.items()])
        if self.kind() != _MAP:
            raise self._refuse(label, "an array or a map")
        offsets: dict[str, int] = {}
        for _ in range(self.map(label)):
            name = self.text(f"a field's name in {label}")
            if name in offsets:
                raise self.fail(f"{label} has {name!r} twice")
            offsets[name] = self.at
            self.skip(label)
        end, values = self.at, list[object]()
        for name, read in fields.items():
            if name not in offsets and name not in optional:
                raise self.fail(f"{label} must have {name!r}, which is absent", offset)
            self.at = offsets.get(name, end)
            values.append(read(self, name) if name in offsets else None)
        self.at = end
        return make(*values)

    def variant(self, label: str) -> tuple[str, bool]:
        """The name of an enum's variant, and whether its value follows: the enum is a string, or a map of one entry."""
        offset = self.at
        if self.kind() == _TEXT:
            return self.text(label), False
        if (count := self.map(label)) != 1:
            raise self.fail(f"{label} must be a map of one entry, found {count}", offset)
        return self.text(f"the variant of {label}"), True


Fields: TypeAlias = Mapping[str, Callable[[Reader, str], object]]

_FLOAT_FORMATS: Final = {4: ">f", 8: ">d"}
_LATER_FORMATS: Final = "versions of Icechunk after 0.1.0-alpha.4 wrote other layouts, which are not read here"


# --- writing -------------------------------------------------------------------------------------------------------------------------


class Packed(bytes):
    """Encoded values: pack writes them unchanged."""

    __slots__ = ()


HEADS_OF_ARRAYS: Final = [bytes([0x90 + length]) for length in range(16)]  # by length; the items follow
_TOO_LONG: Final = "MessagePack holds at most 2^32 - 1 items or bytes in one value"


def checked(value: int, high: int, label: str) -> int:
    """A valid number for `label`. Raises InvalidInputError outside 0 to high."""
    if not 0 <= value <= high:
        raise InvalidInputError(f"{label} must be from 0 to {high}, found {value}")
    return value


def write_map(out: bytearray, length: int) -> None:
    """The head of a map. Its keys and values are written after it."""
    if length < 16:
        out.append(0x80 + length)
    elif length < 2**16:
        out += b"\xde" + length.to_bytes(2, "big")
    elif length < 2**32:
        out += b"\xdf" + length.to_bytes(4, "big")
    else:
        raise InvalidInputError(f"{_TOO_LONG}, found {length}")


def pack(value: object, depth: int = DEPTH_LIMIT) -> Packed:
    """One value as bytes: a JSON value (floats as 64 bits, members in their order), bytes, or encoded values. Raises InvalidInputError for anything else, and
    for more levels than `depth`."""
    packed = _kernel.pack_value(value, Packed, depth)
    if isinstance(packed, bytes):
        return Packed(packed)
    reason, refused = packed
    text = _REFUSED[reason].format(refused if reason != "number" else shown(refused), type(refused).__name__)
    raise InvalidInputError(text, hint="write it as a string" if reason == "number" else None)


_REFUSED: Final = {
    "type": "a value in MessagePack must be JSON or bytes, found {0!r} of {1}",
    "number": "a number in MessagePack must be from -2^63 to 2^64 - 1, found {0}",
    "text": "text in MessagePack must be Unicode without lone surrogates, found {0!r}",
    "name": "the name of a member must be a string, found {0!r}",
    "depth": f"a value in MessagePack must not nest deeper than {DEPTH_LIMIT} levels",
    "length": f"{_TOO_LONG}, found more",
}


def unpack(data: bytes, key: str | None = None) -> Json:
    """The JSON value of bytes that contain only it. Raises FormatError."""
    reader = Reader(data, key)
    value = reader.value("the value")
    reader.finish("the value")
    return value
