"""MessagePack, as repository files use it: a strict reader that names the place of what is wrong, and functions that write.

The reader takes every form of a value that its writer had to choose (wide headers, numbers longer than needed), a struct as array or as map with names, and
allocates in proportion to the bytes that are there, never to a length that they claim. What the values mean lives beside: snapshots.py, nodes.py."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from frazil.errors import FormatError, InvalidInputError, shown

__all__ = [
    "DEPTH_LIMIT",
    "Json",
    "Reader",
    "pack",
    "skip_values",
    "unpack",
    "write_array",
    "write_integer",
    "write_map",
    "write_natural",
    "write_text",
    "write_value",
]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

DEPTH_LIMIT: Final = 200  # levels of nesting; the functions below recurse once a level

_HIGH: Final = 2**64 - 1
_LOW: Final = -(2**63)


def _kinds() -> list[str]:
    kinds = ["a number without fraction"] * 128 + ["a map"] * 16 + ["an array"] * 16 + ["a string"] * 32
    kinds += [
        "nil",
        "a byte that begins no value",
        "a boolean",
        "a boolean",
        *["binary data"] * 3,
        *["an extension"] * 3,
    ]
    kinds += ["a 32-bit float", "a 64-bit float", *["a number without fraction"] * 8, *["an extension"] * 5]
    return kinds + ["a string"] * 3 + ["an array"] * 2 + ["a map"] * 2 + ["a number without fraction"] * 32


def _steps() -> list[int]:
    steps = [1] * 160 + [1 + n for n in range(32)] + [1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 5, 9]
    return steps + [2, 3, 5, 9, 2, 3, 5, 9, 3, 4, 6, 10, 18] + [0] * 7 + [1] * 32


def _more() -> list[int]:
    more = [-1] * 256
    more[0x80:0x90] = [2 * n - 1 for n in range(16)]
    more[0x90:0xA0] = [n - 1 for n in range(16)]
    return more


_KINDS: Final = _kinds()  # of each first byte: what begins there
_STEPS: Final = _steps()  # the bytes that it takes with all that has a fixed size; 0: a length follows
_MORE: Final = _more()  # the values that follow within it, itself taken off
# of those whose length follows: the bytes of the length, the bytes beside it, and how many values each one counts (0: bytes)
_WIDE: Final = {
    **{0xC4 + n: (1 << n, 0, 0) for n in range(3)},
    **{0xC7 + n: (1 << n, 1, 0) for n in range(3)},
    **{0xD9 + n: (1 << n, 0, 0) for n in range(3)},
    **{0xDC + n: (2 << n, 0, 1) for n in range(2)},
    **{0xDE + n: (2 << n, 0, 2) for n in range(2)},
}


def skip_values(data: bytes, at: int, count: int) -> int:
    """Where `count` values that begin at `at` end; -1 where the bytes end first, or where no value begins."""
    steps, more, wide, pending = _STEPS, _MORE, _WIDE, count
    try:
        while pending > 0:
            tag = data[at]
            step = steps[tag]
            if step:
                at += step
                pending += more[tag]
                continue
            width, beside, values = wide[tag]
            start = at + 1 + width
            length = int.from_bytes(data[at + 1 : start], "big")
            at = start + (0 if values else length + beside)
            pending += values * length - 1
    except LookupError:
        return -1
    return at if at <= len(data) else -1


class Reader:
    """Reads values one after the other; `at` is the place of the next. Every method raises FormatError, with the byte and `key`, for what is not there
    or is something else; `what` names the value in its message."""

    __slots__ = ("at", "data", "key")

    def __init__(self, data: bytes, key: str | None, at: int = 0) -> None:
        self.data, self.key, self.at = data, key, at

    def fail(self, message: str, at: int | None = None, hint: str | None = None) -> FormatError:
        """The error to raise about what stands at `at` (None: at the reader's place)."""
        return FormatError(f"{message}, at byte {self.at if at is None else at}", key=self.key, hint=hint)

    def finish(self, what: str) -> None:
        """Refuses anything behind the last value."""
        if self.at != len(self.data):
            raise self.fail(f"{what} has {len(self.data) - self.at} bytes behind its end")

    def _refuse(self, what: str, expected: str) -> FormatError:
        if self.at >= len(self.data):
            return self._short(what)
        return self.fail(f"{what} must be {expected}, found {_KINDS[self.data[self.at]]}")

    def _short(self, what: str) -> FormatError:
        return self.fail(f"the file ends within {what}", hint="it was cut short; restore it from a copy")

    def _length(self, what: str, expected: str, fixed: int, mask: int, wide: int, least: int) -> tuple[int, int]:
        """The length in a header, and where what it counts begins. fixed, mask: of the short form; wide: the first byte of the wide ones, whose length
        has `least` bytes at least"""
        data, at = self.data, self.at
        tag = data[at] if at < len(data) else -1
        if mask and tag & ~mask == fixed:
            return tag & mask, at + 1
        doubled = tag - wide
        if tag < 0 or not 0 <= doubled < (3 if least == 1 else 2):
            raise self._refuse(what, expected)
        start = at + 1 + (least << doubled)
        if start > len(data):
            raise self._short(what)
        return int.from_bytes(data[at + 1 : start], "big"), start

    def _bytes(self, what: str, length: int, start: int) -> bytes:
        if length > len(self.data) - start:
            raise self._short(what)
        self.at = start + length
        return self.data[start : self.at]

    def text(self, what: str) -> str:
        """A string of UTF-8."""
        data, place = self.data, self.at
        tag = data[place] if place < len(data) else 0xC1
        if 0xA0 <= tag <= 0xBF:  # short, as most are
            end = place + tag - 0x9F
            if end > len(data):
                raise self._short(what)
            self.at = end
            value = data[place + 1 : end]
        else:
            value = self._bytes(what, *self._length(what, "a string", 0xA0, 0x1F, 0xD9, 1))
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise self.fail(f"{what} must be UTF-8", place) from None

    def binary(self, what: str) -> bytes:
        return self._bytes(what, *self._length(what, "binary data", 0, 0, 0xC4, 1))

    def array(self, what: str) -> int:
        """The number of items; they follow."""
        data, start = self.data, self.at + 1
        if start <= len(data) and data[start - 1] & 0xF0 == 0x90:  # short, as most are
            length = data[start - 1] & 0x0F
        else:
            length, start = self._length(what, "an array", 0x90, 0x0F, 0xDC, 2)
        if length > len(data) - start:
            raise self._short(what)
        self.at = start
        return length

    def map(self, what: str) -> int:
        """The number of entries; keys and values follow in turn."""
        length, start = self._length(what, "a map", 0x80, 0x0F, 0xDE, 2)
        if 2 * length > len(self.data) - start:
            raise self._short(what)
        self.at = start
        return length

    def nil(self) -> bool:
        """Whether nil comes next; if so, it is read."""
        found = self.data[self.at : self.at + 1] == b"\xc0"
        self.at += found
        return found

    def boolean(self, what: str) -> bool:
        tag = self.data[self.at : self.at + 1]
        if tag not in (b"\xc2", b"\xc3"):
            raise self._refuse(what, "a boolean")
        self.at += 1
        return tag == b"\xc3"

    def integer(self, what: str, low: int = 0, high: int = _HIGH) -> int:
        """A number without fraction, in any of its lengths, from low to high."""
        data, place = self.data, self.at
        tag = data[place] if place < len(data) else 0xC1
        if tag < 0x80:
            value, end = tag, place + 1
        elif tag >= 0xE0:
            value, end = tag - 256, place + 1
        elif 0xCC <= tag <= 0xD3:
            end = place + 1 + (1 << (tag & 3))
            if end > len(data):
                raise self._short(what)
            value = int.from_bytes(data[place + 1 : end], "big", signed=tag >= 0xD0)
        else:
            raise self._refuse(what, "a number without fraction")
        if not low <= value <= high:
            raise self.fail(f"{what} must be from {low} to {high}, found {value}")
        self.at = end
        return value

    def float_bits(self, what: str, size: int) -> bytes:
        """The bits of a float of `size` bytes, big-endian; any other number is rounded to it."""
        place, tag = self.at, self.data[self.at : self.at + 1]
        if tag not in (b"\xca", b"\xcb"):
            try:
                return struct.pack(">f" if size == 4 else ">d", self.integer(what, _LOW))
            except FormatError:
                raise self._refuse(what, "a number") from None
        self.at = place + 1
        found = 4 if tag == b"\xca" else 8
        bits = self._bytes(what, found, self.at)
        if found == size:
            return bits
        (value,) = struct.unpack(">f" if found == 4 else ">d", bits)
        try:
            return struct.pack(">f" if size == 4 else ">d", value)
        except OverflowError:
            raise self.fail(f"{what} must fit {8 * size} bits, found {value}", place) from None

    def skip(self, what: str) -> None:
        """Goes past one value of any kind."""
        end = skip_values(self.data, self.at, 1)
        if end < 0:
            raise self.fail(f"{what} is cut short, or is no MessagePack")
        self.at = end

    def raw(self, what: str) -> bytes:
        """One value of any kind, as it is encoded."""
        start = self.at
        self.skip(what)
        return self.data[start : self.at]

    def value(self, what: str, depth: int = DEPTH_LIMIT) -> Json:
        """One value that JSON has, and the floats that it has not (NaN, infinities); of a key that comes twice the last counts."""
        kind = _KINDS[self.data[self.at] if self.at < len(self.data) else 0xC1]
        if kind == "a string":
            return self.text(what)
        if kind == "a number without fraction":
            return self.integer(what, _LOW)
        if kind in ("a 64-bit float", "a 32-bit float"):
            number: float = struct.unpack(">d", self.float_bits(what, 8))[0]
            return number
        if kind in ("nil", "a boolean"):
            return None if self.nil() else self.boolean(what)
        if kind not in ("an array", "a map"):
            raise self._refuse(what, "what JSON has")
        if depth == 0:
            raise self.fail(f"{what} must not nest deeper than {DEPTH_LIMIT} levels")
        if kind == "a map":
            return self._members(what, depth - 1)
        return [self.value(what, depth - 1) for _ in range(self.array(what))]

    def _members(self, what: str, depth: int) -> dict[str, Json]:
        members: dict[str, Json] = {}
        for _ in range(self.map(what)):
            name = self.text(f"a member's name in {what}")
            members[name] = self.value(what, depth)
        return members

    def members(self, what: str) -> dict[str, Json]:
        """An object of JSON."""
        return self._members(what, DEPTH_LIMIT - 1)

    def struct(self, what: str, names: Sequence[str], optional: Sequence[str] = ()) -> list[int] | None:
        """Enters a struct. None: it is an array, its fields follow in order. Else it is a map: where each field stands, -1 for an optional one that is absent,
        and at last where the struct ends. Either way `go` leads to each field."""
        place = self.at
        tag = self.data[place] if place < len(self.data) else 0xC1
        if _KINDS[tag] == "an array":
            if (count := self.array(what)) != len(names):
                self.at = place
                raise self.fail(f"{what} must have {len(names)} fields, found {count}", hint=_LATER)
            return None
        if _KINDS[tag] != "a map":
            raise self._refuse(what, "an array or a map")
        places: dict[str, int] = {}
        for _ in range(self.map(what)):
            name = self.text(f"a field's name in {what}")
            if name in places:
                raise self.fail(f"{what} has {name!r} twice")
            places[name] = self.at
            self.skip(what)
        missing = [name for name in names if name not in places and name not in optional]
        if missing:
            raise self.fail(f"{what} must have {missing[0]!r}, which is absent", place)
        return [*(places.get(name, -1) for name in names), self.at]

    def go(self, places: list[int] | None, field: int) -> bool:
        """Goes to a field of the struct that was entered (-1: to its end); False where it is absent."""
        if places is not None:
            if places[field] < 0:
                return False
            self.at = places[field]
        return True

    def variant(self, what: str) -> tuple[str, bool]:
        """The name of an enum's variant, and whether its value follows: a string, or a map of one entry."""
        if self.at < len(self.data) and _KINDS[self.data[self.at]] == "a string":
            return self.text(what), False
        place = self.at
        if (count := self.map(what)) != 1:
            raise self.fail(f"{what} must be a map of one entry, found {count}", place)
        return self.text(f"the variant of {what}"), True


_LATER: Final = "versions of Icechunk after 0.1.0-alpha.4 wrote other layouts, which are not read here"


# --- writing -------------------------------------------------------------------------------------------------------------------------


def write_natural(out: bytearray, value: int, high: int, what: str) -> None:
    """A number that `what` may have. Raises InvalidInputError outside 0 to high."""
    if not 0 <= value <= high:
        raise InvalidInputError(f"{what} must be from 0 to {high}, found {value}")
    if value < 0x80:  # most are
        out.append(value)
    else:
        write_integer(out, value)


def write_naturals(out: bytearray, values: Sequence[int], high: int, what: str) -> None:
    """An array of such numbers. Raises as write_natural does."""
    if values and len(values) < 16 and min(values) >= 0 and max(values) < 0x80:
        out.append(0x90 + len(values))
        out += bytes(values)
        return
    write_array(out, len(values))
    for value in values:
        write_natural(out, value, high, what)


def write_integer(out: bytearray, value: int) -> None:
    """The shortest form. Raises InvalidInputError beyond 64 bits."""
    if 0 <= value < 0x80 or -32 <= value < 0:
        out.append(value & 0xFF)
        return
    if not _LOW <= value <= _HIGH:
        raise InvalidInputError(f"a number in a repository file must be from -2^63 to 2^64 - 1, found {shown(value)}")
    step = next(n for n in range(4) if (value < 1 << (8 << n) if value >= 0 else value >= -(1 << ((8 << n) - 1))))
    out.append((0xD0 if value < 0 else 0xCC) + step)
    out += value.to_bytes(1 << step, "big", signed=value < 0)


def _write_header(out: bytearray, length: int, fixed: int, most: int, wide: int, least: int) -> None:
    if length < most:
        out.append(fixed + length)
        return
    step = next((n for n in range(3) if length < 1 << 8 * (least << n)), 3)
    if least << step > 4:
        raise InvalidInputError(f"a repository file holds at most 2^32 - 1 items or bytes in one value, found {length}")
    out.append(wide + step)
    out += length.to_bytes(least << step, "big")


def write_text(out: bytearray, text: str) -> None:
    """Raises InvalidInputError for text that is no Unicode (lone surrogates)."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"text in a repository file must be Unicode without lone surrogates, found {text!r}"
        ) from None
    if len(data) < 32:  # most are
        out.append(0xA0 + len(data))
    else:
        _write_header(out, len(data), 0xA0, 32, 0xD9, 1)
    out += data


def write_binary(out: bytearray, data: bytes) -> None:
    _write_header(out, len(data), 0, 0, 0xC4, 1)
    out += data


def write_array(out: bytearray, length: int) -> None:
    if length < 16:
        out.append(0x90 + length)
        return
    _write_header(out, length, 0x90, 16, 0xDC, 2)


def write_map(out: bytearray, length: int) -> None:
    if length < 16:
        out.append(0x80 + length)
        return
    _write_header(out, length, 0x80, 16, 0xDE, 2)


def write_value(out: bytearray, value: object, depth: int = DEPTH_LIMIT) -> None:
    """A value of JSON (floats as 64 bits, members in their order) or bytes. Raises InvalidInputError for anything else."""
    if value is None or isinstance(value, bool):
        out.append(0xC0 if value is None else 0xC2 + value)
    elif isinstance(value, int):
        write_integer(out, value)
    elif isinstance(value, float):
        out += struct.pack(">Bd", 0xCB, value)
    elif isinstance(value, str):
        write_text(out, value)
    elif isinstance(value, bytes):
        write_binary(out, value)
    elif depth == 0:
        raise InvalidInputError(f"a value in a repository file must not nest deeper than {DEPTH_LIMIT} levels")
    elif isinstance(value, Mapping):
        write_map(out, len(value))
        for name, child in value.items():
            if not isinstance(name, str):
                raise InvalidInputError(f"the name of a member must be a string, found {name!r}")
            write_text(out, name)
            write_value(out, child, depth - 1)
    elif isinstance(value, (list, tuple)):
        write_array(out, len(value))
        for child in value:
            write_value(out, child, depth - 1)
    else:
        raise InvalidInputError(f"a value in a repository file must be JSON, found {value!r} of {type(value).__name__}")


def pack(value: object) -> bytes:
    """One value as bytes, such as a flag of a file. Raises InvalidInputError as write_value does."""
    out = bytearray()
    write_value(out, value)
    return bytes(out)


def unpack(data: bytes, key: str | None = None) -> Json:
    """The JSON value of bytes that hold nothing else. Raises FormatError."""
    reader = Reader(data, key)
    value = reader.value("the value")
    reader.finish("the value")
    return value
