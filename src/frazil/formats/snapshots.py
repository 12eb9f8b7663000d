"""A snapshot as every format has it. Its bytes are in the package of each format, and its manifests in files of their own."""

from __future__ import annotations

from typing import Protocol

from frazil.formats.ids import ObjectId
from frazil.formats.nodes import Nodes
from frazil.record import Record

__all__ = ["Snapshot", "SnapshotInfo"]


class SnapshotInfo(Record):
    """What a commit says of itself. written_at: nanoseconds since 1970 in UTC"""

    id: ObjectId
    written_at: int
    message: str


class Snapshot(Protocol):
    """One snapshot. What its format keeps beside these (history, lists of files, flags) is known to the format alone."""

    @property
    def metadata(self) -> SnapshotInfo: ...

    @property
    def nodes(self) -> Nodes: ...
