"""Conflicts in which both sides hold the same: chunks with equal bytes, or equal new arrays. In a merge, a cherry-pick or a revert they are none. In a rebase
of a session they are, as both sides may have counted something up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from frazil.base.arrays import Flags
from frazil.base.record import Record
from frazil.formats.nodes import NodeSnapshot
from frazil.repository.format import NodeMatching
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.merge.conflicts import Conflict
from frazil.repository.merge.delta import Delta
from frazil.repository.session.array_chunks import ArrayChunks
from frazil.repository.session.attributes import same_attributes
from frazil.repository.session.pending_chunks import plan_packs
from frazil.repository.session.transaction import Transaction
from frazil.repository.virtual.file_checks import plain_location
from frazil.repository.virtual.mixed_fetch import VIRTUAL_KIND, ObjectNames
from frazil.stores.array_storage.chunk_storage import NOWHERE, Located
from frazil.stores.transfer.content import read_views
from frazil.stores.values import OPEN_AT_ONCE, Columns, whole_spans


class Sides(Record):
    """ours, theirs: the two sides;  delta: the changes of ours since the common base;  matching: of the nodes of that base with those of theirs"""

    ours: Transaction
    theirs: Transaction
    delta: Delta
    matching: NodeMatching

    def split(self, conflicts: Sequence[Conflict]) -> tuple[list[Conflict], list[Conflict]]:
        """The conflicts that remain, and those in which both sides are equal. Raises the errors of reading chunks."""
        sources = {new: old for old, new in self.delta.moved.items()}
        remaining, equal = list[Conflict](), list[Conflict]()
        is_same_array = cache(self._is_same_array)  # an array may be in two conflicts
        for conflict in conflicts:
            path, chunks = conflict.path, conflict.chunks
            if self._is_about_new_nodes(conflict) and is_same_array(path):
                equal.append(conflict)
            elif conflict.kind == "chunks" and chunks is not None:
                same = self._same_chunks(path, self.matching.there(sources.get(path, path)), chunks)
                for part, which in ((equal, same), (remaining, ~same)):
                    if which.any():
                        part.append(conflict._replace(chunks=chunks[which]))
            else:
                remaining.append(conflict)
        members_first = sorted(remaining, key=lambda conflict: conflict.path, reverse=True)
        for conflict in members_first:
            if self._is_same_group(conflict, remaining):
                remaining.remove(conflict)
                equal.append(conflict)
        return remaining, equal

    def _is_about_new_nodes(self, conflict: Conflict) -> bool:
        """Whether a conflict says that both sides have a new node at its path. One about a node of the base that the other side moved does not."""
        is_moved = self.matching.there(conflict.path) not in {None, conflict.path}
        return conflict.kind == "created" or (conflict.kind == "changed" and conflict.chunks is None and not is_moved)

    def _is_same_group(self, conflict: Conflict, remaining: Sequence[Conflict]) -> bool:
        """Whether a conflict is about a group that ours removed and made again, and that is equal on both sides, with all members in conflict."""
        path = conflict.path
        mine, other = self._made_again(path)
        if not self._is_about_new_nodes(conflict) or mine is None or other is None:
            return False
        if mine.array or other.array or not same_attributes(self.ours.files, mine.attributes, other.attributes):
            return False
        return not any(below.path.startswith(f"{path}/") for below in remaining)

    def _made_again(self, path: str) -> tuple[NodeSnapshot | None, NodeSnapshot | None]:
        """The nodes of both sides at a path, if ours made one there, and theirs made one or has the node of the base that ours removed."""
        mine, other = self.ours.changes.get(path), self.theirs.changes.get(path)
        is_replaced = path in self.matching.added or (path in self.delta.removed and self.matching.there(path) == path)
        if path not in self.delta.made or not is_replaced:
            return None, None
        known = [node if isinstance(node, NodeSnapshot) else None for node in (mine, other)]
        return known[0], known[1]

    def _is_same_array(self, path: str) -> bool:
        mine, other = self._made_again(path)
        if mine is None or other is None:
            return False
        if mine.array is None or other.array is None or mine.array.metadata != other.array.metadata:
            return False
        if not same_attributes(self.ours.files, mine.attributes, other.attributes):
            return False
        grid, rank = grid_of(mine.array.metadata), len(mine.array.metadata.shape)
        stored, others = (_storage(side, path, rank).stored(grid) for side in (self.ours, self.theirs))
        return np.array_equal(stored, others) and bool(self._same_chunks(path, path, stored, every=True).all())

    def _same_chunks(self, path: str, their_path: str | None, chunks: Columns, *, every: bool = False) -> Flags:
        """Which chunks of an array have equal bytes on both sides: bool[n]. every: nothing is read after a chunk that differs"""
        assert their_path is not None, "both sides have the array"
        rank = chunks.shape[1]
        storages = _storage(self.ours, path, rank), _storage(self.theirs, their_path, rank)
        located = [storage.locate(chunks) for storage in storages]
        mine, other = located
        same = np.array([one == another for one, another in zip(*map(_places, located), strict=True)], np.bool_)
        is_read = ~same & (mine.length == other.length)
        for one in located:
            is_read &= (one.kind != NOWHERE) & (one.kind < VIRTUAL_KIND)
        rows, most = np.flatnonzero(is_read), self.ours.options.runtime.bytes_in_flight // len(storages)
        # of at most this many bytes, or one chunk, and in few files
        parts = plan_packs(np.maximum(mine.length[rows], most // OPEN_AT_ONCE), pack_bytes=most)
        differs = bool((~same & ~is_read).any())
        for low, high in pairwise(parts.bounds.tolist()):
            if every and differs:
                break
            part = rows[low:high]
            views = [_values(*pair, part) for pair in zip(storages, located, strict=True)]
            same[part] = [one == another for one, another in zip(*views, strict=True)]
            differs |= not same[part].all()
        return same


def _storage(side: Transaction, path: str, rank: int) -> ArrayChunks:
    key = side.changes.key_at(path)
    assert key is not None, "the array is there"
    return ArrayChunks(side, key, rank)


def _places(located: Located) -> Iterator[object]:
    """For each chunk a value that is equal for equal references; for those that are not in a file a different one."""
    names = located.names
    checks = dict(zip(names[names.native :], names.checks, strict=True)) if isinstance(names, ObjectNames) else {}
    for row, (base, length) in enumerate(zip(located.base.tolist(), located.length.tolist(), strict=True)):
        key = located.key(row)
        yield object() if key is None else (plain_location(key), checks.get(key), base, length)


def _values(storage: ArrayChunks, located: Located, rows: Columns) -> list[bytes | memoryview | None]:
    chosen, spans = located.take(rows), whole_spans(len(rows))
    return read_views(storage.fetch(chosen, spans), chosen.labels(), spans)
