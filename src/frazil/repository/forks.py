"""Forks: sessions for workers. Each begins with what its parent changed, pickles, and gives back what it changed itself, which its parent merges.

Two that changed the same thing are told, and nothing is merged then."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil.errors import ConflictError, InvalidInputError
from frazil.format.nodes import NodeSnapshot
from frazil.repository.change_set import ChangeSet, NodeChange
from frazil.repository.changes import PENDING, VIRTUAL, ChangedReferences, Rows
from frazil.repository.conflicts import Conflict
from frazil.repository.coordinates import among
from frazil.repository.transaction import Transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["fork", "merge"]


def fork(parent: Transaction) -> Transaction:
    """A session over the same snapshot, with what the parent changed so far. Raises ReadOnlyError."""
    with parent.lock:
        parent.require_writable()
        made = Transaction(parent.files, parent.base_id, parent.base, None, parent.known, parent.options)
        made.forked = True
        changes = parent.changes.copy()
        for change in changes:
            if change.references is not None:
                change.references.inherited = change.references.count
        changes.begun = {change.key: change.node for change in changes}
        changes.begun_rows = {
            change.key: change.references.count for change in parent.changes if change.references is not None
        }
        changes.begun_removed = frozenset(changes.removed)
        # no two forks give the same key to a new node
        changes.next_key = -(1 + int.from_bytes(os.urandom(7), "big")) << 7
        made.begin(parent.base_id, parent.base, changes)
        made.finals = dict(parent.finals)
        return made


def merge(parent: Transaction, forks: Sequence[Transaction]) -> None:
    """Takes over what forks changed. Raises ConflictError, with the conflicts, and InvalidInputError for what is no fork of this session as it is now."""
    with parent.lock:
        parent.require_writable()
        target = parent.changes.copy()
        for one in forks:
            if not one.forked or one.base_id != parent.base_id:
                raise InvalidInputError(
                    f"{one!r} is no fork of this session as it is now",
                    hint="merge forks before you commit, rebase or discard",
                )
            conflicts = _Merge(parent, target).take(one.changes)
            if conflicts:
                error = ConflictError(
                    f"forks changed the same things: {'; '.join(str(conflict) for conflict in conflicts[:3])}",
                    path=conflicts[0].path,
                    hint="let each worker write chunks of its own",
                )
                error.conflicts = conflicts
                raise error
        parent.changes = target


class _Merge:
    """One fork, into the changes so far."""

    def __init__(self, parent: Transaction, target: ChangeSet) -> None:
        self._parent, self._target = parent, target
        self._conflicts: list[Conflict] = []

    def take(self, changes: ChangeSet) -> list[Conflict]:
        target = self._target
        segments = self._segments(changes)
        locations = self._locations(changes)
        for key in changes.removed.keys() - changes.begun_removed:
            self._remove(key, changes)
        for key, node in changes.begun.items():
            if key < 0 and key not in changes.nodes and target.has(node.path):
                target.remove(node.path)
        for change in changes:
            begun = changes.begun.get(change.key)
            if begun is None and change.is_new:
                self._create(change, segments, locations)
                continue
            mine = target.nodes.get(change.key)
            if mine is None:
                if change.key in target.removed or change.base is None:
                    self._refuse("deleted", change.node.path)
                    continue
                mine = target.touch(change.base.path)
            first = changes.begun_rows.get(change.key, 0)
            self._change(mine, change, begun or change.base, first, _renumbered(change, segments, locations))
        return self._conflicts

    def _refuse(self, kind: str, path: str, chunks: Columns | None = None) -> None:
        self._conflicts.append(Conflict(kind, path, chunks, self._parent.base_id, self._parent.base_id))

    def _segments(self, changes: ChangeSet) -> dict[int, int]:
        """The bytes of the fork's own chunks that wait, and their numbers among those of the parent."""
        numbers: dict[int, int] = {}
        for change in changes:
            if change.references is not None:
                rows = change.references.selected(change.references.own())
                for number in np.unique(rows.objects[rows.kinds == PENDING]).tolist():
                    if number not in numbers:
                        numbers[number] = self._target.pending.append(changes.pending.segments[number])
        return numbers

    def _locations(self, changes: ChangeSet) -> dict[int, int]:
        known = {text: number for number, text in enumerate(self._target.locations)}
        self._target.location_checks.update(changes.location_checks)
        return {number: self._target.location(text, known) for number, text in enumerate(changes.locations)}

    def _remove(self, key: int, changes: ChangeSet) -> None:
        path = self._parent.path_of(key)
        if key in self._target.nodes:
            before = changes.begun.get(key)
            if before is None or self._target.nodes[key].node != before:
                self._refuse("changed", path)
                return
            path = self._target.nodes[key].node.path
        if self._target.has(path):
            self._target.remove(path)

    def _create(self, change: NodeChange, segments: dict[int, int], locations: dict[int, int]) -> None:
        path = change.node.path
        if self._target.has(path):
            there = self._target.get(path)
            same_group = isinstance(there, NodeSnapshot) and there.array is None and change.node.array is None
            if not same_group or (there is not None and change.node.attributes != there.attributes):  # type: ignore[union-attr]
                self._refuse("created", path)
            return
        made = NodeChange(change.key, None, change.node)
        rows = _renumbered(change, segments, locations)
        if rows is not None:
            made.references = ChangedReferences(rows.coordinates.shape[1])
            made.references.set(rows)
        self._target.put(made)

    def _change(
        self,
        mine: NodeChange,
        change: NodeChange,
        begun: NodeSnapshot | None,
        first: int,
        rows: Rows | None,
    ) -> None:
        """first: the first row of the array's changes that came after the fork."""
        if begun is not None and change.node not in (begun, mine.node):
            if mine.node != begun:
                self._refuse("metadata", change.node.path)
                return
            if change.node.path != mine.node.path:
                self._target.move(mine.node.path, change.node.path)
            mine.node = change.node
            mine.shrunk |= change.shrunk
        if rows is None or not len(rows.coordinates):
            return
        references = mine.changed_references()
        current = references.current()
        others = references.selected(current[current >= first])
        overlap = among(rows.coordinates, others.coordinates)
        if overlap.any():
            self._refuse("chunks", change.node.path, rows.coordinates[overlap])
            return
        references.set(rows)


def _renumbered(change: NodeChange, segments: dict[int, int], locations: dict[int, int]) -> Rows | None:
    """The fork's own rows, as the parent has them."""
    references = change.references
    if references is None:
        return None
    rows = references.selected(references.own())
    objects = rows.objects.copy()
    for kind, numbers in ((PENDING, segments), (VIRTUAL, locations)):
        of_kind = rows.kinds == kind
        for number in np.unique(rows.objects[of_kind]).tolist():
            objects[of_kind & (rows.objects == number)] = numbers[number]
    return rows._replace(objects=objects)
