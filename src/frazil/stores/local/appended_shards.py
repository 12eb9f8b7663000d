"""Files of a local disk that are changed in place under their lock, and restored after a kill (docs/design/044-shards-in-place.md). The kernel does the
steps."""

from __future__ import annotations

from collections.abc import Sequence
from errno import EACCES, EPERM, EROFS
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from frazil import _kernel
from frazil.base.record import Record
from frazil.errors import ChecksumError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.local.system_errors import refused
from frazil.stores.values import Columns, Versions

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.stores.port import KernelRoot
    from frazil.stores.store import Store

_CHANGED, _CANNOT_OVERWRITE = -1, -3
_LEFT, _TORN, _COPIED = 1, 2, 3
COPIED_TORN: Final = "it was copied during an append"
COPIED_HINT: Final = "`frazil validate --repair` restores what it was before the append"
_NOT_PERMITTED: Final = frozenset({EACCES, EPERM, EROFS})


class Changes(Record):
    """The changes to files, as _kernel.change_files takes them."""

    names: Sequence[str]
    buffers: Sequence[Buffer]
    rows: Columns
    offsets: Columns
    heads: Columns
    expect: Versions


class Answers(Record):
    """The results for files.

    changed   those with another version
    whole     those that must be replaced whole instead
    versions  int64[n, 3] (inode, size, time of change in ns), the new ones; size -1 for an unchanged file"""

    changed: list[int]
    whole: list[int]
    versions: Columns


def change_files(root: KernelRoot, changes: Changes, *, journal: bool, sync: bool) -> Answers:
    """Raises StoreError; others of the call may have been changed then."""
    result = np.empty((len(changes.names), 4), np.int64)
    _kernel.change_files(root.fd, *changes, journal, sync, result)
    changed, whole = [], []
    for i, code in enumerate(result[:, 0].tolist()):
        if code == _CHANGED:
            changed.append(i)
        elif code == _CANNOT_OVERWRITE:
            whole.append(i)
        elif code:
            error = refused("cannot be changed in place", code, changes.names[i])
            if not journal:  # nothing undoes a part of a write
                error.hint = "write the elements again: the inner chunks that were being written may be damaged"
            raise error
    versions = result[:, 1:].copy()
    versions[changed + whole] = -1
    return Answers(changed, whole, versions)


def restore_files(root: KernelRoot, names: Sequence[str]) -> tuple[bool, bool]:
    """Restores files after a killed append, and waits for living writers. Whether a writer is or was changing one of them, and whether the system does not
    allow us to restore one. Raises StoreError."""
    codes = _codes(root, names)
    return any(code in (_LEFT, _TORN) for code in codes), min(codes, default=0) < 0


def torn_keys(store: Store, keys: Sequence[str], *, restore: bool) -> tuple[list[str], list[str]]:
    """The keys of files with a killed append: those that are restored (now, or by the next reader), and those that were copied since. Raises StoreError."""
    root = _root(store)
    found = [] if root is None else [*zip(keys, _codes(root, keys, look=not restore), strict=True)]
    return [key for key, code in found if code == _TORN], [key for key, code in found if code == _COPIED]


def restore_all(store: Store, keys: Sequence[str]) -> None:
    """Restores files before they are copied without their journals. Raises ChecksumError for one that may have been copied while it was torn."""
    _, copied = torn_keys(store, keys, restore=True)
    if copied:
        raise ChecksumError(f"the shard may be torn: {COPIED_TORN}", key=copied[0], hint=COPIED_HINT)


def restore_copy(store: Store, key: str, *, readable: bool) -> None:
    """Ends the append of a file that was copied while it was torn: restores a file that cannot be read, and removes the journal of a readable one, as the
    journal may belong to another file. Raises StoreError."""
    root = _root(store)
    if root is not None:
        (code,) = _codes(root, [key], copies="remove" if readable else "restore")
        if code < 0:
            raise refused("cannot be restored after an append that was killed", -code, key)


def was_copied(root: KernelRoot, name: str) -> bool:
    """Whether a file may have been copied while it was torn. Raises StoreError."""
    return _codes(root, [name], look=True) == [_COPIED]


def was_restored(store: Store, keys: Sequence[str]) -> bool:
    """Restores the files of keys. Returns whether reading them again may give another result, as a writer was changing one of them. Raises StoreError."""
    root = _root(store)
    return root is not None and restore_files(root, keys)[0]


def _root(store: Store) -> KernelRoot | None:
    return store.kernel_root() if isinstance(store, LocalStore) else None


def _codes(
    root: KernelRoot, names: Sequence[str], *, look: bool = False, copies: Literal["keep", "restore", "remove"] = "keep"
) -> list[int]:
    """The result of _kernel.restore_files. Raises StoreError."""
    result = np.empty((len(names), 1), np.int64)
    _kernel.restore_files(root.fd, names, look, copies, result)
    codes: list[int] = result[:, 0].tolist()
    for i, code in enumerate(codes):
        if code < 0 and -code not in _NOT_PERMITTED:
            raise refused("cannot be restored after an append that was killed", -code, names[i])
    return codes
