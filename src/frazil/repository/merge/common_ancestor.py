"""Where the histories of two branches parted: the newest snapshot whose changes both have. A merge is recorded in the metadata of its commit, as a snapshot has
one parent: the snapshots that it merged count as further parents.

Not here: what changed since (snapshot_delta.py), and the merge (api/merge.py)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from frazil.errors import ConflictError, FormatError, InvalidInputError, NotFoundError, StoreError
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.json_values import Json
from frazil.repository.format import Ancestor, RepositoryFormat

MERGED: Final = (
    "merged_snapshots"  # in the metadata of a commit: the ids of all snapshots that it merged, the newest first
)

_MERGED, _INTO, _BOTH = 1, 2, 3  # in which histories a snapshot is
_CLOCKS: Final = 86_400_000_000_000  # nanoseconds: the most by which the clocks of two machines are assumed to differ
_MOST_READ: Final = 64  # snapshots in one batch
_OLDER: Final = 4  # it is an ancestor of a common ancestor


def common_ancestor(files: RepositoryFormat, merged: ObjectId, into: ObjectId) -> tuple[ObjectId, list[ObjectId]]:
    """The common ancestor of two snapshots, and the snapshots that only the history of `merged` has, the newest first. Reads the commits since the ancestor.
    Raises InvalidInputError if there is none, ConflictError if there are several, each without the changes of the others; NotFoundError, FormatError,
    StoreError as RepositoryFormat.ancestors."""
    histories = _Histories(files)
    found: list[ObjectId] = []
    marks = {merged: _MERGED}
    marks[into] = marks.get(into, 0) | _INTO
    waiting = [(histories.order(snapshot), snapshot) for snapshot in marks]
    heapq.heapify(waiting)
    oldest = -histories.order(merged)  # of what only `merged` leads to: older commits cannot have merged it

    def is_open(order: int, mark: int) -> bool:
        return mark in (_MERGED, _BOTH) or (mark == _INTO and -order > oldest - _CLOCKS)

    while waiting:
        goes_on = any(is_open(order, marks[snapshot]) for order, snapshot in waiting)  # else known marks are corrected
        order, snapshot = heapq.heappop(waiting)
        mark = marks[snapshot]
        if mark == _MERGED:
            oldest = min(oldest, -order)
        elif mark == _BOTH:
            found.append(snapshot)
            mark |= _OLDER
        for parent in histories.parents(snapshot) if goes_on or mark & _OLDER else ():
            known = marks.get(parent, 0)
            if known | mark != known and (goes_on or known):
                marks[parent] = known | mark
                heapq.heappush(waiting, (histories.order(parent), parent))
    newest = sorted({snapshot for snapshot in found if not marks[snapshot] & _OLDER})
    if len(newest) == 1:
        return newest[0], [snapshot for snapshot, mark in marks.items() if mark == _MERGED]
    names = " and ".join(encode_id(snapshot) for snapshot in (merged, into))
    if not newest:
        raise InvalidInputError(
            f"the histories of {names} have no snapshot in common, or it has expired",
            hint="apply commits one by one: repo.cherry_pick",
        )
    raise ConflictError(
        f"the histories of {names} have several common ancestors, as each was merged into the other at the same time: "
        + ", ".join(map(encode_id, newest)),
        hint="apply commits one by one: repo.cherry_pick",
    )


class _Histories:
    """The commits that were visited. Each chain of first parents is read by one iterator, a few snapshots at a time; their files in batches, each twice as
    large as the last."""

    def __init__(self, files: RepositoryFormat) -> None:
        self._files = files
        self._visited: dict[ObjectId, Ancestor | None] = {}
        self._chains: dict[ObjectId, Iterator[Ancestor]] = {}  # by the snapshot that each yields next
        self._batch = 1  # snapshots read at once
        self._read: set[ObjectId] = set()
        self._damaged: dict[ObjectId, FormatError | StoreError] = {}  # found when more was read than was needed

    def _visit(self, snapshot: ObjectId) -> Ancestor | None:
        """None if the snapshot is gone: it has expired, or belonged to a branch that was merged and deleted."""
        if snapshot in self._damaged:
            raise self._damaged[snapshot]
        if snapshot not in self._visited:
            self._visited[snapshot] = None
            with suppress(NotFoundError):
                chain = self._chains.pop(snapshot, None) or self._files.ancestors(snapshot)
                found = self._visited[snapshot] = next(chain, None)
                if found is not None and found.parent is not None:
                    self._chains[found.parent] = chain
        return self._visited[snapshot]

    def order(self, snapshot: ObjectId) -> int:
        """Lower for newer commits."""
        found = self._visit(snapshot)
        return 0 if found is None else -found.info.written_at

    def parents(self, snapshot: ObjectId) -> list[ObjectId]:
        found = self._visit(snapshot)
        if snapshot not in self._read:
            self._read_ahead(snapshot)
        parents = merged_by(self._files.commit_metadata(snapshot))
        if found is not None and found.parent is not None:
            parents.insert(0, found.parent)
        return [parent for parent in parents if self._visit(parent) is not None]

    def _read_ahead(self, snapshot: ObjectId) -> None:
        """Reads a snapshot and the next ones of its chain in one batch."""
        batch, at = [snapshot], self._visit(snapshot)
        while at is not None and at.parent is not None and len(batch) < self._batch:
            parent = at.parent
            batch.append(parent)
            try:
                at = self._visit(parent)
            except (FormatError, StoreError) as error:
                self._damaged[parent] = error
                break
        self._batch = min(2 * self._batch, _MOST_READ)
        self._read.update(batch[: self._files.read_ahead(batch)])


def merged_by(metadata: Mapping[str, Json]) -> list[ObjectId]:
    """The snapshots that a commit with this metadata merged; none for other commits."""
    texts = metadata.get(MERGED)
    try:
        return [decode_id(str(text)) for text in texts] if isinstance(texts, list) else []
    except FormatError:
        return []
