"""The store in a zip archive: its keys are the names of entries. It reads archives wherever ranges can be read, and changes those that are local files.

How bytes are read is in archive_reader.py, how a file is changed in archive_file.py; what readers find meanwhile is described in docs/design/069-zip.md."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, Self
from zlib import crc32

import numpy as np

from frazil.base.retry import READS, attempts, replaced
from frazil.errors import FormatError, InvalidInputError, ReadOnlyError, StoreError
from frazil.stores.keys.listing import first_level, page_of
from frazil.stores.keys.names import is_prefix
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    FOLDER,
    FOUND,
    MISSING,
    NO_SPANS,
    STALE,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Sources,
    Version,
    Versions,
    continued,
)
from frazil.stores.zip.archive_file import ArchiveFile, open_archive, rewrite_archive
from frazil.stores.zip.archive_reader import ReadEntries, fetch_entries, load_directory, object_of
from frazil.stores.zip.directory import (
    NO_ENTRIES,
    Entries,
    Entry,
    central_record,
    check_name,
    dos_stamp,
    end_records,
    local_header,
)

_UNUSED_LIMIT: Final = 2**20  # unused bytes that an archive may have in addition to as many as are used
_MERGED: Final = 4096  # from this many new entries on, they are merged into the columns of the directory


class ZipStore(Store):
    """Keys as entries of a zip archive, such as x.zarr.zip.

    path       a file; or the URL of one in a bucket or on a web server, which is only read: then options of ObjectStore may follow
    store      the store of the key `path`, in place of a file or a URL; only read
    sync       when a write returns, its values are on the medium, not only in the system's memory
    read_only  writes raise ReadOnlyError

    Entries are read in place, by ranges; deflated ones are inflated whole. Written entries are stored without compression: chunks are compressed already. After
    each call that writes, the archive is whole, and other programs can read it. `with ZipStore(path) as store:` writes the directory once, at the end: this is
    faster for many calls. Until then readers with this library find the old archive, and other writers are refused. A key has one entry, even if it was written
    twice. Unused parts are removed when they are more than the used ones and 1 MiB. A writer that is killed leaves the old archive: this library reads it, and
    the next write restores the file. Versions are of entries. Keys have no backslash. Safe in many threads; pickles (by path).
    Raises InvalidInputError for an invalid path; FormatError, with the key, for an archive that is damaged or dangerous."""

    __slots__ = ("_entries", "_file", "_held", "_lock", "_made", "_object", "_process", "path", "read_only", "sync")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        store: Store | None = None,
        sync: bool = False,
        read_only: bool = False,
        **options: object,
    ) -> None:
        self.path, self._object = object_of(path, store, options)
        self.sync: Final = sync
        self.read_only = read_only
        self._made: Final = (path if store is not None else self.path, store, options)
        self._entries: Entries | None = None
        self._file: ArchiveFile | None = None  # open inside of `with`, from the first write on
        self._held = 0
        self._process = os.getpid()
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        inside = "" if self._made[1] is None else f", store={self._made[1]!r}"
        return f"ZipStore({self.path!r}{inside}{', read_only=True' if self.read_only else ''})"

    def __str__(self) -> str:
        return self.path

    def __reduce__(self) -> tuple[object, ...]:
        if self._file is not None:
            raise InvalidInputError(
                "a zip archive that is being written cannot be sent to another process",
                path=self.path,
                hint="leave the `with` block first",
            )
        path, store, settings = self._made
        options: dict[str, Any] = settings
        return partial(ZipStore, store=store, sync=self.sync, read_only=self.read_only, **options), (path,)

    @property
    def identity(self) -> str | None:
        inner = self._object.store.identity
        return None if inner is None else f"zip:{inner}/{self._object.key}"

    @property
    def location(self) -> tuple[Store, str]:
        """The store of the archive, and its key there."""
        return self._object.store, self._object.key

    @property
    def file(self) -> str | None:
        """The path of the archive, if it is a local file."""
        inner = self._object.store
        return os.path.join(inner.path, self._object.key) if isinstance(inner, LocalStore) else None

    @property
    def capabilities(self) -> Capabilities:
        inner = self._object.store.capabilities
        may = self.file is not None and not self.read_only
        return Capabilities(
            writable=may,
            erasable=may,
            conditional=inner.conditional,
            direct=inner.direct,
            sized=True,
            erases_prefixes=may,
            conditional_erase=may,
        )

    def require(self, capability: str) -> None:
        if capability in {"writable", "erasable"} and self.file is None:
            raise ReadOnlyError(f"{self} can only be read", hint="write a local archive, and copy the file")
        super().require(capability)

    # --- one directory for many writes -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with self._exclusive():
            self._held += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._exclusive():
            self._held -= 1
            if not self._held:
                self.close()

    def close(self) -> None:
        """Writes the directory, if it is not yet written: then the archive is whole. Later calls open it again."""
        with self._exclusive():
            if self._file is not None:
                self._finish(self._file)

    def clear(self) -> None:
        """Replaces the archive by an empty one, under its lock: readers find the old one or the new one. An empty file is replaced too.

        Raises FormatError for a file that is no zip archive, StoreError for a folder and if another writer has the archive; nothing is changed then."""
        self.require("writable")
        with self._exclusive():
            self.close()
            if self._look().status[0] == ABSENT_KEY:
                return
            assert self.file is not None
            file = open_archive(self.file, sync=self.sync)
            try:
                if not file.is_empty:
                    file.restore()
                    self._refreshed()
                file.rewrite((), end_records(0, 0, 0))
            finally:
                self._entries = None
                file.close()

    def _exclusive(self) -> AbstractContextManager[object]:
        """The lock of this store. In a forked child it is a new one, as another thread of the parent may have held it; an archive that is being written stays
        with the parent."""
        if self._process != os.getpid():
            self._lock, self._process, self._held = threading.RLock(), os.getpid(), 0
            if self._file is not None:
                self._file.close()  # the parent keeps the lock of the file
                self._file = self._entries = None
        return self._lock

    # --- reading -----------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if continue_from is not None:
            return self._continued(names, spans, expect, continue_from)
        for attempt in attempts(READS):
            with self._exclusive() if attempt else nullcontext():
                entries = self._refreshed() if attempt else self._entries
                if entries is None:
                    continue
                version = entries.version
                found = entries.find(names)
                if version == ABSENT:
                    if attempt or self._look().status[0] == ABSENT_KEY:
                        return self._nothing(names, spans, expect)
                    continue
                if not (entries.version_is_unique or attempt):
                    continue
                fetched = fetch_entries(self._object, entries, found, names, spans, expect, version, None)
                if fetched is not None:
                    return fetched
        raise replaced("the zip archive was", self._object.key)

    def _nothing(self, names: Sequence[str], spans: Columns, expect: Versions | None) -> Fetched:
        """The answer without an archive."""
        entries = Entries(NO_ENTRIES, ABSENT, b"", version_is_unique=True)
        status = [STALE if expected else ABSENT_KEY for expected in expect or [None] * len(names)]
        rows = np.full((len(spans), 3), (MISSING, 0, 0), np.int64)
        held = Fetched(Sources(None, ()), [ABSENT_KEY], [None], np.full(1, -1, np.int64), NO_SPANS)
        resume = ReadEntries(held, entries, entries.find(names))
        sizes = np.full(len(names), -1, np.int64)
        return Fetched(Sources(None, ()), status, [None] * len(names), sizes, rows, None, resume)

    def _continued(self, names: Sequence[str], spans: Columns, expect: Versions | None, before: Fetched) -> Fetched:
        answer = continued(before, ReadEntries)
        version = answer.held.versions[0]
        if version is None and answer.held.status[0] == ABSENT_KEY:
            return self._nothing(names, spans, expect)
        fetched = fetch_entries(self._object, answer.entries, answer.table, names, spans, expect, version, answer.held)
        if fetched is not None:
            return fetched
        stale = self._nothing(names, spans, None)
        return stale._replace(
            status=[STALE if state == FOUND else state for state in before.status], versions=before.versions
        )

    def _look(self) -> Fetched:
        """The archive as it is now. Raises StoreError if a folder is in its place."""
        head = self._object.store.fetch([self._object.key], NO_SPANS)
        if head.status[0] == FOLDER:
            raise StoreError(
                "there is a folder where a zip archive is expected", path=self.path, hint="open it as a folder"
            )
        return head

    def _refreshed(self) -> Entries:
        """The entries of the archive as it is now. Needs the lock of this store."""
        entries = self._entries
        if self._file is not None and entries is not None:
            return entries  # no other process changes it
        for _ in attempts(READS):
            head = self._look()
            version = head.versions[0] if head.status[0] == FOUND else ABSENT
            if entries is not None and entries.version_is_unique and entries.version == version and version is not None:
                return entries
            loaded = self._loaded(head, version)
            if loaded is not None:
                self._entries = loaded
                return loaded
        raise replaced("the zip archive was", self._object.key)

    def _loaded(self, head: Fetched, version: Version | None) -> Entries | None:
        """None if the archive changed meanwhile."""
        if version == ABSENT:
            return Entries(NO_ENTRIES, ABSENT, b"", version_is_unique=True)
        try:
            directory = load_directory(self._object, head)
        except FormatError as error:
            if self._look().versions[0] != head.versions[0]:
                return None
            error.path = self.path
            raise
        if directory is None or self._look().versions[0] != head.versions[0]:
            return None
        recent = bool(head.version_may_repeat and head.version_may_repeat[0])
        return Entries(directory, version, self._mark(version), version_is_unique=not recent)

    def _mark(self, version: Version | None) -> bytes:
        """The beginning of the versions of entries: for a file, which is appended to, its inode; else a digest of the version of the object, as caches on disk
        keep no long versions."""
        if self.file is not None:
            return (version or b"")[:8]
        return blake2b(version or b"", digest_size=16).digest()

    # --- listing -----------------------------------------------------------------------------------------------------------------------

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        with self._exclusive():
            entries = self._refreshed()
            keys = entries.sorted_keys()
        rows = entries.keys_below(prefix) if delimited else _keys_after(entries, keys, prefix, after)
        page = page_of(first_level(rows, prefix) if delimited else rows, after, limit)
        if not details:
            return page
        values = [key for key in page.keys if key[-1] != "/"]
        found = entries.find(values)
        sizes, versions = np.full(len(page.keys), -1, np.int64), dict(zip(values, entries.versions(found), strict=True))
        sizes[~page.prefixes()] = found["size"]
        return page._replace(
            sizes=sizes,
            versions=[versions.get(key) for key in page.keys],
            modified=np.full(len(page.keys), -1, np.int64),
        )

    # --- writing -----------------------------------------------------------------------------------------------------------------------

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        """As the port says. All values of a call are stored, or, if it fails, none."""
        self.require("writable")
        for name in names:
            check_name(name, InvalidInputError)
            if len(name.encode()) > 2**16 - 1:
                raise InvalidInputError("a name in a zip archive must have at most 65535 bytes", key=name)
        values = join_pieces(pieces, names)
        stamp = dos_stamp(time.time())
        with self._writing() as (file, entries):
            new: list[tuple[str, Entry]] = []
            parts: list[bytes] = []
            answers: list[Version | Changed] = []
            at = entries.end
            present = _present(entries, names)
            for name, value, expected, version in zip(names, values, expect, present, strict=True):
                if expected is not None and expected != version:
                    answers.append(Changed(version))
                    continue
                entry, header = _entry(name.encode(), value, at, stamp)
                new.append((name, entry))
                parts += [header, value]
                at = entry.data + entry.size
                answers.append(entries.version_of(entry))
            if new:
                file.begin(entries.end)
                file.write(_joined(parts), entries.end)
                for name, entry in new:
                    entries.put(name, entry)
                entries.end = at
                entries.version = file.version()
        return answers

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        """As the port says; also of prefixes."""
        self.require("erasable")
        if self._file is None and self._look().status[0] == ABSENT_KEY:
            return [None if not expected else Changed(ABSENT) for expected in expect]
        with self._writing() as (file, entries):
            if is_prefix(names):
                erased = list(entries.keys_below(names[0]))
                answers: list[Changed | None] = [None]
            else:
                answers = [
                    None if expected is None or expected == version else Changed(version)
                    for expected, version in zip(expect, _present(entries, names), strict=True)
                ]
                erased = [
                    name for name, answer in zip(names, answers, strict=True) if answer is None and entries.has(name)
                ]
            if erased:
                file.begin(entries.end)
                for name in erased:
                    entries.erase(name)
        return answers

    @contextmanager
    def _writing(self) -> Iterator[tuple[ArchiveFile, Entries]]:
        """While no other process changes the archive. Afterwards it is whole, unless inside of `with`. If the block fails, the archive is as before."""
        with self._exclusive():
            file = self._file or self._opened()
            self._file = file
            assert self._entries is not None
            try:
                yield file, self._entries
            except BaseException:
                if self._held:
                    self._entries.version = file.version()  # the unfinished data is after the entries
                else:
                    self._abandon(file)
                raise
            if not self._held:
                self._finish(file)

    def _opened(self) -> ArchiveFile:
        assert self.file is not None
        file = open_archive(self.file, sync=self.sync)
        try:
            if file.restore():
                self._entries = None
            self._refreshed()
        except BaseException:
            file.close()
            raise
        return file

    def _abandon(self, file: ArchiveFile) -> None:
        self._file = self._entries = None
        try:
            file.restore()
        finally:
            file.close()

    def _finish(self, file: ArchiveFile) -> None:
        """Writes the directory, if anything changed, and releases the archive."""
        entries = self._entries
        assert entries is not None
        if not file.is_changed:
            self._file = None
            file.close()
            return
        try:
            directory = entries.directory_bytes()
            file.finish(directory, entries.end)
        except BaseException:
            self._abandon(file)
            raise
        self._file = None
        try:
            entries.version, entries.version_is_unique = file.version(), True
            if entries.end - entries.live > entries.live + _UNUSED_LIMIT:
                with suppress(StoreError):  # such as a full disk: then the archive is not made smaller
                    rewrite_archive(file, directory, entries.end)
                self._entries = None
            elif len(entries.changed) > max(_MERGED, len(entries.directory.keys)):
                self._entries = None
        except BaseException:
            self._entries = None
            raise
        finally:
            file.close()


def _present(entries: Entries, names: Sequence[str]) -> list[Version]:
    return [version or ABSENT for version in entries.versions(entries.find(names))]


def _entry(name: bytes, value: bytes, at: int, stamp: int) -> tuple[Entry, bytes]:
    checksum = crc32(value)
    header = local_header(name, len(value), checksum, stamp)
    record = central_record(name, at, len(value), checksum, stamp)
    return Entry(at, at + len(header), len(value), checksum, record), header


def _joined(parts: list[bytes]) -> list[bytes]:
    """Joins small parts, for fewer system calls."""
    return [b"".join(parts)] if sum(map(len, parts)) <= 2**20 else parts


def _keys_after(entries: Entries, keys: Sequence[str], prefix: str, after: str) -> Iterator[str]:
    if not after or after < prefix:
        return entries.keys_below(prefix)
    first = bisect_right(keys, after)
    return (key for key in islice(keys, first, None) if key.startswith(prefix))
