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
from frazil.stores.zip.directory import CRC, FIXED, HEADER, NAME, SIZE, STORED, Directory, Entry, end_records

_VERSION: Final = Struct("<QQI")


class Found(Record):
    """Entries that were looked up, a row for each name.

    table  int64[n, 9], rows as in a Directory. The headers of entries written since are not read, as DATA is known
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
        # bytes of entries, without gaps between them
        self.live = int((FIXED + directory.table[:-1, [NAME, STORED]].sum(axis=1)).sum())
        self._sorted: Sequence[str] | None = directory.keys

    # --- looking up ------------------------------------------------------------------------------------------------------------------

    def find(self, names: Sequence[str]) -> Found:
        base, rows = self.directory, self.directory.rows
        row = np.array([rows.get(name, -1) for name in names], np.int64)
        table = base.table[row]
        for number, name in enumerate(names if self.changed else ()):
            if name in self.changed:
                entry = self.changed[name]
                row[number] = table[number] = -1
                if entry is not None:
                    end = entry.data + entry.size
                    table[number] = (entry.header, entry.data, entry.size, entry.size, 0, entry.crc, end, 0, 0)
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
        return 0 if row < 0 else FIXED + int(self.directory.table[row, [NAME, STORED]].sum())

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
