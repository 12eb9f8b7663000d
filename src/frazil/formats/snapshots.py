"""A snapshot, for all formats. The package of each format has its bytes, and its manifests are in files of their own."""

from __future__ import annotations

from typing import Protocol

from frazil.base.record import Record
from frazil.formats.ids import ObjectId
from frazil.formats.nodes import Nodes


class SnapshotInfo(Record):
    """The metadata of a commit. written_at: nanoseconds since 1970 in UTC"""

    id: ObjectId
    written_at: int
    message: str


class Snapshot(Protocol):
    """One snapshot. Further data (history, lists of files, flags) is known only to its format."""

    @property
    def metadata(self) -> SnapshotInfo: ...

    @property
    def nodes(self) -> Nodes: ...
