"""Files of a local disk that are changed in place under their lock, and restored after a kill (docs/design/044-shards-in-place.md). The steps are the kernel's."""

from __future__ import annotations

from collections.abc import Sequence
from errno import EACCES, EPERM, EROFS
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil import _kernel
from frazil.record import Record
from frazil.stores.local.local_store import LocalStore
from frazil.stores.local.system_errors import refused
from frazil.stores.values import Columns, Version

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.store import KernelRoot, Store

__all__ = ["Answers", "Changes", "change_files", "restore_files", "restore_keys", "was_restored"]

_CHANGED, _NOT_IN_PLACE = -1, -3
_TORN: Final = 2
_MAY_NOT: Final = frozenset({EACCES, EPERM, EROFS})


class Changes(Record):
    """What is written to files, as _kernel.change_files takes it."""

    names: Sequence[str]
    buffers: Sequence[Buffer]
    rows: Columns
    offsets: Columns
    heads: Columns
    expect: Sequence[Version | None]


class Answers(Record):
    """What became of files.

    changed   those that had another version
    whole     those that have to be replaced whole instead
    versions  int64[n, 3] (inode, size, time of change in ns), the new ones; size -1 of a file that stays as it is"""

    changed: list[int]
    whole: list[int]
    versions: Columns


def change_files(root: KernelRoot, changes: Changes, *, journal: bool, sync: bool) -> Answers:
    """Raises StoreError, after others of the call may have been changed."""
    result = np.empty((len(changes.names), 4), np.int64)
    _kernel.change_files(root.fd, *changes, journal, sync, result)
    changed, whole = [], []
    for i, code in enumerate(result[:, 0].tolist()):
        if code == _CHANGED:
            changed.append(i)
        elif code == _NOT_IN_PLACE:
            whole.append(i)
        elif code:
            raise refused("cannot be changed in place", code, changes.names[i])
    versions = result[:, 1:].copy()
    versions[changed + whole] = -1
    return Answers(changed, whole, versions)


def restore_files(root: KernelRoot, names: Sequence[str]) -> tuple[bool, bool]:
    """Restores files of which an append was killed, and waits for writers that are alive. Whether a writer is or was at one of the files; and whether the system does not allow us to restore one.

    Raises StoreError."""
    codes = _restored(root, names, look=False)
    return any(code > 0 for code in codes), min(codes, default=0) < 0


def restore_keys(store: Store, keys: Sequence[str], *, look: bool = False) -> list[str]:
    """Restores the files of keys, as restore_files; those of which an append was killed. look: they stay as they are. Nothing is done in stores where shards are not changed in place.

    Raises StoreError."""
    root = store.kernel_root() if isinstance(store, LocalStore) else None
    if root is None or not keys:
        return []
    return [key for key, code in zip(keys, _restored(root, keys, look=look), strict=True) if code == _TORN]


def was_restored(store: Store, keys: Sequence[str]) -> bool:
    """Restores the files of keys, as restore_keys. Whether reading them again may give another result: a writer was at one of them.

    Raises StoreError."""
    root = store.kernel_root() if isinstance(store, LocalStore) else None
    return root is not None and any(code > 0 for code in _restored(root, keys, look=False))


def _restored(root: KernelRoot, names: Sequence[str], *, look: bool) -> list[int]:
    result = np.empty((len(names), 1), np.int64)
    _kernel.restore_files(root.fd, names, look, result)
    codes: list[int] = result[:, 0].tolist()
    for i, code in enumerate(codes):
        if code < 0 and -code not in _MAY_NOT:
            raise refused("cannot be restored after an append that was killed", -code, names[i])
    return codes
