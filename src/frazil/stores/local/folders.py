"""Folders of a local disk as keys: the names that they can have; walking, listing and clearing them beneath an open root, never through a link. Values
are not touched here.

A key is a regular file whose name has a UTF-8 form. Lock files (and so all that a crash leaves behind), removed files that are still open, links, sockets and
the like are not keys. Functions raise OSError; a folder that is removed meanwhile is no error."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from errno import EINVAL, EIO, ELOOP, ENOENT, ENOTDIR, ENOTEMPTY, ESTALE
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.errors import InvalidInputError
from frazil.stores.keys.names import check_key
from frazil.stores.local.kernel_results import numbers_of, pack_version
from frazil.stores.local.system_errors import unreadable
from frazil.stores.values import NameColumn, Page, Version, no_names

LOCK_SUFFIX: Final = ".__lock"
_LOCKED: Final = LOCK_SUFFIX + "/"
_LONGEST_NAME: Final = 255  # bytes of a component, on all disks in use
_OPEN_AT_ONCE: Final = 64  # folders of one listing
_NO_KEYS: Final = (LOCK_SUFFIX, "/")  # endings
# of a removed file that a process on this machine still has open, on disks of NFS and FUSE; the system removes it later
_REMOVED: Final = re.compile(r"\.nfs[0-9a-f]{24}|\.fuse_hidden[0-9a-f]{16}")
_MISSING = frozenset((ENOENT, ENOTDIR, ELOOP))


class RootFolder:
    """The open root folder of a store; closed after its last use, so never during a call. Raises OSError if it cannot be opened."""

    __slots__ = ("_open", "_path", "fd")

    def __init__(self, path: str) -> None:
        self._path = path
        self._open = _kernel.Descriptor(path)
        self.fd = self._open.fd

    def is_removed(self) -> bool:
        """Whether nothing names the folder any more. Raises StoreError."""
        try:
            return os.fstat(self.fd).st_nlink == 0
        except OSError as error:
            if error.errno == ESTALE:  # of a network file system: another machine has removed it
                return True
            message = "the store's folder cannot be read"
            raise unreadable(error.errno or EIO, key=None, path=self._path, message=message) from error


def enter_folder(folder: int, path: str) -> _kernel.Descriptor | None:
    """Opens the folder at a path ("a/b/", "" is `folder` itself) below another; None if it does not exist, or the path has a link. Raises InvalidInputError for
    a path with a NUL, which no file can have."""
    if "\0" in path:
        raise InvalidInputError("a key must not contain NUL", key=path)
    return _kernel.Descriptor.beneath(folder, path)


def _can_be_key(name: str) -> bool:
    if name.isascii():
        return name[0] != "." or _REMOVED.fullmatch(name) is None
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _each_name(folder: int) -> Iterator[str]:
    """Names in a folder as on disk, those of folders with a "/" at the end; lock files too."""
    with os.scandir(folder) as found:
        for entry in found:
            if not _can_be_key(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.endswith(LOCK_SUFFIX):
                    yield entry.name + "/"
            elif entry.is_file(follow_symlinks=False):
                yield entry.name


def page_below(prefix: str, after: str, limit: int, root: int, *, delimited: bool, details: bool) -> Page:
    """A page of the keys that begin with prefix (Store.list_page), in order of their UTF-8 bytes. A folder with a key below it is a prefix.

    A folder sorts as its name and a "/", as its keys do ("a-b" < "a/b" < "a0"); text sorts by code points, which is the order of the bytes."""
    found: list[str] = []
    versions: list[Version | None] = []
    stack: list[_Level] = []

    def descend(above: _Level | None, name: str) -> None:
        path = name if above is None else above.path + name
        folder = None if above is None else above.folder
        inner = enter_folder(root, path) if folder is None else enter_folder(folder.fd, name)
        if inner is not None:
            stack.append(_Level(inner, path, _names_after(inner.fd, path, after, delimited)))
            if len(stack) > _OPEN_AT_ONCE:
                stack[-1 - _OPEN_AT_ONCE].folder = None

    descend(None, prefix)
    while stack and len(found) != limit:
        level = stack[-1]
        if not level.names:
            stack.pop()
            continue
        name = level.names.pop()
        is_folder = name[-1] == "/"
        if is_folder and not delimited:
            descend(level, name)
        elif not is_folder or ((folder := level.reopened(root)) is not None and has_keys(folder.fd, name)):
            found.append(level.path + name)
            if details:
                versions.append(None if is_folder else _version_of(root, level, name))
    following = found[-1] if stack and found else None
    if not details:
        return Page(found, following)
    numbers = numbers_of(versions)
    return Page(found, following, numbers[:, 1], versions, numbers[:, 2])


def names_below(root: int, prefix: str) -> list[str]:
    """All names directly below a prefix, also those of links, pipes and the like; folders with a "/" behind them."""
    folder = enter_folder(root, prefix)
    if folder is None:
        return []
    with os.scandir(folder.fd) as found:
        names = [entry.name + "/" * entry.is_dir(follow_symlinks=False) for entry in found if _can_be_key(entry.name)]
    return sorted(name for name in names if not name.endswith((LOCK_SUFFIX, _LOCKED)))


def column_of(root: int, prefix: str, length: int, *, sizes: bool, threads: int) -> NameColumn:
    """The files directly below a prefix whose names are `length` ASCII letters and digits, without files that are removed while their sizes are read."""
    folder = enter_folder(root, prefix)
    if folder is None:
        return no_names(length, sizes=sizes)
    names, found, _ = _kernel.list_folder(folder.fd, length, LOCK_SUFFIX, sizes, threads)
    return NameColumn(np.frombuffer(names, f"S{length}"), None if found is None else np.frombuffer(found, np.int64))


def lock_files(root: int, prefix: str) -> Iterator[tuple[str, list[str]]]:
    """Each folder at and below a prefix that has lock files, and their names."""
    stack = [prefix]
    while stack:
        path = stack.pop()
        folder = enter_folder(root, path)
        if folder is None:
            continue
        others = _kernel.list_folder(folder.fd, 0, LOCK_SUFFIX, False, 1)[2]
        stack += [path + name for name in others if name[-1] == "/" and not name.endswith(_LOCKED)]
        found = [name for name in others if name[-1] != "/"]
        if found:
            yield path, found


def _version_of(root: int, level: _Level, name: str) -> Version | None:
    """The version of a file in a folder; None if it was removed."""
    folder = level.reopened(root)
    if folder is None:
        return None
    try:
        stat = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except OSError as error:
        if error.errno in _MISSING:
            return None
        raise
    return pack_version(stat.st_ino, stat.st_size, stat.st_mtime_ns)


class _Level:
    """A folder on the way down. folder: None when it is closed; names: those still to come, the next one last."""

    __slots__ = ("folder", "names", "path")

    def __init__(self, folder: _kernel.Descriptor, path: str, names: list[str]) -> None:
        self.folder: _kernel.Descriptor | None = folder
        self.path, self.names = path, names

    def reopened(self, root: int) -> _kernel.Descriptor | None:
        """The folder, opened again if it was closed; None if it was removed."""
        if self.folder is None:
            self.folder = enter_folder(root, self.path)
        return self.folder


def _names_after(folder: int, start: str, after: str, delimited: bool) -> list[str]:
    """The names in a folder of prefix `start` that come after `after`, or (if keys below are listed too) that may have such keys below them; the first one
    last."""
    names = [name for name in _each_name(folder) if not name.endswith(LOCK_SUFFIX)]
    if after:
        names = [
            name
            for name in names
            if start + name > after or (not delimited and name[-1] == "/" and after.startswith(start + name))
        ]
    return sorted(names, reverse=True)


def has_keys(folder: int, path: str) -> bool:
    """Whether any key is below `path` ("" or ending in "/"); stops at the first."""
    inner = enter_folder(folder, path)
    if inner is not None:
        for name in _each_name(inner.fd):  # most folders have a file: the walk below costs twice as much
            if not name.endswith(_NO_KEYS):
                return True
    return any(not name.endswith(_NO_KEYS) for _, names in each_folder(folder, path) for name in names)


def each_folder(root: int, prefix: str) -> Iterator[tuple[str, Iterator[str]]]:
    """Each folder at and below a prefix, upper folders first: its prefix, and its names as _each_name gives them. Folders below are found as the names are
    taken. One folder is open at a time, at any depth."""
    stack, at, folder = [prefix], "", None
    while stack:
        path = stack.pop()
        if folder is not None and path.startswith(at):  # below the last one, as most folders are
            inner = enter_folder(folder.fd, path[len(at) :])
        else:
            inner = enter_folder(root, path)
        if inner is not None:
            at, folder = path, inner
            yield path, _note_folders(_each_name(inner.fd), path, stack)


def _note_folders(names: Iterator[str], path: str, stack: list[str]) -> Iterator[str]:
    """The names; the folders among them are added to the list of those to be visited."""
    for name in names:
        if name[-1] == "/":
            stack.append(path + name)
        yield name


def clear_below(root: int, prefix: str, erase: Callable[[list[str]], object]) -> None:
    """Erases all keys below prefix, folder by folder, also keys that have only a lock file after a crash; then removes the empty folders, the deepest
    first."""
    cleared = []
    for at, names in each_folder(root, prefix):
        keys = {name.removesuffix(LOCK_SUFFIX) for name in names if name[-1] != "/"}
        keys.discard("")
        erase([at + name for name in sorted(keys)])
        cleared.append(at)
    for at in reversed(cleared):
        _remove_empty(root, at)


def _remove_empty(root: int, path: str) -> None:
    """Removes the folder at a path that ends in "/", if it is empty; never the root ("")."""
    above, _, name = path.rstrip("/").rpartition("/")
    folder = enter_folder(root, above) if name else None
    if folder is None:
        return
    try:
        os.rmdir(name, dir_fd=folder.fd)
    except OSError as error:
        if error.errno not in _MISSING and error.errno != ENOTEMPTY:
            raise


def check_names(names: Sequence[str]) -> None:
    """Raises InvalidInputError for a key that no file can have. A few searches in the joined keys find possible errors; only then each key is checked."""
    text = "/" + "/\0/".join(names) + "/"
    if (
        "//" in text
        or "/./" in text
        or "/../" in text
        or _LOCKED in text
        or text.count("\0") != len(names) - 1
        or (len(text) > _LONGEST_NAME and max(map(len, names)) > _LONGEST_NAME)
        or not text.isascii()
    ):
        for name in names:
            check_key(name)
            _check_components(name)


def _check_components(name: str) -> None:
    for part in name.split("/"):
        if part.endswith(LOCK_SUFFIX):
            raise InvalidInputError(
                f"names that end in {LOCK_SUFFIX!r} are reserved for locks",
                key=name,
                hint="choose another name",
            )
        if len(part.encode()) > _LONGEST_NAME:
            raise InvalidInputError(
                f"a component of {len(part.encode())} bytes is too long for a file name",
                key=name,
                hint=f"at most {_LONGEST_NAME} bytes from one slash to the next",
            )


def make_folders(path: str, sync: bool) -> None:
    """Creates a folder, and missing folders above it."""
    missing = [path]
    while not os.path.isdir(os.path.dirname(missing[-1])):
        missing.append(os.path.dirname(missing[-1]))
    os.makedirs(path, exist_ok=True)
    if sync:
        for created in missing:
            outer = RootFolder(os.path.dirname(created))
            sync_names(outer.fd)


def sync_names(folder: int) -> None:
    """Syncs the names in an open folder. Some disks have no such call (EINVAL): their names are as safe as they can be."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != EINVAL:
            raise
