"""The messages of a GRIB file, and the fields in them, as bytes. Nothing is decoded here.

A message of edition 2 may have several fields, which share sections before them. eccodes reads these only in the order of the file, so this module splits
them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, Final

from frazil.base.record import Record
from frazil.errors import FormatError

MAGIC: Final = b"GRIB"

_END: Final = b"7777"
_HEADER: Final = {1: 8, 2: 16}  # bytes of section 0, by edition
_LARGE, _UNIT = 0x800000, 120  # a mark in the length of edition 1, and the unit in bytes of marked lengths
_WINDOW: Final = 2**16  # bytes that are searched at once for the next message
_BITMAP, _DATA = 6, 7  # numbers of sections of edition 2
_BITMAP_BEFORE: Final = 254  # means that the bitmap is that of the previous field


class Field(Record):
    """The position of a field: offset and length of its message in bytes, and its number among the fields of the message."""

    offset: int
    length: int
    number: int = 0


def has_message(begin: bytes) -> bool:
    """Whether the first bytes of a file have the header of a message, behind others: transmitted files have headings before it, which eccodes skips."""
    at = begin.find(MAGIC)
    while at >= 0 and begin[at + 7 : at + 8] not in (b"\1", b"\2"):
        at = begin.find(MAGIC, at + 1)
    return at >= 0


def read_messages(file: BinaryIO, size: int, name: str) -> Iterator[tuple[int, bytes]]:
    """The messages of a file of `size` bytes with their first bytes, in order. Bytes between messages are skipped, as eccodes does.

    Raises FormatError for a message that is incomplete or of an unknown edition, OSError."""
    at = _next(file, 0, size)
    while at is not None:
        file.seek(at)
        header = file.read(_HEADER[2])
        length = _length(file, header, at, name)
        if at + length > size:
            raise FormatError(
                f"the file is cut short: its message at byte {at} has {length} bytes, and the file has {size}", key=name
            )
        file.seek(at)
        message = file.read(length)
        if len(message) != length or not message.endswith(_END):
            raise FormatError(f"the message at byte {at} does not end as its length says", key=name)
        yield at, message
        at = _next(file, at + length, size)


def read_field(file: BinaryIO, field: Field, name: str) -> bytes:
    """A field as a message of its own. Raises FormatError if the file no longer has it, OSError."""
    file.seek(field.offset)
    found = next(islice(split_fields(file.read(field.length), field.offset, name), field.number, None), None)
    if found is None:
        raise FormatError(f"the message at byte {field.offset} has no field {field.number}", key=name)
    return found


def split_fields(message: bytes, at: int, name: str) -> Iterator[bytes]:
    """The fields of a message, each as a message of its own; created one after the other, because all may share large sections. at: its first byte, for errors.
    Raises FormatError."""
    fields = [] if len(message) < _HEADER[1] or message[7] != 2 else _sections_of_fields(message, at, name)
    if len(fields) < 2:
        yield message
        return
    for parts in fields:
        body = b"".join([message[start:end] for start, end in parts])
        yield message[:8] + (_HEADER[2] + len(body) + len(_END)).to_bytes(8, "big") + body + _END


def _sections_of_fields(message: bytes, at: int, name: str) -> list[list[tuple[int, int]]]:
    """First byte and end of each section of each field of a message of edition 2. Raises FormatError."""
    sections: dict[int, tuple[int, int]] = {}
    bitmap: tuple[int, int] | None = None
    found: list[list[tuple[int, int]]] = []
    start, end = _HEADER[2], len(message) - len(_END)
    while start < end:
        length = int.from_bytes(message[start : start + 4], "big")
        if length < 5 or start + length > end:
            raise FormatError(f"a section at byte {at + start} has {length} bytes, which is impossible", key=name)
        part, number = (start, start + length), message[start + 4]
        if number == _BITMAP and length > 5:
            if message[start + 5] != _BITMAP_BEFORE:
                bitmap = part
            elif bitmap is None:
                raise FormatError(
                    f"the section at byte {at + start} names a bitmap before it, and there is none", key=name
                )
            part = bitmap
        sections[number] = part
        if number == _DATA:
            found.append([sections[each] for each in sorted(sections)])
        start += length
    return found


def _next(file: BinaryIO, at: int, size: int) -> int | None:
    """The first byte of the next message at or behind a position; None if there is none."""
    while at < size:
        file.seek(at)
        if file.read(len(MAGIC)) == MAGIC:  # true for nearly all messages
            return at
        file.seek(at)
        window = file.read(_WINDOW)
        found = window.find(MAGIC)
        if found >= 0:
            return at + found
        at += max(1, len(window) - len(MAGIC) + 1)
    return None


def _length(file: BinaryIO, header: bytes, at: int, name: str) -> int:
    """Bytes of the message with this header."""
    edition = header[7] if len(header) > 7 else 0
    if edition not in _HEADER or len(header) < _HEADER[edition]:
        raise FormatError(f"the message at byte {at} has the edition {edition}; 1 and 2 are read", key=name)
    if edition == 2:
        return int.from_bytes(header[8:16], "big")
    length = int.from_bytes(header[4:7], "big")
    return _large_length(file, length, at, name) if length & _LARGE else length


def _large_length(file: BinaryIO, length: int, at: int, name: str) -> int:
    """Bytes of a message of edition 1 whose length has the mark of large messages, in the form of ECMWF: the length counts units of 120 bytes, and the length
    of the data section is the excess of the last unit. Raises FormatError."""
    start, flags = at + _HEADER[1], 0
    for number in (1, 2, 3, 4):
        if number in (2, 3) and not flags & (0x80 >> number - 2):
            continue
        file.seek(start)
        header = file.read(8)
        size = int.from_bytes(header[:3], "big")
        if number == 4:
            # the section's own length has more than three bytes: the stored value is less than a unit
            return (length & ~_LARGE) * _UNIT - size + 4 if size < _UNIT else length
        if len(header) < 8 or size < 6:
            break
        start, flags = start + size, header[7] if number == 1 else flags
    raise FormatError(f"a section of the message at byte {at} has an impossible length", key=name)
