"""The short way to one chunk of a session's array: where it lies, from single numbers. It says what the columns of array_chunks.py would say of it; what is rare is
left to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.formats.alpha.manifests import INLINE as INLINE_REFERENCE
from frazil.formats.alpha.manifests import NATIVE as NATIVE_REFERENCE
from frazil.formats.ids import encode_id
from frazil.repository.session.changed_references import NATIVE, PENDING, REMOVED
from frazil.stores.chunk_storage import INLINE, NOWHERE, STORED, Located

if TYPE_CHECKING:
    from frazil.formats.ids import ObjectId
    from frazil.repository.files.file_cache import Files
    from frazil.repository.manifests.base_references import BaseReferences
    from frazil.repository.session.change_set import ChangeSet
    from frazil.repository.session.changed_references import ChangedReferences
    from frazil.stores.values import SourceBuffer, Version

__all__ = ["file_version", "locate_single", "row_version"]

_FIRST: Final = np.zeros(1, np.int64)
_KINDS: Final = {kind: np.array([kind], np.uint8) for kind in (NOWHERE, STORED, INLINE)}
_FIRST.flags.writeable = False
for _kind in _KINDS.values():
    _kind.flags.writeable = False


def locate_single(
    changed: ChangedReferences | None,
    base: BaseReferences | None,
    coordinates: tuple[int, ...],
    changes: ChangeSet,
    files: Files,
) -> Located | None:
    """Where a chunk lies, what was changed first; None for one in a file elsewhere. Who asks holds the session's lock. Raises what loading a manifest raises."""
    mine = -1 if changed is None else changed.find_one(coordinates)
    if changed is not None and mine >= 0:
        kind, file, number, offset, length = changed.row(mine)
        if kind == REMOVED:
            return _located(NOWHERE)
        if kind == NATIVE:
            return _in_file(files, file, offset, length)
        if kind != PENDING:
            return None
        version = row_version(mine, -1, -1, offset, length)
        return _located(INLINE, None, changes.pending.segments[number], version, offset, length)
    part, row = (-1, -1) if base is None else base.find_one(coordinates)
    if base is None or row < 0:
        return _located(NOWHERE)
    manifest = base.manifest(part)
    kind, offset, length = manifest.kinds.item(row), manifest.offsets.item(row), manifest.lengths.item(row)
    if kind == NATIVE_REFERENCE:
        return _in_file(files, manifest.ids[row].tobytes(), offset, length)
    if kind != INLINE_REFERENCE:
        return None
    return _located(INLINE, None, manifest.inline, row_version(-1, part, row, offset, length), offset, length)


def _located(
    kind: int,
    name: str | None = None,
    buffer: SourceBuffer | None = None,
    version: Version | None = None,
    offset: int = 0,
    length: int = 0,
) -> Located:
    names, buffers = () if name is None else (name,), () if buffer is None else (buffer,)
    span = np.array((offset, length), np.int64)
    return Located(names, _KINDS[kind], _FIRST, span[:1], span[1:], buffers, (version,), True)


def _in_file(files: Files, file: ObjectId, offset: int, length: int) -> Located:
    name = files.key(f"chunks/{encode_id(file)}")
    return _located(STORED, name, None, file_version(file, offset, length), offset, length)


def file_version(file: ObjectId, offset: int, length: int) -> Version:
    """What tells a value in a chunk file from any other."""
    return b"%b%d+%d" % (file, offset, length)


def row_version(changed: int, part: int, row: int, offset: int, length: int) -> Version:
    """What tells a value that has no chunk file from others within a session: its row among those that were changed, or the manifest and the row there; -1: none."""
    return b"%d %d %d %d %d" % (changed, part, row, offset, length)
