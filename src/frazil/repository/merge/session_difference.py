"""What a session changed, as the same values that the comparison of two snapshots gives (difference.py); and what it read, by path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from frazil.formats.alpha.nodes import NodeSnapshot
from frazil.repository.files.attributes import same_attributes
from frazil.repository.manifests.coordinates import grid_of, sorted_coordinates, within
from frazil.repository.merge.conflicts import Reads
from frazil.repository.merge.difference import ChunkDifference, Difference, Resize
from frazil.repository.session.change_set import Append, NodeChange, append_of, same_node
from frazil.repository.session.changed_references import REMOVED
from frazil.repository.session.transaction import Transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["own_append", "own_difference", "own_reads"]


def own_difference(transaction: Transaction) -> Difference:
    """What was changed since the snapshot that the session began from. Paths are those of now; of removed nodes, those that they had."""
    with transaction.lock:
        changes = transaction.changes
        added, metadata, attributes = list[str](), list[str](), list[str]()
        renamed: list[tuple[str, str]] = []
        chunks: dict[str, ChunkDifference] = {}
        resized: dict[str, Resize] = {}
        arrays: set[str] = set()
        for change in changes:
            node, base = change.node, change.base
            if base is None:
                added.append(node.path)
                touched = True
            else:
                if base.path != node.path:
                    renamed.append((base.path, node.path))
                if not same_attributes(transaction.files, base.attributes, node.attributes):
                    attributes.append(node.path)
                _compare_arrays(base, node, metadata, resized)
                touched = not same_node(node, base)
            difference = _chunks(transaction, change)
            if difference is not None:
                chunks[node.path] = difference
            if node.array is not None and (touched or difference is not None):
                arrays.add(node.path)
        removed = sorted(changes.removed.values())
        arrays |= {path for path in removed if transaction.base.nodes.is_array(path)}
        return Difference(
            tuple(sorted(added)),
            tuple(removed),
            tuple(sorted(renamed)),
            tuple(sorted(metadata)),
            tuple(sorted(attributes)),
            chunks,
            resized,
            frozenset(arrays),
        )


def _compare_arrays(base: NodeSnapshot, node: NodeSnapshot, metadata: list[str], resized: dict[str, Resize]) -> None:
    if base.array is None or node.array is None:
        return
    old, new = base.array.metadata, node.array.metadata
    if old == new:
        return
    if old._replace(shape=new.shape) == new:
        resized[node.path] = Resize(old.shape, new.shape, new.chunk_shape)
    else:
        metadata.append(node.path)


def _chunks(transaction: Transaction, change: NodeChange) -> ChunkDifference | None:
    """The chunks that were set, and those of the base that were removed, inside the grids that the array had and has."""
    if change.references is None or not change.references.count or change.node.array is None:
        return None
    rows = change.references.selected(change.references.current())
    gone = rows.kinds == REMOVED
    metadata = change.node.array.metadata
    grid = grid_of(metadata)
    inside = within(rows.coordinates, grid)
    removed, stored = rows.coordinates[gone], transaction.stored(change.key)
    if len(removed):
        removed = removed[:0] if stored is None else removed[stored.find(removed)[0] >= 0]
    written = rows.coordinates[~gone & inside]
    return ChunkDifference(written, removed) if len(written) or len(removed) else None


def own_append(change: NodeChange) -> Append | None:
    """The append that this change is, where it is one: the array grew by appends alone, and along one axis. Rows that were written behind a resize stay where they
    were written."""
    if change.base is None or change.base.array is None or change.node.array is None or change.shrunk:
        return None
    grown = append_of(change.base.array.metadata.shape, change.node.array.metadata.shape)
    return grown if grown == change.appended else None


def own_reads(transaction: Transaction) -> Reads | None:
    """What a serializable session read, by the paths that nodes have in it now; None for any other session."""
    log = transaction.reads
    if log is None:
        return None
    chunks: dict[str, Columns] = {}
    for key, coordinates in log.chunks_read().items():
        change = transaction.changes.nodes.get(key)
        path = change.node.path if change is not None else transaction.changes.removed.get(key)
        chunks[transaction.path_of(key) if path is None else path] = sorted_coordinates(coordinates)
    listed = set(log.listed)
    nodes = set(log.nodes)
    for path in log.deep:
        below = transaction.base.nodes.subtree(path)
        listed |= set(below)
        nodes |= set(below)
    return Reads(frozenset(nodes), frozenset(listed), chunks)
