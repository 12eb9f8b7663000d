"""Where histories end: before the newest damaged or missing snapshot of each, or at a snapshot whose parent no file names."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from frazil.base.record import Record
from frazil.errors import FormatError
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.live_snapshots import names_wrong_parent
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.repair.report import Entry
from frazil.repository.verification.histories import UNREADABLE, ReachedSnapshot
from frazil.repository.verification.references import ChunkFiles
from frazil.repository.verification.verify import problems_of


class History(Record):
    """The history of a branch or tag. start: its newest snapshot;  follows: a commit would follow that snapshot, so that it is an older one"""

    ref: str
    start: ObjectId
    follows: bool = False


class HistoryEnds:
    """Where histories end, each with the first ref whose history it is.

    ends    the newest snapshots that are damaged or missing
    last    snapshots whose parent no file names
    expired  those that an expiry names;  mended: those whose ancestors a planned commit lists"""

    __slots__ = ("_chunk_files", "_expired", "_files", "_mended", "_progress", "_whole", "ends", "last")

    def __init__(
        self,
        files: RepositoryFormat,
        chunk_files: ChunkFiles,
        progress: Progress,
        expired: Collection[ObjectId],
        mended: Collection[ObjectId],
    ) -> None:
        self._files, self._chunk_files, self._progress = files, chunk_files, progress
        self._expired, self._mended = expired, mended
        self.ends: dict[ObjectId, str] = {}
        self.last: dict[ObjectId, str] = {}
        self._whole: dict[ObjectId, str] = {}  # further parents that can be read

    @property
    def repaired(self) -> list[Entry]:
        before = [
            Entry("history", f"it ends before {encode_id(end)}, which is damaged or missing", ref)
            for end, ref in self.ends.items()
        ]
        return before + [
            Entry("history", f"it ends with {encode_id(end)}, according to its own list of ancestors", ref)
            for end, ref in self.last.items()
        ]

    @property
    def contradictions(self) -> list[Entry]:
        text = (
            "two files name different parents of a snapshot in its history, which is accepted. {0} is whole, and is kept with what comes before it; "
            "a new branch at {0} shows that history"
        )
        return [
            Entry("history", text.format(encode_id(other)), ref)
            for other, ref in self._whole.items()
            if other not in self.ends
        ]

    def find(self, history: History) -> None:
        """Adds the ends of a history. Raises StoreError."""
        self._find_damaged(history)
        self._find_oldest(history)

    def _find_oldest(self, history: History) -> None:
        tip = at = history.start
        refused: ObjectId | None = None  # a snapshot at which no history can be followed, such as a cycle
        try:
            for ancestor in self._files.ancestors(tip):
                at = ancestor.snapshot
        except FormatError as error:
            folder, _, name = (error.key or "").rpartition("/")
            refused = decode_id(name) if folder == self._files.key("snapshots") else None
        except UNREADABLE:
            pass
        for candidate in dict.fromkeys((tip, at, refused or at)):
            with suppress(*UNREADABLE):
                is_mended = history.follows and candidate in self._mended  # but not for a tag there
                has_fault = self._files.history_fault(candidate) is not None
                if not is_mended and (has_fault or candidate == refused or names_wrong_parent(self._files, candidate)):
                    self.last.setdefault(candidate, history.ref)

    def _find_damaged(self, history: History) -> None:
        """If files name different parents, all of them are followed: an expiry applies to every ref, so intact snapshots must not expire."""
        files, ref, tip = self._files, history.ref, history.start
        waiting, visited = [tip], {tip}
        while waiting:
            start = waiting.pop()
            following: ObjectId | None = None if start == tip else start
            others: list[ObjectId | None] = []
            try:
                for ancestor in files.ancestors(start):
                    following, at = ancestor.snapshot, ancestor.snapshot
                    if at in self._expired:
                        break
                    if ancestor.parent is None and at != start:
                        at = files.snapshot_id(at)
                    reached = ReachedSnapshot(at, ref, ancestor.parent is None, ancestor.parent)
                    is_older = at != tip or history.follows
                    problems = problems_of(files, reached, self._chunk_files, self._progress) if is_older else ()
                    if any(problem.kind != "history" for problem in problems):
                        self.ends.setdefault(at, ref)
                        break
                    if problems:
                        named = files.listed(files.snapshot(at)).parents
                        others += [other for other in named if other != ancestor.parent]
                    following = ancestor.parent
            except UNREADABLE:
                others.append(following)
            for other in others:
                if other is None or other in self._expired:
                    continue
                file = self._readable(other)
                if file is None:
                    self.ends.setdefault(other, ref)
                elif file not in visited:
                    visited.add(file)
                    waiting.append(file)
                    self._whole.setdefault(file, ref)

    def _readable(self, named: ObjectId) -> ObjectId | None:
        """The id of the file of a snapshot that a history names; None if it is missing or cannot be read."""
        try:
            file = self._files.snapshot_id(named)
            self._files.snapshot(file)
        except UNREADABLE:
            return None
        return file
