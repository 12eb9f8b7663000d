"""The port between transactions and the format of a repository: which operations a format has, and the values that pass through them.

Sessions, commits and merges know a repository by this port alone. The alpha format is in alpha/; another one, for tests, in frazil.testing. Nodes, snapshots and
manifests are the values of formats/, which every format shares."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from frazil.formats.ids import ObjectId
from frazil.formats.nodes import ManifestReference, Node, Nodes, NodeSnapshot
from frazil.formats.snapshots import Snapshot, SnapshotInfo
from frazil.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from frazil._kernel import Buffer
    from frazil.errors import FrazilError
    from frazil.formats.json_values import Json
    from frazil.formats.manifests import Manifest
    from frazil.metadata.model import ArrayMetadata, GroupMetadata
    from frazil.metadata.registry import MetadataExtensions
    from frazil.stores.caches.byte_cache import ByteCache
    from frazil.stores.store import Store

    Columns = NDArray[np.int64]
    Metadata: TypeAlias = ArrayMetadata | GroupMetadata

__all__ = [
    "COMMITTED",
    "MAIN",
    "TAKEN",
    "UNKNOWN",
    "Ancestor",
    "Answer",
    "ArrayPlacement",
    "Documents",
    "NewCommit",
    "NodeMatching",
    "ObjectKind",
    "Outcome",
    "Referenced",
    "RepositoryFormat",
    "Rules",
    "Tip",
    "Written",
]

Outcome: TypeAlias = Literal["committed", "taken", "unknown"]
COMMITTED: Final = "committed"
TAKEN: Final = "taken"
UNKNOWN: Final = "unknown"

ObjectKind: TypeAlias = Literal["attributes", "chunks", "manifests", "snapshots"]

MAIN: Final = "main"


class Tip(Record):
    """Where a branch stands.

    sequence  which change of the branch that is, in the count of its format: a branch that was removed and made anew has other tips
    snapshot  the id that it points to; empty where it only says that the branch is deleted
    deleted   the branch ends here, and there is none of its name until a later change begins it anew
    folder    where its files lie, in the store, in a format that has such; "" is the usual place"""

    branch: str
    sequence: int
    snapshot: ObjectId
    deleted: bool = False
    folder: str = ""


class Answer(Record):
    """What became of a change of a branch.

    COMMITTED  it happened, and made `tip`
    TAKEN      it did not happen and never will: the branch moved otherwise, to `tip` or further
    UNKNOWN    it may have happened, or may still, or a crash may lose it; tip is None but for an answer of was_committed"""

    outcome: Outcome
    tip: Tip | None = None


class Rules(Record):
    """What a commit over a snapshot may write, and what a reader of it may rely on.

    overlays          several manifests of an array may have one chunk, and the first counts; else each chunk is in one
    extents           the boxes of manifests are right, so that a manifest outside of what is asked for need not be loaded
    packs             many chunks may lie in one object, and chunks may be parts of a file taken in whole
    shared_manifests  a manifest may hold chunks of several arrays
    checks            virtual chunks carry a size, a time or an ETag of their file
    attribute_files   large attributes may have a file of their own
    bounded_history   ancestors that a snapshot names at most; None: all, or none where they are kept elsewhere
    digests           the id of a chunk file ends in the digest of its bytes
    foreign           other programs read and commit too: only what they know is written, and they leave references beyond the grid of an array that shrank"""

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
    """One snapshot of a history. snapshot: its id there (see RepositoryFormat.snapshot_id); parent: the id before it; None for the oldest, or if it is not known"""

    info: SnapshotInfo
    parent: ObjectId | None

    @property
    def snapshot(self) -> ObjectId:
        return self.info.id


class ArrayPlacement(Record):
    """What a commit does to the references of one array. An array whose grid has shrunk needs one, even if nothing is written or removed."""

    node: int  # its id in the snapshot that is written
    rank: int
    grid: tuple[int, ...]  # chunks along each dimension, after the commit
    manifests: tuple[ManifestReference, ...]  # as the snapshot that the commit is based on lists them, the first counts
    written: Manifest  # this node's alone: the references that the commit writes, within the grid
    removed: Columns  # int64[k, d]: chunks that must not be there any more, none of which is written
    path: str


class NodeMatching(Record):
    """pairs: old and new path of each node that both have and that may differ; added: paths of new nodes; gone: old paths of nodes that are not there any more.
    All other nodes are the same in both."""

    pairs: Mapping[str, str]
    added: Sequence[str]
    gone: frozenset[str]

    def there(self, path: str) -> str | None:
        """Where a node of the old snapshot is in the new one; None where it is gone."""
        return None if path in self.gone else self.pairs.get(path, path)


class NewCommit(Record):
    """What a commit changes over a snapshot.

    nodes       by path; None where nothing is any more. A new node has a negative id, which the format replaces
    arrays      the references of arrays of which chunks were changed, with the ids of `nodes`
    unlisted    manifests that nodes of the base have and that are to be listed no more, unless other nodes have them
    relists     the lists of files are made anew of what the nodes refer to, as those of the base may be damaged
    base_parent what comes before the base, where the file of that says it wrongly (RepositoryFormat.history_fault)
    properties  JSON values by name, kept with the snapshot
    started_at  when the session began, in nanoseconds since 1970 in UTC
    attribute_limit  bytes of attributes above which they go to a file of their own, where the rules allow it; None: never
    reusable    `Written.reusable` of an earlier attempt, whose branch had moved: a file that would have the same bytes is not written again"""

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


class Written(Record):
    """A commit that is written, and that no branch names yet.

    files     the names of what was written for it alone
    reusable  the bytes of those files that another attempt of the same commit may refer to, by name"""

    id: ObjectId
    snapshot: Snapshot
    files: tuple[str, ...]
    reusable: Mapping[str, Buffer]


class Referenced(Record):
    """What some snapshots refer to, each id of a manifest or an attribute file at least once.

    parents  of each snapshot the one before it, as its own file names it; None where it names none"""

    manifests: Sequence[ObjectId]
    attributes: Sequence[ObjectId]
    parents: Sequence[ObjectId | None]


class Documents(Protocol):
    """The metadata of nodes as documents mean it."""

    def of(self, node: Node) -> Metadata | FrazilError:
        """The metadata of a node, or the error that stands in its place."""

    def at(self, nodes: Nodes, path: str, document: tuple[bytes, bytes]) -> Metadata | FrazilError:
        """As `of`, of a node of which Nodes.document gave this."""


class RepositoryFormat(Protocol):
    """One repository in a format. Safe to use from many threads; pickles.

    Objects (snapshots, manifests, attributes, chunks) have ids, are written once and never change. Branches and tags point to snapshots. Everything that reads
    raises StoreError, and FormatError for what makes no sense; everything that writes ReadOnlyError."""

    # --- where it is ---------------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store: ...

    @property
    def prefix(self) -> str: ...

    @property
    def memory(self) -> ByteCache:
        """What is remembered of the repository."""

    def key(self, name: str) -> str:
        """Where an object lies in the store, by its name, such as "chunks/WT2Z2GQ09G0RTAEQ3D70"."""

    def anew(self) -> RepositoryFormat:
        """The same repository with nothing remembered of it, read from the store beneath caches."""

    def unsynced(self) -> RepositoryFormat:
        """The same repository, of which a write may return before it is on the medium (Store.unsynced); itself where that is no difference."""

    def tip_key(self, tip: Tip) -> str:
        """The key in the store that says where a branch stands at a tip."""

    def chunk_store(self) -> Store:
        """The store as chunks are read from it: `store` itself, or one over it that keeps what it reads."""

    def require(self) -> None:
        """Raises NotFoundError where there is no repository, FormatError where it is one of another format."""

    # --- branches and tags ---------------------------------------------------------------------------------------------------------

    def check_commits(self, tip: Tip | None = None) -> None:
        """Refuses a store in which commits would not be safe, with ReadOnlyError or StoreError; and a branch to which nothing may be committed."""

    def tip(self, branch: str, known: Tip | None = None) -> Tip:
        """Where a branch stands. known: a tip of it that was seen before. Raises NotFoundError where there is no such branch, or no repository."""

    def read_tip(self, branch: str) -> Tip | None:
        """As `tip`, and None where no branch ever had this name; one that was deleted has a tip that says so."""

    def moved(self, tip: Tip) -> Tip | None:
        """A later tip of the branch, not always the last; None where `tip` is the last. Raises ConflictError where the branch was removed and made anew."""

    def advance(self, tip: Tip, snapshot: ObjectId) -> Answer:
        """Lets the branch point to a snapshot with an id of its own, if it still stands at `tip`. It may happen as soon as this is called, whatever is raised.

        Raises StoreError with `done` False where it certainly did not happen and never will."""

    def was_committed(self, tip: Tip, snapshots: Collection[ObjectId]) -> Answer:
        """What became of earlier calls of advance(tip, snapshot) of unknown outcome, from one look at the branch. Raises ConflictError as `moved`.

        COMMITTED  one of them happened, and made the tip; no crash can lose it, as it is written again, so that the store syncs it
        TAKEN      none of them happened, and none ever will
        UNKNOWN    without a tip as long as the branch stands at `tip`; with the tip that one of them made where it could not be synced"""

    def check_next(self, tip: Tip) -> None:
        """Refuses what lies in the place of the next change of the branch and could never be one, so that the branch cannot change any more. Raises FormatError."""

    def hold(self, tip: Tip) -> Answer:
        """As advance, to the snapshot that the tip has already. COMMITTED and TAKEN: no other change of the branch that rests on `tip` can happen any more."""

    def branches(self) -> list[str]:
        """The names of all branches, sorted."""

    def tags(self) -> list[str]:
        """The names of all tags, sorted."""

    def tag(self, name: str) -> ObjectId | None:
        """The snapshot of a tag, None where there is no such tag."""

    def create_branch(self, name: str, snapshot: ObjectId) -> Tip:
        """Raises AlreadyExistsError, NotFoundError where the snapshot cannot be read, InvalidInputError for the name, CommitUnknownError."""

    def create_tag(self, name: str, snapshot: ObjectId) -> None:
        """Errors as those of create_branch."""

    @property
    def deletes_tags(self) -> bool:
        """Whether the format has a way to delete tags."""

    def delete_tag(self, name: str, expect: ObjectId | None = None) -> None:
        """Deletes a tag. expect: the snapshot that it must point to, else ConflictError. Raises NotFoundError; InvalidInputError where the format has no way to."""

    def reset_branch(self, name: str, snapshot: ObjectId, expect: ObjectId | None = None) -> Tip:
        """Lets a branch point to any snapshot that can be read. expect: the one that it points to until then, else ConflictError."""

    def former_tips(self, branch: str) -> Iterator[Tip]:
        """Where a branch stands, and where it stood before, newest first, as far as its format keeps that. A change that cannot be read has a tip that points nowhere and is not
        deleted. Raises NotFoundError where no branch ever had this name."""

    def restore_branch(self, tip: Tip, snapshot: ObjectId) -> Answer:
        """As `advance`, to any snapshot that can be read, also where `tip` cannot be read or points to what cannot. Answers COMMITTED, too, where somebody else did the same."""

    def delete_branch(self, name: str, expect: ObjectId | None = None) -> Tip:
        """Deletes a branch, but not `main`; its snapshots stay."""

    # --- objects -------------------------------------------------------------------------------------------------------------------

    def objects(self, kind: ObjectKind, start_after: str = "", limit: int = 1000) -> list[str]:
        """Ids, as text, of the objects of a kind: sorted, after `start_after`, at most `limit`. Foreign files are left out. [] is the end."""

    def find_snapshots(self, start: str, most: int) -> list[ObjectId]:
        """Snapshots whose ids begin so, as text in capital letters; at most `most`."""

    def erase(self, names: Iterable[str]) -> None:
        """Removes objects by their names. What cannot be removed does no harm, and stays."""

    # --- history, snapshots and their files -------------------------------------------------------------------------------------

    def ancestors(self, snapshot: ObjectId) -> Iterator[Ancestor]:
        """A snapshot and those before it, newest first. It may go on behind what has expired, and ends at the latest where that is not there any more.

        Raises NotFoundError where the snapshot is not there; while walking, FormatError where one before it is not there and has not expired, and, behind the last that can be told,
        where a history does not end at the first snapshot of the repository."""

    def ancestor_at(self, snapshot: ObjectId, steps: int) -> ObjectId | None:
        """The snapshot that is so many commits before another; None where that is not there, or is told in no short way. Negative steps lead nowhere."""

    def history_fault(self, snapshot: ObjectId) -> str | None:
        """What is wrong with what the file of a snapshot says of the ones before it, whatever later files say; None where nothing is, and where what is missing has
        expired. Raises NotFoundError, FormatError."""

    def referenced(self, snapshots: Sequence[ObjectId]) -> Referenced:
        """What these snapshots refer to, whichever part of them says so, fetched in one batch. Raises NotFoundError, FormatError also for a node that makes no sense and may refer to something."""

    def listed(self, snapshot: Snapshot) -> Referenced:
        """What a snapshot says of what it refers to beside its nodes, which say it again. Of programs that ignore these lists they may be wrong (Rules.foreign)."""

    def snapshot_id(self, named: ObjectId) -> ObjectId:
        """The id under which a snapshot that a history names can be loaded. Raises NotFoundError."""

    def match_nodes(self, old: ObjectId, new: ObjectId) -> NodeMatching:
        """Which node of one snapshot is which of the other. Raises NotFoundError, FormatError for snapshots that are needed and cannot be read."""

    def commit_metadata(self, snapshot: ObjectId) -> Mapping[str, Json]:
        """What a commit was given as metadata; empty where the snapshot is gone."""

    def snapshot(self, file: ObjectId) -> Snapshot:
        """Raises NotFoundError, FormatError."""

    def read_snapshots(self, files: Sequence[ObjectId]) -> Sequence[Snapshot]:
        """Several snapshots, fetched in one batch whether or not they are remembered. Errors as those of snapshot."""

    def manifests(self, ids: Sequence[ObjectId]) -> list[Manifest]:
        """In their order, fetched in one batch. Raises NotFoundError, FormatError."""

    def check_references(self, file: ObjectId, manifest: Manifest, node: NodeSnapshot) -> None:
        """Refuses the references of an array in a manifest that are known to be another array's, where other programs mix them up. Raises FormatError."""

    def attributes(self, file: ObjectId, location: int) -> dict[str, Json]:
        """Attributes that have a file of their own."""

    def rules(self, snapshot: Snapshot) -> Rules:
        """What a commit over this snapshot may write."""

    def write_commit(self, commit: NewCommit) -> Written:
        """Writes all objects of a commit, so that a branch may point to it. Raises InvalidInputError for what the format cannot hold, StoreError."""

    def documents(self, known: MetadataExtensions) -> Documents:
        """From nodes to metadata, with these extensions."""

    def node(self, path: str, metadata: Metadata, rules: Rules, like: NodeSnapshot | None = None) -> NodeSnapshot:
        """From metadata to a node without manifests. like: the node that it replaces; what means the same as there keeps its form.

        Raises InvalidInputError for what the format cannot hold; `path` names the member."""

    def resized_node(self, node: NodeSnapshot, shape: tuple[int, ...]) -> NodeSnapshot:
        """The node of an array with other lengths, as many as it had. Raises InvalidInputError as `node`."""
