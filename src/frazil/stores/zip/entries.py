"""The entries of an archive: those of its directory, and those written since. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Final

import numpy as np

from frazil.base.record import Record
from frazil.stores.values import Columns, Version
from frazil.stores.zip.directory import Directory
from frazil.stores.zip.headers import FIXED, Entry, end_records

HEADER, DATA, STORED, SIZE, METHOD, CRC, BOUND, NAME = range(8)  # columns of Found.table
_VERSION: Final = Struct("<QQI")
_ABSENT: Final = np.full(8, -1, np.int64)


class Found(Record):
    """Entries that were looked up, a row for each name.

    table  int64[n, 8]: header, data, stored, size, method, crc, bound and name as in a Directory; all -1 for a missing entry. The headers of entries
           written since are not read, as data is known
    row    int64[n], of the directory; -1 for an entry that is not in it"""

    table: Columns
    row: Columns


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
        self.live = int(
            (FIXED + directory.name + directory.stored).sum()
        )  # bytes of entries, without gaps between them
        self._sorted: Sequence[str] | None = directory.keys

    # --- looking up ------------------------------------------------------------------------------------------------------------------

    def find(self, names: Sequence[str]) -> Found:
        base, rows = self.directory, self.directory.rows
        row = np.array([rows.get(name, -1) for name in names], np.int64)
        table = np.empty((len(names), 8), np.int64)
        for number, column in enumerate(
            (base.header, base.data, base.stored, base.size, base.method, base.crc, base.bound, base.name)
        ):
            table[:, number] = column[row] if len(column) else -1
        table[row < 0] = _ABSENT
        if self.changed:
            for number, name in enumerate(names):
                if name not in self.changed:
                    continue
                entry = self.changed[name]
                row[number] = -1
                table[number] = _ABSENT
                if entry is not None:
                    end = entry.data + entry.size
                    table[number] = (entry.header, entry.data, entry.size, entry.size, 0, entry.crc, end, 0)
        return Found(table, row)

    def versions(self, found: Found) -> list[Version | None]:
        """The version of each entry. Equal ones mean equal bytes: of one file, whose inode no other file has while it is open, or of one object."""
        if self.version is None:
            return [None] * len(found.row)
        columns = (found.table[:, number].tolist() for number in (HEADER, SIZE, CRC))
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
        return 0 if row < 0 else FIXED + int(self.directory.name[row] + self.directory.stored[row])

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
        return raw + end_records(self.end, len(raw), count + len(added))
