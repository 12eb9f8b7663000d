"""A folder with the files of a cache: opened, read, written, measured and trimmed, by any number of processes at once.

Nothing is locked: a file appears whole, its name describes its content, and it never changes. It holds one range of one version of one value. Store and key are
in the name only as a hash, so that no file name reveals a path or a secret. The file is a head (MAGIC, a CRC-32C of the name and the table, the table: a
CRC-32C for each block) and the range. A file whose name, length or content is not as written is never used. Which files are wanted is decided in disk_cache.py.
A folder that is no cache is never written, and in a cache only our files are removed."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import time
from collections.abc import Iterator
from errno import EACCES
from functools import partial
from hashlib import blake2b
from io import BufferedWriter, FileIO
from typing import TYPE_CHECKING, Final

from frazil import _kernel
from frazil.base.record import Record
from frazil.base.threads import to_its_end
from frazil.errors import InvalidInputError, StoreError

if TYPE_CHECKING:
    from frazil.stores.values import Version

BLOCK: Final = 2**18  # bytes that are read and checked together
SHARD: Final = 3  # hexadecimal digits of the hash that name a folder
LONGEST_VERSION: Final = 64  # bytes; values with a longer version are not kept, as file names have a limit

_MAGIC: Final = b"FRZLCCH1"
_CHECK: Final = struct.Struct("<I")
_NAME: Final = re.compile(
    rf"([0-9a-f]{{{32 - SHARD}}})\.(-|(?:[0-9a-f]{{2}})*)\.([0-9]{{1,19}})\.([0-9]{{1,19}})\.([0-9]{{1,19}})"
)
_TAG: Final = "CACHEDIR.TAG"  # tells backup programs to skip the folder (bford.info/cachedir)
_TAG_TEXT: Final = b"""Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of Frazil: encoded parts of arrays that lie elsewhere. It can be removed at any time; `frazil cache` shows and trims it.
"""
_TAG_CONTENT: Final = b"cache of Frazil"
_USE_INTERVAL: Final = 60.0  # seconds after which a use is recorded again
_UNFINISHED_AGE: Final = 3600.0  # seconds after which an unfinished file has no writer any more
_DIGITS: Final = frozenset("0123456789abcdef")


class Usage(Record):
    """files: whole ones; nbytes: of all files, unfinished ones too; oldest, newest: the times of last use, ns since 1970, None without files."""

    files: int
    nbytes: int
    oldest: int | None
    newest: int | None


class CacheFolder:
    """Created by open_folder. Holds no state except its path; pickles."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path: Final = path

    def __repr__(self) -> str:
        return f"CacheFolder({self.path!r})"

    # --- files ---------------------------------------------------------------------------------------------------------------------

    def entries(self, object_id: str) -> list[Entry]:
        folder, start = object_id[:SHARD], object_id[SHARD:] + "."
        try:
            names = os.listdir(f"{self.path}/{folder}")
        except OSError:
            return []
        found = [parse_name(folder, name) for name in names if name.startswith(start)]
        return [entry for entry in found if entry is not None]

    def changed_at(self, object_id: str) -> int:
        """When files in the folder of an object were last added or removed, ns since 1970; 0 without a folder."""
        try:
            return os.stat(f"{self.path}/{object_id[:SHARD]}").st_mtime_ns
        except OSError:
            return 0

    def read(self, entry: Entry, first: int, count: int) -> tuple[int, bytes] | None:
        """Bytes that hold first to first + count of the value, and where they begin; None if the file is missing, or invalid: then it is removed."""
        try:
            with to_its_end(partial(FileIO, self._path(entry), opener=_open_to_read)) as file:
                found = _read(file.fileno(), entry, first, count)
        except OSError:
            return None
        if found is None:
            self.remove(entry)
        return found

    def used_at(self, entry: Entry) -> int:
        """When an entry was last used, ns since 1970; 0 if it is missing."""
        try:
            return os.stat(self._path(entry)).st_mtime_ns
        except OSError:
            return 0

    def write(self, entry: Entry, value: bytes | memoryview) -> bool:
        """Keeps a range, if it can be written: a cache that cannot write is less useful, but no reason to fail. Returns whether it was written."""
        folder = f"{self.path}/{entry.folder}"
        part = f"{folder}/.{os.getpid()}.{os.urandom(6).hex()}"
        try:
            create = partial(FileIO, part, "xb", opener=_create)
            try:
                file = to_its_end(create)
            except FileNotFoundError:
                os.makedirs(folder, 0o700, exist_ok=True)
                file = to_its_end(create)
            with BufferedWriter(file) as stream:
                stream.write(entry_head(entry, value))
                stream.write(value)
            os.replace(part, self._path(entry))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(part)
            return False
        return True

    def remove(self, entry: Entry) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path(entry))

    def _path(self, entry: Entry) -> str:
        return f"{self.path}/{entry.folder}/{entry.name}"

    # --- the whole -----------------------------------------------------------------------------------------------------------------

    def usage(self) -> Usage:
        """Raises StoreError where the folder cannot be read."""
        found = [(used, size, whole) for _, used, size, whole in self._walk()]
        times = [used for used, _, whole in found if whole]
        return Usage(len(times), sum(size for _, size, _ in found), min(times, default=None), max(times, default=None))

    def trim(self, nbytes: int) -> Usage:
        """Removes the least recently used files until at most `nbytes` bytes are left, and unfinished files without a writer. Returns the usage after that.

        nbytes  0: everything is removed, also files that are being written
        Files that only another user may remove are left out. Raises StoreError where the folder cannot be read or changed."""
        abandoned = time.time_ns() - int(_UNFINISHED_AGE * 1e9)
        found = sorted(self._walk(), key=lambda file: file[1])
        total, remaining = sum(size for _, _, size, _ in found), []
        for path, used, size, whole in found:
            if total > nbytes or nbytes == 0 or (not whole and used < abandoned):
                try:
                    os.unlink(path)
                except (FileNotFoundError, PermissionError):
                    pass  # another process trims too
                except OSError as error:
                    raise _unusable(self.path, error) from error
                total -= size
            else:
                remaining.append((used, whole))
        times = [used for used, whole in remaining if whole]
        return Usage(len(times), total, min(times, default=None), max(times, default=None))

    def _walk(self) -> Iterator[tuple[str, int, int, bool]]:
        """Path, time of last use, bytes, and whether it is whole, of every file of the cache."""
        try:
            folders = [name for name in os.listdir(self.path) if len(name) == SHARD and _DIGITS.issuperset(name)]
        except OSError as error:
            raise _unusable(self.path, error) from error
        for folder in folders:
            try:
                with os.scandir(f"{self.path}/{folder}") as files:
                    for file in files:
                        whole = parse_name(folder, file.name) is not None
                        if not whole and not file.name.startswith("."):
                            continue
                        with contextlib.suppress(FileNotFoundError):
                            stat = file.stat(follow_symlinks=False)
                            yield file.path, stat.st_mtime_ns, stat.st_size, whole
            except (FileNotFoundError, NotADirectoryError, PermissionError):  # also one of another user, such as root
                continue
            except OSError as error:
                raise _unusable(self.path, error) from error


