"""The central directory of a zip archive: from bytes to columns, a row for each entry, and the checks that refuse it (docs/design/069-zip.md). Pure.

Directories that are written, and local headers, are in headers.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct, error
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.base.record import Record
from frazil.errors import FormatError, InvalidInputError
from frazil.stores.keys.names import check_key
from frazil.stores.values import Columns
from frazil.stores.zip.headers import CENTRAL, END, END64, FIXED, LOCATOR64

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAIL: Final = (
    2**16 + END.size + LOCATOR64.size + END64.size
)  # bytes at the end of an archive, in which its end records are

_FIELDS: Final = np.dtype(
    [
        ("signature", "S4"), ("made_by", "<u2"), ("needed", "<u2"), ("flags", "<u2"), ("method", "<u2"), ("stamp", "<u4"), ("crc", "<u4"),
        ("stored", "<u4"), ("size", "<u4"), ("name", "<u2"), ("extra", "<u2"), ("comment", "<u2"), ("disk", "<u2"), ("internal", "<u2"),
        ("external", "<u4"), ("header", "<u4"),
    ]
)  # fmt: skip
_FULL, _FULL16 = 2**32 - 1, 2**16 - 1  # such a number is in a zip64 field
_LENGTHS: Final = Struct("<4s24xHHH").unpack_from
_STORED, _DEFLATED = 0, 8
_ENCRYPTED: Final = 0x2041  # encrypted, strongly, or with its header masked
_PATCH: Final = 0x20
_UTF8: Final = 0x800
_RATIO: Final = 1032  # the most bytes that one deflated byte becomes


class End(Record):
    """The values of the end records: where the directory begins, its bytes, its entries."""

    start: int
    length: int
    entries: int


class Directory(Record):
    """The entries of an archive, sorted by their keys; columns are int64[n].

    rows      the row of each key
    header    where the local header begins; data: where the data does, -1 until the header is read
    stored    bytes in the archive; size: bytes of the value
    bound     where the next item begins: the entry ends before it
    name      bytes of the name in the archive
    record    int64[n, 3], where the entry's record begins and ends in `raw`, the directory as it is in the archive; and the position of the header's place in
              it: 4 bytes, or 8 if it is after byte 46 of the record
    end       where the directory begins
    records   how many the directory has, including folders and entries that later ones of the same name replaced"""

    keys: Sequence[str]
    rows: Mapping[str, int]
    header: Columns
    data: Columns
    stored: Columns
    size: Columns
    method: Columns
    flags: Columns
    crc: Columns
    bound: Columns
    name: Columns
    record: Columns
    raw: bytes
    end: int
    records: int


def find_end(tail: bytes, size: int) -> End | None:
    """The end of an archive of `size` bytes, from its last bytes; None without an end record. Raises FormatError for a refused one."""
    at = tail.rfind(b"PK\5\6")
    while at >= 0:
        if at + END.size <= len(tail) and at + END.size + END.unpack_from(tail, at)[-1] == len(tail):
            return _checked_end(tail, at, size - len(tail))
        at = tail.rfind(b"PK\5\6", 0, at)
    return None


def _checked_end(tail: bytes, at: int, before: int) -> End:
    """before: bytes of the archive before the tail."""
    _, disk, first_disk, disk_count, count, length, start, _ = END.unpack_from(tail, at)
    behind = before + at  # where the directory ends
    if LOCATOR64.size <= at and tail[at - LOCATOR64.size : at - LOCATOR64.size + 4] == b"PK\6\7":
        _, disk64, stated, disks = LOCATOR64.unpack_from(tail, at - LOCATOR64.size)
        inside = stated - before
        if disk64 or disks > 1:
            raise FormatError(
                "the zip archive is one of several parts", hint="join them: zip -s 0 parts.zip --out whole.zip"
            )
        if not 0 <= inside <= at - LOCATOR64.size - END64.size or tail[inside : inside + 4] != b"PK\6\6":
            raise FormatError("the zip archive has no end record where its locator says")
        _, _, _, _, disk, first_disk, disk_count, count, length, start = END64.unpack_from(tail, inside)
        behind = stated
    if disk or first_disk or disk_count != count:
        raise FormatError(
            "the zip archive is one of several parts", hint="join them: zip -s 0 parts.zip --out whole.zip"
        )
    if start + length != behind:
        raise FormatError(
            f"the directory of the zip archive should end at byte {start + length}, and its end record is at {behind}",
            hint="bytes were inserted before or into the archive; rebuild it with zip -FF",
        )
    if count * CENTRAL.size > length:
        raise FormatError(f"the directory of the zip archive has {length} bytes, too few for {count} entries")
    return End(start, length, count)


def parse_directory(raw: bytes, end: End) -> Directory:
    """Raises FormatError with the key for a refused directory."""
    starts = _record_starts(raw, end.entries)
    table = np.frombuffer(raw, np.uint8)[starts[:, None] + np.arange(CENTRAL.size)]
    fields = np.ascontiguousarray(table).view(_FIELDS).reshape(-1)
    names = [raw[a : a + n] for a, n in zip((starts + CENTRAL.size).tolist(), fields["name"].tolist(), strict=True)]
    header, stored, size = (fields[name].astype(np.int64) for name in ("header", "stored", "size"))
    offset = starts + 42
    _take_zip64(raw, starts, fields, (size, stored, header), offset, names)
    name = fields["name"].astype(np.int64)
    _refuse(fields, names, stored, size)
    bound = _bounds(header, header + FIXED + name + stored, end.start, names)
    keys = [_key(text, utf8) for text, utf8 in zip(names, ((fields["flags"] & _UTF8) != 0).tolist(), strict=True)]
    rows = {key: row for row, key in enumerate(keys) if key is not None}  # of several with one name the last
    ordered = sorted(rows)
    pick = np.array([rows[key] for key in ordered], np.int64)
    ends = np.append(starts, len(raw))[1:]
    return Directory(
        ordered,
        {key: row for row, key in enumerate(ordered)},
        header[pick],
        np.full(len(pick), -1, np.int64),
        stored[pick],
        size[pick],
        fields["method"].astype(np.int64)[pick],
        fields["flags"].astype(np.int64)[pick],
        fields["crc"].astype(np.int64)[pick],
        bound[pick],
        name[pick],
        np.stack((starts, ends, offset), axis=1)[pick],
        raw,
        end.start,
        end.entries,
    )


def _record_starts(raw: bytes, count: int) -> Columns:
    starts, at = [], 0
    try:
        for _ in range(count):
            signature, name, extra, comment = _LENGTHS(raw, at)
            if signature != b"PK\1\2":
                break
            starts.append(at)
            at += CENTRAL.size + name + extra + comment
    except error:
        at = -1
    if len(starts) < count or at != len(raw):
        raise FormatError(f"record {len(starts)} of the directory of the zip archive is damaged")
    return np.array(starts, np.int64)


def _take_zip64(
    raw: bytes,
    starts: Columns,
    fields: NDArray[np.void],
    columns: tuple[Columns, Columns, Columns],
    offset: Columns,
    names: Sequence[bytes],
) -> None:
    """Puts the large numbers of records (size, stored, header) into their columns, and the position of the header's number into `offset`."""
    large = np.flatnonzero(
        (fields["size"] == _FULL)
        | (fields["stored"] == _FULL)
        | (fields["header"] == _FULL)
        | (fields["disk"] == _FULL16)
    )
    for row in large.tolist():
        at = int(starts[row]) + CENTRAL.size + int(fields["name"][row])
        end = at + int(fields["extra"][row])
        while at + 4 <= end and raw[at : at + 2] != b"\1\0":
            at += 4 + int.from_bytes(raw[at + 2 : at + 4], "little")
        end = min(end, at + 4 + int.from_bytes(raw[at + 2 : at + 4], "little"))
        at += 4
        for column, name in zip(columns, ("size", "stored", "header"), strict=True):
            if fields[name][row] != _FULL:
                continue
            value = int.from_bytes(raw[at : at + 8], "little")
            if at + 8 > end or value >= 2**62:
                raise _refused("its sizes or its position are missing, or too large", names[row])
            column[row] = value
            if name == "header":
                offset[row] = at
            at += 8
        if fields["disk"][row] == _FULL16 and raw[at:end] != bytes(4):
            raise _refused("it is in another part of the archive", names[row])


