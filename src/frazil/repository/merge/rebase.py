"""A rebase applies the delta of a session to the new tip of its branch, if no other commit changed the same things, or a solver decides.

Appended rows that are not whole chunks have to be read and written again; the caller's RowCopies does this, as this package does not know arrays."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, Protocol, TypeAlias

from frazil.base import arrays
from frazil.base.record import Record
from frazil.base.weak_references import Alone
from frazil.errors import ConflictError, InvalidInputError, NotFoundError
from frazil.formats.nodes import NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.repository.commit.commit import follow, moved_by_commits, resolve_intents
from frazil.repository.format import NodeMatching, Tip
from frazil.repository.manifests.coordinates import among
from frazil.repository.merge.apply import Shift, apply
from frazil.repository.merge.conflicts import Conflict, Taken, find_conflicts
from frazil.repository.merge.delta import Delta
from frazil.repository.merge.equal_changes import Sides
from frazil.repository.merge.session_delta import session_delta
from frazil.repository.merge.snapshot_delta import snapshot_delta
from frazil.repository.merge.solvers import Solver, answered, solve
from frazil.repository.session.change_set import ChangeSet
from frazil.repository.session.chunk_lookup import id_texts
from frazil.repository.session.transaction import Transaction
from frazil.repository.session.written_files import own_files
from frazil.stores.values import Columns

_SAME_NODES: Final = NodeMatching({}, (), frozenset())
_THEIRS: Final[tuple[Taken]] = ("theirs",)

Located: TypeAlias = tuple[Transaction, str]  # an array: a transaction, and the path in it


class RowCopies(Protocol):
    """Reads rows that are not whole chunks from one transaction, and writes them to another."""

    def changed_chunks(
        self, shift: Shift, base: Transaction, ours: Located, theirs: Located
    ) -> tuple[Columns, Columns]:
        """Among the chunks that contain the first appended row: those whose older rows the session changed, and of these, those whose older rows others
        changed, too. Both are coordinates, int64[n, d]."""

    def copy(self, shift: Shift, ours: Located, target: Located, changed: Columns) -> None:
        """Writes the appended rows, and the older rows of changed chunks, to the array of the rebased session."""


class Divergence(Record):
    """The changes of a session and those of other commits. tip: the present tip of the branch; `snapshot` is its snapshot. If the other commits are known to
    have changed nothing but other chunks, `theirs` is empty, and `matching` has no pairs"""

    tip: Tip
    snapshot: Snapshot
    matching: NodeMatching
    ours: Delta
    theirs: Delta
    conflicts: list[Conflict]


def find_divergence(transaction: Transaction, tip: Tip | None = None, *, by_path: bool = False) -> Divergence:
    """Compares a session with the commits made meanwhile. tip: the present tip of the branch, None: it is looked up;  by_path: as for rebase. Raises
    ConflictError if the branch was deleted."""
    with transaction.lock:
        tip, files, began = tip or _new_tip(transaction), transaction.files, transaction.base_id
        new = files.snapshot(tip.snapshot)
        if _is_disjoint(transaction, tip):
            return Divergence(tip, new, _SAME_NODES, session_delta(transaction), Delta(), [])
        try:
            matching = files.match_nodes(began, tip.snapshot)
        except NotFoundError as error:
            raise ConflictError(
                f"the branch {tip.branch!r} has moved, and a rebase needs a snapshot that was removed: {error.message}",
                key=error.key,
                hint="discard the session, and make the changes again in a new one",
            ) from error
        ours = session_delta(transaction)
        compare = partial(
            snapshot_delta, chunks_of=_compared_chunks(ours), attributes_of=ours.made.keys(), exact=by_path
        )
        by_id = matching
        if by_path:
            matching = _with_same_paths(by_id, transaction.base, new)
        theirs = compare(files, transaction.base, new, matching)
        # another array in place of one that the session renamed: the new name is not for it
        if replaced := by_id.removed & matching.pairs.keys() & ours.moved.keys() & theirs.touched():
            matching = _with_same_paths(by_id, transaction.base, new, replaced)
            theirs = compare(files, transaction.base, new, matching)
        conflicts = find_conflicts(ours, theirs, began, tip.snapshot)
        return Divergence(tip, new, matching, ours, theirs, conflicts)


def _with_same_paths(
    matching: NodeMatching, old: Snapshot, new: Snapshot, replaced: AbstractSet[str] = frozenset()
) -> NodeMatching:
    """Also matches removed and added nodes of one path, kind and rank, but not those that were replaced."""
    same = set()
    for path in matching.removed.intersection(matching.added) - replaced:
        before, after = old.nodes.get(path), new.nodes.get(path)
        if isinstance(before, NodeSnapshot) and isinstance(after, NodeSnapshot) and before.rank == after.rank:
            same.add(path)
    added = [path for path in matching.added if path not in same]
    return NodeMatching({**matching.pairs, **{path: path for path in same}}, added, matching.removed - same)


def _is_disjoint(transaction: Transaction, tip: Tip) -> bool:
    """Whether the session and all commits up to a tip are known to have changed nothing but chunks, none of them the same. False: unknown."""
    chunks = None if transaction.reads is not None else transaction.changes.few_chunks()
    return chunks is not None and transaction.branches.changed_none(chunks, transaction.base_id, tip.snapshot)


def _compared_chunks(ours: Delta) -> dict[str, Columns | None]:
    """The nodes whose chunks have to be compared with those of other commits, and which chunks; None: all. If the session only changed chunks of an array,
    these."""
    if ours.reads is not None:
        return dict.fromkeys(ours.touched() | ours.reads.chunks.keys() | ours.reads.arrays)
    alone = ours.chunks.keys() - ours.removed.keys() - ours.moved.keys() - ours.metadata.keys() - ours.attributes.keys()
    return {path: ours.chunks[path].every if path in alone else None for path in ours.touched()}


def _new_tip(transaction: Transaction) -> Tip:
    assert transaction.tip is not None, "a fork is not rebased"
    branch = transaction.tip.branch
    try:
        return transaction.files.tip(branch, transaction.branches.latest(transaction.tip))
    except NotFoundError:
        hint = "write the changes in a session of another branch"
        raise ConflictError(f"the branch {branch!r} was deleted", hint=hint) from None


def rebase(transaction: Transaction, solver: Solver | str, rows: RowCopies, *, by_path: bool = False) -> None:
    """Moves the session with its changes to the tip of the branch. by_path: a node that was removed and created again at its path, of the same kind and rank,
    counts as the same node, a chunk that was replaced and restored as unchanged, and equal changes of both sides are no conflict. Raises ConflictError, with
    `conflicts`, if a solver does not solve all, or its answers contradict each other; then nothing is changed."""
    with transaction.lock, Alone():
        transaction.whole_changes.wait()
        transaction.require_writable()
        if transaction.tip is None:
            raise InvalidInputError("a fork is not rebased", hint="merge it into the session that it came from")
        if transaction.written.intents:
            resolve_intents(transaction)
        tip = _new_tip(transaction)
        by_commits = moved_by_commits(transaction, tip)
        if not by_commits or (transaction.written.intents and tip.snapshot != transaction.base_id):
            # the branch may have been removed and created again, which is refused; or a commit of this session may have arrived since: a rebase on top of it
            # would make its changes twice
            resolve_intents(transaction)
            tip = _new_tip(transaction)
            by_commits = moved_by_commits(transaction, tip)
        if tip.snapshot == transaction.base_id:
            follow(transaction, tip)
            return
        transaction.needs_check |= not by_commits
        if _is_disjoint(transaction, tip):
            new = transaction.files.snapshot(tip.snapshot)
            same = transaction.changes.follows(new.nodes)
            if same is not None:
                transaction.begin(tip.snapshot, new, same, tip=tip)
                return
        met = find_divergence(transaction, tip, by_path=by_path)
        conflicts, equal = met.conflicts, list[Conflict]()
        if by_path and solver not in ("ours", "theirs"):  # these need not read chunks, which may be damaged
            conflicts, equal = Sides(transaction, _reader(transaction, met), met.ours, met.matching).split(conflicts)
        choices = solve(conflicts, solver)
        remaining, over = answered(met.ours, met.theirs, [*conflicts, *equal], [*choices, *_THEIRS * len(equal)])
        changes = transaction.changes.rebased(met.snapshot.nodes, met.matching.there)

        def where(path: str) -> int | None:
            new_path = met.matching.there(path)
            return None if new_path is None else changes.key_at(new_path)

        shifts = apply(remaining, changes, transaction.changes, where, over=over)
        if changes.nodes and transaction.changes.has("/") and not changes.has("/"):
            changes.add(NodeSnapshot(0, "/", {}))  # a branch that was reset may lack it
        _begin(transaction, met, changes, shifts, solver, rows)


def _reader(transaction: Transaction, met: Divergence) -> Transaction:
    """A session that reads the tip."""
    files, extensions, options = transaction.files, transaction.extensions, transaction.options
    return Transaction(files, met.tip.snapshot, met.snapshot, None, extensions, options)


def _appended(
    transaction: Transaction, met: Divergence, shifts: list[Shift], rows: RowCopies
) -> tuple[list[Located], list[Columns], list[Conflict]]:
    """For each array whose appended rows are to be copied: the array in the session, and the older chunks around the first of these rows that the session
    changed. And conflicts about such chunks."""
    files, extensions, options = transaction.files, transaction.extensions, transaction.options
    session = transaction.frozen()
    ours = [(session, met.ours.name(shift.before)) for shift in shifts]
    theirs = _reader(transaction, met)
    base = Transaction(files, transaction.base_id, transaction.base, None, extensions, options)
    changed: list[Columns] = []
    clashes: list[Conflict] = []
    for shift, our in zip(shifts, ours, strict=True):
        mine, both = rows.changed_chunks(shift, base, our, (theirs, met.matching.there(shift.before) or ""))
        changed.append(mine)
        if len(both):
            clashes.append(Conflict("chunks", our[1], both, transaction.base_id, met.tip.snapshot))
    return ours, changed, clashes


def _begin(
    transaction: Transaction,
    met: Divergence,
    changes: ChangeSet,
    shifts: list[Shift],
    solver: Solver | str,
    rows: RowCopies,
) -> None:
    """Moves the session to the tip. It does not change if rows cannot be copied."""
    ours, changed, clashes = _appended(transaction, met, shifts, rows) if shifts else ([], [], [])
    choices = zip(clashes, solve(clashes, solver), strict=True)
    lost = {clash.path: clash.chunks for clash, answer in choices if answer == "theirs"}
    before = transaction.base_id, transaction.base, transaction.changes
    tip, reads = transaction.tip, transaction.reads
    try:
        transaction.reads = None  # copying does not count as reading
        transaction.begin(met.tip.snapshot, met.snapshot, changes, tip=met.tip)
        for shift, our, mine in zip(shifts, ours, changed, strict=True):
            dropped = lost.get(our[1])
            own_rows = mine if dropped is None else mine[~among(mine, dropped)]
            rows.copy(shift, our, (transaction, transaction.path_of(shift.key)), own_rows)
        transaction.reads = None if reads is None else reads.over(met.matching.there)
    except BaseException:
        transaction.begin(*before, tip=tip)
        transaction.reads = reads
        raise
    unused = own_files(before[2])
    if len(unused):
        transaction.written.superseded(
            unused[~arrays.among(id_texts(unused), arrays.distinct(id_texts(own_files(transaction.changes))))]
        )
