"""The files that writers on a local disk leave when they end early: lock files, and files without their final name. Removed by age, by the clock of the disk.

Their names are defined in folders.py and by the kernel (rust/src/files). A lock is removed as its protocol requires: by a process that holds it."""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from functools import partial
from io import FileIO
from typing import Final

from frazil.base.threads import to_its_end
from frazil.stores.local.folders import LOCK_SUFFIX, enter_folder, lock_files

_JOURNAL: Final = ".__append" + LOCK_SUFFIX  # of a shard that was changed in place; readers restore it
_TEMPORARY: Final = ("~", ".copy-")  # beginnings of the names of files that were to be linked to other names


def erase_leftovers(root: int, prefix: str, before: int) -> int:
    """Removes leftovers below a prefix that were changed before a time, ns since 1970. Returns how many. Locks that are held stay. Raises OSError."""
    count = 0
    for path, names in lock_files(root, prefix):
        folder = enter_folder(root, path)
        if folder is None:
            continue
        for name in names:
            with suppress(FileNotFoundError):
                changed = os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mtime_ns
                if changed >= before or name.endswith(_JOURNAL):
                    continue
                if name.startswith(_TEMPORARY):
                    os.unlink(name, dir_fd=folder.fd)
                    count += 1
                else:
                    count += _unlock(folder.fd, name)
    return count


def _unlock(folder: int, name: str) -> bool:
    """Takes a lock and removes its file, if no other process holds it (rust/src/files/lock.rs)."""
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return False

    def opener(name: str, _: int) -> int:
        return os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)

    with to_its_end(partial(FileIO, name, opener=opener)) as file:
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except BlockingIOError:
            return False
        named, opened = os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(file.fileno())
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            return False
        os.unlink(name, dir_fd=folder)
    return True
