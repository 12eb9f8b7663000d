"""Forks: sessions for workers. Each begins with what its parent changed, pickles, and gives back what it changed itself, which its parent merges.

Two that changed the same thing are told, and nothing is merged then."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import ConflictError, InvalidInputError
from frazil.format.nodes import NodeSnapshot
from frazil.repository.change_set import ChangeSet, NodeChange, above
from frazil.repository.changes import PENDING, VIRTUAL, ChangedReferences, Rows
from frazil.repository.conflicts import Conflict
from frazil.repository.coordinates import among
from frazil.repository.transaction import Transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["fork", "merge"]

_IDENTITY_BYTES: Final = 16


def fork(parent: Transaction) -> Transaction:
    """A session over the same snapshot, with what the parent changed so far. Raises ReadOnlyError."""
    with parent.lock:
        parent.require_writable()
        made = Transaction(parent.files, parent.base_id, parent.base, None, parent.known, parent.options)
        made.forked = True
        parent.changes.leave_files()
        parent.changes.identity = parent.changes.identity or os.urandom(_IDENTITY_BYTES)
        changes = parent.changes.copy()
        changes.identity, changes.origin = b"", parent.changes.identity
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
    with ExitStack() as held:
        held.enter_context(parent.lock)
        parent.require_writable()
        target = parent.changes.copy()
        for one in forks:
            if not one.forked or not target.identity or one.changes.origin != target.identity:
                raise InvalidInputError(
                    f"{one!r} is no fork of this session as it is now",
                    hint="merge forks before you commit, rebase or discard",
                )
            held.enter_context(one.lock)
            conflicts = _Merge(parent, target).take(one.changes)
            if conflicts:
                error = ConflictError(
                    f"forks changed the same things: {'; '.join(str(conflict) for conflict in conflicts[:3])}",
                    path=conflicts[0].path,
                    hint="let each worker write chunks of its own",
                )
                error.conflicts = conflicts
                raise error
        for one in forks:
            one.changes.leave_files()
        target.leave_files()
        parent.changes = target
        parent.state += 1


class _Merge:
    """One fork, into the changes so far."""

    def __init__(self, parent: Transaction, target: ChangeSet) -> None:
        self._parent, self._target = parent, target
        self._conflicts: list[Conflict] = []

    def take(self, changes: ChangeSet) -> list[Conflict]:
        target = self._target
        segments = self._segments(changes)
        locations = self._locations(changes)
        self._move(changes)
        for key in changes.removed.keys() - changes.begun_removed:
            self._remove(key, changes)
        for key, node in changes.begun.items():
            if key < 0 and key not in changes.nodes and target.has(node.path):
                target.remove(node.path)
        for path in self._move(changes):
            self._refuse("created", path)
        created = [change for change in changes if change.is_new and change.key not in changes.begun]
        for change in changes:
            begun = changes.begun.get(change.key)
            if begun is None and change.is_new:
                continue
            mine = target.nodes.get(change.key)
            if mine is None:
                if change.key in target.removed or change.base is None:
                    self._refuse("deleted", change.node.path)
                    continue
                mine = target.touch(change.base.path)
            first = changes.begun_rows.get(change.key, 0)
            self._change(mine, change, begun or change.base, first, _renumbered(change, segments, locations))
        for change in created:
            self._create(change, segments, locations)
        for path in self._placed(changes):
            if any(not target.has(group) or target.is_array(group) for group in above(path)):
                self._refuse("parent", path)
        return self._conflicts

    def _move(self, changes: ChangeSet) -> list[str]:
        """Gives nodes the paths that they have in the fork, where nothing is in the way; the others' paths."""
        target = self._target
        left = [change for change in changes if self._begun_path(changes, change) not in (None, change.node.path)]
        while left:
            kept = []
            for change in left:
                mine = target.nodes.get(change.key)
                present = _present_path(mine, change)
                if present != self._begun_path(changes, change) or not target.has(present):
                    continue  # elsewhere already, or gone
                if target.has(change.node.path):
                    kept.append(change)
                else:
                    target.move(present, change.node.path)
            if len(kept) == len(left):
                break
            left = kept
        return [change.node.path for change in left]

    def _begun_path(self, changes: ChangeSet, change: NodeChange) -> str | None:
        """Where a node was when the fork began; None where it is new."""
        begun = changes.begun.get(change.key, change.base)
        return None if begun is None else begun.path

    def _placed(self, changes: ChangeSet) -> list[str]:
        """Paths that the fork made, or moved nodes to."""
        return [change.node.path for change in changes if self._begun_path(changes, change) != change.node.path]

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
        checks = changes.location_checks
        return {
            number: self._target.location(text, checks.get(text), known)
            for number, text in enumerate(changes.locations)
        }

    def _remove(self, key: int, changes: ChangeSet) -> None:
        path = self._parent.path_of(key)
        if key in self._target.nodes:
            before = changes.begun.get(key)
            if before is None or self._target.nodes[key].node != before:
                self._refuse("changed", path)
                return
            path = self._target.nodes[key].node.path
        if not self._target.has(path):
            return
        for at in self._target.at_and_below(path):
            below = self._target.key_at(at)
            if below is not None and below not in changes.removed and below not in changes.begun:
                self._refuse("changed", at)
                return
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
            if mine.node != begun._replace(path=mine.node.path) or mine.node.path not in (begun.path, change.node.path):
                self._refuse("metadata", change.node.path)
                return
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


def _present_path(mine: NodeChange | None, change: NodeChange) -> str:
    """Where a node is in the changes so far."""
    if mine is not None:
        return mine.node.path
    return change.node.path if change.base is None else change.base.path


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
