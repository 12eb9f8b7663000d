"""Changing a zip archive that is a local file: its lock, the journal that undoes the changes of a killed writer, appended entries, a new
directory, and a new file without unused parts.

The steps, and what a reader finds after each, are in docs/design/069-zip.md. The entries are in directory.py."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from struct import Struct, error
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from frazil import _kernel
from frazil.base.arrays import offsets_of
from frazil.base.record import Record
from frazil.base.retry import FREE_FILES, attempts
from frazil.errors import FormatError, StoreError
from frazil.stores.local.folders import sync_names
from frazil.stores.local.kernel_results import pack_version
from frazil.stores.local.local_store import LocalStore
from frazil.stores.local.system_errors import reason_of, refused
from frazil.stores.values import Columns, Version
from frazil.stores.zip.directory import (
    CENTRAL,
    DESCRIPTOR,
    FIXED,
    Directory,
    end_records,
    extra_lengths,
    find_end,
    parse_directory,
)

if TYPE_CHECKING:
    from frazil._kernel import Buffer

JOURNAL: Final = ".journal"  # added to the name of the archive
_NEW: Final = ".frazil-new"  # added to the name of an unfinished file; one that exists is removed
_HEAD: Final = Struct("<8sQQQI")
_MARK: Final = b"frazil\0\2"
_PART: Final = 2**24  # bytes that the system copies in one call
_LONGEST: Final = 24  # bytes of the numbers after the data, of which there are at least 12
_BUSY: Final = frozenset((errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK))


class Journal(Record):
    """The end of an archive before a change. inode, born: of the archive, as from _kernel.birth_time; start: where its directory began; tail: all bytes from
    there"""

    inode: int
    born: int
    start: int
    tail: bytes

    def is_of(self, fd: int) -> bool:
        """Whether it belongs to this open file, and not to an earlier file with the same name or inode."""
        return (self.inode, self.born) == (os.fstat(fd).st_ino, _kernel.birth_time(fd))

    def is_of_name(self, name: str, folder: int) -> bool:
        """As is_of, for a file by its name in an open folder; False if it is missing. Raises StoreError."""
        with _store_errors(name, "read"), suppress(FileNotFoundError):
            with open(name, "rb", opener=partial(os.open, dir_fd=folder)) as file:
                return self.is_of(file.fileno())
        return False


def parse_journal(raw: bytes) -> Journal:
    """Raises FormatError."""
    try:
        mark, inode, born, start, checksum = _HEAD.unpack_from(raw)
    except error:
        mark, inode, born, start, checksum = b"", 0, 0, 0, 0
    tail = raw[_HEAD.size :]
    if mark != _MARK or crc32(tail) != checksum:
        raise FormatError(
            "the journal of a zip archive is damaged",
            hint="the machine crashed while the archive was written; restore the archive from a copy, or try zip -FF, and remove its journal",
        )
    return Journal(inode, born, start, tail)


class ArchiveFile:
    """An archive that is open for writing, under a lock that no other writer has. The lock is released when it is dropped, as by an interrupt."""

    __slots__ = ("_file", "_journaled", "path", "sync")

    def __init__(self, path: str, file: FileIO, sync: bool) -> None:
        self.path, self._file, self.sync, self._journaled = path, file, sync, False

    @property
    def fd(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        """Releases the lock. Raises StoreError."""
        with _store_errors(self.path, "written"):
            self._file.close()

    @property
    def is_changed(self) -> bool:
        """Whether anything was written since the archive was whole."""
        return self._journaled

    @property
    def is_empty(self) -> bool:
        """Whether the file has no bytes."""
        return os.fstat(self.fd).st_size == 0

    def heads(self, offsets: Sequence[int]) -> list[bytes]:
        """The first 30 bytes at each offset: local headers."""
        with _store_errors(self.path, "read"):
            return [os.pread(self.fd, FIXED, offset) for offset in offsets]

    def version(self) -> Version:
        stat = os.fstat(self.fd)
        return pack_version(stat.st_ino, stat.st_size, stat.st_mtime_ns)

    def restore(self) -> bool:
        """Undoes the changes of a killed writer, or of this one, and removes its unfinished files. Returns whether there were changes. A journal of another
        file stays: if both were copied, it has the only directory. The next change replaces it. Raises StoreError, FormatError."""
        for unfinished in (self.path + _NEW, self.path + JOURNAL + _NEW):
            with suppress(OSError):
                os.unlink(unfinished)
        with _store_errors(self.path, "restored"):
            try:
                with open(self.path + JOURNAL, "rb") as file:
                    journal = parse_journal(file.read())
            except FileNotFoundError:
                return False
            if not journal.is_of(self.fd):
                return False
            _write(self.fd, journal.tail, journal.start)
            os.ftruncate(self.fd, journal.start + len(journal.tail))
            _flush(self.path, self.fd, self.sync)
            os.unlink(self.path + JOURNAL)
            self._journaled = False
            return True

    def begin(self, end: int) -> None:
        """Saves the old directory in the journal, before it is overwritten. end: of the entries."""
        if self._journaled:
            return
        with _store_errors(self.path, "written"):
            stat = os.fstat(self.fd)
            self._file.seek(end)
            tail = self._file.read()
            journal = self.path + JOURNAL + _NEW
            try:
                with open(journal, "wb") as file:
                    file.write(_HEAD.pack(_MARK, stat.st_ino, _kernel.birth_time(self.fd), end, crc32(tail)) + tail)
                    if self.sync:
                        file.flush()
                        os.fsync(file.fileno())
                os.rename(journal, self.path + JOURNAL)
            except OSError:
                with suppress(OSError):
                    os.unlink(journal)
                raise
            self._sync_folder()
            self._journaled = True

    def write(self, parts: Sequence[Buffer], at: int) -> None:
        with _store_errors(self.path, "written"):
            for part in parts:
                at += _write(self.fd, part, at)

    def finish(self, directory: bytes, end: int) -> None:
        """Writes the new directory; then the archive is whole. Its time of change increases, so that its version changes."""
        with _store_errors(self.path, "written"):
            before = os.fstat(self.fd).st_mtime_ns
            _write(self.fd, directory, end)
            os.ftruncate(self.fd, end + len(directory))
            stat = os.fstat(self.fd)
            if stat.st_mtime_ns <= before:
                with suppress(PermissionError):  # of a process that may write the file, but does not own it
                    os.utime(self.fd, ns=(stat.st_atime_ns, before + 1))
            _flush(self.path, self.fd, self.sync)
            os.unlink(self.path + JOURNAL)
            self._sync_folder()
            self._journaled = False

    def rewrite(self, spans: Sequence[tuple[int, int]], directory: bytes) -> None:
        """Replaces the archive by a new one with these spans (start, bytes) of it, one after the other, and a directory. This object keeps the old one open."""
        new_path = self.path + _NEW  # under the lock only one process creates it
        with _store_errors(self.path, "rewritten"), suppress(FileNotFoundError):
            os.unlink(new_path)
        with (
            _store_errors(self.path, "rewritten"),
            open(new_path, "x+b", buffering=0, opener=partial(os.open, mode=0o600)) as file,
        ):
            fd = file.fileno()
            try:
                # the next writer waits until the journal is removed, which would be its own
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                at = 0
                for start, length in spans:
                    _copy(self.fd, fd, start, length, at)
                    at += length
                _write(fd, directory, at)
                os.fchmod(fd, os.fstat(self.fd).st_mode & 0o7777)
                _flush(new_path, fd, self.sync)
                os.rename(new_path, self.path)
            except BaseException:
                with suppress(FileNotFoundError):  # an interrupt came after the rename
                    os.unlink(new_path)
                raise
            with suppress(FileNotFoundError):  # it could be restored into a later file of the same inode
                os.unlink(self.path + JOURNAL)
            self._sync_folder()

    def _sync_folder(self) -> None:
        if self.sync:
            folder = _kernel.Descriptor(os.path.dirname(self.path))
            sync_names(folder.fd)


def rewrite_archive(file: ArchiveFile, tail: bytes, start: int) -> None:
    """Replaces an archive that is whole by one without unused parts. tail: all bytes from its directory on, which begins at `start`. Raises StoreError; then
    the archive is unchanged."""
    end = find_end(tail, start + len(tail))
    assert end is not None, "the archive is whole"
    directory = parse_directory(tail[: end.length], end)
    order = np.argsort(directory.table["header"][:-1])
    table = directory.table[order]
    header = table["header"]
    heads = np.frombuffer(b"".join(file.heads(header.tolist())), np.uint8).reshape(-1, FIXED)
    last = header + FIXED + table["name"] + table["stored"] + extra_lengths(heads)
    last = np.where(table["flags"] & DESCRIPTOR, np.minimum(last + _LONGEST, table["bound"]), last)
    spans = np.stack((header, last - header), axis=1)
    file.rewrite([(a, n) for a, n in spans.tolist()], _moved(directory, order, spans[:, 1]))


def _moved(directory: Directory, order: Columns, lengths: Columns) -> bytes:
    """The directory of the entries, in this order, one after the other."""
    offsets = offsets_of(lengths).tolist()
    records: list[bytes] = []
    for row, offset in zip(order.tolist(), offsets[:-1], strict=True):
        first, last, at = directory.record[row].tolist()
        record, at = bytearray(directory.raw[first:last]), at - first
        width = 4 if at < CENTRAL.size else 8
        record[at : at + width] = offset.to_bytes(width, "little")
        records.append(bytes(record))
    raw = b"".join(records)
    return raw + end_records(offsets[-1], len(raw), len(records), directory.comment)


def _flush(path: str, fd: int, sync: bool) -> None:
    """Reports a full disk, for an open file and its path; sync: and writes the file to the medium."""
    if sync:
        os.fsync(fd)
        return
    try:
        file = open(path, "r+b", buffering=0)  # noqa: SIM115 # closed at once
    except OSError:  # too many files are open
        return
    file.close()  # a network file system reports a full disk when a descriptor is closed


def open_archive(path: str, *, sync: bool) -> ArchiveFile:
    """The archive at an absolute path, locked; a missing one is created empty. Raises StoreError."""
    with _store_errors(path, "written"):
        if os.path.islink(path):
            raise refused("cannot be written", errno.ELOOP, os.path.basename(path))
        for _ in attempts(FREE_FILES):
            try:
                file = open(path, "r+b", buffering=0)  # noqa: SIM115 # closed by the archive
            except FileNotFoundError:
                _create(path, sync=sync)
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(file.fileno()).st_ino == os.stat(path, follow_symlinks=False).st_ino:
                    return ArchiveFile(path, file, sync)
            except FileNotFoundError:
                pass
            except OSError as fault:
                if fault.errno not in _BUSY:
                    file.close()
                    raise
            file.close()
    raise StoreError(
        "another writer has the zip archive open",
        path=path,
        hint="a writer in a block `with ZipStore(...)` keeps it open until the block ends; write to several archives, or to a folder",
    )


def _create(path: str, *, sync: bool) -> None:
    """Creates an empty archive, unless another process has created one."""
    folder, name = os.path.split(path)
    LocalStore(folder, sync=sync).create(name, end_records(0, 0, 0))


@contextmanager
def _store_errors(path: str, action: str) -> Iterator[None]:
    try:
        yield
    except (FormatError, StoreError) as error:
        error.path = path
        raise
    except OSError as fault:
        reason, hint = reason_of(fault.errno or errno.EIO)
        raise StoreError(
            f"the zip archive cannot be {action}: {reason}", errno=fault.errno, path=path, hint=hint
        ) from fault


def _write(fd: int, part: Buffer, at: int) -> int:
    remaining = memoryview(part).cast("B")  # type: ignore[arg-type] # all buffers here are of this type
    written = 0
    while written < len(remaining):
        written += os.pwrite(fd, remaining[written : written + 2**30], at + written)
    return written


def _copy(source: int, target: int, start: int, length: int, at: int) -> None:
    while length:
        part = os.pread(source, min(length, _PART), start)
        if not part:
            raise StoreError("the zip archive was cut off while it was rewritten; it is as it was", errno=errno.EIO)
        _write(target, part, at)
        start, at, length = start + len(part), at + len(part), length - len(part)
