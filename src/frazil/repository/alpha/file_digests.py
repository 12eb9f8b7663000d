"""Digests of snapshots, manifests and attribute files, in repositories with digests: the ids of the latter two end in the CRC-32C of their bytes, like those of
chunk files; snapshots contain theirs (docs/design/077-digests.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from frazil import _kernel
from frazil.base.arrays import among
from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import differs_from_digest, names_own_digest
from frazil.formats.ids import CRC_BYTES, ID_BYTES, ObjectId, decode_id
from frazil.formats.msgpack import RESTORE
from frazil.repository.alpha.snapshot_flags import has_digest, has_file_digests
from frazil.repository.maintenance.id_columns import NO_IDS, id_column, join

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.formats.alpha.snapshots import SnapshotFile

_MOST_NEW: Final = 2**16


def digested_id(data: Buffer) -> ObjectId:
    """A new id for a file with these bytes."""
    return os.urandom(ID_BYTES - CRC_BYTES) + _digest(data)


def _digest(data: Buffer) -> bytes:
    return _kernel.crc32c(data).to_bytes(CRC_BYTES, "big")


class FileDigests:
    """Compares files with their digests. Snapshots say which files have one, so they are added before their files are checked.

    changed   snapshots with other bytes than were written
    _ids      of files with digests, sorted;  _new: more of them, in any order
    A file is recognized by its name: what a manifest itself says is not trusted, as it may be another one."""

    __slots__ = ("_ids", "_new", "changed")

    def __init__(self) -> None:
        self._ids, self._new = NO_IDS, list[ObjectId]()
        self.changed: Final[set[ObjectId]] = set()

    def add(self, file: ObjectId, snapshot: SnapshotFile, data: bytes) -> None:
        """Adds the files that a snapshot lists, if they have digests, and compares the snapshot itself."""
        has_own = has_digest(snapshot) or names_own_digest(snapshot)  # if the flag of one is damaged, the other is left
        if not (has_own or has_file_digests(snapshot)):
            return
        self._new += [info.id for info in (*snapshot.manifest_files, *snapshot.attribute_files)]
        if len(self._new) > _MOST_NEW:
            self._merge()
        if has_own and differs_from_digest(snapshot, data):
            self.changed.add(file)

    def check(self, name: str, key: str, data: bytes) -> None:
        """Raises FormatError if a file has other bytes than were written. name: such as "manifests/WT2Z2GQ09G0RTAEQ3D70"."""
        if name.startswith("snapshots/"):
            return  # they contain their digests, which `add` compares
        self._merge()
        if not len(self._ids):
            return
        identity = decode_id(name.rpartition("/")[2])
        if among(id_column([identity]), self._ids)[0] and _digest(data) != identity[-CRC_BYTES:]:
            raise FormatError(
                "the file has other bytes than were written: it is damaged, or another one is in its place",
                key=key,
                hint=RESTORE,
            )

    def _merge(self) -> None:
        if self._new:
            self._ids, self._new = join([self._ids, id_column(self._new)]), []
