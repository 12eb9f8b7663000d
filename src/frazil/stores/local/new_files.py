"""Files beneath an open root that appear whole, in place of old ones: copies and links of others, and streams of bytes. Never through a link; see folders.py.

No locks are taken: no other process writes these keys yet (Store.copy_in), or any more. The kernel does the work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from errno import EACCES, EIO, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP, EPERM, EXDEV
from functools import partial
from io import FileIO
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.base.threads import to_its_end
from frazil.errors import StoreError
from frazil.stores.local.folders import enter_folder, sync_names
from frazil.stores.local.system_errors import not_synced, refused, refusing, unreadable

if TYPE_CHECKING:
    from frazil._kernel import Buffer

ABSENT: Final = -1
_CHANGED: Final = -2
# the disk has no hard links, does not allow this one, or the names are on two disks
NEEDS_A_COPY: Final = frozenset((EPERM, EACCES, EXDEV, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP))


def copy_files(source: int, root: int, sources: Sequence[str], names: Sequence[str], *, sync: bool) -> list[int]:
    """Makes each name beneath `root` a copy of its source beneath another root, with its time of change. Returns their bytes, ABSENT if the source is no file.
    Raises StoreError with the key; others may have been copied."""
    result = np.empty((len(names), 2), np.int64)
    _kernel.copy_files(source, sources, root, names, sync, 1, result)
    answers: list[list[int]] = result.tolist()
    sizes = [size if code == 0 else code for code, size in answers]
    if answers and (max(answers)[0] > 0 or min(sizes) < ABSENT):
        _raise_first(answers, sources, names)
    if sync:
        created = compress(names, [size >= 0 for size in sizes])
        sync_folders(root, {name.rpartition("/")[0] for name in created})
    return sizes


def link_files(root: int, names: Sequence[str], sources: Sequence[str], *, sync: bool) -> list[int]:
    """Makes each name a link to its source, replacing any file: 0, ABSENT if the source is no file, or a number of NEEDS_A_COPY. Raises StoreError with the
    key; others may have been linked."""
    result = np.empty((len(names), 2), np.int64)
    _kernel.copy_files(root, sources, root, names, False, 1, result, link=True)
    codes: list[int] = result[:, 0].tolist()
    if codes and max(codes) > 0:
        written = [(code * (side == 0 or code not in NEEDS_A_COPY), side) for code, side in result.tolist()]
        _raise_first(written, sources, names)
    if sync:
        sync_folders(root, {name.rpartition("/")[0] for name, code in zip(names, codes, strict=True) if code == 0})
    return codes


def sync_files(root: int, names: Sequence[str]) -> list[str]:
    """Syncs files beneath a root, their names and the folders above them to the medium. Returns the missing names. Raises StoreError with the key: with `done`
    False if a file could not be opened, so that nothing was lost."""
    folders, absent = {""}, []

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=root)

    for name in names:
        with refusing("cannot be synced", name, done=False):
            try:
                file = to_its_end(partial(FileIO, name, opener=opener))
            except FileNotFoundError:
                absent.append(name)
                continue
        with file, refusing("cannot be synced", name):
            os.fsync(file)
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
            raise refused("cannot be written", code, name) if side else unreadable(code, key=source)


def write_file(root: int, name: str, parts: Iterable[Buffer], *, sync: bool) -> None:
    """Creates a file of these bytes. Raises StoreError with the key, and the errors of `parts` as they are; then no file is created."""
    with refusing("cannot be written", name):
        new = _kernel.NewFile(root, name)
    try:
        for part in parts:
            with refusing("cannot be written", name):
                new.write(part)
        with refusing("cannot be written", name):
            new.publish(sync)
    finally:
        new.give_up()  # unless it is published
    if sync:
        sync_folders(root, [name.rpartition("/")[0]])


def sync_folders(root: int, paths: Iterable[str]) -> None:
    """Syncs the names in folders, and the folders' own names, to the medium. Raises StoreError with the folder."""
    for path in paths:
        at: str | None = path
        while at is not None:
            with refusing("cannot be synced", at, done=False):
                folder = enter_folder(root, at)
            if folder is not None:
                try:
                    sync_names(folder.fd)
                except OSError as error:
                    raise not_synced(error.errno or EIO, at) from error
            at = at.rpartition("/")[0] if at else None
