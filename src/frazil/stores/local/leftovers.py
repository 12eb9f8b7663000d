"""What writers on a local disk that ended early have left: lock files, and files that did not get their name. Removed by age, by the clock of the disk.

Which names these are is said in folders.py and by the kernel (rust/src/files). A lock is removed as its protocol says: by one who holds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from frazil.stores.local.folders import LOCK_SUFFIX, each_folder, enter_folder

__all__ = ["erase_leftovers"]

_JOURNAL: Final = ".__append" + LOCK_SUFFIX  # of a shard that was changed in place, which readers restore
_TEMPORARY: Final = ("~", ".copy-")  # how the names begin of files that were to be linked to other names


def erase_leftovers(root: int, prefix: str, before: int, unlock: Callable[[str], object]) -> int:
    """Removes leftovers below a prefix that were changed before a time, ns since 1970; how many. unlock: takes the lock of a key and gives it back. Raises OSError."""
    count = 0
    for path, name in list(_old(root, prefix, before)):
        if name.startswith(_TEMPORARY):
            folder = enter_folder(root, path)
            if folder is None:
                continue
            try:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                    count += 1
            finally:
                os.close(folder)
        elif name != LOCK_SUFFIX:
            unlock(path + name.removesuffix(LOCK_SUFFIX))
            count += 1
    return count


def _old(root: int, prefix: str, before: int) -> Iterator[tuple[str, str]]:
    """Folders and names of leftovers."""
    for path, names in each_folder(root, prefix):
        found = [name for name in names if name.endswith(LOCK_SUFFIX) and not name.endswith(_JOURNAL)]
        if not found:
            continue
        folder = enter_folder(root, path)
        if folder is None:
            continue
        try:
            for name in found:
                with suppress(FileNotFoundError):
                    if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns < before:
                        yield path, name
        finally:
            os.close(folder)
