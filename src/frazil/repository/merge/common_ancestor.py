"""Where the histories of two branches parted: the newest snapshot whose changes both have. A merge is recorded in the metadata of its commit, as a snapshot has
one parent; the record counts as a second one.

Not here: what changed since (snapshot_delta.py), and the merge (api/merging.py)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from frazil.errors import ConflictError, FormatError, InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.json_values import Json
from frazil.repository.format import Ancestor, RepositoryFormat

MERGED: Final = "merged_snapshot"  # in the metadata of a commit: the id of the snapshot that it merged

_BOTH: Final = 3  # 1: in the history of one, 2: in that of the other
_OLDER: Final = 4  # an ancestor of a common ancestor


def common_ancestor(files: RepositoryFormat, one: ObjectId, other: ObjectId) -> ObjectId:
    """The common ancestor of two snapshots. Reads the commits since then. Raises InvalidInputError if there is none, ConflictError if there are several, each
    without the changes of the others; NotFoundError, FormatError, StoreError as RepositoryFormat.ancestors."""
    histories = _Histories(files)
    found: list[ObjectId] = []
    marks = {one: 1}
    marks[other] = marks.get(other, 0) | 2
    waiting = [(histories.order(snapshot), snapshot) for snapshot in marks]
    heapq.heapify(waiting)
    while any(not marks[snapshot] & _OLDER for _, snapshot in waiting):
        _, snapshot = heapq.heappop(waiting)
        mark = marks[snapshot]
        if mark == _BOTH:
            found.append(snapshot)
            mark |= _OLDER
        for parent in histories.parents(snapshot):
            if marks.get(parent, 0) | mark != marks.get(parent):
                marks[parent] = marks.get(parent, 0) | mark
                heapq.heappush(waiting, (histories.order(parent), parent))
    newest = sorted({snapshot for snapshot in found if not marks[snapshot] & _OLDER})
    if len(newest) == 1:
        return newest[0]
    names = " and ".join(encode_id(snapshot) for snapshot in (one, other))
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
    """The commits that were visited. Each chain of first parents is read by one iterator, a few snapshots at a time."""

    def __init__(self, files: RepositoryFormat) -> None:
        self._files = files
        self._visited: dict[ObjectId, Ancestor | None] = {}
        self._chains: dict[ObjectId, Iterator[Ancestor]] = {}  # by the snapshot that each yields next

    def _visit(self, snapshot: ObjectId) -> Ancestor | None:
        """None if the snapshot is gone: it has expired, or belonged to a branch that was merged and deleted."""
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
        found, merged = self._visit(snapshot), merged_by(self._files.commit_metadata(snapshot))
        parents = [None if found is None else found.parent, merged]
        return [parent for parent in parents if parent is not None and self._visit(parent) is not None]


def merged_by(metadata: Mapping[str, Json]) -> ObjectId | None:
    """The snapshot that a commit with this metadata merged; None for other commits."""
    text = metadata.get(MERGED)
    try:
        return decode_id(text) if isinstance(text, str) else None
    except FormatError:
        return None
