"""The bytes of a zip archive (APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 to 4.3.16): headers of new entries, and the central directory and headers of others,
as columns, with the checks that refuse them (docs/design/069-zip.md); and the entries of an archive that is changed. Pure."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from struct import Struct, error
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.base.arrays import Octets
from frazil.base.record import Record
from frazil.errors import FormatError, InvalidInputError
from frazil.stores.keys.names import check_key
from frazil.stores.values import Columns, Version

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIXED: Final = 30  # bytes of a local header before the name
CENTRAL: Final = Struct("<4sHHHHHHIIIHHHHHII")
END: Final = Struct("<4sHHHHIIH")
END64: Final = Struct("<4sQHHIIQQQQ")
LOCATOR64: Final = Struct("<4sIQI")
_VERSION: Final = Struct("<QQI")  # of an entry: header, size, crc
# bytes at the end of an archive, in which its end records are
TAIL: Final = 2**16 + END.size + LOCATOR64.size + END64.size

_LOCAL: Final = Struct("<4sHHHHHIIIHH")
_HEAD: Final = np.dtype(
    [
        ("signature", "S4"), ("needed", "<u2"), ("flags", "<u2"), ("method", "<u2"), ("stamp", "<u4"), ("crc", "<u4"), ("stored", "<u4"),
        ("size", "<u4"), ("name", "<u2"), ("extra", "<u2"),
    ]
)  # fmt: skip
_FULL, _FULL16 = 2**32 - 1, 2**16 - 1  # such a number is in a zip64 field
_UTF8: Final = 0x800
DESCRIPTOR: Final = 0x8  # flag: the numbers are after the data
_ENCRYPTED: Final = 0x2041  # encrypted, strongly, or with its header masked
_UNIX: Final = 3 << 8
_MODE: Final = 0o100644 << 16
_FIELDS: Final = np.dtype(
    [
        ("signature", "S4"), ("made_by", "<u2"), ("needed", "<u2"), ("flags", "<u2"), ("method", "<u2"), ("stamp", "<u4"), ("crc", "<u4"),
        ("stored", "<u4"), ("size", "<u4"), ("name", "<u2"), ("extra", "<u2"), ("comment", "<u2"), ("disk", "<u2"), ("internal", "<u2"),
        ("external", "<u4"), ("header", "<u4"),
    ]
)  # fmt: skip
_LENGTHS: Final = Struct("<4s24xHHH").unpack_from
_DEFLATED: Final = 8  # a method; 0: stored
_PATCH: Final = 0x20
_RATIO: Final = 1032  # the most bytes that one deflated byte becomes


# --- new entries -------------------------------------------------------------------------------------------------------------------------


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


def end_records(start: int, length: int, count: int, comment: bytes = b"") -> bytes:
    """The end records, which follow the directory, whose first byte is at `start`. comment: of the archive."""
    before = b""
    if start >= _FULL or length >= _FULL or count >= _FULL16:
        before = END64.pack(b"PK\6\6", END64.size - 12, _UNIX | 45, 45, 0, 0, count, count, length, start)
        before += LOCATOR64.pack(b"PK\6\7", 0, start + length, 1)
    few = min(count, _FULL16)
    numbers = (few, few, min(length, _FULL), min(start, _FULL), len(comment))
    return before + END.pack(b"PK\5\6", 0, 0, *numbers) + comment


def dos_stamp(seconds: float) -> int:
    """A time in the form of archives: local, in steps of two seconds, from 1980 to 2107."""
    year, month, day, hour, minute, second = time.localtime(seconds)[:6]
    year = min(max(year - 1980, 0), 127)
    return (year << 9 | month << 5 | day) << 16 | hour << 11 | minute << 5 | second // 2


# --- headers that are read ---------------------------------------------------------------------------------------------------------------


def head_fault(heads: Octets, table: EntryTable) -> tuple[int, str] | None:
    """The row of the first local header that disagrees with the directory, and how. heads: uint8[n, 30]; table: rows of Directory.table.

    Numbers after the data, or in a zip64 field, are not compared: the directory has them too."""
    fields = np.ascontiguousarray(heads).view(_HEAD)[:, 0]
    behind = (fields["flags"] & DESCRIPTOR) != 0
    checks = [
        ("its header is missing", fields["signature"] != b"PK\3\4"),
        ("it is encrypted", (fields["flags"] & _ENCRYPTED) != 0),
        ("its header has another compression method", fields["method"] != table["method"]),
        ("its header has a name of another length", fields["name"] != table["name"]),
        ("its header has another checksum", ~behind & (fields["crc"] != table["crc"])),
    ]
    for name in ("stored", "size"):
        open_ones = behind | (fields[name] == _FULL)
        checks.append(("its header has another size", ~open_ones & (fields[name] != table[name])))
    for problem, wrong in checks:
        if wrong.any():
            return int(np.flatnonzero(wrong)[0]), problem
    return None


def extra_lengths(heads: Octets) -> Columns:
    """Bytes between the name and the data of each entry, int64[n]. heads: uint8[n, 30]."""
    extra: Columns = np.ascontiguousarray(heads).view(_HEAD)[:, 0]["extra"].astype(np.int64)
    return extra


# --- the directory -----------------------------------------------------------------------------------------------------------------------


# header: where the local header begins; data: where the data does, -1 until the header is read; stored: bytes in the archive; size: bytes of the value; bound:
# where the next item begins, before which the entry ends; name: bytes of the name in the archive; row: the number of the entry in the table
_ENTRY: Final = np.dtype(
    [
        (name, np.int64)
        for name in ("header", "data", "stored", "size", "method", "flags", "crc", "bound", "name", "row")
    ]
)
EntryTable: TypeAlias = "NDArray[np.void]"


class End(Record):
    """The values of the end records: where the directory begins, its bytes, its entries, and the comment of the archive."""

    start: int
    length: int
    entries: int
    comment: bytes = b""


class Directory(Record):
    """The entries of an archive, sorted by their keys.

    rows      the row of each key
    table     an _ENTRY for each key; a last one, all -1, is that of a missing key
    record    int64[n, 3], where the entry's record begins and ends in `raw`, the directory as it is in the archive; and the position of the header's place in
              it: 4 bytes, or 8 if it is after byte 46 of the record
    end       where the directory begins
    records   how many the directory has, including folders and entries that later ones of the same name replaced
    comment   of the archive"""

    keys: Sequence[str]
    rows: Mapping[str, int]
    table: EntryTable
    record: Columns
    raw: bytes
    end: int
    records: int
    comment: bytes


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
    return End(start, length, count, tail[at + END.size :])


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
    table = np.full(len(pick) + 1, -1, _ENTRY)
    columns = (header, stored, size, fields["method"], fields["flags"], fields["crc"], bound, name)
    for label, column in zip(
        ("header", "stored", "size", "method", "flags", "crc", "bound", "name"), columns, strict=True
    ):
        table[label][:-1] = column[pick]
    table["row"][:-1] = np.arange(len(pick))
    record = np.stack((starts, ends, offset), axis=1)[pick]
    return Directory(
        ordered, {key: row for row, key in enumerate(ordered)}, table, record, raw, end.start, end.entries, end.comment
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
        ("its compression method is not known here", ~deflated & (method != 0)),
        ("it is in another part of the archive", (fields["disk"] != 0) & (fields["disk"] != _FULL16)),
        ("it is not compressed, and has two sizes", (method == 0) & (stored != size)),
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


# --- the entries of an archive -----------------------------------------------------------------------------------------------------------


class Entries:
    """The entries of one version of an archive. One thread changes them; others may look entries up meanwhile.

    directory          as it was read
    version            of the archive: of the file, or of the object
    changed            the entries written since, by key; None for an erased one
    end                where the next entry is written
    version_is_unique  whether a change of the archive since it was read must have changed its version"""

    __slots__ = ("_sorted", "changed", "directory", "end", "live", "mark", "version_is_unique", "version")

    def __init__(self, directory: Directory, version: Version | None, mark: bytes, *, version_is_unique: bool) -> None:
        """mark: the beginning of the versions of entries."""
        self.directory, self.version, self.mark, self.version_is_unique = directory, version, mark, version_is_unique
        self.changed: dict[str, Entry | None] = {}
        self.end = directory.end
        # bytes of entries, without gaps between them
        self.live = int((FIXED + directory.table["name"] + directory.table["stored"])[:-1].sum())
        self._sorted: Sequence[str] | None = directory.keys

    # --- looking up ------------------------------------------------------------------------------------------------------------------

    def find(self, names: Sequence[str]) -> EntryTable:
        """The entry of each name, as in Directory.table; "row" is -1 if it was written since. The headers of those are not read, as "data" is known."""
        rows = self.directory.rows
        table = self.directory.table[[rows.get(name, -1) for name in names]]
        for number, name in enumerate(names if self.changed else ()):
            if name in self.changed:
                entry = self.changed[name]
                table[number] = self.directory.table[-1]
                if entry is not None:
                    end = entry.data + entry.size
                    table[number] = (entry.header, entry.data, entry.size, entry.size, 0, 0, entry.crc, end, 0, -1)
        return table

    def versions(self, table: EntryTable) -> list[Version | None]:
        """The version of each entry. Equal ones mean equal bytes: of one file, whose inode no other file has while it is open, or of one object."""
        if self.version is None:
            return [None] * len(table)
        columns = [table[name].tolist() for name in ("header", "size", "crc")]
        return [
            None if header < 0 else self.mark + _VERSION.pack(header, size, crc)
            for header, size, crc in zip(*columns, strict=True)
        ]

    def version_of(self, entry: Entry) -> Version:
        return self.mark + _VERSION.pack(entry.header, entry.size, entry.crc)

    def has(self, key: str) -> bool:
        return self.changed[key] is not None if key in self.changed else key in self.directory.rows

    def sorted_keys(self) -> Sequence[str]:
        found = self._sorted
        if found is None:
            unchanged = [key for key in self.directory.keys if key not in self.changed]
            found = sorted([*unchanged, *(key for key, entry in list(self.changed.items()) if entry is not None)])
            self._sorted = found
        return found

    def keys_below(self, prefix: str) -> Iterator[str]:
        keys = self.sorted_keys()
        first = bisect_left(keys, prefix)
        for key in islice(keys, first, None):
            if not key.startswith(prefix):
                return
            yield key

    # --- changing --------------------------------------------------------------------------------------------------------------------

    def put(self, key: str, entry: Entry) -> None:
        self.live -= self._bytes_of(key)
        if not self.has(key):
            self._sorted = None
        self.changed[key] = entry
        self.live += self._bytes_of(key)

    def erase(self, key: str) -> None:
        if self.has(key):
            self.live -= self._bytes_of(key)
            self._sorted = None
            if key in self.directory.rows:
                self.changed[key] = None
            else:
                del self.changed[key]

    def _bytes_of(self, key: str) -> int:
        if key in self.changed:
            entry = self.changed[key]
            return 0 if entry is None else entry.data + entry.size - entry.header
        row = self.directory.rows.get(key, -1)
        return 0 if row < 0 else FIXED + int(self.directory.table["name"][row] + self.directory.table["stored"][row])

    def directory_bytes(self) -> bytes:
        """The directory to be written at `end`, with its end records."""
        base = self.directory
        replaced = [base.rows[key] for key in list(self.changed) if key in base.rows]
        if not replaced and base.records == len(base.keys):
            parts = [base.raw]
            count = base.records
        else:
            unchanged = np.ones(len(base.keys), np.bool_)
            unchanged[replaced] = False
            records = base.record[unchanged]
            records = records[np.argsort(records[:, 0])]
            parts = [base.raw[a:b] for a, b, _ in records.tolist()]
            count = len(parts)
        added = [entry.record for entry in self.changed.values() if entry is not None]
        raw = b"".join([*parts, *added])
        return raw + end_records(self.end, len(raw), count + len(added), base.comment)