def open_folder(path: str | os.PathLike[str], *, make: bool = True) -> CacheFolder:
    """The cache in a folder, which is created if it is missing; make=False: it must exist, and be a cache.

    Raises InvalidInputError for a folder with other content, StoreError for one that cannot be created or written."""
    try:
        text = os.fspath(path)
        os.fsencode(text)
    except (TypeError, UnicodeEncodeError):
        text = ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInputError(f"a cache must be the path of a folder, not {path!r}", hint='cache="folder"')
    text = os.path.abspath(text)
    try:
        tagged = _is_tagged(text)
        if not tagged and make:
            os.makedirs(text, 0o700, exist_ok=True)
            names = os.listdir(text)
            if _TAG in names:  # of another program, or of a process that was faster
                tagged = _is_tagged(text)
            elif all(name.startswith(_TAG) for name in names):
                _write_tag(text)
                tagged = True
    except OSError as error:
        raise _unusable(text, error) from error
    if make and tagged and not os.access(text, os.W_OK | os.X_OK):
        raise _unusable(text, OSError(EACCES, "it cannot be written"))
    if not tagged:
        raise InvalidInputError(
            "the folder is not a cache: it contains other files" if os.path.isdir(text) else "there is no cache",
            path=text,
            hint="give a cache a folder of its own, new or empty",
        )
    return CacheFolder(text)


def _is_tagged(path: str) -> bool:
    try:
        with open(f"{path}/{_TAG}", "rb", opener=_open_to_read) as stream:
            return _TAG_CONTENT in (stream.read(1024) or b"")
    except FileNotFoundError:
        return False


