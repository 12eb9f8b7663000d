"""The public class Session: a group to work in, and operations on its changes. It joins arrays (array/) and transactions (repository/)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from frazil.api.row_copies import ArrayRows
from frazil.array.arguments import check_flag
from frazil.array.array import Array
from frazil.array.group import Group, as_node
from frazil.array.hierarchy.nodes import NodeLocation, find_node, missing
from frazil.base.retry import Backoff, attempts
from frazil.codecs.registry import Registry
from frazil.errors import ConflictError, InvalidInputError, NodeKindError
from frazil.formats.ids import encode_id
from frazil.formats.msgpack import pack
from frazil.metadata.members import json_object
from frazil.metadata.model import GroupMetadata
from frazil.metadata.paths import normalise
from frazil.repository.commit.commit import attempt_commit, follow_held, write_waiting
from frazil.repository.merge.difference import Difference
from frazil.repository.merge.forks import fork, merge
from frazil.repository.merge.rebase import find_divergence
from frazil.repository.merge.rebase import rebase as rebase_transaction
from frazil.repository.merge.session_delta import session_delta
from frazil.repository.merge.solvers import Solver, check_solver, hint_for
from frazil.repository.session.pending_chunks import PackingOrder
from frazil.repository.session.set_references import Check, adopt_file, set_adopted, set_virtual
from frazil.repository.session.transaction import Transaction
from frazil.repository.synced_tips import sync_tips
from frazil.runtime import Runtime
from frazil.stores.array_storage.node_store import NodeStore, shown_to_zarr

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from frazil._kernel import Buffer
    from frazil.formats.json_values import Json


COMMITS: Final = Backoff(1000, 0.001, 1.0)  # if others commit first: each time one of all succeeds


def checked_commit(message: object, metadata: Mapping[str, object] | None = None) -> Mapping[str, Json]:
    """The metadata of a commit. Raises InvalidInputError for a message that is not Unicode text, and for metadata that are not JSON values by name, or that no
    snapshot can hold."""
    if not isinstance(message, str):
        raise InvalidInputError(f"the message is {message!r}; it must be text")
    try:
        message.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"the message is {message!r}; it must be text without lone surrogates") from None
    properties = json_object({} if metadata is None else metadata, "metadata")
    pack(properties)
    return properties


class Session:
    """A hierarchy at one snapshot of a repository, and the changes to it. Repository.readonly_session and writable_session return it.

    A session that reads always sees its snapshot. A writable session sees its own changes; others see them after the commit. After a commit, the session
    continues from the new snapshot. A session may be used from many threads. One that only reads pickles; a writable one does not: send `fork()` to workers."""

    __slots__ = ("_registry", "_runtime", "_store", "_transaction")

    def __init__(self, transaction: Transaction, registry: Registry, runtime: Runtime) -> None:
        self._transaction, self._registry, self._runtime = transaction, registry, runtime
        self._store = NodeStore(transaction, registry, read_only=transaction.read_only)

    # --- properties ----------------------------------------------------------------------------------------------------------------

    @property
    def root(self) -> Group:
        """The root group. If the hierarchy is a single array, use `open`."""
        node_location = self.node_location()
        node = self._transaction.find("")
        if isinstance(node, Exception):
            raise node
        if node is None:
            node = GroupMetadata(implicit=True)
        if not isinstance(node, GroupMetadata):
            raise NodeKindError("an array is at the root, not a group", path="/", hint="session.open() gives it")
        return Group(node_location, node)

    @property
    def store(self) -> NodeStore:
        """The same hierarchy as a store of Zarr v3 keys, for other libraries; frazil.zarr.as_store makes one for zarr-python."""
        return shown_to_zarr(self._store)

    @property
    def snapshot_id(self) -> str:
        """The snapshot that the session began from, or committed last: 20 characters."""
        return encode_id(self._transaction.base_id)

    @property
    def branch(self) -> str | None:
        """The branch of commits; None if the session cannot be committed."""
        tip = self._transaction.tip
        return None if tip is None else tip.branch

    @property
    def read_only(self) -> bool:
        """True if the session cannot be written to; a write then raises ReadOnlyError."""
        return self._transaction.read_only

    @property
    def has_changes(self) -> bool:
        """True if there are changes to commit."""
        return not self._transaction.changes.is_empty

    def __repr__(self) -> str:
        branch = f"branch {self.branch!r} at " if self.branch else ""
        return f"<frazil.Session {branch}{self.snapshot_id}{', changed' if self.has_changes else ''}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Session, (self._transaction, self._registry, self._runtime)

    def __getitem__(self, path: str) -> Array | Group:
        """The node at a path, as root[path]."""
        return self.root[path]

    def __contains__(self, path: object) -> bool:
        return path in self.root

    def __iter__(self) -> Iterator[str]:
        """Names of the direct members of the root group."""
        return iter(self.root)

    def _ipython_key_completions_(self) -> list[str]:
        return self.root._ipython_key_completions_()

    def node_location(self, path: str = "") -> NodeLocation:
        """The location of the node at a path, to open it."""
        transaction = self._transaction
        return NodeLocation(
            self._store,
            normalise(path),
            self._registry,
            self._runtime,
            transaction.read_only,
            nodes=transaction,
            memory=transaction.files.memory,
        )

    # --- changes -------------------------------------------------------------------------------------------------------------------

    def diff(self) -> Difference:
        """The changes since the snapshot that the session began from."""
        return session_delta(self._transaction).difference

    def discard(self) -> None:
        """Discards all changes. Arrays and groups that were opened before see the snapshot again; new ones no longer exist. Raises ReadOnlyError."""
        self._transaction.discard()

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, object] | None = None,
        rebase: Solver | str | None = None,
        allow_empty: bool = False,
        packing_order: PackingOrder | None = None,
        durable: bool = True,
    ) -> str:
        """Commits the changes as the next snapshot of the branch, completely or not at all. Returns the id of the snapshot.

        message      of the commit;  metadata: JSON values by name, stored with the snapshot
        rebase       what to do if the branch has moved: None raises ConflictError; "disjoint" rebases if no other commit changed the same nodes or chunks;
                     "ours", "theirs" or a function of a Conflict decide. If no change remains, the result is the id of the tip
        allow_empty  commits even if nothing was changed
        packing_order  a function of an array's absolute path and the coordinates of its chunks, int64[n, d], that returns int64[n]: the order in which the
                       chunks will be read, and in which they are packed; None: row by row. Chunks written before the commit (when they exceed half of
                       bytes_in_flight, or 64 MiB) are always packed row by row
        durable      False: returns before the commit is on the disk. Repository.sync, or the next durable commit of the same Repository object, flushes it. A
                     power failure before that may lose the commit, or leave the branch pointing to an incomplete snapshot. No effect in buckets, and in a
                     repository that is not durable
        Raises ConflictError (nothing is lost: rebase and commit again), CommitUnknownError (the response was lost), InvalidInputError if there is nothing to
        commit, ReadOnlyError, StoreError."""
        properties = checked_commit(message, metadata)
        check_flag(allow_empty, "allow_empty")
        check_flag(durable, "durable")
        if rebase is not None:
            check_solver(rebase)
        with self._transaction.lock:
            self._transaction.whole_changes.wait()  # before other sessions have to wait for this one
        with self._serialized(rebase, packing_order):
            return self._commit(message, properties, rebase, allow_empty, packing_order, durable)

    def _serialized(self, rebase: Solver | str | None, order: PackingOrder | None) -> AbstractContextManager[object]:
        """The turn of this session among the sessions of its repository that commit to the branch."""
        transaction = self._transaction

        def meanwhile() -> None:
            if (
                rebase is not None
            ):  # otherwise the commit is refused if others commit first, and its chunks need not be written
                write_waiting(transaction, order)

        return nullcontext() if self.branch is None else transaction.branches.serialize_commits(self.branch, meanwhile)

    def _commit(
        self,
        message: str,
        properties: Mapping[str, Json],
        rebase: Solver | str | None,
        allow_empty: bool,
        order: PackingOrder | None,
        durable: bool,
    ) -> str:
        """As commit, with checked arguments."""
        transaction = self._transaction
        reusable: dict[str, Buffer] | None = None if rebase is None else {}
        try:
            for attempt in attempts(COMMITS):
                # an earlier commit through this repository object is seen without a request
                moved = attempt > 0 or (transaction.is_behind and not transaction.changes.is_empty)
                if moved and rebase is not None:
                    self.rebase(rebase)
                if moved and not allow_empty and transaction.changes.is_empty and transaction.tip is not None:
                    if durable:
                        sync_tips(transaction.files, [transaction.tip])
                    return encode_id(transaction.tip.snapshot)  # others made the same changes, or theirs were chosen
                snapshot = attempt_commit(
                    transaction,
                    message,
                    properties,
                    allow_empty=allow_empty,
                    order=order,
                    reusable=reusable,
                    durable=durable,
                )
                if snapshot is not None:
                    return encode_id(snapshot)
                if rebase is None and not follow_held(transaction):
                    raise self._branch_moved()
        finally:
            if reusable:
                transaction.files.erase(reusable)
        raise ConflictError(
            f"others committed to {self.branch!r} before each of {COMMITS.attempts} attempts", hint="try again"
        )

    def _branch_moved(self) -> ConflictError:
        """The error where another session committed first."""
        conflicts = find_divergence(self._transaction).conflicts
        divergence = f"; {conflicts[0]}" if conflicts else ", without changes to what this session changed"
        error = ConflictError(
            f"the branch {self.branch!r} has moved since the session began{divergence}",
            hint=hint_for(conflicts)
            if conflicts
            else 'session.rebase(), then commit again; or commit(..., rebase="disjoint")',
        )
        error.conflicts = conflicts
        return error

    def rebase(self, solver: Solver | str = "disjoint") -> None:
        """Moves the changes onto the current tip of the branch, so that they can be committed. Raises ConflictError with `conflicts`; then nothing was
        changed."""
        check_solver(solver)
        rebase_transaction(self._transaction, solver, self._row_copies())

    def _row_copies(self) -> ArrayRows:
        return ArrayRows(self._store, self._registry, self._runtime)

    def open(self, path: str = "") -> Array | Group:
        """The array or group at a path. Raises NotFoundError, MetadataError."""
        node_location = self.node_location(path)
        node = find_node(node_location)
        if node is None:
            raise missing(node_location)
        return as_node(node_location, node)

    # --- workers -------------------------------------------------------------------------------------------------------------------

    def fork(self) -> Session:
        """A session for a worker process, with the changes made here so far. It pickles. When the worker returns it, `merge` takes over its changes.
        A fork cannot be committed. Raises ReadOnlyError."""
        return Session(fork(self._transaction), self._registry, self._runtime)

    def merge(self, *forks: Session) -> None:
        """Takes over the changes of forks of this session. Raises ConflictError, with `conflicts`, if two of them, or one and this session, changed the same
        thing; then nothing was taken over."""
        for forked in forks:
            if not isinstance(forked, Session):
                raise InvalidInputError(f"{forked!r} is not a session")
        merge(self._transaction, [forked._transaction for forked in forks])

    # --- virtual chunks ------------------------------------------------------------------------------------------------------------

    def set_virtual_chunks(
        self,
        path: str,
        coords: ArrayLike,
        urls: str | Sequence[str],
        offsets: ArrayLike,
        lengths: ArrayLike,
        *,
        check: Check = True,
    ) -> None:
        """Makes chunks of an array refer to ranges of files outside the repository, which are not copied.

        path     path of the array;  coords: int64[n, d], in its chunk grid
        urls     the file of each chunk: one for all, or n of them ("file:///data/sea.nc", "s3://bucket/sea.nc")
        offsets, lengths  bytes, one for all or n of each
        check    stores size and modification time of each file, or size and ETag of each remote object (one request each), so that a read detects a changed
                 file. Or a mapping from URLs to their ETags, or to (size, ETag), which are stored without a request. In a repository that the alpha library can
                 use nothing is stored, as that library would drop it: changes of a file are not detected there
        Raises InvalidInputError, ReadOnlyError, NotFoundError, StoreError."""
        set_virtual(self._transaction, self._array_path(path), coords, urls, offsets, lengths, check=check)

    def _array_path(self, path: str) -> str:
        array = self.open(path)
        if not isinstance(array, Array):
            raise NodeKindError("a group is there, not an array", path=array.path or "/")
        return array.path

    # --- adopted files -------------------------------------------------------------------------------------------------------------

    def adopt_file(self, file: str | os.PathLike[str]) -> str:
        """Copies a local file into the repository as one chunk file. Returns its id, for set_adopted_chunks. Raises ReadOnlyError, NotFoundError, StoreError,
        InvalidInputError in a repository that the alpha library can use."""
        return encode_id(adopt_file(self._transaction, file))

    def set_adopted_chunks(
        self, path: str, coords: ArrayLike, adopted: str, offsets: ArrayLike, lengths: ArrayLike
    ) -> None:
        """Makes chunks of an array refer to ranges of an adopted file.

        path     path of the array;  coords: int64[n, d], in its chunk grid;  adopted: the result of adopt_file
        offsets, lengths  bytes in the file, one for all or n of each
        Raises InvalidInputError, ReadOnlyError, NotFoundError, StoreError."""
        set_adopted(self._transaction, self._array_path(path), coords, adopted, offsets, lengths)
