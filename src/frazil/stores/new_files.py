"""Files made in one piece beneath an open root, from other files or from a stream of bytes: nothing has the name before all is written. Never through a link;
see folders.py.

No locks are taken: whoever copies makes keys that nobody else writes yet (Store.copy_in). Bytes go from file to file inside the system where it can."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from errno import EBADF, EINVAL, EIO, EISDIR, ENOENT, ENOSYS, ENOTSUP, EOPNOTSUPP, EPERM, EXDEV
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Final

from frazil.errors import StoreError
from frazil.stores.disk_errors import NOWHERE, refused
from frazil.stores.folders import LOCK_SUFFIX
from frazil.stores.linking import OpenFolders, sync_folders

if TYPE_CHECKING:
    from frazil._kernel import Buffer

__all__ = ["copy_files", "write_file"]

ABSENT: Final = -1
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # of a pipe nobody waits for the other end
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS: Final = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
_OPEN_ONES: Final = "/proc/self/fd"  # where files without a name are found
_HAS_NAMELESS: Final = hasattr(os, "O_TMPFILE") and os.path.isdir(_OPEN_ONES)
_NO_NAMELESS: Final = frozenset((EOPNOTSUPP, ENOTSUP, EISDIR, EINVAL, ENOENT, ENOSYS))  # the disk has no such files
_NOT_INSIDE: Final = frozenset((EXDEV, ENOSYS, EINVAL, EOPNOTSUPP, ENOTSUP, EPERM, EBADF))  # not from this file to that
_MOST: Final = 2**30  # bytes of one call of the system
_BUFFER: Final = 2**18
_ATTEMPTS: Final = 3


def copy_files(source: int, root: int, sources: Sequence[str], names: Sequence[str], *, sync: bool) -> list[int]:
    """Makes each name beneath `root` a copy of its source beneath another root, with its time of change: how many bytes it has, ABSENT where no file is the source.
    Raises StoreError with the key."""
    outer, inner = OpenFolders(source, make=False), OpenFolders(root, make=True)
    try:
        sizes = [_copied(outer, inner, old, new, sync) for old, new in zip(sources, names, strict=True)]
        if sync:
            sync_folders(root, inner.used)
    finally:
        outer.close()
        inner.close()
    return sizes


def write_file(root: int, name: str, parts: Iterable[Buffer], *, sync: bool) -> None:
    """Makes a file of these bytes. Raises StoreError with the key, and what `parts` raises; then nothing is there."""
    folders = OpenFolders(root, make=True)
    try:
        try:
            folder, base = _made(folders, name)
            _write_new(folder, base, parts, sync)
        except StoreError:
            raise
        except OSError as error:
            raise refused("cannot be written", error.errno or EIO, name) from error
        if sync:
            sync_folders(root, folders.used)
    finally:
        folders.close()


def _copied(outer: OpenFolders, inner: OpenFolders, source: str, name: str, sync: bool) -> int:
    try:
        held = outer.of(source)
        if held is None:
            return ABSENT
        for _ in range(_ATTEMPTS):
            where, base = held
            file = os.open(base, _READ, dir_fd=where)
            try:
                size = _copy_open(file, source, inner, name, sync)
            finally:
                os.close(file)
            if size is not None:
                return size
    except StoreError:
        raise
    except OSError as error:
        if error.errno in NOWHERE:
            return ABSENT
        raise refused("cannot be read", error.errno or EIO, source) from error
    raise StoreError(
        f"the file was changed in place while each of {_ATTEMPTS} copies of it was made",
        key=source,
        hint="copy it when nobody writes to it",
    )


def _copy_open(file: int, source: str, inner: OpenFolders, name: str, sync: bool) -> int | None:
    """Copies an open file: its size; ABSENT for a folder; None where it was changed meanwhile, and the name is as it was. What goes wrong in writing is
    a StoreError with the name, other errors are those of the source."""
    before = os.fstat(file)
    if not S_ISREG(before.st_mode):
        if S_ISDIR(before.st_mode):
            return ABSENT
        raise refused("cannot be read", EINVAL, source)
    size = before.st_size
    try:
        folder, base = _made(inner, name)
        made, between = _new(folder)
        try:
            whole = _pour(file, made, size) == size
            after = os.fstat(file)
            if not whole or (after.st_size, after.st_mtime_ns) != (size, before.st_mtime_ns):
                return None
            os.utime(made, ns=(before.st_atime_ns, before.st_mtime_ns))
            if sync:
                os.fsync(made)
            _place(made, between, folder, base)
            between = None
        finally:
            os.close(made)
            if between is not None:
                os.unlink(between, dir_fd=folder)
    except OSError as error:
        raise refused("cannot be written", error.errno or EIO, name) from error
    return size


def _write_new(folder: int, base: str, parts: Iterable[Buffer], sync: bool) -> None:
    made, between = _new(folder)
    try:
        for part in parts:
            rest = memoryview(part).cast("B")  # type: ignore[arg-type] # which NumPy's arrays are
            while len(rest):
                rest = rest[os.write(made, rest) :]
        if sync:
            os.fsync(made)
        _place(made, between, folder, base)
        between = None
    finally:
        os.close(made)
        if between is not None:
            os.unlink(between, dir_fd=folder)


def _made(folders: OpenFolders, name: str) -> tuple[int, str]:
    made = folders.of(name)
    assert made is not None, "folders that are missing are made"
    return made


def _new(folder: int) -> tuple[int, str | None]:
    """A file to write, without a name where the disk has such files, so that nothing is left of it should its writer be killed; else with this name, which no listing
    shows."""
    if _HAS_NAMELESS:
        try:
            return os.open(".", _NAMELESS, 0o666, dir_fd=folder), None
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
    between = _between()
    return os.open(between, _NEW, 0o666, dir_fd=folder), between


def _between() -> str:
    return f".copy-{os.getpid()}-{os.urandom(8).hex()}{LOCK_SUFFIX}"


def _place(made: int, between: str | None, folder: int, base: str) -> None:
    """Gives a written file its name, over what is there. What stands between is the caller's to remove, should this fail."""
    if between is not None:
        os.rename(between, base, src_dir_fd=folder, dst_dir_fd=folder)
        return
    way = f"{_OPEN_ONES}/{made}"
    try:
        os.link(way, base, dst_dir_fd=folder, follow_symlinks=True)
        return
    except FileExistsError:
        between = _between()
    os.link(way, between, dst_dir_fd=folder, follow_symlinks=True)
    try:
        os.rename(between, base, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(between, dir_fd=folder)
        raise


def _pour(file: int, made: int, size: int) -> int:
    """Copies the first `size` bytes; how many there were."""
    done = 0
    if sys.platform == "linux":
        try:
            while done < size:
                count = os.copy_file_range(file, made, min(size - done, _MOST))
                if count == 0:
                    return done
                done += count
        except OSError as error:
            if done or error.errno not in _NOT_INSIDE:
                raise
    while done < size:
        part = os.read(file, min(size - done, _BUFFER))
        if not part:
            return done
        done += len(part)
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(made, rest) :]
    return done
