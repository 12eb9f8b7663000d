"""Following a branch that moved: what a session changed is carried over to the new tip, where nobody else changed the same things, or a solver decides.

What conflicts is said in conflicts.py. Rows of arrays that have to be read and written anew are the business of whoever knows arrays: it hands functions in."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from frazil.errors import ConflictError, InvalidInputError, NotFoundError
from frazil.formats.alpha.nodes import NodeSnapshot
from frazil.formats.alpha.snapshots import Snapshot
from frazil.record import Record
from frazil.repository.commit.commit import settle
from frazil.repository.files.attributes import same_attributes
from frazil.repository.manifests.coordinates import among
from frazil.repository.merge.conflicts import Conflict, Solver, Taken, find_conflicts, solve
from frazil.repository.merge.difference import compare
from frazil.repository.merge.session_difference import own_append, own_difference, own_reads
from frazil.repository.refs.branches import Tip, open_tip
from frazil.repository.refs.history import shared_nodes
from frazil.repository.session.array_chunks import id_texts
from frazil.repository.session.change_set import Append, ChangeSet, NodeChange, above, append_of, kept_attributes
from frazil.repository.session.changed_references import ChangedReferences
from frazil.repository.session.transaction import Transaction
from frazil.repository.session.written_files import own_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["Meeting", "RowCopies", "Shift", "meet", "rebase"]

_LAST_ID: Final = 2**32  # and one


class Shift(Record):
    """Rows that were appended to an array and come behind those of others: its path in the session, along `axis` from `old` to `new`, `by` elements further on.

    before  the path in the snapshot that the session began from;  theirs: that in the one that it goes on from"""

    path: str
    before: str
    theirs: str
    axis: int
    old: int
    new: int
    by: int


class RowCopies(Protocol):
    """What knows arrays: rows that are no whole chunks are read from one transaction and written to another."""

    def changed_rows(
        self, shift: Shift, base: Transaction, ours: Transaction, theirs: Transaction
    ) -> tuple[object | None, Columns]:
        """Values of the rows before `old` in the chunks that `old` lies in, where the session changed them, too; None where it did not. And where both did: the
        coordinates of those chunks, int64[n, d]; there are none elsewhere."""

    def copy(self, shift: Shift, ours: Transaction, target: Transaction, changed: object | None) -> None:
        """Writes the rows that were appended, and those that changed_rows gave, to the rebased session."""


class Meeting(Record):
    """What a session changed against what others committed. tip: where the branch is now;  snapshot: what it points to"""

    tip: Tip
    snapshot: Snapshot
    conflicts: list[Conflict]
    same_below: (
        int | None
    )  # ids of nodes below it mean the same nodes in both; None: nodes are told apart by path alone


def meet(transaction: Transaction) -> Meeting:
    """Looks where the branch is, and what conflicts with what was committed meanwhile. Raises ConflictError where the branch was deleted."""
    with transaction.lock:
        tip = _new_tip(transaction)
        if tip.snapshot == transaction.base_id:
            return Meeting(tip, transaction.base, [], None)
        files = transaction.files
        new = files.snapshot(tip.snapshot)
        same_below = shared_nodes(files, transaction.base_id, tip.snapshot)
        theirs = compare(files, transaction.base, new, same_below=same_below)
        appended = {
            change.node.path: append for change in transaction.changes if (append := own_append(change)) is not None
        }
        conflicts = find_conflicts(
            own_difference(transaction),
            theirs,
            appended,
            own_reads(transaction),
            transaction.base_id,
            tip.snapshot,
            agree=_Agreement(transaction, new),
        )
        return Meeting(tip, new, conflicts, same_below)


def rebase(transaction: Transaction, solver: Solver | str, rows: RowCopies) -> None:
    """Carries the changes over to the tip of the branch. Raises ConflictError, with `conflicts`, where a solver does not solve all; then nothing was changed."""
    with transaction.lock:
        transaction.require_writable()
        if transaction.tip is None:
            raise InvalidInputError("a fork is not rebased", hint="merge it into the session that it came from")
        settle(transaction)
        tip, new, conflicts, same_below = meet(transaction)
        if tip.snapshot == transaction.base_id:
            transaction.tip = tip
            return
        carried = _Carried(new, conflicts, solve(conflicts, solver), same_below)
        changes, shifts = carried.changes(transaction.changes)
        files, known, options = transaction.files, transaction.known, transaction.options
        ours = transaction.frozen()
        theirs = Transaction(files, tip.snapshot, new, None, known, options)
        base = Transaction(files, transaction.base_id, transaction.base, None, known, options)
        changed = [rows.changed_rows(shift, base, ours, theirs) for shift in shifts]
        clashes = [
            Conflict("chunks", shift.path, chunks, transaction.base_id, tip.snapshot) if len(chunks) else None
            for shift, (_, chunks) in zip(shifts, changed, strict=True)
        ]
        answers = iter(solve([clash for clash in clashes if clash is not None], solver))
        lost = [clash is not None and next(answers) == "theirs" for clash in clashes]
        before = transaction.base_id, transaction.base, transaction.changes
        transaction.begin(tip.snapshot, new, changes)
        try:
            for shift, (values, _), theirs_count in zip(shifts, changed, lost, strict=True):
                rows.copy(shift, ours, transaction, None if theirs_count else values)
        except BaseException:
            transaction.begin(*before)
            raise
        transaction.tip = tip
        transaction.moved.append(_other_nodes(before[1], new, same_below))
        left = own_files(before[2])
        transaction.superseded(left[~np.isin(id_texts(left), id_texts(own_files(transaction.changes)))])


def _other_nodes(old: Snapshot, new: Snapshot, same_below: int | None) -> Container[int]:
    """The ids of nodes of one snapshot that may be those of other nodes in the other."""
    if same_below is not None:
        return range(same_below, _LAST_ID)
    return {
        number
        for path in old.nodes
        if (number := old.nodes.id_of(path)) is not None and number != new.nodes.id_of(path)
    }


class _Agreement:
    """Whether both made the same of a node."""

    def __init__(self, ours: Transaction, new: Snapshot) -> None:
        self._ours, self._new = ours, new

    def __call__(self, what: str, mine: str, others: str) -> bool:
        ours, theirs = self._ours.changes.get(mine), self._new.nodes.get(others)
        if not isinstance(ours, NodeSnapshot) or not isinstance(theirs, NodeSnapshot):
            return False
        if what != "metadata" and not same_attributes(self._ours.files, ours.attributes, theirs.attributes):
            return False
        if what != "metadata" or ours.array is None or theirs.array is None:
            return what != "metadata"
        return ours.array.metadata == theirs.array.metadata


def _new_tip(transaction: Transaction) -> Tip:
    assert transaction.tip is not None, "a fork is not rebased"
    branch = transaction.tip.branch
    try:
        return open_tip(transaction.files, branch, transaction.tip)
    except NotFoundError:
        raise ConflictError(
            f"the branch {branch!r} was deleted", hint="the changes can be written to a session of another branch"
        ) from None


class _Carried:
    """The changes of a session over another snapshot. taken: for each conflict, whose change counts."""

    def __init__(
        self, new: Snapshot, conflicts: Sequence[Conflict], taken: Sequence[Taken], same_below: int | None
    ) -> None:
        self._new, self._same_below = new, same_below
        self._nodes: dict[tuple[str, str], Taken] = {}
        self._dropped: dict[str, list[Columns]] = {}
        self._given_up: set[str] = set()  # arrays of which nothing of ours counts but their path and attributes
        for conflict, answer in zip(conflicts, taken, strict=True):
            if answer == "theirs" and (
                conflict.kind == "metadata" or (conflict.kind == "changed" and conflict.chunks is not None)
            ):
                self._given_up.add(conflict.path)
            if conflict.chunks is None:
                self._nodes[conflict.kind, conflict.path] = answer
            elif answer == "theirs":
                self._dropped.setdefault(conflict.path, []).append(conflict.chunks)

    def changes(self, ours: ChangeSet) -> tuple[ChangeSet, list[Shift]]:
        """The change set over the new snapshot, and the rows that must be copied."""
        carried = ours.rebased(self._new.nodes)
        for key, path in ours.removed.items():
            present = self._present(key, path)
            if present is not None and self._says("changed", path) != "theirs" and carried.has(present):
                carried.remove(present)
        shifts: list[Shift] = []
        for change in ours:
            if not change.is_new:
                self._carry(change, carried, shifts)
        for change in ours:  # after what made room for them
            if change.is_new:
                self._carry_new(change, carried)
        if carried.nodes and ours.has("/") and not carried.has("/"):  # which a branch that was reset may not have
            carried.add(NodeSnapshot(0, "/", {}))
        _check_places(carried)
        return carried, shifts

    def _present(self, key: int, path: str) -> str | None:
        """Where a node of the snapshot that the session began from is in the new one. An id that was given after their common ancestor is another node's."""
        nodes = self._new.nodes
        if self._same_below is None:
            return path if path in nodes else None
        return nodes.path_of(key) if key < self._same_below else None

    def _says(self, kind: str, path: str) -> Taken | None:
        return self._nodes.get((kind, path))

    def _carry_new(self, change: NodeChange, carried: ChangeSet) -> None:
        path = change.node.path
        if self._says("parent", path) == "theirs" or self._says("created", path) == "theirs":
            return
        if carried.has(path):
            if change.node.array is None and not carried.is_array(path):  # both made a group: what lies in theirs stays
                if self._says("created", path) == "ours":
                    theirs = carried.touch(path)
                    theirs.node = theirs.node._replace(attributes=change.node.attributes)
                return
            carried.remove(path)
        carried.put(change.copy())

    def _carry(self, change: NodeChange, carried: ChangeSet, shifts: list[Shift]) -> None:
        path = change.node.path
        present = None if change.base is None else self._present(change.key, change.base.path)
        if present is None or self._says("deleted", path) == "theirs":
            return
        theirs = self._new.nodes.get(present)
        if not isinstance(theirs, NodeSnapshot) or change.base is None:
            return
        made = NodeChange(theirs.id, theirs, self._merged(change, change.base, theirs))
        made.shrunk, made.appended = change.shrunk, change.appended
        given_up = path in self._given_up
        if change.references is not None and not given_up:
            made.references = self._references(change)
        shift = None if given_up else _shift(change, theirs)
        if shift is not None:
            _grow(made, shift)
            if not _move_chunks(made, shift):
                shifts.append(shift._replace(path=made.node.path))
        if made.node.path != present and carried.has(made.node.path):
            carried.remove(made.node.path)  # as "ours" says of what both put there
        carried.put(made)

    def _merged(self, change: NodeChange, base: NodeSnapshot, theirs: NodeSnapshot) -> NodeSnapshot:
        """Their node with what we changed of it."""
        node, path = change.node, change.node.path
        merged = theirs
        stays = any(self._says(kind, path) == "theirs" for kind in ("renamed", "created", "parent"))
        if node.path != base.path and not stays:
            merged = merged._replace(path=node.path)
        if not kept_attributes(node, base) and self._says("attributes", path) != "theirs":
            merged = merged._replace(attributes=node.attributes)
        if node.array is not None and base.array is not None and theirs.array is not None:
            same = node.array.metadata == base.array.metadata or path in self._given_up
            metadata = theirs.array.metadata if same else node.array.metadata
            merged = merged._replace(array=theirs.array._replace(metadata=metadata))
        return merged

    def _references(self, change: NodeChange) -> ChangedReferences:
        assert change.references is not None
        dropped = self._dropped.get(change.node.path)
        if not dropped:
            return change.references.copy()
        rows = change.references.selected(change.references.current())
        kept = ~among(rows.coordinates, np.concatenate(dropped))
        made = ChangedReferences(change.references.rank)
        made.set(rows.pick(kept))
        return made


