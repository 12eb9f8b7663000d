"""The alpha format behind the port (repository/format.py): its rules, and the functions behind each call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from frazil.errors import FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.formats.alpha.refs import LAST_SEQUENCE, check_name
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata
from frazil.formats.ids import ObjectId
from frazil.formats.json_values import Json
from frazil.formats.manifests import Manifest
from frazil.formats.nodes import ArrayData, NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.metadata.registry import MetadataExtensions
from frazil.repository.alpha import branches, history, snapshot_references, tags
from frazil.repository.alpha.alpha_library import add_guard, check_deletion, check_library_branch
from frazil.repository.alpha.documents import check_grid, from_attributes, from_metadata
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.new_snapshot import encode_commit, first_snapshot
from frazil.repository.alpha.node_documents import NodeDocuments
from frazil.repository.alpha.node_matching import match_snapshots
from frazil.repository.alpha.ref_files import check_free_key
from frazil.repository.alpha.ref_names import unread_refs
from frazil.repository.alpha.shared_manifests import refuse_mixed_up
from frazil.repository.alpha.snapshot_flags import HISTORY, commit_metadata, has_digests, has_freedoms
from frazil.repository.format import (
    TAKEN,
    UNKNOWN,
    Ancestor,
    Answer,
    EncodedCommit,
    NewCommit,
    NodeMatching,
    ObjectKind,
    Referenced,
    Rules,
    Tip,
    UnreadRef,
)
from frazil.repository.manifests.coordinates import grid_of

_RULES = Rules(
    overlays=True,
    extents=True,
    packs=True,
    shared_manifests=True,
    checks=True,
    attribute_files=True,
    bounded_history=HISTORY,
    foreign=False,
)
_WITH_DIGESTS = _RULES._replace(digests=True)
_LIBRARY = Rules(
    overlays=False,
    extents=False,
    packs=False,
    shared_manifests=False,
    checks=False,
    attribute_files=False,
    bounded_history=None,
    foreign=True,
)


class AlphaSnapshots(Files):
    """The part of the port for snapshots and what they refer to, without branches and history."""

    __slots__ = ()

    def objects(self, kind: ObjectKind, start_after: str = "", limit: int = 1000) -> list[str]:
        return history.list_ids(self, kind, start_after, limit)

    def find_snapshots(self, start: str, most: int) -> list[ObjectId]:
        return history.find_snapshots(self, start, most)

    def snapshot_id(self, named: ObjectId) -> ObjectId:
        return history.snapshot_file(self, named)

    def referenced(self, snapshots: Sequence[ObjectId]) -> Referenced:
        return snapshot_references.referenced(self, snapshots)

    def listed(self, snapshot: Snapshot) -> Referenced:
        assert isinstance(snapshot, SnapshotFile)
        return snapshot_references.listed(snapshot)

    def commit_metadata(self, snapshot: ObjectId) -> Mapping[str, Json]:
        try:
            return commit_metadata(self.snapshot(snapshot))
        except NotFoundError:
            pass
        try:
            return commit_metadata(self.snapshot(self.snapshot_id(snapshot)))
        except NotFoundError:
            return {}

    def check_references(self, file: ObjectId, manifest: Manifest, node: NodeSnapshot) -> None:
        refuse_mixed_up(self, file, manifest, node)

    def rules(self, snapshot: Snapshot) -> Rules:
        assert isinstance(snapshot, SnapshotFile)
        if not has_freedoms(snapshot):
            return _LIBRARY
        return _WITH_DIGESTS if has_digests(snapshot) else _RULES

    def encode_commit(self, commit: NewCommit) -> EncodedCommit:
        return encode_commit(self, commit, self.rules(commit.base))

    def documents(self, extensions: MetadataExtensions) -> NodeDocuments:
        return NodeDocuments(self, extensions)

    def node(self, path: str, metadata: Metadata, rules: Rules, like: NodeSnapshot | None = None) -> NodeSnapshot:
        key = f"{path}/zarr.json".lstrip("/")  # of the document that the node would have
        old = None if like is None or like.array is None else like.array.metadata
        assert old is None or isinstance(old, ZarrArrayMetadata)
        try:
            attributes, array = from_attributes(metadata, key), None
            if isinstance(metadata, ArrayMetadata):
                array = ArrayData(from_metadata(metadata, old, freedoms=not rules.foreign))
        except FrazilError as error:
            error.key = error.key or key
            raise
        return NodeSnapshot(0, path, attributes, array)

    def resized_node(self, node: NodeSnapshot, shape: tuple[int, ...]) -> NodeSnapshot:
        assert node.array is not None
        metadata = node.array.metadata.with_shape(shape)
        try:
            check_grid(grid_of(metadata))
        except FrazilError as error:
            error.key = error.key or f"{node.path}/zarr.json".lstrip("/")
            raise
        return node._replace(array=node.array._replace(metadata=metadata))


class AlphaFormat(AlphaSnapshots):
    """A repository whose branches are numbered files, each created once. Arguments as for Files."""

    __slots__ = ()

    def create(self, *, compatible: bool, digests: bool = False) -> Tip:
        """Creates the repository, with an empty branch `main`. compatible: the alpha library can read and continue it; digests: the ids of chunk
        files end in digests.

        Raises AlreadyExistsError, CommitUnknownError, ReadOnlyError, StoreError."""
        first = first_snapshot(compatible=compatible, digests=digests)
        return branches.create_repository(self, first.metadata.id, first)

    def require(self) -> None:
        """Raises NotFoundError if there is no repository, FormatError if it has a later format."""
        branches.require_repository(self)

    # --- branches and tags ---------------------------------------------------------------------------------------------------------

    def check_commits(self, tip: Tip | None = None) -> None:
        branches.check_commits(self)
        if tip is not None:
            check_library_branch(self, tip.branch, self.snapshot(tip.snapshot))

    def read_tip(self, branch: str) -> Tip | None:
        return branches.read_tip(self, branch)

    def tip(self, branch: str, last: Tip | None = None) -> Tip:
        if last is None or last.branch != branch:
            check_name("branch", branch)
        return branches.open_tip(self, branch, last)

    def moved(self, tip: Tip) -> Tip | None:
        return branches.tip_after(self, tip)

    def tip_key(self, tip: Tip) -> str:
        return branches.tip_key(self, tip)

    def check_next(self, tip: Tip) -> None:
        if tip.sequence < LAST_SEQUENCE:
            check_free_key(self.store, branches.tip_key(self, tip._replace(sequence=tip.sequence + 1)))

    def advance(self, tip: Tip, commit: EncodedCommit) -> Answer:
        add_guard(self, self.snapshot(tip.snapshot))
        new = commit.new
        if not self.store.capabilities.conditions_seen:
            try:
                self.write_new(new)
            except StoreError as error:
                error.done = False  # the branch file was not sent
                raise
            branches.check_conditions(self, commit.id)
            new = ()
        answer = branches.put_next(self, tip, commit.id, after={self.key(name): data for name, data, _ in new})
        if answer.outcome != UNKNOWN:
            self.keep(new)
        return answer

    def was_committed(self, tip: Tip, snapshots: Collection[ObjectId]) -> Answer:
        following = branches.tip_after(self, tip)
        if following is None:
            return Answer(UNKNOWN)
        if following.snapshot not in snapshots:
            return Answer(TAKEN, following)
        try:  # a crash may still lose a readable file: writing it again syncs it
            outcome, _ = branches.put_next(self, tip, following.snapshot)
        except StoreError:
            outcome = UNKNOWN
        return Answer(outcome, following)

    def hold(self, tip: Tip) -> Answer:
        return branches.put_next(self, tip, tip.snapshot)

    def branches(self) -> list[str]:
        return branches.list_branches(self)

    def read_branches(self) -> dict[str, Tip | FrazilError]:
        return branches.read_branches(self)

    def tags(self) -> list[str]:
        return tags.list_tags(self)

    def read_tags(self) -> dict[str, ObjectId | FrazilError]:
        return tags.read_tags(self)

    def unread_refs(self) -> list[UnreadRef]:
        return unread_refs(self)

    def tag(self, name: str) -> ObjectId | None:
        return tags.read_tag(self, name)

    def create_branch(self, name: str, snapshot: ObjectId) -> Tip:
        check_name("branch", name)
        check_library_branch(self, name, self.snapshot(snapshot), new=True)
        return branches.create_branch(self, name, snapshot)

    def create_tag(self, name: str, snapshot: ObjectId) -> None:
        tags.create_tag(self, name, snapshot)

    @property
    def deletes_tags(self) -> bool:
        return False

    def delete_tag(self, name: str, expect: ObjectId | None = None) -> None:
        check_name("tag", name)
        raise InvalidInputError(
            f"the tag {name!r} cannot be deleted: the format of this repository says that tags cannot be deleted once created (Icechunk specification, Tags)",
            hint="it keeps its own snapshot, and nothing before that",
        )

    def reset_branch(self, name: str, snapshot: ObjectId, expect: ObjectId | None = None) -> Tip:
        check_name("branch", name)
        check_library_branch(self, name, self.snapshot(snapshot))
        return branches.reset_branch(self, name, snapshot, expect)

    def former_tips(self, branch: str) -> Iterator[Tip]:
        return branches.former_tips(self, branch)

    def restore_branch(self, tip: Tip, snapshot: ObjectId) -> Answer:
        add_guard(self, self.snapshot(snapshot))
        return branches.put_next(self, tip, snapshot)

    def delete_branch(self, name: str, expect: ObjectId | None = None) -> Tip:
        check_deletion(self, name, branches.open_tip(self, name).snapshot)
        return branches.delete_branch(self, name, expect)

    # --- history -------------------------------------------------------------------------------------------------------------------

    def ancestors(self, snapshot: ObjectId) -> Iterator[Ancestor]:
        return history.ancestry(self, snapshot)

    def ancestor_at(self, snapshot: ObjectId, steps: int) -> ObjectId | None:
        return history.ancestor_at(self, snapshot, steps)

    def history_fault(self, snapshot: ObjectId) -> str | None:
        return history.history_fault(self, snapshot)

    def match_nodes(self, old: ObjectId, new: ObjectId, *, may_be_apart: bool = False) -> NodeMatching:
        return match_snapshots(self, old, new, may_be_apart=may_be_apart)
