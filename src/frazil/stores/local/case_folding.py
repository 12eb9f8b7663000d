"""Disks on which "a" and "A" are one name: detecting them, and finding keys that would replace another one.

A folder is tested with a name in it. Only if it has none, a name is created for the test, and removed at once. The result holds for the folders below, as far
as they are on the same file system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from frazil.errors import AlreadyExistsError
from frazil.stores.local.folders import LOCK_SUFFIX, enter_folder
from frazil.stores.local.system_errors import refusing

_MOST_NAMES = 64  # names of a folder


def folds_visibly(folder: int) -> bool | None:
    """Whether the folder folds case, as far as its names show; writes nothing. None: it has no name to test."""
    with os.scandir(folder) as found:
        for _, entry in zip(range(_MOST_NAMES), found, strict=False):
            answer = _is_found_swapped(entry.name, folder)
            if answer is not None:
                return answer
    return None


def folds_by_probe(folder: int) -> bool:
    """The same for a folder without names, by creating one. It is hidden from listings, in case a crash leaves it."""
    name = f".case-{os.getpid()}-{os.urandom(8).hex()}{LOCK_SUFFIX}"
    # a function in Python could be interrupted between the opening and its return
    create = partial(os.open, mode=0o600, dir_fd=folder)
    try:
        with open(name, "xb", opener=create):
            return bool(_is_found_swapped(name, folder))
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def folds_by_path(path: str) -> bool:
    """A guess for a folder that is missing or empty: whether the nearest existing name on its path is found in the other case too."""
    while True:
        outer = os.path.dirname(path)
        answer = _is_found_swapped(path, None)
        if answer is not None or outer == path:
            return bool(answer)
        path = outer


def _is_found_swapped(path: str, folder: int | None) -> bool | None:
    """None if the path has no last component with a case, does not exist (any more), or cannot be looked at."""
    head, tail = os.path.split(path)
    swapped = os.path.join(head, tail.swapcase())
    if swapped == path:
        return None
    try:
        right = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    try:
        other = os.stat(swapped, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return (right.st_dev, right.st_ino) == (other.st_dev, other.st_ino)


def refuse_clash(root: int, names: Sequence[str]) -> None:
    """Raises AlreadyExistsError for a name that `find_clash` finds, StoreError for a folder that cannot be listed."""
    with refusing("cannot be written", names[0]):
        clash = find_clash(root, names)
    if clash is not None:
        raise AlreadyExistsError(
            f"for this disk, this key and {clash[1]!r} are the same name",
            key=clash[0],
            hint="choose names that differ by more than case, or a disk that distinguishes case",
        )


def find_clash(root: int, names: Sequence[str]) -> tuple[str, str] | None:
    """The first name that differs from another one (on disk, or before it in `names`) by case alone, and that other one."""
    folders: dict[str, dict[str, str]] = {}  # for each prefix: the existing components, by their folded form
    for name in names:
        prefix = ""
        for part in name.split("/"):
            if part.swapcase() != part:
                if prefix not in folders:
                    folders[prefix] = _folded_names(root, prefix)
                first = folders[prefix].setdefault(part.casefold(), part)
                if first != part:
                    return name, prefix + first
            prefix += part + "/"
    return None


def _folded_names(root: int, prefix: str) -> dict[str, str]:
    folder = enter_folder(root, prefix)
    if folder is None:
        return {}
    return {name.casefold(): name for name in os.listdir(folder.fd)}
