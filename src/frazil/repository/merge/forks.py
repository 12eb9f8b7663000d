"""Forks: sessions for workers. Each begins with the changes of its parent, can be pickled, and returns with its own changes, which the parent merges.

Conflicts are the same as between two commits (conflicts.py): the base of both deltas is the state in which the fork was made. If there is a conflict, nothing
is merged."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.base.arrays import Octets
from frazil.base.record import Record
from frazil.errors import ConflictError, InvalidInputError
from frazil.repository.merge.apply import apply
from frazil.repository.merge.conflicts import conflict_error, find_conflicts
from frazil.repository.merge.session_delta import fork_delta, parent_delta
from frazil.repository.session.change_set import ChangeSet
from frazil.repository.session.read_log import Reads
from frazil.repository.session.transaction import Transaction


def fork(parent: Transaction) -> Transaction:
    """A session on the same snapshot, with the present changes of the parent. Raises ReadOnlyError."""
    with parent.lock:
        parent.whole_changes.wait()
        parent.require_writable()
        parent.changes.leave_files()
        return parent.fork(parent.changes.forked())


def fork_apart(parent: Transaction) -> Transaction:
    """A fork for this process, which the parent merges or discards before anything else: the chunk files that were the parent's alone stay so."""
    with parent.lock:
        parent.whole_changes.wait()
        own = parent.own_files()
        forked = fork(parent)
        parent.changes.packs = [own]  # until another fork begins, or a commit
        return forked


class _Taken(Record):
    """What a merge takes of a fork.

    fork  a copy of it;  files: the chunk files that were the fork's alone;  reads: None if they are not recorded;  needs_check: of the fork"""

    fork: Transaction
    files: Octets
    reads: Reads | None
    needs_check: bool


def merge_apart(parent: Transaction, forked: Transaction) -> None:
    """As merge, of a fork from fork_apart: its chunk files become the parent's. Files from forks of its own are left to garbage collection."""
    taken = _take(parent, forked)
    try:
        with parent.lock:
            parent.whole_changes.wait()
            packs = [*parent.changes.packs, taken.files]
            _merge(parent, [taken])
            parent.changes.packs = packs
    except ConflictError as error:
        with forked.lock:
            forked.changes.packs.append(taken.files)  # not after an interrupt: the parent may refer to them already
        error.hint = "another thread changed the same in this session meanwhile, and nothing was replaced: write again"
        raise


def merge(parent: Transaction, forks: Sequence[Transaction]) -> None:
    """Merges what forks changed and read. Raises ConflictError, with the conflicts, and InvalidInputError for anything but a fork of the present session."""
    taken = [_take(parent, forked) for forked in forks]
    with parent.lock:
        parent.whole_changes.wait()
        _merge(parent, taken)


def _take(parent: Transaction, forked: Transaction) -> _Taken:
    """Takes the changes of a fork when no thread is within one. Two sessions are never locked at once, as a codec may use both within a change."""
    _require_fork(parent, forked)
    with forked.lock:
        forked.whole_changes.wait()
        files = forked.own_files()
        forked.changes.leave_files()  # before the parent refers to them
        reads = None if forked.reads is None else forked.reads.reads(forked.base.nodes)
        return _Taken(forked.fork(forked.changes.copy()), files, reads, forked.needs_check)


def _require_fork(parent: Transaction, forked: Transaction) -> None:
    begun, identity = forked.changes.begun if forked.forked else None, parent.changes.identity
    if begun is None or not identity or begun.identity != identity:
        raise InvalidInputError(
            f"{forked!r} is not a fork of this session as it is now",
            hint="merge forks before you commit, rebase or discard",
        )


def _merge(parent: Transaction, forks: Sequence[_Taken]) -> None:
    """Merges what was taken; the caller holds the parent's lock."""
    parent.require_writable()
    target = parent.changes.copy()
    for taken in forks:
        _require_fork(parent, taken.fork)
        _merge_one(parent, target, taken.fork)
    for taken in forks:
        parent.needs_check |= taken.needs_check
        if taken.reads is not None and parent.reads is not None:
            parent.reads.add(taken.reads)
    target.leave_files()
    parent.changes = target
    parent.state += 1
    parent.renewals += 1


def _merge_one(parent: Transaction, target: ChangeSet, fork: Transaction) -> None:
    theirs = fork_delta(fork)
    if theirs.is_empty:
        return
    ours = parent_delta(parent, target, fork)
    # appends to one array conflict here, as their order is unknown
    ours = ours._replace(metadata={path: change._replace(append=None) for path, change in ours.metadata.items()})
    conflicts = find_conflicts(ours, theirs, parent.base_id, parent.base_id)
    if conflicts:
        hint = "let each worker write nodes and chunks of its own"
        error = conflict_error("forks changed the same things", conflicts, hint)
        error.path = conflicts[0].path
        raise error
    assert fork.changes.begun is not None
    begun = {node.path: key for key, node in fork.changes.begun.nodes.items()}

    def where(path: str) -> int | None:
        """Finds nodes that the parent had changed before the fork by their keys, others by their paths in the snapshot."""
        key = begun[path] if path in begun else target.keys.of(path)
        return None if target.path_of(key) is None else key

    apply(theirs, target, fork.changes, where, behind=False)
