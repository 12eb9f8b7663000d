"""The state of a session: a snapshot, the changes on top of it, and what was read and written. Its arrays look up and set their references here.

Nodes are read and changed in transaction.py."""

from __future__ import annotations

import threading
import time
from typing import Final

from frazil.base.arrays import Columns
from frazil.base.durations import largest_age, present
from frazil.base.fork_safety import renew_after_fork
from frazil.base.record import Record
from frazil.errors import NotFoundError, ReadOnlyError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.nodes import NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.metadata.registry import MetadataExtensions
from frazil.repository.format import Documents, RepositoryFormat, Rules, Tip
from frazil.repository.manifests.references import BaseReferences
from frazil.repository.session.branches import Branches
from frazil.repository.session.change_set import ChangeSet, NodeChange
from frazil.repository.session.changed_references import ChangedReferences
from frazil.repository.session.pending_chunks import store_pending
from frazil.repository.session.read_log import ReadLog
from frazil.repository.session.whole_changes import WholeChanges
from frazil.repository.session.written_files import WrittenFiles
from frazil.repository.virtual.virtual_fetch import NO_CONTAINERS, VirtualContainers
from frazil.runtime import DEFAULT, Runtime

_FOREVER_NS: Final = 2**62  # nanoseconds
_WAITING_BYTES: Final = 2**26  # largest total of chunks in memory, before they are written


class Options(Record):
    """packing: many small chunks go into one file; attribute_limit: bytes above which attributes go to a file of their own, None: never; serializable: reads
    count in conflicts, too; runtime: its threads copy; virtual: where virtual chunks may be read"""

    packing: bool = True
    attribute_limit: int | None = None
    serializable: bool = False
    runtime: Runtime = DEFAULT
    virtual: VirtualContainers = NO_CONTAINERS


