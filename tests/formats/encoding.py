"""A second MessagePack, only for tests: it writes any form of any value, also unusual ones, and reads bytes into plain values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple


class Raw(NamedTuple):
    """Bytes that are written unchanged."""

    data: bytes


class Wide(NamedTuple):
    """A number, string, list or dict with the longest possible header."""

    value: object


class Pairs(NamedTuple):
    """A map with these entries, in this order; keys may be repeated or of any type."""

    pairs: Sequence[tuple[object, object]]


class Single(NamedTuple):
    """A float of 32 bits."""

    value: float


def encoded(value: object) -> bytes:
    match value:
        case Raw(data):
            return data
        case Wide(inner):
            return _wide(inner)
        case Pairs(pairs):
            return _head(len(pairs), 0x80, 16, 0xDE, 2) + b"".join([encoded(part) for pair in pairs for part in pair])
        case Single(number):
            return struct.pack(">Bf", 0xCA, number)
        case None | bool():
            return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
        case int():
            return _integer(value)
        case float():
            return struct.pack(">Bd", 0xCB, value)
        case str():
            data = value.encode()
            return _head(len(data), 0xA0, 32, 0xD9, 1) + data
        case bytes():
            return _head(len(value), 0, 0, 0xC4, 1) + value
        case dict():
            return encoded(Pairs(list(value.items())))
        case list() | tuple():
            return _head(len(value), 0x90, 16, 0xDC, 2) + b"".join([encoded(item) for item in value])
    raise AssertionError(value)


def _head(length: int, fixed: int, most: int, wide: int, size: int) -> bytes:
    if length < most:
        return bytes([fixed + length])
    while length >= 1 << (8 * size):
        wide, size = wide + 1, size * 2
    return bytes([wide]) + length.to_bytes(size, "big")


def _integer(value: int) -> bytes:
    if -32 <= value < 128:
        return bytes([value & 255])
    for step, size in enumerate((1, 2, 4, 8)):
        if 0 <= value < 1 << (8 * size):
            return bytes([0xCC + step]) + value.to_bytes(size, "big")
        if 0 > value >= -(1 << (8 * size - 1)):
            return bytes([0xD0 + step]) + value.to_bytes(size, "big", signed=True)
    raise AssertionError(value)


def _wide(value: object) -> bytes:
    match value:
        case int():
            return struct.pack(">BQ", 0xCF, value) if value >= 0 else struct.pack(">Bq", 0xD3, value)
        case str():
            return struct.pack(">BI", 0xDB, len(value.encode())) + value.encode()
        case dict():
            return struct.pack(">BI", 0xDF, len(value)) + b"".join(
                [encoded(part) for pair in value.items() for part in pair]
            )
        case list() | tuple():
            return struct.pack(">BI", 0xDD, len(value)) + b"".join([encoded(item) for item in value])
    raise AssertionError(value)


def decoded(data: bytes) -> object:
    """Lists, dicts, str, bytes, numbers (32-bit floats as Single)."""
    value, end = _decode(data, 0)
    assert end == len(data)
    return value


def _decode(data: bytes, at: int) -> tuple[object, int]:
    tag = data[at]
    if tag < 0x80 or tag >= 0xE0:
        return tag - 256 * (tag >= 0xE0), at + 1
    if tag < 0xC0:
        kind, length = ("map", tag & 15) if tag < 0x90 else ("list", tag & 15) if tag < 0xA0 else ("str", tag & 31)
        return _body(data, at + 1, kind, length)
    if tag in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[tag], at + 1
    if tag in (0xCA, 0xCB):
        size = 4 if tag == 0xCA else 8
        (number,) = struct.unpack(">f" if size == 4 else ">d", data[at + 1 : at + 1 + size])
        return (Single(number) if size == 4 else number), at + 1 + size
    if 0xCC <= tag <= 0xD3:
        size = 1 << (tag & 3)
        return int.from_bytes(data[at + 1 : at + 1 + size], "big", signed=tag >= 0xD0), at + 1 + size
    kind, size = {
        **{0xC4 + n: ("bin", 1 << n) for n in range(3)},
        **{0xD9 + n: ("str", 1 << n) for n in range(3)},
        **{0xDC + n: ("list", 2 << n) for n in range(2)},
        **{0xDE + n: ("map", 2 << n) for n in range(2)},
    }[tag]
    return _body(data, at + 1 + size, kind, int.from_bytes(data[at + 1 : at + 1 + size], "big"))


def _body(data: bytes, at: int, kind: str, length: int) -> tuple[object, int]:
    if kind in ("str", "bin"):
        body = data[at : at + length]
        assert len(body) == length
        return (body.decode() if kind == "str" else body), at + length
    items = []
    for _ in range(length * (2 if kind == "map" else 1)):
        item, at = _decode(data, at)
        items.append(tuple(item) if kind == "map" and isinstance(item, list) and len(items) % 2 == 0 else item)
    return (items if kind == "list" else dict(zip(items[::2], items[1::2], strict=True))), at
