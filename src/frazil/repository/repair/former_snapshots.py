"""Former states of the nodes of a snapshot: the snapshots before it, as far as they can be read, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, pairwise
from typing import Final

from frazil.formats.ids import ObjectId
from frazil.formats.nodes import BrokenNode, NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.live_snapshots import names_wrong_parent
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.repair.array_references import Source, read_pieces
from frazil.repository.verification.histories import UNREADABLE
from frazil.repository.verification.references import ChunkFiles

_MOST_FORMER_TIPS: Final = 10_000  # former tips that are read
_MOST_HISTORIES: Final = 64  # former tips whose histories are followed


def former_ids(files: RepositoryFormat, branch: str | None, tip: ObjectId | None) -> Iterator[ObjectId]:
    """The snapshots before a tip, newest first, each once: its ancestors, then the former tips of the branch and their ancestors. A damaged history ends at the
    damage. Raises StoreError.

    branch  None: for a tag;  tip: None if it cannot be read"""
    visited: set[ObjectId] = set() if tip is None else {tip}
    tips = [] if branch is None else list(islice(_former_tips(files, branch), _MOST_FORMER_TIPS))
    histories = [_ancestors(files, start) for start in ([] if tip is None else [tip])]
    for found in chain(*histories, tips, *(_ancestors(files, start) for start in tips[:_MOST_HISTORIES])):
        if found not in visited:
            visited.add(found)
            yield found


def parent_of(files: RepositoryFormat, file: ObjectId) -> ObjectId | None:
    """The parent of a snapshot whose list of ancestors is wrong: the first of that list or, if it has none, the snapshot that a branch pointed to before it
    first pointed to this one. None if it is unknown, or itself has a wrong list. Raises StoreError."""
    (named,) = files.listed(files.snapshot(file)).parents
    if names_wrong_parent(files, file):
        return None
    candidates = {named} if named is not None else _tips_before(files, file)
    if len(candidates) != 1:
        return None
    try:
        parent = files.snapshot_id(candidates.pop())
        written_at = files.snapshot(parent).metadata.written_at
        is_wrong = files.history_fault(parent) is not None or written_at >= files.snapshot(file).metadata.written_at
    except UNREADABLE:
        return None
    return None if is_wrong else parent


def _tips_before(files: RepositoryFormat, file: ObjectId) -> set[ObjectId]:
    found: set[ObjectId] = set()
    for name in files.branches():
        before: ObjectId | None = None
        for tip, older in pairwise(_former_tips(files, name)):
            if tip == file:
                before = older
        if before not in (None, file):
            found.add(before)
    return found


def _former_tips(files: RepositoryFormat, branch: str) -> Iterator[ObjectId]:
    """The snapshots that a branch of this name pointed to since it was created."""
    try:
        for number, tip in enumerate(files.former_tips(branch)):
            if tip.deleted and number:
                return
            if tip.snapshot:
                yield tip.snapshot
    except UNREADABLE:
        return


def _ancestors(files: RepositoryFormat, start: ObjectId) -> Iterator[ObjectId]:
    try:
        if files.snapshot(start).metadata.id != start:  # another snapshot in its file
            return
        for ancestor in files.ancestors(start):
            at = ancestor.snapshot
            if ancestor.parent is None and at != start:
                at = files.snapshot_id(at)  # histories may know the oldest by another id
            yield at
    except UNREADABLE:
        return


class FormerSnapshots:
    """The snapshots before a tip, read on demand, each once."""

    __slots__ = ("_chunk_files", "_files", "_ids", "_read", "_rest")

    def __init__(self, files: RepositoryFormat, ids: Iterator[ObjectId], chunk_files: ChunkFiles) -> None:
        self._files, self._chunk_files = files, chunk_files
        self._rest = ids
        self._ids: list[ObjectId] = []
        self._read: dict[ObjectId, Snapshot | None] = {}

    def _snapshots(self) -> Iterator[tuple[ObjectId, Snapshot]]:
        number = 0
        while True:
            if number == len(self._ids):
                following = next(self._rest, None)
                if following is None:
                    return
                self._ids.append(following)
            file = self._ids[number]
            number += 1
            if file not in self._read:
                self._read[file] = self._read_snapshot(file)
            snapshot = self._read[file]
            if snapshot is not None:
                yield file, snapshot

    def _read_snapshot(self, file: ObjectId) -> Snapshot | None:
        """A snapshot; None if it cannot be read, or its file contains another one. The first of a repository may have another id, and no nodes."""
        try:
            snapshot = self._files.snapshot(file)
        except UNREADABLE:
            return None
        return snapshot if snapshot.metadata.id == file else None

    def nodes(self, path: str, identity: int | None) -> Iterator[tuple[ObjectId, Snapshot, NodeSnapshot]]:
        """The former states of a node: with the same id at any path; with the same path if the id is unknown. Ends at the snapshot in which the node does not
        exist yet."""
        for file, snapshot in self._snapshots():
            nodes = snapshot.nodes
            node = nodes.get(path)
            if identity is not None and nodes.id_of(path) not in (identity, None):
                node = next((nodes.get(other) for other in nodes if nodes.id_of(other) == identity), None)
            if node is None:
                return
            if not isinstance(node, BrokenNode):
                yield file, snapshot, node

    def references(self, node: NodeSnapshot) -> Iterator[Source]:
        """The former references of an array, as long as its metadata differs only in the shape."""
        assert node.array is not None
        grid = grid_of(node.array.metadata)
        shape, before = node.array.metadata.shape, node.array.manifests
        for file, snapshot, older in self.nodes(node.path, node.id):
            if older.array is None or len(older.array.metadata.shape) != len(shape):
                return
            if older.array.metadata.with_shape(shape) != node.array.metadata:
                return
            if older.array.manifests != before:
                before = older.array.manifests
                yield (
                    file,
                    partial(read_pieces, self._files, older, grid, self._files.rules(snapshot), self._chunk_files),
                )
