"""Files created in one piece beneath an open root, from other files or from a stream of bytes: the name appears when all is written. Never through a link;
see folders.py.

No locks are taken: copies create keys that no other process writes yet (Store.copy_in). Files are copied by the kernel, which lets the system do it if it
can."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from errno import EINVAL, EIO, EISDIR, ENOENT, ENOSYS, ENOTSUP, EOPNOTSUPP
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.errors import FrazilError, StoreError
from frazil.stores.local.folders import LOCK_SUFFIX
from frazil.stores.local.hard_links import ABSENT, OpenFolders, sync_folders
from frazil.stores.local.system_errors import refused

if TYPE_CHECKING:
    from frazil._kernel import Buffer

__all__ = ["copy_files", "sync_files", "unlink_files", "write_file"]

_CHANGED: Final = -2
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS: Final = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
_OPEN_ONES: Final = "/proc/self/fd"  # where files without a name can be opened
_HAS_NAMELESS: Final = hasattr(os, "O_TMPFILE") and os.path.isdir(_OPEN_ONES)
_NO_NAMELESS: Final = frozenset((EOPNOTSUPP, ENOTSUP, EISDIR, EINVAL, ENOENT, ENOSYS))  # the disk has no such files


def copy_files(
    source: int, root: int, sources: Sequence[str], names: Sequence[str], *, sync: bool, threads: int = 1
) -> list[int]:
    """Makes each name beneath `root` a copy of its source beneath another root, with its time of change. Returns their bytes, ABSENT if the source is no file.
    Raises StoreError with the key; others may have been copied."""
    result = np.empty((len(names), 2), np.int64)
    _kernel.copy_files(source, sources, root, names, sync, threads, result)
    answers: list[list[int]] = result.tolist()
    sizes = [size if code == 0 else code for code, size in answers]
    if answers and (max(answers)[0] > 0 or min(sizes) < ABSENT):
        _raise_first(answers, sources, names)
    if sync:
        made = compress(names, [size >= 0 for size in sizes])
        sync_folders(root, {name.rpartition("/")[0] for name in made})
    return sizes


def sync_files(root: int, names: Sequence[str]) -> list[str]:
    """Syncs files beneath a root, their names and the folders above them to the medium. Returns the missing names. Raises StoreError with the key: with `done`
    False if a file could not be opened, so that nothing was lost."""
    folders, absent = {""}, []
    for name in names:
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        except FileNotFoundError:
            absent.append(name)
            continue
        except OSError as error:
            raise refused("cannot be synced", error.errno or 0, name, done=False) from error
        try:
            os.fsync(file)
        except OSError as error:
            raise refused("cannot be synced", error.errno or 0, name) from error
        finally:
            os.close(file)
        while folder := name.rpartition("/")[0]:
            folders.add(folder)
            name = folder
    sync_folders(root, folders)
    return absent


def unlink_files(root: int, names: Sequence[str], *, sync: bool) -> None:
    """Removes files that are never written again; each folder is synced once. Raises StoreError with the key; others may have been removed."""
    result = np.empty(len(names), np.int64)
    _kernel.unlink_files(root, names, result)
    for row in np.flatnonzero(result > 0).tolist():
        raise refused("cannot be erased", result.item(row), names[row])
    if sync:
        sync_folders(root, {name.rpartition("/")[0] for name in names})


def _raise_first(answers: Sequence[Sequence[int]], sources: Sequence[str], names: Sequence[str]) -> None:
    for (code, side), source, name in zip(answers, sources, names, strict=True):
        if code == _CHANGED:
            raise StoreError(
                "the file changed during each attempt to copy it",
                key=source,
                hint="copy it while no process writes to it",
            )
        if code > 0:
            raise refused("cannot be written", code, name) if side else refused("cannot be read", code, source)


def write_file(root: int, name: str, parts: Iterable[Buffer], *, sync: bool) -> None:
    """Creates a file of these bytes. Raises StoreError with the key, and the errors of `parts`; then no file is created."""
    folders = OpenFolders(root, make=True)
    try:
        try:
            folder, base = _made(folders, name)
            _write_new(folder, base, parts, sync)
        except FrazilError:  # some of which are OSErrors, too
            raise
        except OSError as error:
            raise refused("cannot be written", error.errno or EIO, name) from error
        if sync:
            sync_folders(root, folders.used)
    finally:
        folders.close()


def _write_new(folder: int, base: str, parts: Iterable[Buffer], sync: bool) -> None:
    made, between = _new(folder)
    try:
        _keep_mode(made, folder, base)
        for part in parts:
            rest = memoryview(part).cast("B")  # type: ignore[arg-type] # as NumPy's arrays are
            while len(rest):
                rest = rest[os.write(made, rest) :]
        if sync:
            os.fsync(made)
        _publish(made, between, folder, base)
        between = None
    finally:
        os.close(made)
        if between is not None:
            os.unlink(between, dir_fd=folder)


def _keep_mode(made: int, folder: int, base: str) -> None:
    """Gives a file that is still empty the permissions of the file that it will replace."""
    try:
        mode = os.stat(base, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    os.fchmod(made, mode & 0o777)


def _made(folders: OpenFolders, name: str) -> tuple[int, str]:
    made = folders.of(name)
    assert made is not None, "folders that are missing are made"
    return made


def _new(folder: int) -> tuple[int, str | None]:
    """A file to write. On disks that support it the file has no name, so that nothing is left if its writer is killed; else it has this name, which listings
    do not show."""
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


def _publish(made: int, between: str | None, folder: int, base: str) -> None:
    """Gives a written file its name, replacing an old file. If this fails, the caller removes the file with the temporary name."""
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
