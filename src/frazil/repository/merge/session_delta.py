"""What a session or a fork changed, as a Delta: since the snapshot that it began from, or since a fork was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from frazil.formats.alpha.nodes import NodeSnapshot
from frazil.repository.files.attributes import Attributes, same_attributes
from frazil.repository.manifests.coordinates import among, grid_of, within
from frazil.repository.merge.delta import Delta, Made
from frazil.repository.merge.difference import ChunkDifference, Resize
from frazil.repository.session.change_set import Append, ChangeSet, ForkPoint, NodeChange, append_of
from frazil.repository.session.changed_references import REMOVED, ChangedReferences, Rows
from frazil.repository.session.transaction import Transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata

    Columns = NDArray[np.int64]
    Changed: TypeAlias = tuple[ChunkDifference, Rows]

__all__ = ["fork_delta", "parent_delta", "session_delta"]


def session_delta(transaction: Transaction) -> Delta:
    """What a session changed since the snapshot that it began from, and what it read."""
    with transaction.lock:
        reads = None if transaction.reads is None else transaction.reads.reads(transaction.base.nodes)
        return _Since(transaction, transaction.changes).delta()._replace(reads=reads)


def fork_delta(fork: Transaction) -> Delta:
    """What a fork changed since it was made."""
    assert fork.changes.begun is not None
    return _SinceFork(fork, fork.changes, fork.changes.begun, fork.changes).delta()


def parent_delta(parent: Transaction, changes: ChangeSet, fork: Transaction) -> Delta:
    """What the changes of the parent have become since a fork was made."""
    assert fork.changes.begun is not None
    return _SinceFork(parent, changes, fork.changes.begun, fork.changes).delta()


class _Since:
    """The changes since the snapshot."""

    def __init__(self, transaction: Transaction, changes: ChangeSet) -> None:
        self.transaction, self.changes = transaction, changes

    # --- the state that the changes are relative to ----------------------------------------------------------------------------------

    def before(self, change: NodeChange) -> NodeSnapshot | None:
        """A node as it was; None where it was not there."""
        return change.base

    def removed(self) -> dict[str, bool]:
        """Where nodes were that are gone, and whether they were arrays."""
        nodes = self.transaction.base.nodes
        return {path: bool(nodes.is_array(path)) for path in self.changes.removed.values()}

    def rows(self, change: NodeChange, references: ChangedReferences) -> Columns:
        """The rows that count and were set since."""
        return references.current()

    def had(self, change: NodeChange, coordinates: Columns) -> NDArray[np.bool_]:
        """Which chunks of an array were there: bool[n]."""
        stored = self.transaction.base_references(change.base)
        return np.zeros(len(coordinates), np.bool_) if stored is None else stored.find(coordinates)[0] >= 0

    # --- comparison ------------------------------------------------------------------------------------------------------------------

    def delta(self) -> Delta:
        moved: dict[str, str] = {}
        made: dict[str, Made] = {}
        arrays: set[str] = set()
        attributes: dict[str, Attributes] = {}
        metadata: dict[str, ZarrArrayMetadata | None] = {}
        resized: dict[str, Resize] = {}
        appends: dict[str, Append] = {}
        chunks: dict[str, ChunkDifference] = {}
        rows: dict[str, Rows] = {}
        for change in self.changes:
            node, before = change.node, self.before(change)
            found = self.chunks(change)
            if before is None:
                made[node.path] = Made(node, change.key, *(found or (None, None)))
                continue
            path = before.path
            if path != node.path:
                moved[path] = node.path
            if not same_attributes(self.transaction.files, before.attributes, node.attributes):
                attributes[path] = node.attributes
            if node.array is not None and before.array is not None:
                arrays.add(path)
                old, new = before.array.metadata, node.array.metadata
                if old != new:
                    metadata[path] = new
                    if old._replace(shape=new.shape) == new:
                        resized[path] = Resize(old.shape, new.shape, new.chunk_shape)
                        append = _append(change, old.shape)
                        if append is not None:
                            appends[path] = append
            if found is not None:
                chunks[path], rows[path] = found
        arrays &= {*moved, *attributes, *metadata, *chunks}
        return Delta(
            self.removed(), moved, made, frozenset(arrays), attributes, metadata, resized, appends, chunks, rows
        )

    def chunks(self, change: NodeChange) -> Changed | None:
        """The chunks that are others than before; not such as were written and removed again, nor such as lie outside the grid by now."""
        references, array = change.references, change.node.array
        if references is None or not references.count or array is None:
            return None
        rows = references.selected(self.rows(change, references))
        gone = rows.kinds == REMOVED
        kept = ~gone & within(rows.coordinates, grid_of(array.metadata))
        if gone.any():
            kept[gone] = self.had(change, rows.coordinates[gone])
        if not kept.any():
            return None
        rows, gone = rows.pick(kept), gone[kept]
        return ChunkDifference(rows.coordinates[~gone], rows.coordinates[gone]), rows


class _SinceFork(_Since):
    """The changes of a fork, or of its parent, since the fork was made. The fork has the rows that were there then."""

    def __init__(self, transaction: Transaction, changes: ChangeSet, begun: ForkPoint, fork: ChangeSet) -> None:
        super().__init__(transaction, changes)
        self.begun, self.fork = begun, fork

    def before(self, change: NodeChange) -> NodeSnapshot | None:
        return self.begun.nodes.get(change.key, change.base)

    def removed(self) -> dict[str, bool]:
        begun, changes = self.begun, self.changes
        gone = {node.path: node.array is not None for key, node in begun.nodes.items() if key not in changes.nodes}
        known = begun.removed | begun.nodes.keys()
        nodes = self.transaction.base.nodes
        return gone | {path: bool(nodes.is_array(path)) for key, path in changes.removed.items() if key not in known}

    def rows(self, change: NodeChange, references: ChangedReferences) -> Columns:
        return references.own() if self.changes is self.fork else references.since(self.begun.count)

    def had(self, change: NodeChange, coordinates: Columns) -> NDArray[np.bool_]:
        stored = super().had(change, coordinates)
        inherited = self._inherited(change)
        if inherited is None:
            return stored
        gone = inherited.kinds == REMOVED
        stored &= ~among(coordinates, inherited.coordinates[gone])
        return stored | among(coordinates, inherited.coordinates[~gone])

    def _inherited(self, change: NodeChange) -> Rows | None:
        mine = self.fork.nodes.get(change.key)
        return (
            None
            if mine is None or mine.references is None
            else mine.references.columns.first(mine.references.inherited)
        )


def _append(change: NodeChange, old: tuple[int, ...]) -> Append | None:
    """The append that a resize is, where it is one: the array grew by appends alone, and along one axis. Rows that were written behind a resize stay where they
    were written."""
    if change.node.array is None or change.appended is None or change.shrunk:
        return None
    grown = append_of(old, change.node.array.metadata.shape)
    if grown is None or (grown.axis, grown.new) != (change.appended.axis, change.appended.new):
        return None
    return grown if change.appended.old <= grown.old else None