def _open_to_read(path: str, flags: int) -> int:
    """Does not wait for a writer where a named pipe has taken the place of a file."""
    return os.open(path, flags | os.O_NONBLOCK)


def _create(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write_tag(path: str) -> None:
    part = f"{path}/{_TAG}.{os.getpid()}.{os.urandom(6).hex()}"
    with open(part, "xb") as stream:
        stream.write(_TAG_TEXT)
        stream.flush()
        os.fsync(stream.fileno())  # with an empty tag, after a crash of the machine, the folder would be no cache
    os.replace(part, f"{path}/{_TAG}")


def _unusable(path: str, error: OSError) -> StoreError:
    return StoreError(
        f"the folder of the cache cannot be used: {error.strerror or error}",
        errno=error.errno,
        path=path,
        hint="give cache= a folder that this user can write, or leave it out",
    )


def _read(descriptor: int, entry: Entry, first: int, count: int) -> tuple[int, bytes] | None:
    """CacheFolder.read, of an open file; None if it is invalid."""
    before = head_size(entry)
    stat = os.fstat(descriptor)
    if stat.st_size != before + entry.end - entry.start:
        return None
    checks = read_head(entry, os.pread(descriptor, before, 0))
    if checks is None:
        return None
    low, blocks = block_span(entry, first, count)
    length = min(blocks * BLOCK, entry.end - entry.start - low * BLOCK)
    value = os.pread(descriptor, length, before + low * BLOCK)
    view = memoryview(value)
    for number in range(blocks):
        if _kernel.crc32c(view[number * BLOCK : (number + 1) * BLOCK]) != checks[low + number]:
            return None
    if len(value) != length:
        return None
    if time.time() - stat.st_mtime > _USE_INTERVAL:
        with contextlib.suppress(OSError):
            os.utime(descriptor)
    return entry.start + low * BLOCK, value


# --- files by their names and heads ----------------------------------------------------------------------------------------------------------


class Entry(Record):
    """The content of one file: bytes `start` to `end` of a value of `size` bytes. object: 32 digits, of store and key; version: None if the store has none."""

    object: str
    version: Version | None
    start: int
    end: int
    size: int

    @property
    def folder(self) -> str:
        return self.object[:SHARD]

    @property
    def name(self) -> str:
        version = "-" if self.version is None else self.version.hex()
        return f"{self.object[SHARD:]}.{version}.{self.start}.{self.end}.{self.size}"


def object_id(identity: str, key: str) -> str:
    """32 hexadecimal digits for a key of the store that `identity` identifies."""
    data = f"{len(identity)} {identity}{key}".encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=16).hexdigest()


def parse_name(folder: str, name: str) -> Entry | None:
    """The entry of a file from its name; None if it is not one of our files."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    digits, version, *numbers = found.groups()
    start, end, size = map(int, numbers)
    if not start < end <= size:
        return None
    return Entry(folder + digits, None if version == "-" else bytes.fromhex(version), start, end, size)


def _blocks(entry: Entry) -> int:
    return -(-(entry.end - entry.start) // BLOCK)


def head_size(entry: Entry) -> int:
    """Bytes before the range."""
    return len(_MAGIC) + _CHECK.size * (1 + _blocks(entry))


def entry_head(entry: Entry, value: bytes | memoryview) -> bytes:
    """The bytes before the range `value` in the file."""
    view = memoryview(value)
    table = b"".join(_CHECK.pack(_kernel.crc32c(view[at : at + BLOCK])) for at in range(0, len(value), BLOCK))
    return _MAGIC + _CHECK.pack(_check(entry, table)) + table


def read_head(entry: Entry, head: bytes) -> list[int] | None:
    """The checksums of the blocks of a file with this name; None if the head does not belong to such a file."""
    table = head[len(_MAGIC) + _CHECK.size :]
    if len(head) != head_size(entry) or not head.startswith(_MAGIC + _CHECK.pack(_check(entry, table))):
        return None
    return [number for (number,) in _CHECK.iter_unpack(table)]


def _check(entry: Entry, table: bytes) -> int:
    return _kernel.crc32c(table, _kernel.crc32c(f"{entry.folder}/{entry.name}".encode()))


def block_span(entry: Entry, first: int, count: int) -> tuple[int, int]:
    """(first block, blocks) that hold the bytes first to first + count of the value, which are in the entry."""
    low = (first - entry.start) // BLOCK
    return low, max(-(-(first + count - entry.start) // BLOCK) - low, 1)
