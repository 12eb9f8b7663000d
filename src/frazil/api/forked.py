"""Forks for a cluster: one fork is sent to every worker, each task begins from it, and the chunks that all tasks wrote come back as one fork. And a fork for
changes that a session has completely or not at all.

For integrations. With a few workers, users call Session.fork and Session.merge. repository/merge/fork_columns.py gathers the columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from frazil.api.session import Session
from frazil.array.array import Array
from frazil.codecs.registry import Registry
from frazil.repository.merge import fork_columns
from frazil.repository.merge.fork_columns import Written
from frazil.repository.merge.forks import fork_apart, merge_apart
from frazil.repository.session.transaction import Transaction
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.store import Store


def session_of(array: Array) -> Session | None:
    """The session that an array was opened from; None for an array in a plain store."""
    return _session_over(array.store)


def _session_over(store: object) -> Session | None:
    if not isinstance(store, NodeStore) or not isinstance(store.nodes, Transaction):
        return None
    assert isinstance(store.extensions, Registry)
    return Session(store.nodes, store.extensions, store.nodes.options.runtime)


@contextmanager
def apart(store: NodeStore) -> Iterator[NodeStore]:
    """The store of a fork of the session that `store` shows; the session merges it at the end. After an error, also after Ctrl-C, the session is as before.
    Raises ReadOnlyError, and at the end ConflictError if another thread changed the same in the session."""
    session = _session_over(store)
    assert session is not None, "only sessions are written to"
    fork = fork_apart(session._transaction)
    try:
        yield Session(fork, session._registry, session._runtime).store
        merge_apart(session._transaction, fork)
    except BaseException:
        fork.discard()
        raise


def is_of(session: Session, array: Array) -> bool:
    """Whether an array was opened from this session."""
    return isinstance(array.store, NodeStore) and array.store.nodes is session._transaction


def store_of(session: Session) -> Store:
    """The store with the files of a session's repository."""
    return session._transaction.files.store


def fork_for_many(session: Session) -> Session:
    """A fork as from session.fork(), after chunks in memory are written to files, so that it is small. Raises ReadOnlyError, StoreError."""
    fork_columns.store_chunks(session._transaction)
    return session.fork()


def begin_again(fork: Session) -> Session:
    """Another fork with the same state as this one. Costs no request, and no copy of a snapshot."""
    return Session(fork_columns.copy_fork(fork._transaction), fork._registry, fork._runtime)


def written_by(fork: Session) -> Written:
    """The chunks that a fork wrote, after they are written to files; small when pickled. Raises StoreError."""
    return fork_columns.written(fork._transaction)


def with_written(fork: Session, written: Written) -> Session:
    """Another fork with the same state as this one and these written chunks. Raises NotFoundError."""
    renewed = begin_again(fork)
    fork_columns.put(renewed._transaction, written)
    return renewed
