"""Reading a zip archive in place: its directory, and byte ranges of entries, through any store that reads ranges of the archive's object: a file, a key of a
store, or a part of a URL.

A stored entry is a part of that object; in a file the kernel reads it there. A deflated entry is inflated whole. zip_store.py decides which version is read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from frazil import _kernel
from frazil.base.arrays import distinct, offsets_of
from frazil.base.record import Record
from frazil.errors import ChecksumError, ConflictError, FormatError, InvalidInputError, StoreError
from frazil.runtime import cores
from frazil.stores.array_storage.chunk_storage import fetch_spans
from frazil.stores.keys.names import check_key
from frazil.stores.local.local_store import LocalStore
from frazil.stores.objects import object_store
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_error, read_values
from frazil.stores.transfer.merged_spans import GAP
from frazil.stores.values import (
    ABSENT_KEY,
    FOUND,
    MISSING,
    WHOLE,
    Columns,
    Fetched,
    Sources,
    Version,
    Versions,
    flat_buffer,
    mark_stale,
    object_rows,
)
from frazil.stores.zip.archive_file import JOURNAL, Journal, parse_journal
from frazil.stores.zip.directory import (
    FIXED,
    TAIL,
    Directory,
    Entries,
    EntryTable,
    extra_lengths,
    find_end,
    head_fault,
    parse_directory,
)

if TYPE_CHECKING:
    from frazil.stores.values import SourceBuffer

_LOCAL_EXTRA: Final = 64  # bytes between name and data that are read with small entries


class Object(Record):
    """The object of an archive: a key of a store."""

    store: Store
    key: str

    def fetch(self, spans: Columns, version: Version | None, before: Fetched | None) -> Fetched | None:
        """Byte ranges of it; None if it has another version now. before: an earlier answer, whose open file is read"""
        before = before if self.store.capabilities.direct else None
        fetched = fetch_spans(self.store, [self.key], spans, expect=[version], continue_from=before)
        return fetched if fetched.status[0] == FOUND else None

    def read(self, start: int, length: int, version: Version | None, before: Fetched) -> bytes | None:
        """As fetch, the bytes of one range."""
        span = np.array([[0, start, length]], np.int64)
        fetched = self.fetch(span, version, before)
        return None if fetched is None else read_values(fetched, [self.key], span)[0] or b""


class ReadEntries(Record):
    """`resume` of an answer: the answer for the object, and the entries that were found (Entries.find)."""

    held: Fetched
    entries: Entries
    table: EntryTable


def object_of(path: str | os.PathLike[str], store: Store | None, options: Mapping[str, object]) -> tuple[str, Object]:
    """The name of the archive, and its object. Raises InvalidInputError."""
    named = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if not named or not isinstance(named, str) or "\0" in named or named.endswith("/"):
        raise InvalidInputError(
            f"not the path of a zip archive: {path!r}", hint='give a str or a pathlib.Path: "x.zarr.zip"'
        )
    if store is not None:
        check_key(named)
        return named, Object(store, named)
    if isinstance(path, str) and "://" in path:
        above, _, key = path.rpartition("/")
        chosen: dict[str, Any] = dict(options)
        return path, Object(object_store.ObjectStore(above, **chosen), key)
    if options:
        raise InvalidInputError(f"the option {next(iter(options))!r} is only for a URL", path=named)
    absolute = os.path.abspath(named)
    folder, key = os.path.split(os.path.realpath(absolute))
    return absolute, Object(LocalStore(folder), key)


# --- the directory -----------------------------------------------------------------------------------------------------------------------


def load_directory(archive: Object, head: Fetched) -> Directory | None:
    """The directory of the version of the object that was seen; None if the object changed meanwhile. Raises FormatError for a refused directory,
    StoreError."""
    version, size = head.versions[0], int(head.sizes[0])
    journal = _journal(archive, version) if archive.store.capabilities.local and version is not None else None
    if journal is not None:
        start, tail = journal.start, journal.tail
        size = start + len(tail)
    else:
        span = np.array([[0, -TAIL, TAIL]], np.int64)
        found = archive.fetch(span, version, head)
        if found is None:
            return None
        tail = read_values(found, [archive.key], span)[0] or b""
        size = int(found.sizes[0]) if found.sizes[0] >= 0 else size
        start = size - len(tail)
    end = find_end(tail, size)
    if end is None:
        raise FormatError(
            "the end record of the zip archive is missing",
            key=archive.key,
            hint="it is not a zip archive, a copy of it was cut off, or its writer was killed: look for its journal beside it",
        )
    if end.start < 0 or end.start >= start:
        return parse_directory(tail[end.start - start : end.start - start + end.length], end)
    raw = archive.read(end.start, end.length, version, head)
    return None if raw is None else parse_directory(raw, end)


def _journal(archive: Object, version: Version) -> Journal | None:
    """The journal of this version of a local archive, if a writer is changing it or was killed."""
    name = [archive.key + JOURNAL]
    found = read_values(archive.store.fetch(name, WHOLE), name, WHOLE)[0]
    if found is None:
        return None
    journal, root = parse_journal(found), archive.store.kernel_root()
    if journal.inode != int.from_bytes(version[:8], "little"):
        return None
    return None if root is not None and not journal.is_of_name(archive.key, root.fd) else journal


# --- entries -----------------------------------------------------------------------------------------------------------------------------


def fetch_entries(
    archive: Object,
    entries: Entries,
    table: EntryTable,
    names: Sequence[str],
    spans: Columns,
    expect: Versions | None,
    version: Version | None,
    fetched: Fetched | None,
) -> Fetched | None:
    """As Store.fetch, for the entries in a table (Entries.find); None if the object has another version. fetched: an earlier answer for the object, if any.

    Raises FormatError, ChecksumError for entries that are damaged, StoreError."""
    versions = entries.versions(table)
    sizes = table["size"].copy()
    status = [ABSENT_KEY if size < 0 else FOUND for size in sizes.tolist()]
    mark_stale(status, versions, expect)
    present = np.array(status, np.int64) == FOUND
    requested = spans[present[spans[:, 0]]]
    reader = _Reader(archive, entries, table, names, version, fetched)
    _check_most(requested, sizes, names)
    if len(requested) and not reader.prepare(requested[:, 0]):
        return None
    rows = reader.rows(requested, sizes)
    if rows is None or reader.held is None:
        return None
    reader.check_whole(requested[:, 0], rows, sizes)
    if len(requested) < len(spans):
        answered, rows = rows, np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
        rows[present[spans[:, 0]]] = answered
    recent = reader.held.version_may_repeat
    sources, resume = Sources(reader.held.sources.files, reader.buffers), ReadEntries(reader.held, entries, table)
    packed = len(names) == 1 and bool(present[0]) and bool(table["method"][0])
    stream = partial(_inflated_parts, archive, resume, names[0]) if packed else None
    return Fetched(sources, status, versions, sizes, rows, [True] * len(names) if recent else None, resume, stream)


def _check_most(spans: Columns, sizes: Columns, names: Sequence[str]) -> None:
    """A length below -1 gives the most bytes that are expected of a value (values.up_to)."""
    size, most = sizes[spans[:, 0]], -1 - spans[:, 2]
    too_long = np.flatnonzero((most > 0) & (size > most))
    if too_long.size:
        row = int(too_long[0])
        raise StoreError(
            f"a value of {size[row]} bytes, where at most {most[row]} are expected",
            key=names[int(spans[row, 0])],
            hint="find out what it is",
        )


class _Reader:
    """One fetch: the parts of the object that were read so far. held: the last answer for the object, whose files are open."""

    __slots__ = ("_direct", "buffers", "entries", "held", "inflated", "names", "near", "archive", "table", "version")

    def __init__(
        self,
        archive: Object,
        entries: Entries,
        table: EntryTable,
        names: Sequence[str],
        version: Version | None,
        fetched: Fetched | None,
    ) -> None:
        self.archive, self.entries, self.table, self.names, self.held = archive, entries, table, names, fetched
        self.version = version
        self._direct = archive.store.capabilities.direct
        self.buffers: list[SourceBuffer] = [] if fetched is None else list(fetched.sources.buffers)
        self.near: dict[int, int] = {}  # rows of entries that are whole in a buffer: the buffer
        self.inflated: dict[int, int] = {}

    def _fetch(self, spans: Columns) -> tuple[Fetched, Columns] | None:
        """Ranges of the object, and their rows among the buffers of this fetch."""
        fetched = self.archive.fetch(spans, self.version, self.held)
        if fetched is None:
            return None
        rows = fetched.rows
        if fetched.sources.buffers and not self._direct:
            rows = rows.copy()
            rows[rows[:, 0] < 0, 0] -= len(self.buffers)
            self.buffers.extend(fetched.sources.buffers)
        elif self.held is None:
            self.buffers.extend(fetched.sources.buffers)
        self.held = fetched
        return fetched, rows

    def _bytes(self, rows: Columns, names: Sequence[str]) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], Columns]:
        """The bytes of rows, one after the other, and the begin of each."""
        assert self.held is not None
        offsets = offsets_of(rows[:, 2])
        out = np.empty(int(offsets[-1]), np.uint8)
        for row, code, text in _kernel.read_rows(self.held.sources.files, self.buffers, rows, out, offsets, 1):
            raise read_error(code, text, names[row])
        return out, offsets

    def prepare(self, rows: Columns) -> bool:
        """Finds where the data of entries begins, from their headers, which must agree with the directory. Small entries of remote objects are read whole with
        their headers. Returns whether the object has the version of the entries."""
        table = self.table
        new = rows[table["data"][rows] < 0]
        if not len(new):
            return True
        new = distinct(new)
        header, name = table["header"][new], table["name"][new]
        end = header + FIXED + name
        whole = np.zeros(len(new), np.bool_)
        if not self._direct:
            whole = table["stored"][new] <= GAP
            end[whole] = np.minimum(end + table["stored"][new] + _LOCAL_EXTRA, table["bound"][new])[whole]
        spans = np.stack((np.zeros(len(new), np.int64), header, end - header), axis=1)
        answer = self._fetch(spans)
        if answer is None:
            return False
        names = [self.names[row] for row in new.tolist()]
        out, offsets = self._bytes(answer[1], names)
        heads = out[offsets[:-1, None] + np.arange(FIXED)]
        fault = head_fault(heads, table[new])
        if fault is not None:
            row, problem = fault
            raise FormatError(f"an entry of the zip archive is damaged: {problem}", key=names[row])
        self._check_names(new, out, offsets[:-1] + FIXED)
        data = header + FIXED + name + extra_lengths(heads)
        overlapping = np.flatnonzero(data + table["stored"][new] > table["bound"][new])
        if overlapping.size:
            raise FormatError(
                "an entry of the zip archive is damaged: it overlaps with another one", key=names[int(overlapping[0])]
            )
        table["data"][new] = data
        self.entries.directory.table["data"][table["row"][new]] = data
        for i in np.flatnonzero(whole & (data + table["stored"][new] <= end)).tolist():
            first = int(offsets[i] + data[i] - header[i])
            self.near[int(new[i])] = len(self.buffers)
            self.buffers.append(out[first : first + int(table["stored"][new[i]])])
        return True

    def _check_names(self, new: Columns, out: np.ndarray[tuple[int], np.dtype[np.uint8]], starts: Columns) -> None:
        directory = self.entries.directory
        for row, start in zip(new.tolist(), starts.tolist(), strict=True):
            at = int(directory.record[self.table["row"][row], 0]) + 46
            length = int(self.table["name"][row])
            if out[start : start + length].tobytes() != directory.raw[at : at + length]:
                raise FormatError(
                    "an entry of the zip archive is damaged: its header has another name", key=self.names[row]
                )

    def rows(self, requested: Columns, sizes: Columns) -> Columns | None:
        """Rows of spans in entries; None if the object has another version now."""
        table, name = self.table, requested[:, 0]
        rows = object_rows(requested, [FOUND] * len(sizes), sizes, files=True)
        start, length = rows[:, 1], rows[:, 2]
        inside = np.minimum(length, np.maximum(sizes[name] - start, 0))
        spans = np.stack(
            (np.zeros(len(requested), np.int64), table["data"][name] + np.minimum(start, sizes[name]), inside), axis=1
        )
        deflated = table["method"][name] != 0
        if not self.near and not deflated.any():
            answer = self._fetch(spans)
            return None if answer is None else self._not_beyond(answer[1], length, name)
        near = np.array([row in self.near for row in name.tolist()], np.bool_)
        far = ~deflated & ~near
        packed = distinct(name[deflated & ~near])
        whole = np.stack((np.zeros(len(packed), np.int64), table["data"][packed], table["stored"][packed]), axis=1)
        answer = self._fetch(np.concatenate((spans[far], whole)))
        if answer is None:
            return None
        count = int(far.sum())
        rows[far] = self._not_beyond(answer[1][:count], length[far], name[far])
        self._inflate(packed, answer[1][count:])
        for i in np.flatnonzero(~far).tolist():
            row = int(name[i])
            rows[i, 0] = -1 - (self._inflated_buffer(row) if deflated[i] else self.near[row])
        return rows

    def _not_beyond(self, rows: Columns, length: Columns, name: Columns) -> Columns:
        """Rows of stored entries. A range that ends beyond its entry gets a buffer of its own, where reading it fails: in the archive the next entry
        follows."""
        clipped = np.flatnonzero(rows[:, 2] != length)
        if not len(clipped):
            return rows
        rows = rows.copy()
        out, offsets = self._bytes(
            np.ascontiguousarray(rows[clipped]), [self.names[row] for row in name[clipped].tolist()]
        )
        for number, i in enumerate(clipped.tolist()):
            self.buffers.append(out[offsets[number] : offsets[number + 1]])
            rows[i] = (-len(self.buffers), 0, length[i])
        return rows

    def check_whole(self, name: Columns, rows: Columns, sizes: Columns) -> None:
        """Compares stored entries that were read whole with the checksum of the directory. A part of an entry cannot be checked; inflated entries were checked
        before."""
        table = self.table
        whole = np.flatnonzero(
            (table["method"][name] == 0) & (rows[:, 1] >= 0) & (rows[:, 2] == sizes[name]) & (sizes[name] > 0)
        )
        if not len(whole) or self.held is None:
            return
        checksums = np.zeros((len(whole), 1), np.int64)
        checked = np.ascontiguousarray(rows[whole])
        threads = cores() if int(checked[:, 2].sum()) > GAP else 1
        for row, code, text in _kernel.crc32_rows(self.held.sources.files, self.buffers, checked, checksums, threads):
            raise read_error(code, text, self.names[int(name[whole[row]])])
        wrong = np.flatnonzero(checksums[:, 0] != table["crc"][name[whole]])
        if wrong.size:
            raise _mismatch(self.names[int(name[whole[wrong[0]]])])

    def _inflate(self, packed: Columns, rows: Columns) -> None:
        # one by one, so that packed bytes are not in memory beside all inflated ones
        for number, row in enumerate(packed.tolist()):
            out, _ = self._bytes(rows[number : number + 1], [self.names[row]])
            self._keep(row, out)

    def _inflated_buffer(self, row: int) -> int:
        if row not in self.inflated:
            self._keep(row, self.buffers[self.near[row]])
        return self.inflated[row]

    def _keep(self, row: int, packed: SourceBuffer) -> None:
        size, checksum = int(self.table["size"][row]), int(self.table["crc"][row])
        self.inflated[row] = len(self.buffers)
        self.buffers.append(inflate(packed, size, checksum, self.names[row]))


def _inflated_parts(archive: Object, answer: ReadEntries, name: str, limit: int) -> Iterator[bytes]:
    """Fetched.stream of a deflated entry."""
    table, version = answer.table, answer.held.versions[0]
    held = answer.held  # entries never move in the open file
    reader = _Reader(archive, answer.entries, table, [name], version, held)
    each = max(2**16, limit // 8)  # as there are several: read, copied, inflated, and being stored

    def packed() -> Iterator[bytes]:
        current = reader.prepare(np.zeros(1, np.int64))
        first, last = int(table["data"][0]), int(table["data"][0] + table["stored"][0])
        for at in range(first, last, each) if current else ():
            part = archive.read(at, min(each, last - at), version, held)
            if part is None:
                current = False
                break
            yield part
        if not current:
            raise ConflictError("the zip archive was replaced while it was read", key=name, hint="read it again")

    return _decompressed(packed(), int(table["size"][0]), int(table["crc"][0]), name, each)


def inflate(packed: SourceBuffer, size: int, checksum: int, name: str) -> bytes:
    """Inflates `size` bytes. Raises FormatError, ChecksumError; no more than `size` bytes are allocated."""
    return b"".join(_decompressed(iter([packed]), size, checksum, name, size + 1))


def _decompressed(packed: Iterator[SourceBuffer], size: int, checksum: int, name: str, most: int) -> Iterator[bytes]:
    """inflate, in parts of at most `most` bytes, none of them empty; an error may come after the last one."""
    machine, length, found = zlib.decompressobj(-15), 0, 0
    for part in packed:
        remaining, is_full = flat_buffer(part), True
        while (remaining or is_full) and length <= size and not machine.eof:
            try:
                value = machine.decompress(remaining, most)
            except zlib.error as error:
                raise FormatError(f"an entry of the zip archive cannot be inflated: {error}", key=name) from None
            remaining, is_full = machine.unconsumed_tail, len(value) == most
            length, found = length + len(value), zlib.crc32(value, found)
            if value:
                yield value
        if machine.eof or length > size:
            break
    if length != size or not machine.eof or machine.unused_data or any(len(flat_buffer(part)) for part in packed):
        raise FormatError(
            f"an entry of the zip archive does not have the {size} bytes that its directory says",
            key=name,
            hint="the archive is damaged, or a zip bomb",
        )
    if found != checksum:
        raise _mismatch(name)


def _mismatch(name: str) -> ChecksumError:
    return ChecksumError("the checksum of an entry of the zip archive does not match", key=name)
