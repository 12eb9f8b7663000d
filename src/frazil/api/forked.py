"""Forks as a cluster uses them: one is sent to every worker, each task begins again from it, and what all of them wrote comes back as one fork.

For integrations; what users do with a few workers is Session.fork and Session.merge. The columns are gathered in repository/merge/fork_columns.py."""

from __future__ import annotations

from frazil.api.session import Session
from frazil.array.array import Array
from frazil.codecs.registry import Registry
from frazil.repository.merge import fork_columns
from frazil.repository.merge.fork_columns import Written
from frazil.repository.session.transaction import Transaction
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.store import Store


def session_of(array: Array) -> Session | None:
    """The session that an array was opened from; None for an array in a plain store."""
    store = array.store
    if not isinstance(store, NodeStore) or not isinstance(store.nodes, Transaction):
        return None
    assert isinstance(store.known, Registry)
    return Session(store.nodes, store.known, store.nodes.options.runtime)


def is_of(session: Session, array: Array) -> bool:
    """Whether an array was opened from this session."""
    return isinstance(array.store, NodeStore) and array.store.nodes is session._transaction


def store_of(session: Session) -> Store:
    """The store that the files of a session's repository lie in."""
    return session._transaction.files.store


def fork_for_many(session: Session) -> Session:
    """A fork as session.fork() gives it, after chunks that wait in memory have got their place, so that it is small. Raises ReadOnlyError, StoreError."""
    fork_columns.store_chunks(session._transaction)
    return session.fork()


def begin_again(fork: Session) -> Session:
    """Another fork that begins as this one is. Costs no request, and not the copy of a snapshot."""
    return Session(fork_columns.again(fork._transaction), fork._registry, fork._runtime)


def written_by(fork: Session) -> Written:
    """The chunks that a fork wrote, once they have files; pickles small. Raises StoreError."""
    return fork_columns.written(fork._transaction)


def with_written(fork: Session, written: Written) -> Session:
    """Another fork, that begins as this one is and has written this. Raises NotFoundError."""
    made = begin_again(fork)
    fork_columns.put(made._transaction, written)
    return made
