"""The port between transactions and the format of a repository: which operations a format has, and the values that pass through them.

Sessions, commits and merges use a repository only through this port. The alpha format is in alpha/; another one, for tests, in frazil.testing. Nodes, snapshots
and manifests are the values of formats/, which all formats share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from frazil.base.record import Record
from frazil.formats.ids import ObjectId
from frazil.formats.nodes import ManifestReference, Node, Nodes, NodeSnapshot
from frazil.formats.snapshots import Snapshot, SnapshotInfo

if TYPE_CHECKING:
    from frazil._kernel import Buffer
    from frazil.errors import FrazilError
    from frazil.formats.json_values import Json
    from frazil.formats.manifests import Manifest
    from frazil.metadata.model import Metadata
    from frazil.metadata.registry import MetadataExtensions
    from frazil.stores.caches.byte_cache import ByteCache
    from frazil.stores.store import Store
    from frazil.stores.values import Columns


Outcome: TypeAlias = Literal["committed", "taken", "unknown"]
COMMITTED: Final = "committed"
TAKEN: Final = "taken"
UNKNOWN: Final = "unknown"

Box: TypeAlias = tuple[int, int, tuple[tuple[int, ...], ...]]  # id and rank of an array, ManifestReference.extents
ObjectKind: TypeAlias = Literal["attributes", "chunks", "manifests", "snapshots"]

MAIN: Final = "main"


class Tip(Record):
    """The state of a branch after one of its changes.

    sequence  the number of that change, as its format counts: a branch that was removed and created again has other tips
    snapshot  the id that it points to; empty if the change only deletes the branch
    deleted   the branch is deleted; a later change may create it again
    folder    where its files are in the store, if the format has folders; "": the usual place"""

    branch: str
    sequence: int
    snapshot: ObjectId
    deleted: bool = False
    folder: str = ""


class Answer(Record):
    """The outcome of a change of a branch.

    COMMITTED  it happened, and made `tip`
    TAKEN      it did not happen and never will: another change moved the branch, to `tip` or further
    UNKNOWN    it may have happened, may still happen, or a crash may lose it; tip is None except in an answer of was_committed"""

    outcome: Outcome
    tip: Tip | None = None


class UnreadRef(Record):
    """Something among the branches and tags that is not read.

    name        "branch dev" if it belongs to that branch, whose objects must be kept; "" if it is foreign
    no_file     it is the folder of a branch or tag, and none of its files is read; else letters of its name are in another case"""

    key: str
    name: str
    no_file: bool = False


class Rules(Record):
    """What a commit on a snapshot may write, and what its readers may rely on.

    overlays          several manifests of an array may have the same chunk, and the first is used; else each chunk is in one manifest
    extents           the boxes of manifests are correct, so manifests outside of the requested chunks need not be loaded
    packs             an object may contain many chunks, and chunks may be parts of an adopted file
    shared_manifests  a manifest may have chunks of several arrays
    checks            virtual chunks have a size, a time or an ETag of their file
    attribute_files   large attributes may be in a file of their own
    bounded_history   the largest number of ancestors that a snapshot lists; None: all, or none if they are stored elsewhere
    digests           the id of a chunk file ends in the digest of its bytes (those of manifests and attribute files: RepositoryFormat.uncached)
    foreign           other programs also read and commit: only what they support is written, and they leave references outside of the grid of an array that
                      shrank"""

    overlays: bool
    extents: bool
    packs: bool
    shared_manifests: bool
    checks: bool
    attribute_files: bool
    bounded_history: int | None
    foreign: bool
    digests: bool = False


class Ancestor(Record):
    """One snapshot of a history. snapshot: its id there (see RepositoryFormat.snapshot_id); parent: the id before it; None for the oldest, or if unknown"""

    info: SnapshotInfo
    parent: ObjectId | None

    @property
    def snapshot(self) -> ObjectId:
        return self.info.id


class ArrayPlacement(Record):
    """The changes of a commit to the references of one array. An array whose grid has shrunk needs one, even if no chunk is written or removed."""

    node: int  # its id in the snapshot that is written
    rank: int
    grid: tuple[int, ...]  # chunks along each dimension, after the commit
    manifests: tuple[ManifestReference, ...]  # as listed in the base snapshot; the first is used
    written: Manifest  # the references of this node that the commit writes, within the grid
    removed: Columns  # int64[k, d]: removed chunks, none of which is written
    path: str


class NodeMatching(Record):
    """pairs: old and new path of each common node that may differ; added: paths of new nodes; removed: old paths of removed nodes.
    All other nodes are equal in both."""

    pairs: Mapping[str, str]
    added: Sequence[str]
    removed: frozenset[str]

    def there(self, path: str) -> str | None:
        """The path in the new snapshot of a node of the old one; None if it is gone."""
        return None if path in self.removed else self.pairs.get(path, path)


class NewCommit(Record):
    """What a commit changes compared to a snapshot.

    nodes       by path; None for a removed node. A new node has a negative id, which the format replaces
    arrays      the references of arrays with changed chunks, with the ids of `nodes`
    unlisted    manifests of nodes of the base that are no longer listed, unless other nodes have them
    relists     whether the lists of files are rebuilt from what the nodes refer to, as those of the base may be damaged
    base_parent the parent of the base, if its file names a wrong one (RepositoryFormat.history_fault)
    properties  JSON values by name, kept with the snapshot
    started_at  when the session began, in nanoseconds since 1970 in UTC
    attribute_limit  bytes above which attributes go to a file of their own, if the rules allow it; None: never
    reusable    `EncodedCommit.reusable` of an earlier attempt, whose branch had moved: a file with the same bytes is not written again"""

    base_id: ObjectId
    base: Snapshot
    nodes: Mapping[str, NodeSnapshot | None]
    arrays: Sequence[ArrayPlacement]
    unlisted: frozenset[ObjectId]
    message: str
    properties: Mapping[str, Json]
    started_at: int
    attribute_limit: int | None = None
    reusable: Mapping[str, Buffer] = MappingProxyType({})
    relists: bool = False
    base_parent: ObjectId | None = None


NewFiles: TypeAlias = (
    "Sequence[tuple[str, Buffer, Snapshot | Manifest]]"  # name, bytes, and the content as reading the file returns it
)


class EncodedCommit(Record):
    """A commit that no branch points to yet.

    files     the names of the files that exist only for it
    reusable  the bytes of the files that another attempt of the same commit may refer to, by name
    new       the files that are not written yet"""

    id: ObjectId
    snapshot: Snapshot
    files: tuple[str, ...]
    reusable: Mapping[str, Buffer]
    new: NewFiles


class Referenced(Record):
    """What some snapshots refer to: each id of a manifest or an attribute file at least once.

    ancestors  of each snapshot, the parent first and at least that: as its file lists them, or from where the format keeps histories
    boxes      of a manifest, if the snapshots have any (Rules.extents): the id and the rank of each array that uses it, and the box of its references there
    totals     how many ancestors each snapshot has, listed or not, if the format keeps that"""

    manifests: Sequence[ObjectId]
    attributes: Sequence[ObjectId]
    ancestors: Sequence[Sequence[ObjectId]]
    boxes: Mapping[ObjectId, Collection[Box]] = MappingProxyType({})
    totals: Sequence[int] = ()

    @property
    def parents(self) -> list[ObjectId | None]:
        """Of each snapshot, from its own file; None if it names none."""
        return [next(iter(own), None) for own in self.ancestors]


class Documents(Protocol):
    """The metadata of nodes in the form of documents."""

    def of(self, node: Node) -> Metadata | FrazilError:
        """The metadata of a node, or its error."""

    def at(self, nodes: Nodes, path: str, document: tuple[bytes, bytes]) -> Metadata | FrazilError:
        """As `of`, from the result of Nodes.document for a node."""


class RepositoryFormat(Protocol):
    """One repository in a format. Safe to use from many threads; pickles.

    Objects (snapshots, manifests, attributes, chunks) have ids, are written once and never change. Branches and tags point to snapshots. All methods that read
    raise StoreError, and FormatError for invalid data; all that write raise ReadOnlyError."""

    # --- where it is ---------------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store: ...

    @property
    def prefix(self) -> str: ...

    @property
    def memory(self) -> ByteCache:
        """The cache of the repository."""

    def key(self, name: str) -> str:
        """The key of an object in the store, from its name, such as "chunks/WT2Z2GQ09G0RTAEQ3D70"."""

    def uncached(self) -> RepositoryFormat:
        """The same repository with an empty cache, read from the store below caches. If manifests and attribute files have digests, they are compared: a file
        that differs raises FormatError, if a snapshot that lists it was read before."""

    def unsynced(self) -> RepositoryFormat:
        """The same repository, whose writes may return before they are on the medium (Store.unsynced); itself if that makes no difference."""

    def tip_key(self, tip: Tip) -> str:
        """The key in the store of the change that made a tip."""

    def chunk_store(self) -> Store:
        """The store for reading chunks: `store` itself, or a cache over it."""

    def require(self) -> None:
        """Raises NotFoundError if there is no repository, FormatError if it has another format."""

    # --- branches and tags ---------------------------------------------------------------------------------------------------------

    def check_commits(self, tip: Tip | None = None) -> None:
        """Refuses a store in which commits would not be safe, with ReadOnlyError or StoreError; and a branch that accepts no commits."""

    def tip(self, branch: str, last: Tip | None = None) -> Tip:
        """The tip of a branch. last: an earlier tip of it. Raises NotFoundError if there is no such branch, or no repository."""

    def read_tip(self, branch: str) -> Tip | None:
        """As `tip`, but None if no branch ever had this name. The tip of a deleted branch has `deleted`."""

    def moved(self, tip: Tip) -> Tip | None:
        """A later tip of the branch, not always the last; None if `tip` is the last. Raises ConflictError if the branch was removed and created again."""

    def advance(self, tip: Tip, commit: EncodedCommit) -> Answer:
        """Writes the new files of a commit, and then points the branch to its snapshot if the tip is still `tip`. As soon as this is called it may happen, even
        if an error is raised. No crash leaves a branch that points to a commit whose files are not complete.

        Raises StoreError with `done` False if it certainly did not happen and never will."""

    def was_committed(self, tip: Tip, snapshots: Collection[ObjectId]) -> Answer:
        """The outcome of earlier calls of advance(tip, snapshot) whose outcome is unknown, from one look at the branch. Raises ConflictError as `moved`.

        COMMITTED  one of them happened, and made the tip. No crash can lose it: it is written again, so that the store syncs it
        TAKEN      none of them happened, and none ever will
        UNKNOWN    without a tip while the tip of the branch is still `tip`; with the tip that one of them made if it could not be synced"""

    def check_next(self, tip: Tip) -> None:
        """Refuses a thing at the key of the branch's next change that can never be one, so that the branch can no longer change. Raises FormatError."""

    def hold(self, tip: Tip) -> Answer:
        """As advance, to the snapshot that the tip already has. After COMMITTED and TAKEN, no other change that follows `tip` can happen."""

    def branches(self) -> list[str]:
        """The names of all branches that are not deleted, sorted."""

    def read_branches(self) -> dict[str, Tip | FrazilError]:
        """The newest tip of each branch, also of deleted ones, by name, in order; for a branch that cannot be read, the error. Raises StoreError."""

    def tags(self) -> list[str]:
        """The names of all tags, sorted."""

    def read_tags(self) -> dict[str, ObjectId | FrazilError]:
        """The snapshot that each tag points to, by name, in order; for a tag that cannot be read, the error. The files are read in one batch. Raises
        StoreError."""

    def unread_refs(self) -> list[UnreadRef]:
        """What is stored among the branches and tags, and is not read: foreign, or a branch or tag whose name was changed. Hidden files are skipped."""

    def tag(self, name: str) -> ObjectId | None:
        """The snapshot of a tag, or None."""

    def create_branch(self, name: str, snapshot: ObjectId) -> Tip:
        """Raises AlreadyExistsError, NotFoundError if the snapshot cannot be read, InvalidInputError for the name, CommitUnknownError."""

    def create_tag(self, name: str, snapshot: ObjectId) -> None:
        """Raises as create_branch."""

    @property
    def deletes_tags(self) -> bool:
        """Whether the format can delete tags."""

    def delete_tag(self, name: str, expect: ObjectId | None = None) -> None:
        """Deletes a tag. expect: the snapshot that it must point to, else ConflictError. Raises NotFoundError; InvalidInputError if the format cannot delete
        tags."""

    def reset_branch(self, name: str, snapshot: ObjectId, expect: ObjectId | None = None) -> Tip:
        """Points a branch to any readable snapshot. expect: the one that it must point to before, else ConflictError; None: any, even if its last change is
        damaged."""

    def former_tips(self, branch: str) -> Iterator[Tip]:
        """The present and former tips of a branch, newest first, as far as the format keeps them. A change that cannot be read has a tip without a snapshot
        that is not deleted. Raises NotFoundError if no branch ever had this name."""

    def restore_branch(self, tip: Tip, snapshot: ObjectId) -> Answer:
        """As `advance`, to any readable snapshot, even if `tip` or its snapshot cannot be read. Also returns COMMITTED if another process made the same
        change."""

    def delete_branch(self, name: str, expect: ObjectId | None = None) -> Tip:
        """Deletes a branch, but not `main`; its snapshots stay."""

    # --- objects -------------------------------------------------------------------------------------------------------------------

    def objects(self, kind: ObjectKind, start_after: str = "", limit: int = 1000) -> list[str]:
        """At most `limit` ids of the objects of a kind, as text, sorted, after `start_after`. Foreign files are skipped. [] is the end."""

    def find_snapshots(self, start: str, most: int) -> list[ObjectId]:
        """At most `most` snapshots whose ids begin with this text, in capital letters."""

    def erase(self, names: Iterable[str]) -> None:
        """Removes objects by their names. Objects that cannot be removed stay and do no harm."""

    # --- history, snapshots and their files -------------------------------------------------------------------------------------

    def ancestors(self, snapshot: ObjectId) -> Iterator[Ancestor]:
        """A snapshot and its ancestors, newest first. The walk may continue after expired snapshots, and ends at the first one that no longer exists.

        Raises NotFoundError if the snapshot does not exist; while walking, FormatError if an ancestor does not exist and has not expired, and, after the last
        known ancestor, if a history does not end at the first snapshot of the repository."""

    def ancestor_at(self, snapshot: ObjectId, steps: int) -> ObjectId | None:
        """The ancestor a number of commits before a snapshot; None if it does not exist, if finding it is slow, and for negative steps."""

    def is_changed(self, snapshot: ObjectId) -> bool:
        """Whether a snapshot that was read has other bytes than were written, as its digest says. Only for `uncached`; False if it has no digest."""

    def history_fault(self, snapshot: ObjectId) -> str | None:
        """What is wrong with the history in the file of a snapshot itself, even if later files are right; None if nothing is, or if the missing ancestors have
        expired. Raises NotFoundError, FormatError."""

    def referenced(self, snapshots: Sequence[ObjectId]) -> Referenced:
        """What these snapshots refer to, in their lists or their nodes, fetched in one batch. Raises NotFoundError, FormatError also for an invalid node that
        may refer to something."""

    def listed(self, snapshot: Snapshot) -> Referenced:
        """What a snapshot lists in addition to its nodes, which refer to the same files. Programs that ignore these lists may write wrong ones
        (Rules.foreign)."""

    def snapshot_id(self, named: ObjectId) -> ObjectId:
        """The id to load a snapshot that a history names. Raises NotFoundError."""

    def match_nodes(self, old: ObjectId, new: ObjectId, *, may_be_apart: bool = False) -> NodeMatching:
        """Matches the nodes of two snapshots. may_be_apart: by their paths, if what both have in common has expired; else that raises NotFoundError. Raises
        NotFoundError, FormatError for needed snapshots that cannot be read."""

    def commit_metadata(self, snapshot: ObjectId) -> Mapping[str, Json]:
        """The metadata that a commit was given; empty if the snapshot is gone."""

    def snapshot(self, file: ObjectId) -> Snapshot:
        """Raises NotFoundError, FormatError."""

    def read_snapshots(self, files: Sequence[ObjectId]) -> Sequence[Snapshot]:
        """Several snapshots, fetched in one batch even if they are cached. Raises as snapshot."""

    def read_ahead(self, files: Sequence[ObjectId]) -> int:
        """Caches snapshots that will be read one by one, fetched in one batch: as many of the first as fit well into the cache. Returns their number, at least
        one. Those that cannot be read are left out."""

    def manifests(self, ids: Sequence[ObjectId]) -> list[Manifest]:
        """Manifests, in the order of their ids, fetched in one batch. Raises NotFoundError, FormatError."""

    def check_references(self, file: ObjectId, manifest: Manifest, node: NodeSnapshot) -> None:
        """Refuses the references of an array in a manifest that are known to belong to another array, if other programs mix them up. Raises FormatError."""

    def attributes(self, file: ObjectId, location: int) -> dict[str, Json]:
        """Attributes in a file of their own."""

    def rules(self, snapshot: Snapshot) -> Rules:
        """What a commit on this snapshot may write."""

    def encode_commit(self, commit: NewCommit) -> EncodedCommit:
        """Encodes a commit. Large attributes are also written. Raises InvalidInputError for what the format cannot hold, StoreError."""

    def write_new(self, new: NewFiles) -> None:
        """Writes the new files of a commit that `advance` does not write. Raises StoreError."""

    def documents(self, extensions: MetadataExtensions) -> Documents:
        """Converts nodes to metadata, with these extensions."""

    def node(self, path: str, metadata: Metadata, rules: Rules, like: NodeSnapshot | None = None) -> NodeSnapshot:
        """Converts metadata to a node without manifests. like: the node that it replaces: members with the same meaning keep their form.

        Raises InvalidInputError for what the format cannot hold; `path` names the member."""

    def resized_node(self, node: NodeSnapshot, shape: tuple[int, ...]) -> NodeSnapshot:
        """The node of an array with another shape of the same rank. Raises InvalidInputError as `node`."""
