"""Following a branch that moved: the delta of a session is applied to the new tip, where nobody else changed the same things, or a solver decides.

What conflicts is said in conflicts.py. Appended rows that are no whole chunks have to be read and written anew: whoever knows arrays hands that in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from frazil.errors import ConflictError, InvalidInputError, NotFoundError
from frazil.formats.alpha.nodes import NodeSnapshot
from frazil.formats.alpha.snapshots import Snapshot
from frazil.record import Record
from frazil.repository.commit.commit import settle
from frazil.repository.format import NodeMatching, Tip
from frazil.repository.manifests.coordinates import among
from frazil.repository.merge.apply import Shift, apply
from frazil.repository.merge.conflicts import Conflict, find_conflicts
from frazil.repository.merge.delta import Delta
from frazil.repository.merge.session_delta import session_delta
from frazil.repository.merge.snapshot_delta import snapshot_delta
from frazil.repository.merge.solvers import Solver, answered, solve
from frazil.repository.session.change_set import ChangeSet
from frazil.repository.session.chunk_lookup import id_texts
from frazil.repository.session.transaction import Transaction
from frazil.repository.session.written_files import own_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["Meeting", "RowCopies", "meet", "rebase"]


class RowCopies(Protocol):
    """What knows arrays: rows that are no whole chunks are read from one transaction and written to another."""

    def changed_chunks(
        self, shift: Shift, base: Transaction, ours: Transaction, theirs: tuple[Transaction, str]
    ) -> tuple[Columns, Columns]:
        """Of the chunks that the first appended row lies in, those of which the session changed older rows, and of these, those of which the others did, too: the
        coordinates, int64[n, d]. theirs: with the path of the array"""

    def copy(self, shift: Shift, ours: Transaction, target: tuple[Transaction, str], changed: Columns) -> None:
        """Writes the rows that were appended, and older rows of the chunks that were changed, to the rebased session. target: with the path of the array"""


class Meeting(Record):
    """What a session changed against what others committed. tip: where the branch is now;  snapshot: what it points to"""

    tip: Tip
    snapshot: Snapshot
    matching: NodeMatching
    ours: Delta
    theirs: Delta
    conflicts: list[Conflict]


def meet(transaction: Transaction) -> Meeting:
    """Looks where the branch is, and what conflicts with what was committed meanwhile. Raises ConflictError where the branch was deleted."""
    with transaction.lock:
        return _meet(transaction, _new_tip(transaction))


def _meet(transaction: Transaction, tip: Tip) -> Meeting:
    files = transaction.files
    new = files.snapshot(tip.snapshot)
    matching = files.match_nodes(transaction.base_id, tip.snapshot)
    ours = session_delta(transaction)
    asked = ours.touched()
    if ours.reads is not None:
        asked |= ours.reads.chunks.keys() | ours.reads.arrays
    theirs = snapshot_delta(files, transaction.base, new, matching, chunks_of=asked, attributes_of=ours.made.keys())
    conflicts = find_conflicts(ours, theirs, transaction.base_id, tip.snapshot)
    return Meeting(tip, new, matching, ours, theirs, conflicts)


def _new_tip(transaction: Transaction) -> Tip:
    assert transaction.tip is not None, "a fork is not rebased"
    branch = transaction.tip.branch
    try:
        return transaction.files.tip(branch, transaction.tip)
    except NotFoundError:
        raise ConflictError(
            f"the branch {branch!r} was deleted", hint="the changes can be written to a session of another branch"
        ) from None


def rebase(transaction: Transaction, solver: Solver | str, rows: RowCopies) -> None:
    """Carries the changes over to the tip of the branch. Raises ConflictError, with `conflicts`, where a solver does not solve all, or its answers do not go
    together; then nothing was changed."""
    with transaction.lock:
        transaction.require_writable()
        if transaction.tip is None:
            raise InvalidInputError("a fork is not rebased", hint="merge it into the session that it came from")
        settle(transaction)
        tip = _new_tip(transaction)
        if transaction.written.intents and tip.snapshot != transaction.base_id:
            settle(
                transaction
            )  # a branch file may have arrived since: a rebase over our own commit would make its changes twice
            tip = _new_tip(transaction)
        if tip.snapshot == transaction.base_id:
            transaction.tip = tip
            return
        met = _meet(transaction, tip)
        left = answered(met.ours, met.theirs, met.conflicts, solve(met.conflicts, solver))
        changes = transaction.changes.rebased(met.snapshot.nodes, met.matching.there)
        shifts = apply(left.delta, changes, transaction.changes, _where(met.matching, changes), over=left.over)
        if changes.nodes and transaction.changes.has("/") and not changes.has("/"):
            changes.add(NodeSnapshot(0, "/", {}))  # which a branch that was reset may not have
        _go_on(transaction, met, changes, shifts, solver, rows)


def _where(matching: NodeMatching, changes: ChangeSet) -> Callable[[str], int | None]:
    def where(path: str) -> int | None:
        there = matching.there(path)
        return None if there is None else changes.key_at(there)

    return where


def _go_on(
    transaction: Transaction,
    met: Meeting,
    changes: ChangeSet,
    shifts: list[Shift],
    solver: Solver | str,
    rows: RowCopies,
) -> None:
    """The session goes on from the new tip; as it was, where rows cannot be copied."""
    files, known, options = transaction.files, transaction.known, transaction.options
    ours = transaction.frozen()
    theirs = Transaction(files, met.tip.snapshot, met.snapshot, None, known, options)
    base = Transaction(files, transaction.base_id, transaction.base, None, known, options)
    changed: list[Columns] = []
    clashes: list[Conflict] = []
    for shift in shifts:
        mine, both = rows.changed_chunks(shift, base, ours, (theirs, met.matching.there(shift.before) or ""))
        changed.append(mine)
        if len(both):
            clashes.append(Conflict("chunks", shift.ours, both, transaction.base_id, met.tip.snapshot))
    lost = {
        clash.path: clash.chunks
        for clash, answer in zip(clashes, solve(clashes, solver), strict=True)
        if answer == "theirs" and clash.chunks is not None
    }
    before, tip, reads = (
        (transaction.base_id, transaction.base, transaction.changes),
        transaction.tip,
        transaction.reads,
    )
    try:
        transaction.reads = None  # copying is no reading
        transaction.begin(met.tip.snapshot, met.snapshot, changes, tip=met.tip)
        for shift, mine in zip(shifts, changed, strict=True):
            kept = mine if shift.ours not in lost else mine[~among(mine, lost[shift.ours])]
            rows.copy(shift, ours, (transaction, transaction.path_of(shift.key)), kept)
        transaction.reads = None if reads is None else reads.over(met.matching.there)
    except BaseException:
        transaction.begin(*before, tip=tip)
        transaction.reads = reads
        raise
    left = own_files(before[2])
    transaction.superseded(left[~np.isin(id_texts(left), id_texts(own_files(transaction.changes)))])