def _check_places(carried: ChangeSet) -> None:
    """Refuses answers that do not go together: each node that was carried has a group above it."""
    for change in carried:
        for path in above(change.node.path):
            if (carried.has(path) and carried.is_array(path) is not False) or (not carried.has(path) and path != "/"):
                raise ConflictError(
                    f"what was answered to conflicts does not go together: {change.node.path} would have no group above it",
                    path=change.node.path,
                    hint="answer the same to conflicts of a group and of what lies in it",
                )


def _shift(change: NodeChange, theirs: NodeSnapshot) -> Shift | None:
    """How far appended rows move, where both appended."""
    mine = own_append(change)
    if mine is None or change.base is None or change.base.array is None or theirs.array is None:
        return None
    their: Append | None = append_of(change.base.array.metadata.shape, theirs.array.metadata.shape)
    if their is None or their.axis != mine.axis:
        return None
    return Shift(change.node.path, change.base.path, theirs.path, mine.axis, mine.old, mine.new, their.new - their.old)


def _grow(made: NodeChange, shift: Shift) -> None:
    array = made.node.array
    assert array is not None
    shape = list(array.metadata.shape)
    shape[shift.axis] = shift.new + shift.by
    made.appended = Append(shift.axis, shift.old + shift.by, shift.new + shift.by)
    made.node = made.node._replace(array=array._replace(metadata=array.metadata._replace(shape=tuple(shape))))


def _move_chunks(made: NodeChange, shift: Shift) -> bool:
    """Moves the chunks of appended rows, where that is whole chunks; else they are left out, and the rows are to be copied. Whether they were moved."""
    array = made.node.array
    assert array is not None
    if made.references is None:
        return True
    chunk = array.metadata.chunk_shape[shift.axis]
    whole = shift.old % chunk == 0 and shift.by % chunk == 0
    rows = made.references.selected(made.references.current())
    behind = rows.coordinates[:, shift.axis] >= shift.old // chunk
    if whole:
        coordinates = rows.coordinates.copy()
        coordinates[behind, shift.axis] += shift.by // chunk
        rows = rows._replace(coordinates=coordinates)
    else:
        rows = rows.pick(~behind)
    references = ChangedReferences(made.references.rank)
    references.set(rows)
    made.references = references
    return whole
