"""Digests of manifests and attribute files: in repositories with digests their ids end in the CRC-32C of their bytes, like those of chunk files
(docs/design/077-digests.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from frazil import _kernel
from frazil.errors import FormatError
from frazil.formats.ids import CRC_BYTES, ID_BYTES, ObjectId, decode_id
from frazil.formats.msgpack import RESTORE
from frazil.repository.alpha.snapshot_flags import has_file_digests

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.formats.alpha.snapshots import SnapshotFile


def digested_id(data: Buffer) -> ObjectId:
    """A new id for a file with these bytes."""
    return os.urandom(ID_BYTES - CRC_BYTES) + _digest(data)


def _digest(data: Buffer) -> bytes:
    return _kernel.crc32c(data).to_bytes(CRC_BYTES, "big")


class FileDigests:
    """Compares files with their digests. Snapshots say which files have one, so they are added before their files are checked.

    A file is recognized by its name: what a manifest itself says is not trusted, as it may be another one."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: Final[set[ObjectId]] = set()

    def add(self, snapshot: SnapshotFile) -> None:
        """Adds the files that a snapshot lists, if they have digests."""
        if has_file_digests(snapshot):
            self._ids.update(info.id for info in (*snapshot.manifest_files, *snapshot.attribute_files))

    def check(self, name: str, key: str, data: bytes) -> None:
        """Raises FormatError if a file has other bytes than were written. name: such as "manifests/WT2Z2GQ09G0RTAEQ3D70"."""
        identity = decode_id(name.rpartition("/")[2]) if self._ids else b""
        if identity in self._ids and _digest(data) != identity[-CRC_BYTES:]:
            raise FormatError(
                "the file has other bytes than were written: it is damaged, or another one is in its place",
                key=key,
                hint=RESTORE,
            )