class SessionState:
    """Methods that need the lock are marked. Arrays are named by the permanent keys of their nodes.

    tip     the tip of the branch when the session began; None: the session only reads
    branches  shared with other sessions of the repository
    extensions  those that documents may name
    state   a new number after every change; renewals: after changes of nodes outside of the port; discards: how often all changes were discarded
    reads   what was read, if reads count in conflicts
    needs_check  whether files of the session may be missing at any age: it refers to files that may be older than itself, its branch was held meanwhile, or a
                 fork wrote them to a copy of a store in memory"""

    def __init__(
        self,
        files: RepositoryFormat,
        base_id: ObjectId,
        base: Snapshot,
        tip: Tip | None,
        extensions: MetadataExtensions,
        options: Options = Options(),  # noqa: B008 # a frozen value
        documents: Documents | None = None,
        changes: ChangeSet | None = None,
        forked: bool = False,
        branches: Branches | None = None,
    ) -> None:
        """documents: the cache of nodes, and branches: shared with other sessions of the repository;  changes: the first ones;  forked: it is merged into
        another session, not committed"""
        self.files, self.extensions, self.options, self.forked = files, extensions, options, forked
        self.documents = files.documents(extensions) if documents is None else documents
        self.after_fork()
        renew_after_fork(self)
        self.tip, self.ended = tip, False
        self.branches = Branches() if branches is None else branches
        self.state = self.renewals = self.discards = 0
        self.restart_age()
        self.written = WrittenFiles(files)
        self.reads: ReadLog | None = None
        self.begin(base_id, base, ChangeSet(base.nodes) if changes is None else changes)
        self.forget_reads()

    def after_fork(self) -> None:
        """In the child: replaces the lock, which a thread of the parent may hold for ever, and forgets the changes of those threads."""
        self.lock = threading.RLock()
        self.whole_changes = WholeChanges(self.lock)

    def begin(
        self, base_id: ObjectId, base: Snapshot, changes: ChangeSet, *, same: bool = False, tip: Tip | None = None
    ) -> None:
        """Goes to another snapshot with these changes. same: all nodes are unchanged, so handles need not look again;  tip: a new tip that points to the
        snapshot, or None. Both are set together: a commit on a tip whose snapshot the session does not have would undo other commits"""
        none: dict[str, BaseReferences | None] = {}  # by paths in the snapshot
        self.started_at = time.time_ns()
        # before the changes, so that no interrupt leaves the new ones with what handles remember of the old ones
        self.state += 1
        self.renewals += not same
        self.base_id, self.base, self.changes, self.tip, self._references = (
            base_id, base, changes, self.tip if tip is None else tip, none
        )  # fmt: skip

    def __repr__(self) -> str:
        at = encode_id(self.base_id) if self.tip is None else self.tip.branch
        return f"{self.files.store}/{self.files.prefix}".rstrip("/") + f"@{at}"

    @property
    def read_only(self) -> bool:
        return self.ended or (self.tip is None and not self.forked)

    @property
    def is_behind(self) -> bool:
        """Whether a later tip of the branch is known."""
        return self.tip is not None and self.branches.latest(self.tip) is not self.tip

    @property
    def rules(self) -> Rules:
        """What may be written on top of the snapshot, and relied on."""
        return self.files.rules(self.base)

    @property
    def packing(self) -> bool:
        return self.options.packing and self.rules.packs

    def restart_age(self) -> None:
        """Restarts the age of the session, as earlier files no longer count."""
        self._since = present()
        self.needs_check = False

    def include_age(self, other: SessionState) -> None:
        """Counts the age of files that another session wrote, as this one refers to them now."""
        self._since = min(self._since[0], other._since[0]), min(self._since[1], other._since[1])
        self.needs_check |= other.needs_check

    def age(self) -> int:
        """The largest possible age, in nanoseconds, of a file that only this session refers to."""
        return _FOREVER_NS if self.needs_check else largest_age(self._since)

    def require_writable(self) -> None:
        if self.ended:
            raise ReadOnlyError(
                f"the transaction on {self} is over: its arrays and groups can only be read",
                hint="to write after a commit, use repo.writable_session()",
            )
        if self.read_only:
            raise ReadOnlyError(f"{self} can only be read", hint="use a writable session of a branch")

    # The caller of the methods below holds the lock.

    def path_of(self, key: int) -> str:
        """The present path of a node. Raises NotFoundError."""
        path = self.changes.path_of(key)
        if path is None:
            raise NotFoundError(
                "the array is gone", hint="it was removed, or is not in what the session was rebased to"
            )
        return path

    def change_of(self, key: int) -> NodeChange:
        """A node, to be changed. Raises ReadOnlyError, NotFoundError."""
        self.require_writable()
        self.state += 1
        return self.changes.nodes.get(key) or self.changes.touch(self.path_of(key))

    def references(self, key: int) -> tuple[ChangedReferences | None, BaseReferences | None]:
        """The references of an array that the session changed, and those of the snapshot. Raises NotFoundError if it is gone."""
        change = self.changes.nodes.get(key)
        if change is not None:
            return change.references, self.base_references(change.base)
        path = self.path_of(key)
        if path not in self._references:
            node = self.base.nodes.get(path)
            return None, self.base_references(node if isinstance(node, NodeSnapshot) else None)
        return None, self._references[path]

    def base_references(self, node: NodeSnapshot | None) -> BaseReferences | None:
        """The references of a node in the snapshot; None if it has none, or is new."""
        if node is None:
            return None
        if node.path not in self._references:
            found = None
            if node.array is not None and node.array.manifests:
                found = BaseReferences(self.files, node, node.array, trusted=self.rules.extents)
            self._references[node.path] = found
        return self._references[node.path]

    def note_read(self, key: int, coordinates: Columns | None) -> None:
        """Records that chunks of an array were read; None: that all were listed."""
        if self.reads is not None and (path := self.changes.keys.paths.get(key)) is not None:
            if coordinates is None:
                self.reads.arrays.add(path)
            else:
                self.reads.chunks(path, coordinates)

    def chunks_added(self) -> None:
        """Writes pending chunks to files if they are too large for memory. Raises StoreError."""
        self.state += 1
        self.make_room(0)

    def make_room(self, nbytes: int) -> None:
        """The same, if they would be with this many bytes more. Half of the budget is for chunks that are encoded meanwhile."""
        limit = min(_WAITING_BYTES, self.options.runtime.bytes_in_flight // 2)
        if self.changes.pending.nbytes + nbytes > limit:
            store_pending(
                self.changes, self.files, packing=self.packing, digests=self.rules.digests, most_inline=limit // 2
            )

    def forget_reads(self) -> None:
        """Clears the log of reads. Handles look up their nodes again, so that later reads are logged."""
        if self.options.serializable and not self.read_only:
            self.reads = ReadLog()
            self.renewals += 1
