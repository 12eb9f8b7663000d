"""Snapshots that the damaged newest files of a branch may have named. A commit that only such a file names is acknowledged, and would become garbage."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from frazil.base.record import Record
from frazil.formats.ids import ObjectId, decode_id
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.repair.branches import last_complete
from frazil.repository.repair.former_snapshots import former_ids
from frazil.repository.verification.histories import UNREADABLE
from frazil.repository.verification.references import ChunkFiles


class _Orphan(Record):
    parent: ObjectId | None
    written_at: int


class _Base(Record):
    """The newest snapshot that a readable file of a branch names. ids: in histories the first of a repository may have another; damaged: newer files"""

    ids: frozenset[ObjectId]
    damaged: int


class LostTips:
    """What damaged branches may have pointed to, among the snapshots to which no branch or tag leads. They are read once, on demand."""

    def __init__(
        self, files: RepositoryFormat, orphans: Iterable[str], chunk_files: ChunkFiles, progress: Progress
    ) -> None:
        self._files, self._chunk_files, self._progress = files, chunk_files, progress
        self._names = tuple(orphans)
        self._orphans: dict[ObjectId, _Orphan] | None = None
        self._near: dict[str, list[ObjectId]] = {}
        self._chosen: set[ObjectId] = set()

    def of(self, branch: str, found: Iterable[str]) -> tuple[list[ObjectId], list[str]]:
        """The snapshots that the damaged files of a branch may have named, newest first, and the branches that earlier repairs made for them.

        These are the complete snapshots that were committed on the newest known one: a killed writer may have written further ones. Only if there are none: the
        newest complete snapshot that follows any known one, and that no other snapshot follows. Raises StoreError.

        found  the branches that earlier repairs may have made for this one"""
        near = self._near_tips(branch)
        tips = {name: tip for name in found if (tip := self._tip(name)) is not None}
        base = _base(self._files, branch)
        candidates = [name for name, tip in tips.items() if self._is_near(tip, base)]
        if near or candidates:
            return near, candidates
        former = frozenset(former_ids(self._files, branch, None))
        candidates = [name for name, tip in tips.items() if tip not in former and self._follows(tip, former)]
        other = self._newest(former)
        # that of an earlier damage may still be there, and is older; without this, each repair would find the next commit of a deleted branch
        if other is None or any(self._written_at(tips[name]) >= self._read()[other].written_at for name in candidates):
            return [], candidates
        self._chosen.add(other)
        return [other], candidates

    def _read(self) -> dict[ObjectId, _Orphan]:
        if self._orphans is None:
            self._orphans = {}
            for file in map(decode_id, self._names):
                with suppress(*UNREADABLE):
                    snapshot = self._files.snapshot(file)
                    (parent,) = self._files.listed(snapshot).parents
                    self._orphans[file] = _Orphan(parent, snapshot.metadata.written_at)
        return self._orphans

    def _tip(self, branch: str) -> ObjectId | None:
        with suppress(*UNREADABLE):
            return self._files.tip(branch).snapshot
        return None

    def _written_at(self, file: ObjectId) -> int:
        with suppress(*UNREADABLE):
            return self._files.snapshot(file).metadata.written_at
        return 0

    def _is_complete(self, file: ObjectId) -> bool:
        return last_complete(self._files, [file], self._chunk_files, self._progress) is not None

    def _near_tips(self, branch: str) -> list[ObjectId]:
        """The complete orphans that are at most as many commits after the newest known snapshot as files are damaged. One that another of them follows is left
        out: the other keeps it."""
        if branch not in self._near:
            base, orphans = _base(self._files, branch), self._read()
            near = [file for file in orphans if self._is_near(file, base) and self._is_complete(file)]
            followed = {orphans[file].parent for file in near}
            near = [file for file in near if file not in followed]
            self._near[branch] = sorted(near, key=lambda file: orphans[file].written_at, reverse=True)
            self._chosen.update(near)
        return self._near[branch]

    def _is_near(self, file: ObjectId, base: _Base | None) -> bool:
        if base is None or file in base.ids:
            return False
        with suppress(*UNREADABLE):
            near = islice(self._files.ancestors(file), base.damaged + 1)
            return any(ancestor.snapshot in base.ids for ancestor in near)
        return False

    def _newest(self, former: frozenset[ObjectId]) -> ObjectId | None:
        """The newest complete orphan that no other follows, that follows a known snapshot, and that is not the tip of another damaged branch."""
        for branch in self._files.branches():
            self._near_tips(branch)
        orphans = self._read()
        followed = {orphan.parent for orphan in orphans.values()}
        last = orphans.keys() - followed - former - self._chosen
        newest = sorted(last, key=lambda file: orphans[file].written_at, reverse=True)
        after = (file for file in newest if self._follows(file, former))
        return last_complete(self._files, after, self._chunk_files, self._progress)

    def _follows(self, file: ObjectId, former: frozenset[ObjectId]) -> bool:
        """Whether a snapshot follows one of some; true if none is known."""
        with suppress(*UNREADABLE):
            return not former or any(ancestor.snapshot in former for ancestor in self._files.ancestors(file))
        return False


def _base(files: RepositoryFormat, branch: str) -> _Base | None:
    """None if no file of the branch is damaged, or no older one names a snapshot."""
    with suppress(*UNREADABLE):
        for damaged, tip in enumerate(files.former_tips(branch)):
            if tip.snapshot or tip.deleted:
                if not damaged or tip.deleted:
                    return None
                ids = {tip.snapshot}
                with suppress(*UNREADABLE):
                    ids.add(files.snapshot(tip.snapshot).metadata.id)
                return _Base(frozenset(ids), damaged)
    return None
