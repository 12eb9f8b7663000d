"""The headers of a zip archive, as bytes (APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 to 4.3.16): made for new entries, and compared for entries that are read.

Pure. The directory as a whole is in directory.py."""

from __future__ import annotations

import time
from struct import Struct
from typing import Final

import numpy as np

from frazil.base.arrays import Octets
from frazil.base.record import Record
from frazil.stores.values import Columns

FIXED: Final = 30  # bytes of a local header before the name
CENTRAL: Final = Struct("<4sHHHHHHIIIHHHHHII")
END: Final = Struct("<4sHHHHIIH")
END64: Final = Struct("<4sQHHIIQQQQ")
LOCATOR64: Final = Struct("<4sIQI")

_LOCAL: Final = Struct("<4sHHHHHIIIHH")
_HEAD: Final = np.dtype(
    [
        ("signature", "S4"), ("needed", "<u2"), ("flags", "<u2"), ("method", "<u2"), ("stamp", "<u4"), ("crc", "<u4"), ("stored", "<u4"),
        ("size", "<u4"), ("name", "<u2"), ("extra", "<u2"),
    ]
)  # fmt: skip
_FULL, _FULL16 = 2**32 - 1, 2**16 - 1  # such a number is in a zip64 field
_UTF8: Final = 0x800
_DESCRIPTOR: Final = 0x8  # the numbers are after the data
_ENCRYPTED: Final = 0x2041
_UNIX: Final = 3 << 8
_MODE: Final = 0o100644 << 16


class Entry(Record):
    """An entry written by this store: its bytes are stored unchanged.

    header, data  where its header and its data begin; size: bytes of the data; record: its record in the directory"""

    header: int
    data: int
    size: int
    crc: int
    record: bytes


def local_header(name: bytes, size: int, crc: int, stamp: int) -> bytes:
    large = size >= _FULL
    extra = Struct("<HHQQ").pack(1, 16, size, size) if large else b""
    short = _FULL if large else size
    flags = 0 if name.isascii() else _UTF8
    fields = (b"PK\3\4", 45 if large else 20, flags, 0, stamp & _FULL16, stamp >> 16, crc, short, short)
    return _LOCAL.pack(*fields, len(name), len(extra)) + name + extra


def central_record(name: bytes, header: int, size: int, crc: int, stamp: int) -> bytes:
    """The record of an entry in the directory. stamp: MS-DOS time and date, as in the header."""
    numbers = [size, size] if size >= _FULL else []
    if header >= _FULL:
        numbers.append(header)
    extra = Struct(f"<HH{len(numbers)}Q").pack(1, 8 * len(numbers), *numbers) if numbers else b""
    needed, flags, short = 45 if numbers else 20, 0 if name.isascii() else _UTF8, min(size, _FULL)
    fields = (b"PK\1\2", _UNIX | needed, needed, flags, 0, stamp & _FULL16, stamp >> 16, crc, short, short)
    return CENTRAL.pack(*fields, len(name), len(extra), 0, 0, 0, _MODE, min(header, _FULL)) + name + extra


def end_records(start: int, length: int, count: int) -> bytes:
    """The end records, which follow the directory, whose first byte is at `start`."""
    before = b""
    if start >= _FULL or length >= _FULL or count >= _FULL16:
        before = END64.pack(b"PK\6\6", END64.size - 12, _UNIX | 45, 45, 0, 0, count, count, length, start)
        before += LOCATOR64.pack(b"PK\6\7", 0, start + length, 1)
    few = min(count, _FULL16)
    return before + END.pack(b"PK\5\6", 0, 0, few, few, min(length, _FULL), min(start, _FULL), 0)


def dos_stamp(seconds: float) -> int:
    """A time in the form of archives: local, in steps of two seconds, from 1980 to 2107."""
    year, month, day, hour, minute, second = time.localtime(seconds)[:6]
    year = min(max(year - 1980, 0), 127)
    return (year << 9 | month << 5 | day) << 16 | hour << 11 | minute << 5 | second // 2


def head_fault(heads: Octets, expected: dict[str, Columns]) -> tuple[int, str] | None:
    """The row of the first local header that disagrees with the directory, and how. heads: uint8[n, 30]; expected: of the directory method, crc, stored, size
    and name (bytes), int64[n].

    Numbers after the data, or in a zip64 field, are not compared: the directory has them too."""
    fields = np.ascontiguousarray(heads).view(_HEAD)[:, 0]
    behind = (fields["flags"] & _DESCRIPTOR) != 0
    checks = [
        ("its header is missing", fields["signature"] != b"PK\3\4"),
        ("it is encrypted", (fields["flags"] & _ENCRYPTED) != 0),
        ("its header has another compression method", fields["method"] != expected["method"]),
        ("its header has a name of another length", fields["name"] != expected["name"]),
        ("its header has another checksum", ~behind & (fields["crc"] != expected["crc"])),
    ]
    for name in ("stored", "size"):
        open_ones = behind | (fields[name] == _FULL)
        checks.append(("its header has another size", ~open_ones & (fields[name] != expected[name])))
    for problem, wrong in checks:
        if wrong.any():
            return int(np.flatnonzero(wrong)[0]), problem
    return None


def extra_lengths(heads: Octets) -> Columns:
    """Bytes between the name and the data of each entry, int64[n]. heads: uint8[n, 30]."""
    extra: Columns = np.ascontiguousarray(heads).view(_HEAD)[:, 0]["extra"].astype(np.int64)
    return extra
