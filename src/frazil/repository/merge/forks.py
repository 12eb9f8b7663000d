"""Forks: sessions for workers. Each begins with what its parent changed, pickles, and gives back what it changed itself, which its parent merges.

What may not meet what is the same as between two commits (conflicts.py): the state in which both began is that in which the fork was made. Two that changed the
same thing are told, and nothing is merged then."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import ConflictError, InvalidInputError
from frazil.formats.alpha.nodes import NodeSnapshot
from frazil.repository.merge.conflicts import Conflict, find_conflicts
from frazil.repository.merge.difference import ChunkDifference, Difference, Resize
from frazil.repository.session.change_set import ChangeSet, NodeChange, kept_attributes, same_node
from frazil.repository.session.changed_references import PENDING, REMOVED, VIRTUAL, ChangedReferences, Rows
from frazil.repository.session.transaction import Transaction

if TYPE_CHECKING:
    from frazil.formats.ids import ObjectId

__all__ = ["fork", "merge"]

_IDENTITY_BYTES: Final = 16
_TOLD: Final = 3  # conflicts in the message of an error


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
        made.finals, made.moved = dict(parent.finals), list(parent.moved)
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
            merging = _Merging(target, one.changes)
            conflicts = merging.conflicts(parent.base_id)
            if conflicts:
                raise _failure(conflicts)
            merging.apply()
        if homeless := _homeless(target):
            raise _failure([Conflict("parent", path, None, parent.base_id, parent.base_id) for path in homeless])
        for one in forks:
            one.changes.leave_files()
        target.leave_files()
        parent.changes = target
        parent.state += 1


def _failure(conflicts: Sequence[Conflict]) -> ConflictError:
    error = ConflictError(
        f"forks changed the same things: {'; '.join(str(conflict) for conflict in conflicts[:_TOLD])}",
        path=conflicts[0].path,
        hint="let each worker write nodes and chunks of its own",
    )
    error.conflicts = conflicts
    return error


def _homeless(target: ChangeSet) -> list[str]:
    """Paths that nodes were put at, and that lie in no group."""
    placed = [change.node.path for change in target if change.base is None or change.base.path != change.node.path]
    groups = {path: path.rpartition("/")[0] or "/" for path in placed if path != "/"}
    missing = {group for group in groups.values() if not target.has(group) or target.is_array(group)}
    return sorted(path for path, group in groups.items() if group in missing)


class _Merging:
    """What a fork changed since it was made, into the changes that it was made from as they are now: those of other forks are among them."""

    __slots__ = ("_fork", "_target")

    def __init__(self, target: ChangeSet, fork: ChangeSet) -> None:
        self._target, self._fork = target, fork

    # --- what both changed ---------------------------------------------------------------------------------------------------------

    def conflicts(self, base: ObjectId) -> list[Conflict]:
        """What both changed since. base: the snapshot, for conflicts to name"""
        theirs = self._difference(self._fork, {change.key: _inherited(change) for change in self._fork})
        if theirs.is_empty:
            return []
        ours = self._difference(self._target, self._fork.begun_rows)
        return find_conflicts(ours, theirs, {}, None, base, base, agree=self._agree)

    def _agree(self, what: str, mine: str, others: str) -> bool:
        """Whether both made the same of a node."""
        ours, theirs = self._target.get(mine), self._fork.get(others)
        if not isinstance(ours, NodeSnapshot) or not isinstance(theirs, NodeSnapshot):
            return False
        if what == "metadata":
            return ours.array is not None and ours.array == theirs.array
        return kept_attributes(ours, theirs)

    def _begun(self, change: NodeChange) -> NodeSnapshot | None:
        """A node as it was when the fork was made; None where it was not there."""
        return self._fork.begun.get(change.key, change.base)

    def _removed(self, changes: ChangeSet) -> dict[int, str]:
        """Nodes that were there when the fork was made, and are gone: where they were."""
        fork = self._fork
        gone = {key: node.path for key, node in fork.begun.items() if key not in changes.nodes}
        known = fork.begun_removed | fork.begun.keys()
        return gone | {key: path for key, path in changes.removed.items() if key not in known}

    def _difference(self, changes: ChangeSet, first: Mapping[int, int]) -> Difference:
        """What either side changed since the fork was made. first: rows that each array's changes had then"""
        removed = self._removed(changes)
        added, metadata, attributes = list[str](), list[str](), list[str]()
        renamed: list[tuple[str, str]] = []
        chunks: dict[str, ChunkDifference] = {}
        resized: dict[str, Resize] = {}
        arrays: set[str] = set()
        for change in changes:
            before, node = self._begun(change), change.node
            if node.array is not None:
                arrays.add(node.path)
            if before is None:
                added.append(node.path)
                continue
            if before.path != node.path:
                renamed.append((before.path, node.path))
            if not kept_attributes(before, node):
                attributes.append(node.path)
            resize = _resize(before, node)
            if resize is not None:
                resized[node.path] = resize
            elif before.array != node.array:
                metadata.append(node.path)
            written = _chunks(change, first.get(change.key, 0))
            if written is not None:
                chunks[node.path] = written
        return Difference(
            tuple(sorted(added)),
            tuple(sorted(removed.values())),
            tuple(sorted(renamed)),
            tuple(sorted(metadata)),
            tuple(sorted(attributes)),
            chunks,
            resized,
            frozenset(arrays),
        )

    # --- taking it over ------------------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Where there are no conflicts: each node gets what either side made of it, and all that moves does so at once."""
        target, fork = self._target, self._fork
        segments, locations = self._segments(), self._locations()
        for key in self._removed(fork):
            target.drop(key, fork.removed.get(key))
        for path in fork.vanished():
            target.vanish(path)
        moved: dict[int, str] = {}
        for change in fork:
            before = self._begun(change)
            if before is None:
                continue
            rows = _renumbered(change, segments, locations)
            changed = not same_node(change.node, before) or (rows is not None and len(rows.coordinates))
            mine = self._mine(change) if changed else None
            if mine is not None:
                _adopt(mine, change, before, rows)
                if change.node.path != before.path:
                    moved[change.key] = change.node.path
        target.rename(moved)
        for change in fork:
            both = target.key_at(change.node.path) in target.nodes  # made this group
            if self._begun(change) is None and not both:
                made = NodeChange(change.key, None, change.node)
                rows = _renumbered(change, segments, locations)
                if rows is not None:
                    made.references = ChangedReferences(rows.coordinates.shape[1])
                    made.references.set(rows)
                target.put(made)

    def _mine(self, change: NodeChange) -> NodeChange | None:
        """The node in the changes so far; None where it is gone, and nothing that counts was made of it."""
        mine = self._target.nodes.get(change.key)
        if mine is None and change.base is not None and change.key not in self._target.removed:
            mine = self._target.touch(change.base.path)
        return mine

    def _segments(self) -> dict[int, int]:
        """The bytes of the fork's own chunks that wait, and their numbers among those of the parent."""
        numbers: dict[int, int] = {}
        for change in self._fork:
            if change.references is not None:
                rows = change.references.selected(change.references.own())
                for number in np.unique(rows.objects[rows.kinds == PENDING]).tolist():
                    if number not in numbers:
                        numbers[number] = self._target.pending.append(self._fork.pending.segments[number])
        return numbers

    def _locations(self) -> dict[int, int]:
        known = {text: number for number, text in enumerate(self._target.locations)}
        checks = self._fork.location_checks
        return {
            number: self._target.location(text, checks.get(text), known)
            for number, text in enumerate(self._fork.locations)
        }


