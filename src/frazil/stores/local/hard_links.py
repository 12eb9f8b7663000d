"""Hard links beneath an open root: a second name for a file, without copying it. Never through a link; see folders.py.

No locks are taken: the caller links keys that no other process writes yet (copy_in with `shares`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from errno import EACCES, EIO, ELOOP, EMLINK, ENOENT, ENOSYS, ENOTDIR, ENOTSUP, EOPNOTSUPP, EPERM, EXDEV
from stat import S_ISDIR, S_ISREG
from typing import Final

from frazil.stores.local.folders import LOCK_SUFFIX, enter_folder
from frazil.stores.local.system_errors import not_synced, refused

__all__ = ["ABSENT", "NEEDS_A_COPY", "OpenFolders", "link_files", "sync_folders"]

ABSENT: Final = -1
_MISSING: Final = frozenset((ENOENT, ENOTDIR, ELOOP))

# The disk has no hard links, does not allow this one, or the names are on two disks
NEEDS_A_COPY: Final = frozenset((EPERM, EACCES, EXDEV, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP))


class OpenFolders:
    """The folder that was entered last, and those above it, as neighbours are mostly in one folder. make: missing folders are created."""

    __slots__ = ("_make", "_open", "_parts", "_path", "used")

    def __init__(self, root: int, *, make: bool) -> None:
        self._make = make
        self._path: str | None = ""
        self._parts: list[str] = []
        self._open = [os.dup(root)]  # the root, and the folder of each part
        self.used: set[str] = set()

    def of(self, name: str) -> tuple[int, str] | None:
        """The folder of a name, and its last component; None if the folder does not exist. Raises OSError."""
        path, _, base = name.rpartition("/")
        if path != self._path:
            self._path = None  # in case this fails half-way
            if not self._enter(path.split("/") if path else []):
                return None
            self._path = path
        self.used.add(path)
        return self._open[-1], base

    def _enter(self, parts: list[str]) -> bool:
        common = 0
        for old, new in zip(self._parts, parts, strict=False):
            if old != new:
                break
            common += 1
        while len(self._parts) > common:
            self._parts.pop()
            os.close(self._open.pop())
        for part in parts[common:]:
            found = _inside(self._open[-1], part, self._make)
            if found is None:
                return False
            self._open.append(found)
            self._parts.append(part)
        return True

    def close(self) -> None:
        for folder in self._open:
            os.close(folder)


def _inside(folder: int, part: str, make: bool) -> int | None:
    if make:
        try:
            os.mkdir(part, dir_fd=folder)
        except FileExistsError:
            pass
    try:
        return os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if make or error.errno not in _MISSING:
            raise
        return None


def link_files(root: int, names: Iterable[str], sources: Iterable[str], *, sync: bool) -> list[int]:
    """Makes each name a link to its source, replacing any file: 0, ABSENT if the source is no file, or the system's error number."""
    outer, inner = OpenFolders(root, make=False), OpenFolders(root, make=True)
    try:
        codes = [_linked(outer, inner, name, source) for name, source in zip(names, sources, strict=True)]
        if sync:
            sync_folders(root, inner.used)
        return codes
    finally:
        outer.close()
        inner.close()


def _linked(sources: OpenFolders, targets: OpenFolders, name: str, source: str) -> int:
    try:
        held = sources.of(source)
        if held is None:
            return ABSENT
        where, old = held
        mode = os.stat(old, dir_fd=where, follow_symlinks=False).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as error:
        return error.errno or EIO
    if not S_ISREG(mode):
        return ABSENT if S_ISDIR(mode) else ELOOP
    try:
        made = targets.of(name)
        assert made is not None, "folders that are missing are made"
        folder, new = made
        try:
            os.link(old, new, src_dir_fd=where, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            _replace(where, old, folder, new)
    except OSError as error:
        return error.errno or EIO
    return 0


def _replace(where: int, old: str, folder: int, new: str) -> None:
    """Replaces the old file in one step. The temporary name is hidden from listings, in case a crash leaves it."""
    between = f".link-{os.getpid()}-{os.urandom(8).hex()}{LOCK_SUFFIX}"
    os.link(old, between, src_dir_fd=where, dst_dir_fd=folder, follow_symlinks=False)
    try:
        os.rename(between, new, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        try:  # if both names are one file already, renaming does nothing and leaves both
            os.unlink(between, dir_fd=folder)
        except FileNotFoundError:
            pass


def sync_folders(root: int, paths: Iterable[str]) -> None:
    """Syncs the names in folders, and the folders' own names, to the medium. Raises StoreError with the folder."""
    for path in paths:
        _sync(root, path)


def _sync(root: int, path: str) -> None:
    while True:
        try:
            folder = enter_folder(root, path)
        except OSError as error:
            raise refused("cannot be synced", error.errno or EIO, path, done=False) from error
        if folder is not None:
            try:
                os.fsync(folder.fd)
            except OSError as error:
                raise not_synced(error.errno or EIO, path) from error
        if not path:
            return
        path = path.rpartition("/")[0]
