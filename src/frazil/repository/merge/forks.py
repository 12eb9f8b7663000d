"""Forks: sessions for workers. Each begins with the changes of its parent, can be pickled, and returns with its own changes, which the parent merges.

Conflicts are the same as between two commits (conflicts.py): the base of both deltas is the state in which the fork was made. If there is a conflict, nothing
is merged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from frazil.errors import ConflictError, InvalidInputError
from frazil.repository.merge.apply import apply
from frazil.repository.merge.conflicts import conflict_error, find_conflicts
from frazil.repository.merge.session_delta import fork_delta, parent_delta
from frazil.repository.session.change_set import ChangeSet
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


def merge_apart(parent: Transaction, forked: Transaction) -> None:
    """As merge, of a fork from fork_apart: its chunk files become the parent's. Files from forks of its own are left to garbage collection."""
    with ExitStack() as locks:
        _take_locks(locks, parent, [forked])
        own = [*parent.changes.packs, forked.own_files()]
        try:
            merge(parent, [forked])
        except ConflictError as error:
            error.hint = (
                "another thread changed the same in this session meanwhile, and nothing was replaced: write again"
            )
            raise
        parent.changes.packs = own


def merge(parent: Transaction, forks: Sequence[Transaction]) -> None:
    """Merges what forks changed and read. Raises ConflictError, with the conflicts, and InvalidInputError for anything but a fork of the present session."""
    with ExitStack() as locks:
        _take_locks(locks, parent, forks)
        parent.require_writable()
        target = parent.changes.copy()
        for forked in forks:
            begun = forked.changes.begun if forked.forked else None
            if begun is None or not target.identity or begun.identity != target.identity:
                raise InvalidInputError(
                    f"{forked!r} is not a fork of this session as it is now",
                    hint="merge forks before you commit, rebase or discard",
                )
            _merge_one(parent, target, forked)
        for forked in forks:
            parent.needs_check |= forked.needs_check
            forked.changes.leave_files()
            if forked.reads is not None and parent.reads is not None:
                parent.reads.add(forked.reads.reads(parent.base.nodes))
        target.leave_files()
        parent.changes = target
        parent.state += 1
        parent.renewals += 1


def _take_locks(locks: ExitStack, parent: Transaction, forks: Sequence[Transaction]) -> None:
    """Takes the locks of sessions when no other thread is within a change of one. Holds no other while it waits, as a codec may use both in a change."""
    while True:
        for forked in forks:
            with forked.lock:
                forked.whole_changes.wait()
        locks.enter_context(parent.lock)
        parent.whole_changes.wait()
        for forked in forks:
            locks.enter_context(forked.lock)
        if not any(forked.whole_changes.goes_on() for forked in forks):
            return
        locks.close()


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