def _inherited(change: NodeChange) -> int:
    return 0 if change.references is None else change.references.inherited


def _resize(before: NodeSnapshot, node: NodeSnapshot) -> Resize | None:
    """What became of the shape, where nothing else of the metadata is another."""
    if before.array is None or node.array is None:
        return None
    old, new = before.array.metadata, node.array.metadata
    if old.shape == new.shape or old._replace(shape=new.shape) != new:
        return None
    return Resize(old.shape, new.shape, new.chunk_shape)


def _chunks(change: NodeChange, first: int) -> ChunkDifference | None:
    """Chunks of an array in rows from `first` on."""
    references = change.references
    if references is None or references.count <= first:
        return None
    current = references.current()
    rows = references.selected(current[current >= first])
    gone = rows.kinds == REMOVED
    return ChunkDifference(rows.coordinates[~gone], rows.coordinates[gone])


def _adopt(mine: NodeChange, change: NodeChange, before: NodeSnapshot, rows: Rows | None) -> None:
    """Gives a node what a fork made of it, but for its path."""
    if not kept_attributes(change.node, before):
        mine.node = mine.node._replace(attributes=change.node.attributes)
    if change.node.array != before.array:
        both = mine.node.array == change.node.array
        mine.appended = change.appended if not both or mine.appended == change.appended else None
        mine.node = mine.node._replace(array=change.node.array)
        mine.shrunk |= change.shrunk
    if rows is not None and len(rows.coordinates):
        mine.changed_references().set(rows)


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
