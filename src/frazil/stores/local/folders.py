"""Folders of a local disk as keys: which names they can have; walking, listing and clearing them beneath an open root, never through a link. Values
are not touched here.

What counts is a regular file under a name that has a UTF-8 form. Lock files (and so all that a crash leaves behind), links, sockets and the
like are not keys. Functions raise OSError; a folder that vanishes meanwhile is no error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from errno import ELOOP, ENOENT, ENOTDIR, ENOTEMPTY
from typing import Final

from frazil.errors import InvalidInputError
from frazil.stores.keys import check_key

__all__ = ["LOCK_SUFFIX", "check_names", "clear_below", "has_keys", "keys_below", "level_below", "make_folders"]

LOCK_SUFFIX: Final = ".__lock"
_LOCKED: Final = LOCK_SUFFIX + "/"
_LONGEST_NAME: Final = 255  # bytes of a component, on all disks in use
_GONE = frozenset((ENOENT, ENOTDIR, ELOOP))


def enter_folder(folder: int, path: str) -> int | None:
    """The descriptor of a folder ("a/b/", "" is `folder` itself) below another; None where there is none, or a link lies on the way."""
    found = os.dup(folder)
    for part in path.split("/"):
        if part:
            outer = found
            try:
                found = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=outer)
            except OSError as error:
                if error.errno in _GONE:
                    return None
                raise
            finally:
                os.close(outer)
    return found


def _is_text(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _each_name(folder: int) -> Iterator[str]:
    """Names in a folder as the disk has them, those of folders with a "/" behind; lock files too."""
    with os.scandir(folder) as found:
        for entry in found:
            if not _is_text(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.endswith(LOCK_SUFFIX):
                    yield entry.name + "/"
            elif entry.is_file(follow_symlinks=False):
                yield entry.name


def _names(folder: int) -> list[str]:
    return [name for name in _each_name(folder) if not name.endswith(LOCK_SUFFIX)]


def keys_below(root: int, prefix: str, after: str, limit: int | None) -> list[str]:
    """Keys that begin with prefix, behind `after`, at most `limit`, in order of their UTF-8 bytes.

    A folder sorts as its name and a "/", as its keys do ("a-b" < "a/b" < "a0"); text sorts by code points, which is the order of the bytes."""
    found: list[str] = []
    stack: list[
        tuple[int, str, list[str]]
    ] = []  # open folder, its prefix, what is still to come of it, the next one last

    def descend(folder: int, path: str, name: str) -> None:
        inner = enter_folder(folder, name)
        if inner is None:
            return
        stack.append((inner, path + name, []))
        names = _names(inner)
        if after:
            start = path + name
            names = [one for one in names if start + one > after or (one[-1] == "/" and after.startswith(start + one))]
        names.sort(reverse=True)
        stack[-1][2].extend(names)

    try:
        descend(root, "", prefix)
        while stack and len(found) != limit:
            folder, path, names = stack[-1]
            if not names:
                stack.pop()
                os.close(folder)
            elif names[-1][-1] == "/":
                descend(folder, path, names.pop())
            else:
                found.append(path + names.pop())
    finally:
        for folder, _, _ in stack:
            os.close(folder)
    return found


def has_keys(folder: int, path: str) -> bool:
    """Whether any key lies below `path`; stops at the first."""
    inner = enter_folder(folder, path)
    if inner is None:
        return False
    try:
        folders = []
        for name in _each_name(inner):
            if name[-1] == "/":
                folders.append(name)
            elif not name.endswith(LOCK_SUFFIX):
                return True
        return any(has_keys(inner, name) for name in folders)
    finally:
        os.close(inner)


def level_below(root: int, prefix: str) -> tuple[list[str], list[str]]:
    """The keys directly below prefix, and the prefixes that hold others, each sorted. A folder without keys is none."""
    inner = enter_folder(root, prefix)
    if inner is None:
        return [], []
    try:
        names = sorted(_names(inner))
        keys = [prefix + name for name in names if name[-1] != "/"]
        return keys, [prefix + name for name in names if name[-1] == "/" and has_keys(inner, name)]
    finally:
        os.close(inner)


def clear_below(root: int, prefix: str, erase: Callable[[list[str]], object]) -> None:
    """Has all keys below prefix erased, folder by folder, also those of which a crash left only the lock file; then removes the empty folders."""
    head, _, name = prefix.rstrip("/").rpartition("/")
    outer = enter_folder(root, head)
    if outer is None:
        return
    try:
        inner = enter_folder(outer, name)
        if inner is None:
            return
        try:
            names = list(_each_name(inner))
            keys = {name.removesuffix(LOCK_SUFFIX) for name in names if name[-1] != "/"}
            keys.discard("")
            erase([prefix + name for name in sorted(keys)])
        finally:
            os.close(inner)
        for below in names:
            if below[-1] == "/":
                clear_below(root, prefix + below, erase)
        if name:
            _remove_empty(outer, name)
    finally:
        os.close(outer)


def _remove_empty(folder: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in _GONE and error.errno != ENOTEMPTY:
            raise


def check_names(names: Sequence[str]) -> None:
    """Raises InvalidInputError for a key that no file can have. A few searches in one text find what may be wrong; what looks so is looked at key by key."""
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
                f"names that end in {LOCK_SUFFIX!r} are those of locks here",
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
    """A folder, with those above it where they are missing."""
    missing = [path]
    while not os.path.isdir(os.path.dirname(missing[-1])):
        missing.append(os.path.dirname(missing[-1]))
    os.makedirs(path, exist_ok=True)
    if sync:
        for made in missing:
            outer = os.open(os.path.dirname(made), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(outer)
            finally:
                os.close(outer)
