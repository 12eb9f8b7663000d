"""The changes of a session or a fork, as a Delta: since its base snapshot, or since a fork was made."""

from __future__ import annotations

import numpy as np

from frazil.base.arrays import Flags
from frazil.formats.nodes import NodeSnapshot
from frazil.repository.manifests.coordinates import among, grid_of, within
from frazil.repository.merge.delta import Delta, DeltaBuilder, Made
from frazil.repository.merge.difference import ChunkDifference
from frazil.repository.session.change_set import Append, ChangeSet, NodeChange, append_of
from frazil.repository.session.changed_references import REMOVED, ChangedReferences, Rows
from frazil.repository.session.transaction import Transaction
from frazil.stores.values import Columns


def session_delta(transaction: Transaction) -> Delta:
    """What a session changed since its base snapshot, and what it read."""
    with transaction.lock:
        reads = None if transaction.reads is None else transaction.reads.reads(transaction.base.nodes)
        return _SinceBase(transaction, transaction.changes).delta()._replace(reads=reads)


def fork_delta(fork: Transaction) -> Delta:
    """What a fork changed since it was made."""
    return _SinceFork(fork, fork.changes, fork.changes).delta()


def parent_delta(parent: Transaction, changes: ChangeSet, fork: Transaction) -> Delta:
    """What a session changed since it made a fork. changes: those of the session, with the forks that were merged"""
    return _SinceFork(parent, changes, fork.changes).delta()


class _SinceBase:
    """The changes since the snapshot."""

    def __init__(self, transaction: Transaction, changes: ChangeSet) -> None:
        self.transaction, self.changes = transaction, changes

    def before(self, change: NodeChange) -> NodeSnapshot | None:
        """A node as it was before, or None."""
        return change.base

    def removed(self) -> dict[str, bool]:
        """Former paths of removed nodes, and whether they were arrays."""
        nodes = self.transaction.base.nodes
        return {path: bool(nodes.is_array(path)) for path in self.changes.removed.values()}

    def rows(self, references: ChangedReferences) -> Columns:
        """The current rows that were set since."""
        return references.current()

    def had_chunks(self, change: NodeChange, coordinates: Columns) -> Flags:
        """Which chunks of an array existed: bool[n]."""
        stored = self.transaction.base_references(change.base)
        return np.zeros(len(coordinates), np.bool_) if stored is None else stored.find(coordinates)[0] >= 0

    def delta(self) -> Delta:
        found = DeltaBuilder(self.transaction.files)
        for change in self.changes:
            before, rows = self.before(change), self._net_rows(change)
            chunks = None if rows is None else _chunks_of(rows)
            if before is None:
                found.made[change.node.path] = Made(change.node, change.key, chunks, rows)
                continue
            found.compare(before, change.node, _append(change, before))
            if chunks is not None and rows is not None:
                found.chunks[before.path], found.rows[before.path] = chunks, rows
        return found.delta(self.removed())

    def _net_rows(self, change: NodeChange) -> Rows | None:
        """References of chunks that differ from before. Chunks that were written and removed again do not differ, and those outside of the grid do not
        count."""
        references, array = change.references, change.node.array
        if references is None or not references.count or array is None:
            return None
        rows = references.selected(self.rows(references))
        removed = rows.kinds == REMOVED
        present = ~removed & within(rows.coordinates, grid_of(array.metadata))
        if removed.any():
            present[removed] = self.had_chunks(change, rows.coordinates[removed])
        return rows.pick(present) if present.any() else None


class _SinceFork(_SinceBase):
    """The changes of a fork, or of its parent, since the fork was made. The fork still has the rows of that moment."""

    def __init__(self, transaction: Transaction, changes: ChangeSet, fork: ChangeSet) -> None:
        super().__init__(transaction, changes)
        assert fork.begun is not None
        self.begun, self.fork = fork.begun, fork

    def before(self, change: NodeChange) -> NodeSnapshot | None:
        return self.begun.nodes.get(change.key, change.base)

    def removed(self) -> dict[str, bool]:
        begun, changes, nodes = self.begun, self.changes, self.transaction.base.nodes
        removed = {node.path: node.array is not None for key, node in begun.nodes.items() if key not in changes.nodes}
        inherited = begun.removed | begun.nodes.keys()
        return removed | {
            path: bool(nodes.is_array(path)) for key, path in changes.removed.items() if key not in inherited
        }

    def rows(self, references: ChangedReferences) -> Columns:
        return references.own() if self.changes is self.fork else references.since(self.begun.count)

    def had_chunks(self, change: NodeChange, coordinates: Columns) -> Flags:
        stored, in_fork = super().had_chunks(change, coordinates), self.fork.nodes.get(change.key)
        if in_fork is None or in_fork.references is None:
            return stored
        inherited = in_fork.references.columns.pick(slice(in_fork.references.inherited))
        removed = inherited.kinds == REMOVED
        stored &= ~among(coordinates, inherited.coordinates[removed])
        return stored | among(coordinates, inherited.coordinates[~removed])


def _chunks_of(rows: Rows) -> ChunkDifference:
    removed = rows.kinds == REMOVED
    return ChunkDifference(rows.coordinates[~removed], rows.coordinates[removed])


def _append(change: NodeChange, before: NodeSnapshot) -> Append | None:
    """The append of a change of shape, if the array only grew by appends along one axis. Rows that were written after a resize are not moved."""
    old, new = before.array, change.node.array
    if old is None or new is None or change.appended is None or change.shrunk:
        return None
    grown = append_of(old.metadata.shape, new.metadata.shape)
    if grown is None or (grown.axis, grown.new) != (change.appended.axis, change.appended.new):
        return None
    return grown if change.appended.old <= grown.old else None