def _refuse(fields: NDArray[np.void], names: Sequence[bytes], stored: Columns, size: Columns) -> None:
    method, flags = fields["method"], fields["flags"]
    deflated = method == _DEFLATED
    for problem, wrong in (
        ("it is encrypted", (flags & _ENCRYPTED) != 0),
        ("it is a patch of another file", (flags & _PATCH) != 0),
        ("its compression method is not known here", ~deflated & (method != _STORED)),
        ("it is in another part of the archive", (fields["disk"] != 0) & (fields["disk"] != _FULL16)),
        ("it is not compressed, and has two sizes", (method == _STORED) & (stored != size)),
        (f"it is a zip bomb, or damaged: more than {_RATIO} times larger than its compressed bytes", deflated & (size > _RATIO * (stored + 1))),
    ):  # fmt: skip
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            message = f"{problem} ({method[row]})" if problem.startswith("its compression") else problem
            raise _refused(message, names[row])


def _bounds(header: Columns, ends: Columns, directory: int, names: Sequence[bytes]) -> Columns:
    """Where the next item after each entry begins. ends: where each entry ends at the earliest."""
    order = np.argsort(header, kind="stable")
    following = np.append(header[order], directory)[1:]
    wrong = np.flatnonzero((ends[order] > following) | (ends[order] < header[order]))
    if wrong.size:
        row = int(order[wrong[0]])
        last = int(wrong[0]) == len(order) - 1
        raise _refused(
            "it ends beyond the archive" if last or int(ends[row]) > directory else "it overlaps with another entry",
            names[row],
        )
    bound = np.empty(len(header), np.int64)
    bound[order] = following
    return bound


def _key(name: bytes, utf8: bool) -> str | None:
    """The key of an entry; None for a folder."""
    try:
        text = name.decode("ascii" if name.isascii() else "utf-8" if utf8 else "cp437")
    except UnicodeDecodeError:
        raise _refused("its name is not UTF-8", name) from None
    folder = text.endswith("/")
    check_name(text[:-1] if folder else text, FormatError)
    return None if folder else text


def check_name(text: str, kind: type[FormatError | InvalidInputError]) -> None:
    """Raises an error of this kind for names that other programs may take for a place outside of the archive, or for another name in it."""
    if "\\" in text:
        raise kind(
            "a name in a zip archive must not contain a backslash",
            key=text,
            hint="some programs treat it as a slash: choose another name",
        )
    try:
        check_key(text, "name in a zip archive")
    except InvalidInputError as fault:
        raise kind(fault.message, key=fault.key, hint="such a name may refer to a file outside the archive") from None


def _refused(problem: str, name: bytes) -> FormatError:
    return FormatError(
        f"an entry of the zip archive is refused: {problem}", key=name.decode("utf-8", "backslashreplace")
    )


NO_ENTRIES: Final = parse_directory(b"", End(0, 0, 0))
