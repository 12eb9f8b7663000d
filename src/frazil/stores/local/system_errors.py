"""What the error numbers of the system mean for a key on a local disk, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from frazil.errors import AccessError, StoreError

NOT_SYNCED: Final = -3  # the kernel's code: the file is created, but its folder could not be synced
# Most error numbers mean that nothing was done. These may come from a file system on a network, where a request may still arrive.
REMOTE: Final = frozenset((errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.ENOTCONN, errno.ECONNRESET))

NOWHERE: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EISDIR))  # the kernel's codes for a key without a file

_USE_ANOTHER: Final = "locks, and hard links or renames that replace nothing, are needed: use another disk, or open a mounted bucket by its URL"
_REASONS: Final[dict[int, tuple[str, str]]] = {
    errno.ENOSPC: ("the disk is full", "make room and try again; the old value is as it was"),
    errno.EDQUOT: ("the disk quota is used up", "make room and try again; the old value is as it was"),
    errno.EROFS: (
        "the disk is mounted for reading only",
        "mount it for writing, or open the store with read_only=True",
    ),
    errno.EACCES: ("the system does not permit it", "check owner and permissions of the file and of its folders"),
    errno.EPERM: ("the system does not permit it", "check owner and permissions of the file and of its folders"),
    errno.EISDIR: (
        "there is a folder, as the key is a prefix of other keys",
        "choose another key, or erase the keys below it with erase_prefix",
    ),
    errno.ENOTDIR: ("a part of the key is a key itself, and so a file", "choose another key, or erase the shorter one"),
    errno.ELOOP: (
        "a symbolic link is at the key or in its path, and links are not followed",
        "open the store at the link's target",
    ),
    errno.EXDEV: ("the key leads out of the store's folder", "open the store at the folder that holds it"),
    errno.ENXIO: ("it is neither a file nor a folder", "remove it"),
    errno.ENAMETOOLONG: (
        "the name is too long for the disk",
        "components of a key have at most 248 bytes, on disks that encrypt names fewer: choose shorter names",
    ),
    errno.EIO: (
        "Input/output error",
        "the system's log tells what the disk reported; open a bucket that is mounted as a disk by its URL instead",
    ),
    errno.ESTALE: (
        "another machine has removed it, or its disk is no longer there (stale file handle)",
        "try again; mount the disk again if that does not help",
    ),
    errno.ENOTCONN: ("the program or the server behind the disk has ended", "mount the disk again"),
    errno.EAGAIN: ("a file server or another process has a lease on it", "try again when that is done"),
    errno.EFBIG: (
        "the file is larger than the disk or the system allows",
        "raise the limit (ulimit -f), or write smaller values; the old value is as it was",
    ),
    errno.EMFILE: ("too many files are open", "raise the limit (ulimit -n), or fetch fewer objects at once"),
    errno.ENFILE: ("too many files are open", "raise the system's limit, or fetch fewer objects at once"),
    errno.ENOLCK: (
        "the disk does not support locks",
        "without locks, writers would overwrite each other's data: use another disk",
    ),
    errno.ENOTSUP: ("the disk does not support it", _USE_ANOTHER),
    errno.ENOSYS: ("the system does not support it", _USE_ANOTHER),
}


def reason_of(code: int) -> tuple[str, str | None]:
    """The meaning of an error number, and a hint."""
    return _REASONS.get(code) or (os.strerror(code), None)


def unreadable(
    code: int,
    *,
    key: str | None,
    path: str | None = None,
    chunk: tuple[int, ...] | None = None,
    message: str = "the object cannot be read",
) -> StoreError:
    """The error for an object, or a chunk in it, that exists but could not be read."""
    reason, hint = reason_of(code)
    if code == errno.EISDIR:
        reason, hint = "there is a folder at its key", "find out what put it there, and remove it"
    kind = AccessError if code in AccessError.NUMBERS else StoreError
    return kind(f"{message}: {reason}", errno=code, key=key, path=path, chunk=chunk, hint=hint)


def refused(message: str, code: int, key: str, *, done: bool | None = None, path: str | None = None) -> StoreError:
    """The error for an object that "cannot be written" (erased, listed). done: as in StoreError; path: of the store."""
    reason, hint = reason_of(code)
    return StoreError(f"the object {message}: {reason}", errno=code, done=done, key=key, path=path, hint=hint)


@contextmanager
def refusing(message: str, key: str, *, done: bool | None = None, path: str | None = None) -> Iterator[None]:
    """A block whose errors of the system become those of `refused`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise refused(message, error.errno or errno.EIO, key, done=done, path=path) from error


def not_synced(code: int, key: str) -> StoreError:
    """The error for a name that was created or removed while its folder could not be synced."""
    return StoreError(
        f"the change is made, but its folder could not be synced: {os.strerror(code)}",
        errno=code,
        done=True,
        key=key,
        hint="a crash of the machine may undo it; check the disk",
    )


def folder_hint(path: str) -> str:
    """What to do if there is a file in place of a folder."""
    if path.lower().endswith((".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".he5")):
        return f"`frazil import {path} sea.repo` brings files of NetCDF and HDF5 into a repository"
    return "give the path of a folder"
