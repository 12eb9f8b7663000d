"""From the kernel's results for files on a local disk to answers of the store port: versions, rows, statuses; and small files in one call.

A version is (inode, size, time of change in ns), 24 bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import Struct
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Flags
from frazil.stores.local.system_errors import NOWHERE, unreadable
from frazil.stores.values import (
    ABSENT_KEY,
    CREATE_LAST,
    FOLDER,
    FOUND,
    Columns,
    CreateOnly,
    Fetched,
    Sources,
    Version,
    Versions,
    mark_stale,
    object_rows,
)

_PACK: Final = Struct("<QqQ").pack
_WORD: Final = 2**64 - 1
NO_VERSION: Final[Version] = b"\xff" * 24  # the version of a missing file
_CREATE_ONLY: Final[Version] = b"\1"  # the kernel's form of CREATE_ONLY
_CREATE_LAST: Final[Version] = b"\2"
_CLOCK_STEP_NS = 50_000_000  # the clock for time stamps may not advance for some milliseconds
_WHOLE_SECONDS_NS = 2_500_000_000  # on disks that keep whole seconds


def has_suffix(spans: Columns) -> bool:
    """Whether a span counts from the end: the port clips those that are longer than the object, which the kernel does not."""
    if len(spans) == 1:
        return bool(spans.item(1) < 0)
    return bool((spans[:, 1] < 0).any())


def is_recent(changed: int, now: int) -> bool:
    return changed > now - (_CLOCK_STEP_NS if changed % 1_000_000_000 else _WHOLE_SECONDS_NS)


def are_recent(changed: Columns, now: int) -> Flags:
    """is_recent on a column."""
    return np.asarray(changed > now - np.where(changed % 1_000_000_000, _CLOCK_STEP_NS, _WHOLE_SECONDS_NS), np.bool_)


def unknown_sizes(count: int) -> Columns:
    sizes = np.empty(count, np.int64)
    sizes.fill(-1)
    return sizes


def answered(
    sources: Sources,
    versions: Versions,
    sizes: Columns,
    version_may_repeat: Sequence[bool] | None,
    spans: Columns,
    expect: Versions | None,
    folders: Sequence[int] = (),
) -> Fetched:
    """The found objects, each with its status under `expect`, and the rows of the spans."""
    status = [ABSENT_KEY if version is None else FOUND for version in versions]
    for i in folders:
        status[i] = FOLDER
    mark_stale(status, versions, expect)
    rows = object_rows(spans, status, sizes, files=True)
    return Fetched(sources, status, versions, sizes, rows, version_may_repeat)


def expected(version: Version | None) -> Version | None:
    """The version in the kernel's form; an invalid version of this store becomes that of a missing file."""
    if isinstance(version, CreateOnly):
        return _CREATE_LAST if version is CREATE_LAST else _CREATE_ONLY
    return version if version is None or len(version) in {0, 24} else NO_VERSION


def pack_version(inode: int, size: int, changed: int) -> Version:
    """The version of a file with these numbers, from os.stat or from the kernel."""
    return _PACK(inode & _WORD, size, changed & _WORD)


def numbers_of(versions: Versions) -> Columns:
    """The numbers of versions, int64[n, 3]: inode, size, time of change in ns since 1970; -1 without a version."""
    return (
        np.frombuffer(b"".join([version or NO_VERSION for version in versions]), "<i8").reshape(-1, 3).astype(np.int64)
    )


def read_documents(root: int, keys: Sequence[str]) -> list[bytes | None]:
    """The values of keys of small files, None for a missing file, in one call of the kernel. root: the descriptor of the folder. Raises StoreError."""
    values: list[bytes | None] = []
    for key, value in zip(keys, _kernel.read_files(root, keys), strict=True):
        if isinstance(value, int) and value not in NOWHERE:
            raise unreadable(value, key=key)
        values.append(None if isinstance(value, int) else value)
    return values


def file_version(root: int, key: str) -> Version:
    """The version of a file, NO_VERSION if it is missing, by one system call. root: the descriptor of the folder."""
    try:
        stat = os.stat(key, dir_fd=root, follow_symlinks=False)
    except OSError:
        return NO_VERSION
    return pack_version(stat.st_ino, stat.st_size, stat.st_mtime_ns)
