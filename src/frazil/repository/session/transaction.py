"""A transaction: one snapshot, what a session changed on top of it, and the nodes and chunks that follow from both (stores/array_storage/node_storage.py, the port).

How it is committed is in commit/, how it follows a branch that moved and takes over forks in merge/. What users see of it is made in api/."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.errors import (
    AlreadyExistsError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
)
from frazil.formats.alpha.nodes import NodeSnapshot
from frazil.formats.alpha.snapshots import Snapshot
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata
from frazil.formats.ids import ObjectId, encode_id
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.metadata.registry import MetadataExtensions
from frazil.record import Record
from frazil.repository.files.attributes import same_attributes
from frazil.repository.format import Documents, RepositoryFormat, Rules, Tip
from frazil.repository.manifests.coordinates import grid_of, sorted_coordinates, within
from frazil.repository.manifests.references import BaseReferences
from frazil.repository.session.array_chunks import ArrayChunks
from frazil.repository.session.change_set import Append, ChangeSet, NodeChange, above
from frazil.repository.session.changed_references import ChangedReferences, Rows, removed_rows
from frazil.repository.session.pending_chunks import place_pending
from frazil.repository.session.read_log import ReadLog
from frazil.repository.session.written_files import WrittenFiles, own_files
from frazil.repository.virtual.virtual_fetch import NO_PLACES, VirtualPlaces
from frazil.runtime import DEFAULT, Runtime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.stores.array_storage.chunk_storage import ChunkStorage

    Columns = NDArray[np.int64]
    Octets = NDArray[np.uint8]

__all__ = ["Options", "Transaction"]

Metadata: TypeAlias = ArrayMetadata | GroupMetadata

_WAITING_BYTES: Final = 2**26  # of chunks in memory at most, before they are written


class Options(Record):
    """packing: small chunks go many to a file; attribute_limit: bytes of attributes above which they go to a file of their own, None: never; serializable: what
    is read counts in conflicts, too; runtime: its threads copy; virtual: where virtual chunks may be read"""

    packing: bool = True
    attribute_limit: int | None = None
    serializable: bool = False
    runtime: Runtime = DEFAULT
    virtual: VirtualPlaces = NO_PLACES


class Transaction:
    """NodeStorage of a session. Safe to use from many threads.

    tip        where the branch stood when the session began; None: the session only reads
    tips       the last that was seen of each branch, which whoever opened the session may share, so as not to look for what it committed
    documents  what is understood of nodes, shared with other sessions of the repository; None: its own"""

    def __init__(
        self,
        files: RepositoryFormat,
        base_id: ObjectId,
        base: Snapshot,
        tip: Tip | None,
        known: MetadataExtensions,
        options: Options = Options(),  # noqa: B008 # a frozen value
        documents: Documents | None = None,
    ) -> None:
        self.files, self.known, self.options = files, known, options
        self._documents = files.documents(known) if documents is None else documents
        self.lock = threading.RLock()
        self.tip = tip
        self.tips: dict[str, Tip] = {}
        self.forked = False
        self.state = self.renewals = 0
        self.ended = False
        self.written = WrittenFiles(files)
        self.reads = ReadLog() if options.serializable and tip is not None else None
        self.begin(base_id, base, ChangeSet(base.nodes))

    def begin(
        self, base_id: ObjectId, base: Snapshot, changes: ChangeSet, *, same: bool = False, tip: Tip | None = None
    ) -> None:
        """Goes on from another snapshot with these changes.

        same  all nodes are as they were, so that handles need not look anew
        tip   the one that points to the snapshot, where that is another than before. It is set together with the snapshot: a commit behind a tip whose
              snapshot the session does not have would undo what others committed"""
        none: dict[str, BaseReferences | None] = {}  # by paths in the snapshot
        self.base_id, self.base, self.changes, self.tip, self._references = (
            base_id, base, changes, self.tip if tip is None else tip, none
        )  # fmt: skip
        self.started_at = time.time_ns()
        self.state += 1
        self.renewals += not same

    def __repr__(self) -> str:
        at = encode_id(self.base_id) if self.tip is None else self.tip.branch
        return f"{self.files!r}@{at}"

    @property
    def read_only(self) -> bool:
        return self.ended or (self.tip is None and not self.forked)

    @property
    def version(self) -> tuple[object, int]:
        with self.lock:
            changed = not self.changes.is_empty
            begun = self.files.store, self.files.prefix, encode_id(self.base_id), self.options.virtual.elsewhere
            return begun, self.state if changed else 0

    @property
    def packing(self) -> bool:
        return self.options.packing and self.rules.packs

    @property
    def rules(self) -> Rules:
        """What may be written over the snapshot, and relied on."""
        return self.files.rules(self.base)

    @property
    def threads(self) -> int:
        return self.options.runtime.checked().threads

    def require_writable(self) -> None:
        if self.ended:
            raise ReadOnlyError(
                f"the transaction on {self!r} is over: its arrays and groups can only be read",
                hint="to go on writing after a commit, use repo.writable_session()",
            )
        if self.read_only:
            raise ReadOnlyError(f"{self!r} can only be read", hint="use a writable session of a branch")

    # --- nodes: reading --------------------------------------------------------------------------------------------------------------

    def find(self, path: str) -> Metadata | FrazilError | None:
        with self.lock:
            if self.reads is not None:
                self.reads.node("/" + path)
        return self._found("/" + path)

    def _found(self, path: str) -> Metadata | FrazilError | None:
        with self.lock:
            nodes, document = self.changes.base, self.changes.document(path)
            node = self.changes.get(path) if document is None else None
        if document is not None:
            return self._documents.at(nodes, path, document)
        return None if node is None else self._documents.of(node)

    def exists(self, path: str) -> bool:
        with self.lock:
            if self.reads is not None:
                self.reads.node("/" + path)
            return self.changes.has("/" + path)

    def children(self, path: str) -> list[str]:
        with self.lock:
            if self.reads is not None:
                self.reads.listing("/" + path)
            return [at[1:] for at in self.changes.children("/" + path)]

    def below(self, path: str, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
        absolute = "/" + path
        deepest = None if max_depth is None else (0 if path == "" else absolute.count("/")) + max_depth + 1
        with self.lock:
            every = [
                at
                for at in self.changes.at_and_below(absolute)
                if at != absolute and (deepest is None or at.count("/") <= deepest)
            ]
            if self.reads is not None:
                self.reads.listing(absolute, deep=True)
        for at in every:
            found = self._found(at)
            if found is not None:
                yield at[1:], found

    # --- nodes: changing -------------------------------------------------------------------------------------------------------------

    def change(self, path: str, change: Callable[[Metadata], Metadata]) -> Metadata:
        absolute = "/" + path
        with self.lock:
            self.require_writable()
            self.state += 1
            if not path and not self.changes.has(absolute):
                self.changes.add(NodeSnapshot(0, absolute))
            node = self.changes.get(absolute)
            if node is None:
                raise NotFoundError("the node is gone", path=absolute, hint="it was removed")
            old = self._documents.of(node)
            if isinstance(old, FrazilError):
                raise old
            new = change(old)
            same = same_attributes(self.files, new.attributes, old.attributes)  # to Python 1, 1.0 and True are one
            if same and new == old:
                return new
            touched = self.changes.touch(absolute)
            replaced = self._as_node(absolute, new, touched.node)
            manifests = () if touched.node.array is None else touched.node.array.manifests
            if isinstance(new, ArrayMetadata) and isinstance(old, ArrayMetadata):
                assert replaced.array is not None
                replaced = replaced._replace(array=replaced.array._replace(manifests=manifests))
                if len(new.shape) != len(old.shape):
                    raise InvalidInputError(
                        f"an array of {len(old.shape)} dimensions cannot become one of {len(new.shape)}",
                        path=absolute,
                        hint="remove it, and create the other one",
                    )
                touched.shrunk |= any(now < then for now, then in zip(new.shape, old.shape, strict=True))
            if same:
                replaced = replaced._replace(attributes=touched.node.attributes)
            if replaced.array is not None and touched.node.array is not None and (touched.shrunk or self.rules.foreign):
                self._drop_beyond(touched, touched.node.array.metadata, replaced.array.metadata)
            touched.node = replaced._replace(id=touched.node.id)
            again = self._documents.of(touched.node)
            if isinstance(again, FrazilError):
                raise again
            return again

    def _drop_beyond(self, touched: NodeChange, old: ZarrArrayMetadata, new: ZarrArrayMetadata) -> None:
        """Removes the references beyond the old grid that a larger one would show again: of a shape that somebody set smaller without removing chunks, here or, in what
        other programs wrote, before."""
        if all(after <= before for before, after in zip(old.shape, new.shape, strict=True)):
            return
        stored = self.base_references(touched.base)
        coordinates = np.zeros((0, len(old.shape)), np.int64) if stored is None else stored.coordinates()
        if touched.references is not None:
            coordinates = np.concatenate((coordinates, touched.references.columns.coordinates))
        beyond = coordinates[~within(coordinates, grid_of(old)) & within(coordinates, grid_of(new))]
        if len(beyond):
            touched.changed_references().set(removed_rows(sorted_coordinates(beyond)))

    def _as_node(self, path: str, metadata: Metadata, old: NodeSnapshot | None = None) -> NodeSnapshot:
        """A node with this metadata. Raises InvalidInputError for what the format cannot hold, or for another kind of node than the old one."""
        if old is not None and isinstance(metadata, ArrayMetadata) != (old.array is not None):
            raise InvalidInputError("another kind of node is there", path=path, hint="remove it first")
        return self.files.node(path, metadata, self.rules, old)

    def create(self, nodes: Mapping[str, Metadata], *, overwrite: bool) -> None:
        with self.lock:
            self.require_writable()
            self.state += 1
            made = {f"/{path}": self._as_node(f"/{path}", metadata) for path, metadata in nodes.items()}
            groups = self._groups_above(made)
            for path in made:
                if not overwrite and self.changes.has(path):
                    raise AlreadyExistsError(
                        f"something is there already in {self!r}",
                        path=path,
                        hint="choose another path, or replace it with overwrite=True",
                    )
            for path, node in {**groups, **made}.items():
                if self.changes.has(path):
                    self._remove(path)
                self.changes.add(node)

    def _groups_above(self, made: Mapping[str, NodeSnapshot]) -> dict[str, NodeSnapshot]:
        """The groups that are missing above new nodes. Raises InvalidInputError where an array stands above one."""
        groups: dict[str, NodeSnapshot] = {}
        for path in made:
            for at in above(path):
                if (at in made and made[at].array is not None) or (
                    at not in made and self.changes.has(at) and self.changes.is_array(at)
                ):
                    raise InvalidInputError(
                        f"an array is at {at}, and arrays have no children", path=path, hint="choose a path beside it"
                    )
                if at not in made and not self.changes.has(at):
                    groups[at] = NodeSnapshot(0, at, {})
        return groups

    def check(self, path: str, metadata: Metadata) -> None:
        self._as_node(f"/{path}", metadata)

    def remove(self, path: str) -> None:
        with self.lock:
            self.require_writable()
            if not self.changes.at_and_below("/" + path):
                raise NotFoundError("there is nothing to remove", path="/" + path)
            self._remove("/" + path)

    def _remove(self, path: str) -> None:
        self.state += 1
        for change in self.changes.remove(path):
            self.superseded(own_files([change]))

    def move(self, path: str, to: str) -> None:
        source, target = "/" + path, "/" + to
        with self.lock:
            self.require_writable()
            self.state += 1
            if not path or target == source or target.startswith(source + "/"):
                raise InvalidInputError(f"{source} cannot be moved to {target}", path=source)
            if not self.changes.has(source):
                raise NotFoundError("there is nothing to move", path=source)
            if self.changes.at_and_below(target):
                raise AlreadyExistsError("something is there already", path=target, hint="choose another path")
            for group in self._groups_above({target: NodeSnapshot(0, target)}).values():
                self.changes.add(group)
            self.changes.move(source, target)

    # --- chunks ------------------------------------------------------------------------------------------------------------------------

    def chunks(self, path: str, metadata: ArrayMetadata) -> ArrayChunks:
        absolute = "/" + path
        with self.lock:
            key = self.changes.key_at(absolute)
            if key is None or not self.changes.is_array(absolute):
                raise NotFoundError("the array is gone", path=absolute, hint="it was removed")
            return ArrayChunks(self, key, len(metadata.shape))

    def holds(self, path: str, chunks: ChunkStorage) -> bool:
        with self.lock:
            return isinstance(chunks, ArrayChunks) and self.changes.key_at("/" + path) == chunks.key

    def lengths(self, path: str, chunks: ChunkStorage) -> tuple[int, ...] | None:
        change = self.changes.nodes.get(chunks.key) if isinstance(chunks, ArrayChunks) else None
        return None if change is None or change.node.array is None else tuple(change.node.array.metadata.shape)

    def appended(self, key: int, axis: int, old: int, new: int) -> None:
        with self.lock:
            self._change_of(key).append(Append(axis, old, new))

    def changed(self, key: int) -> ChangedReferences | None:
        change = self.changes.nodes.get(key)
        if change is None:
            self.path_of(key)  # says where it is gone
            return None
        return change.references

    def to_change(self, key: int) -> ChangedReferences:
        self.require_writable()
        self.state += 1
        return self._change_of(key).changed_references()

    def _change_of(self, key: int) -> NodeChange:
        return self.changes.nodes.get(key) or self.changes.touch(self.path_of(key))

    def path_of(self, key: int) -> str:
        """Where a node is now. Raises NotFoundError."""
        path = self.changes.path_of(key)
        if path is None:
            raise NotFoundError(
                "the array is gone", hint="it was removed, or is not in what the session was rebased to"
            )
        return path

    def stored(self, key: int) -> BaseReferences | None:
        change = self.changes.nodes.get(key)
        if change is not None:
            return self.base_references(change.base)
        path = self.path_of(key)
        if path not in self._references:
            node = self.base.nodes.get(path)
            return self.base_references(node if isinstance(node, NodeSnapshot) else None)
        return self._references[path]

    def base_references(self, node: NodeSnapshot | None) -> BaseReferences | None:
        """The references that a node of the snapshot has in it; None where it has none, or the node is new."""
        if node is None:
            return None
        if node.path not in self._references:
            found = None
            if node.array is not None and node.array.manifests:
                found = BaseReferences(self.files, node, node.array, trusted=self.rules.extents)
            self._references[node.path] = found
        return self._references[node.path]

    def saw(self, key: int, coordinates: Columns) -> None:
        if self.reads is not None and (path := self.changes.keys.path(key)) is not None:
            self.reads.chunks(path, coordinates)

    def saw_all(self, key: int) -> None:
        if self.reads is not None and (path := self.changes.keys.path(key)) is not None:
            self.reads.all_chunks(path)

    def settle(self) -> None:
        self.state += 1
        limit = min(_WAITING_BYTES, self.options.runtime.bytes_in_flight)
        if self.changes.pending.nbytes > limit:
            place_pending(self.changes, self.files, packing=self.packing, most_inline=limit // 2)

    def superseded(self, ids: Octets) -> None:
        self.written.superseded(ids)

    @property
    def notes_reads(self) -> bool:
        return self.reads is not None

    @property
    def places(self) -> VirtualPlaces:
        return self.options.virtual

    def grid_of(self, path: str) -> tuple[int, ...]:
        """Chunks along each dimension of an array. Raises NotFoundError."""
        node = self.changes.get(path)
        if not isinstance(node, NodeSnapshot) or node.array is None:
            raise NotFoundError("there is no array", path=path)
        return grid_of(node.array.metadata)

    def set_rows(self, path: str, rows: Rows) -> None:
        """Sets references of an array to what lies outside of this session."""
        self.changes.touch(path).changed_references().set(rows)
        self.state += 1

    def forget_reads(self) -> None:
        """Begins to note anew what is read."""
        if self.options.serializable and not self.read_only:
            self.reads = ReadLog()

    def frozen(self) -> Transaction:
        """The session as it is now, to read; what is changed later does not show in it."""
        with self.lock:
            made = Transaction(self.files, self.base_id, self.base, None, self.known, self.options, self._documents)
            made.begin(self.base_id, self.base, self.changes.copy())
            return made

    def fork(self, changes: ChangeSet) -> Transaction:
        """A session for a worker, over the same snapshot. changes: its own"""
        made = Transaction(self.files, self.base_id, self.base, None, self.known, self.options)
        made.forked = True
        made.begin(self.base_id, self.base, changes)
        made.forget_reads()
        return made

    def discard(self) -> None:
        """Gives up all changes, with the chunk files that were written for them; but not those of a commit that may have happened."""
        with self.lock:
            self.require_writable()
            left = np.concatenate([own_files(self.changes), *self.changes.packs])
            self.begin(self.base_id, self.base, self.changes.discarded())
            self.written.superseded(left)
            self.written.sweep()
            self.written.forget()
            self.forget_reads()

    def end(self) -> None:
        """From now on the nodes of the session can only be read. What was not committed is given up, unless a commit of it may have happened."""
        with self.lock:
            if not self.read_only and not self.written.intents and not self.changes.is_empty:
                self.discard()
            self.ended = True

    def __reduce__(self) -> tuple[object, ...]:
        if self.tip is not None and not self.forked:
            raise InvalidInputError(
                "a writable session cannot be pickled, as only one place can commit it",
                hint="give workers session.fork(), and merge what they return",
            )
        state = (self.base_id, self.base, self.tip, self.known, self.options)
        with self.lock:
            self.changes.leave_files()  # they are the copy's as well
        return _restored, (self.files, *state, self.changes if self.forked else None, self.reads)


def _restored(
    files: RepositoryFormat,
    base_id: ObjectId,
    base: Snapshot,
    tip: Tip | None,
    known: MetadataExtensions,
    options: Options,
    changes: ChangeSet | None,
    reads: ReadLog | None,
) -> Transaction:
    made = Transaction(files, base_id, base, tip, known, options)
    if changes is not None:
        made.forked, made.reads = True, reads
        changes.identity = b""  # its own forks know the one that was pickled
        made.begin(base_id, base, changes)
    return made
