"""The snapshots that refs and pins lead to, through the lists of ancestors in the files of snapshots. It reads; reachable.py marks what they refer to.

In a sound repository, a list names the parent of its snapshot and then what the list of the parent names. Otherwise one of the two is wrong, and all that both
name is kept. A missing parent is damage and ends the walk with an error: a collection must not remove what may be the only remaining data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Final

from frazil.errors import AccessError, FormatError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.format import Referenced, RepositoryFormat
from frazil.repository.maintenance.expired import may_end
from frazil.repository.maintenance.id_columns import Ids, id_column, id_list
from frazil.repository.maintenance.marks import Marks

_BATCH: Final = 64  # snapshots that are read at once; ancestors that are followed from one


class LiveSnapshots:
    """The snapshots that some lead to. Ancestors that have expired, and what lists name after them, do not count."""

    __slots__ = ("_expired", "_file_ids", "_files", "_lists", "_marked", "_missing", "_starts")

    def __init__(self, files: RepositoryFormat, starts: Sequence[ObjectId], marks: Marks, expired: Ids) -> None:
        self._files = files
        self._starts = starts
        self._expired = set(id_list(expired))
        self._marked = {
            snapshot: [parent] if any(parent) else []
            for snapshot, parent in zip(id_list(marks.snapshots), id_list(marks.parents), strict=True)
        }
        self._lists: dict[ObjectId, Sequence[ObjectId]] = {}  # nearest ancestors of live snapshots, each parent first
        self._file_ids: dict[ObjectId, ObjectId] = {}  # of snapshots whose ids in histories are others
        self._missing: dict[ObjectId, NotFoundError] = {}

    def read(self) -> Iterator[Referenced]:
        """Finds them. Yields what those refer to that are not in the marks, in batches. Raises FormatError if something is missing or contradicts the rest so
        that live snapshots may be named nowhere."""
        waiting, visited = dict.fromkeys(self._starts), set(self._starts)
        while waiting:
            batch = [waiting.popitem()[0] for _ in range(min(len(waiting), _BATCH))]
            lists = {at: self._marked[at] for at in batch if at in self._marked}
            if len(lists) < len(batch):
                read, found = self._read([at for at in batch if at not in lists])
                yield found
                lists |= {at: [*listed] for at, listed in zip(read, found.ancestors, strict=True)}
            for at, listed in lists.items():
                self._lists[at] = listed[:_BATCH]
                new = [named for named in takewhile(self._counts, self._lists[at]) if named not in visited]
                visited.update(new)
                waiting |= dict.fromkeys(new)
        self._refuse_damage()

    def columns(self) -> tuple[Ids, Ids]:
        """The live snapshots, sorted, and the parent of each, even if that has expired; an empty id if it has none."""
        snapshots = id_column(list(self._lists))
        parents = id_column([self._parent(at) or b"\0" * len(at) for at in self._lists])
        order = snapshots.argsort()
        return snapshots[order], parents[order]

    @property
    def are_consistent(self) -> bool:
        """Whether the parents lead to all of them, so that the lists say nothing else."""
        found: set[ObjectId] = set()
        for start in self._starts:
            at: ObjectId | None = start
            while at in self._lists and at not in found:
                found.add(at)
                at = self._parent(at)
        return len(found) == len(self._lists)

    def _counts(self, named: ObjectId) -> bool:
        return named not in self._expired

    def _parent(self, snapshot: ObjectId) -> ObjectId | None:
        return next((self._file_ids.get(named, named) for named in self._lists[snapshot]), None)

    def _read(self, snapshots: list[ObjectId]) -> tuple[list[ObjectId], Referenced]:
        """What some snapshots refer to, without those of which there is no file: wrong lists may name these."""
        found: Referenced | None = None
        while found is None:
            try:
                found = self._files.referenced(snapshots)
            except NotFoundError as error:
                existing = self._existing(snapshots)
                if existing == snapshots:
                    raise missing_snapshot(self._files, snapshots[0], error) from error
                snapshots = existing
        for snapshot in snapshots:
            if self._files.is_changed(snapshot):
                key = self._files.key(f"snapshots/{encode_id(snapshot)}")
                raise FormatError("a snapshot has other bytes than were written", key=key)
        return snapshots, found

    def _existing(self, snapshots: list[ObjectId]) -> list[ObjectId]:
        """The ids of their files. The first snapshot of a repository may have another id in histories."""
        found: dict[ObjectId, None] = {}
        for snapshot in snapshots:
            try:
                file = self._files.snapshot_id(snapshot)
            except NotFoundError as error:
                self._missing[snapshot] = error
                continue
            if file != snapshot:
                self._file_ids[snapshot] = file
            if file not in self._lists:
                found[file] = None
        return list(found)

    def _refuse_damage(self) -> None:
        for start in self._starts:
            if start in self._missing:
                raise missing_snapshot(self._files, start, self._missing[start])
        for snapshot, listed in self._lists.items():
            if listed and listed[0] in self._missing:
                raise missing_snapshot(self._files, snapshot, self._missing[listed[0]])
            if snapshot not in self._marked:
                self._refuse_contradiction(snapshot, listed)

    def _refuse_contradiction(self, snapshot: ObjectId, listed: Sequence[ObjectId]) -> None:
        """Refuses a list whose parent the rest of it does not follow, and an empty list of a snapshot that is not the first, if no other list names the right
        parent: it may be garbage then."""
        parent, before = (*listed, None, None)[:2]
        if parent is not None:
            follows = parent != snapshot and (before is None or before == self._first_listed(parent))
            ends = parent != before and self._expired.issuperset((parent, before))
            if follows or ends or not names_wrong_parent(self._files, snapshot):
                return
            message = f"a snapshot names {encode_id(parent)} as its parent, which the rest of its list of ancestors does not follow"
        else:
            if self._files.history_fault(snapshot) is None:
                return
            message = "a history ends too early: a snapshot names no parent, but is not the first of the repository"
        pairs = (pair for other in self._lists.values() for pair in pairwise(other))
        others = {after for at, after in pairs if at == snapshot and after != parent and self._is_kept(after)}
        if any(before in (None, self._first_listed(after)) for after in others):
            return
        key = self._files.key(f"snapshots/{encode_id(snapshot)}")
        raise FormatError(message, key=key, hint="verify shows more, and repair what can be done; nothing was removed")

    def _is_kept(self, named: ObjectId) -> bool:
        """False for what lists name after an expired snapshot, or without a file."""
        return named in self._expired or self._file_ids.get(named, named) in self._lists

    def _first_listed(self, snapshot: ObjectId) -> ObjectId | None:
        return next(iter(self._lists.get(snapshot, ())), None)


def missing_snapshot(files: RepositoryFormat, snapshot: ObjectId, error: NotFoundError) -> FormatError:
    return FormatError(
        f"the history of {encode_id(snapshot)} is damaged: {error.message}, and no record of an expiry names it",
        key=error.key or files.key(f"snapshots/{encode_id(snapshot)}"),
        hint="restore it from a copy; nothing was removed",
    )


def own_parent(files: RepositoryFormat, snapshot: ObjectId) -> ObjectId | None:
    """The parent that the file of a snapshot names, whatever else is in it; None if it names none or cannot be read. Raises StoreError."""
    with suppress(NotFoundError, FormatError):
        (named,) = files.listed(files.snapshot(snapshot)).parents
        return named
    return None


def is_same(files: RepositoryFormat, one: ObjectId, other: ObjectId | None) -> bool:
    """Whether two ids in histories name one snapshot, as the first of a repository may have two. Raises StoreError."""
    if one == other or other is None:
        return one == other
    with suppress(NotFoundError, FormatError, AccessError):
        return files.snapshot_id(one) == files.snapshot_id(other)
    return False


def names_wrong_parent(files: RepositoryFormat, snapshot: ObjectId) -> bool:
    """Whether the first snapshot in a list of ancestors is wrong, as the rest of the list shows: the right one may be named nowhere else. False for a list that
    a record of an expiry accepts, there or at the first snapshot. Raises StoreError."""
    with suppress(NotFoundError, FormatError):
        own = _listed(files, snapshot)
        parent, before, oldest = (*own.ancestors[0], None, None, None)[:3]
        if parent == snapshot:
            return not may_end(files, snapshot)
        if parent is None or before is None:
            return False
        agrees = _listed(files, before).parents == [oldest]
        if not agrees and oldest is not None:
            return False
        of_parent = _listed(files, parent)
        (others,) = of_parent.ancestors
        if not agrees or before in (parent, *others):  # lists may end early, leave out some, or repeat one
            is_wrong = others[:1] != [before] and [total + 1 for total in of_parent.totals] != own.totals
        elif not others:
            is_wrong = files.history_fault(parent) is None  # the first snapshot
        else:  # both lists may be the same after that, so that the parent itself names a wrong one
            is_wrong = (*others, None)[1] != oldest or _listed(files, others[0]).parents == [oldest]
        return is_wrong and not may_end(files, snapshot, parent)
    return False


def _listed(files: RepositoryFormat, snapshot: ObjectId) -> Referenced:
    return files.listed(files.snapshot(snapshot))
