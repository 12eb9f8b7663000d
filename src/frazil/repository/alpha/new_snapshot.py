"""What a commit writes in the alpha format: manifests, a snapshot, and an attribute file for large attributes. Pure, except that `encode_commit` does the I/O.

manifests/placement.py decides which manifests are written. commit/commit.py points the branch to the snapshot."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import FormatError, NotFoundError
from frazil.formats.alpha.attributes import encode_attributes
from frazil.formats.alpha.manifests import encode_manifest
from frazil.formats.alpha.nodes import encode_nodes
from frazil.formats.alpha.refs import attributes_key, manifest_key
from frazil.formats.alpha.snapshots import FileInfo, SnapshotFile
from frazil.formats.ids import ID_BYTES, ObjectId, decode_id, encode_id, new_id
from frazil.formats.manifests import Manifest, node_manifest
from frazil.formats.msgpack import pack
from frazil.formats.nodes import ArrayData, AttributesReference, ManifestReference, Nodes, NodeSnapshot
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.alpha.file_cache import FileBytes, Files
from frazil.repository.alpha.file_digests import digested_id
from frazil.repository.alpha.shared_manifests import refuse_mixed_up
from frazil.repository.alpha.snapshot_flags import (
    HISTORY,
    commit_properties,
    digests_flag,
    has_file_digests,
    has_own_manifests,
    next_node,
    with_file_digests,
    with_flag,
    with_own_manifests,
)
from frazil.repository.format import ArrayPlacement, EncodedCommit, NewCommit, Rules
from frazil.repository.manifests.coordinates import grid_of, no_coordinates
from frazil.repository.manifests.placement import Placed, Placing
from frazil.stores.values import flat_buffer

if TYPE_CHECKING:
    from frazil._kernel import Buffer

_FUTURE: Final = 1  # nanoseconds after the parent, if the clock says that a commit is older than its parent


def first_snapshot(*, compatible: bool, digests: bool = False) -> SnapshotFile:
    """The first snapshot of a repository, without nodes. compatible: the alpha library can read and continue it; digests: ids of files end in digests"""
    now = time.time_ns()
    info = SnapshotInfo(new_id(os.urandom), now, "Repository initialized")
    return SnapshotFile(info, now, flags={} if compatible else with_flag(digests_flag(info.id) if digests else {}, 1))


def encode_commit(files: Files, commit: NewCommit, rules: Rules, *, keep_history: bool = True) -> EncodedCommit:
    """Encodes a commit. keep_history: the snapshot lists its ancestors. Raises as RepositoryFormat.encode_commit."""
    base = commit.base
    assert isinstance(base, SnapshotFile)
    if not rules.shared_manifests and not has_own_manifests(base):
        commit = _with_sharing_arrays(commit)
    ids, following = _new_ids(commit, base)
    named = _NamedFiles(commit.reusable, digests=has_file_digests(base))
    placed = _place_references(files, commit, ids, rules, named)
    lists = dict(zip([array.path for array in commit.arrays], placed.references, strict=True))
    changed = {path: None if node is None else _final_node(node, ids, lists) for path, node in commit.nodes.items()}
    attribute_file = _separate_attributes(files, commit, changed, rules, named)
    identity = new_id(os.urandom)
    if commit.base_parent is not None:
        base = _with_parent(files, base, commit.base_parent)
    snapshot = _snapshot(commit, base, rules, placed, changed, following, identity, attribute_file)
    if not keep_history:
        snapshot = snapshot._replace(history=(), total_parents=0)
    manifests = [(manifest_key(file), manifest) for file, manifest in placed.files]
    new = [(name, named.contents[name], manifest) for name, manifest in manifests if name not in commit.reusable]
    own = files.encoded_snapshot(identity, snapshot)
    return EncodedCommit(identity, own[2], (*named.contents, own[0]), named.contents, (*new, own))


class _NamedFiles:
    """Gives ids to the files of a commit: the id that an earlier attempt gave to a file with the same bytes, or a new one.

    contents  the bytes of all files, by name;  digests: new ids end in digests"""

    def __init__(self, reusable: Mapping[str, Buffer], *, digests: bool) -> None:
        self._digests = digests
        self.contents: dict[str, FileBytes] = {}
        self._ids = {bytes(data): decode_id(name.partition("/")[2]) for name, data in reusable.items()}

    def id_of(self, data: FileBytes, key_of: Callable[[ObjectId], str]) -> ObjectId:
        existing = self._ids.get(bytes(data)) if self._ids else None
        identity = existing or (digested_id(data) if self._digests else new_id(os.urandom))
        self.contents[key_of(identity)] = data
        return identity

    def id_of_manifest(self, manifest: Manifest) -> ObjectId:
        return self.id_of(flat_buffer(encode_manifest(manifest)), manifest_key)


def _new_ids(commit: NewCommit, base: SnapshotFile) -> tuple[dict[int, int], int | None]:
    """The ids of new nodes by their negative numbers, and the lowest id that no node has had after the commit; None if the last snapshot has the same, as no
    node was added or removed."""
    new = [node.id for node in commit.nodes.values() if node is not None and node.id < 0]
    if not new and None not in commit.nodes.values():
        return {}, None
    first = next_node(base)
    return {number: first + at for at, number in enumerate(sorted(new, reverse=True))}, first + len(new)


def _numbered(array: ArrayPlacement, ids: Mapping[int, int]) -> ArrayPlacement:
    number, nodes = ids.get(array.node, array.node), array.written.nodes
    if number == array.node and nodes.size == 1 and nodes.item(0) == number:
        return array
    return array._replace(node=number, written=array.written._replace(nodes=np.full_like(array.written.nodes, number)))


def _with_sharing_arrays(commit: NewCommit) -> NewCommit:
    """The commit with all other arrays that have manifests, changed or not, as arrays may share manifests."""
    written = {array.path for array in commit.arrays}
    nodes = {path: node for path in commit.base.nodes if isinstance(node := commit.base.nodes.get(path), NodeSnapshot)}
    after = {**nodes, **commit.nodes}
    moved = {node.id for node in commit.nodes.values() if node is not None and node.id >= 0}
    added = [
        node
        for path, node in after.items()
        if node is not None
        and node.array is not None
        and node.array.manifests
        and path not in written
        and (path in commit.nodes or node.id not in moved)
    ]
    arrays = [*commit.arrays, *(_without_changes(node, node.array) for node in added if node.array is not None)]
    return commit._replace(nodes={**commit.nodes, **{node.path: node for node in added}}, arrays=arrays)


def _without_changes(node: NodeSnapshot, array: ArrayData) -> ArrayPlacement:
    grid, none = grid_of(array.metadata), no_coordinates(len(array.metadata.shape))
    zero = np.zeros(0, np.int64)
    written = node_manifest(0, none, np.zeros(0, np.uint8), np.zeros((0, ID_BYTES), np.uint8), zero, zero)
    return ArrayPlacement(node.id, len(grid), grid, array.manifests, written, none, node.path)


def _place_references(
    files: Files, commit: NewCommit, ids: Mapping[int, int], rules: Rules, named: _NamedFiles
) -> Placed:
    """Decides which manifests are written."""
    placing = Placing(
        [_numbered(array, ids) for array in commit.arrays], freedoms=rules.overlays, trusted=rules.extents
    )
    needed = placing.needed()
    loaded = dict(zip(needed, files.manifests(needed), strict=True))
    if rules.foreign:
        _check_loaded(files, commit, loaded)
    return placing.place(loaded, named.id_of_manifest)


def _check_loaded(files: Files, commit: NewCommit, loaded: Mapping[ObjectId, Manifest]) -> None:
    """Refuses to keep references that the alpha library mixed up. Arrays that are rewritten completely have none."""
    for array in commit.arrays:
        before = commit.base.nodes
        path = next((path for path in (array.path, *commit.nodes) if before.id_of(path) == array.node), None)
        node = None if path is None else before.get(path)
        if not isinstance(node, NodeSnapshot) or node.array is None or array.written.size == prod(array.grid):
            continue
        for reference in array.manifests:
            refuse_mixed_up(files, reference.id, loaded[reference.id], node)


def _snapshot(
    commit: NewCommit,
    base: SnapshotFile,
    rules: Rules,
    placed: Placed,
    changed: Mapping[str, NodeSnapshot | None],
    following: int | None,
    identity: ObjectId,
    attribute_file: ObjectId | None,
) -> SnapshotFile:
    nodes = base.nodes.changed(changed)
    if commit.relists:
        manifests, attributes = _lists_of(nodes, base)
    else:
        manifests = _listed(base, nodes, placed, commit.unlisted)
        attributes = _attribute_files(base, nodes, changed, attribute_file)
    history = (base.metadata, *base.history)
    written_at = max(time.time_ns(), base.metadata.written_at + _FUTURE)
    properties, flags = commit_properties(base, commit.properties)
    if not rules.shared_manifests:
        flags = with_own_manifests(flags, identity)
    if has_file_digests(base):
        flags = with_file_digests(flags, identity)
    return SnapshotFile(
        SnapshotInfo(identity, written_at, commit.message),
        min(commit.started_at, written_at),
        history[: rules.bounded_history],
        base.total_parents + 1,
        manifests,
        attributes,
        flags if rules.foreign or following is None else with_flag(flags, following),
        properties,
        nodes,
    )


def _with_parent(files: Files, base: SnapshotFile, parent: ObjectId) -> SnapshotFile:
    """A snapshot with another parent: its list of ancestors begins with the parent, followed by the parents that the files of these ancestors name. Where one
    cannot be read, or names none, the list in the file before it is used."""
    older = files.snapshot(parent)
    history, total = [older.metadata._replace(id=parent)], older.total_parents + 1
    while older.history and len(history) < HISTORY:
        following = older.history[0].id
        try:
            next_older = files.snapshot(following)
        except (NotFoundError, FormatError):
            break
        history.append(older.history[0])
        older = next_older
    return base._replace(history=(*history, *older.history), total_parents=total)


def _lists_of(nodes: Nodes, base: SnapshotFile) -> tuple[tuple[FileInfo, ...], tuple[FileInfo, ...]]:
    """The manifests and attribute files that nodes refer to. If a node cannot be read, all listed files stay, as it may refer to them."""
    manifests: dict[ObjectId, FileInfo] = {}
    attributes: dict[ObjectId, FileInfo] = {}
    for path in nodes:
        try:
            own = nodes.files_of(path)
        except FormatError:
            manifests |= {info.id: info for info in base.manifest_files}
            attributes |= {info.id: info for info in base.attribute_files}
            continue
        manifests |= {file: FileInfo(file) for file in own.manifests}
        if own.attributes is not None:
            attributes[own.attributes] = FileInfo(own.attributes)
    return tuple(manifests.values()), tuple(attributes.values())


def _final_node(
    node: NodeSnapshot, ids: Mapping[int, int], lists: Mapping[str, tuple[ManifestReference, ...]]
) -> NodeSnapshot:
    array = node.array
    if array is not None and node.path in lists:
        array = array._replace(manifests=lists[node.path])
    return node._replace(id=ids.get(node.id, node.id), array=array)


def _separate_attributes(
    files: Files, commit: NewCommit, changed: dict[str, NodeSnapshot | None], rules: Rules, named: _NamedFiles
) -> ObjectId | None:
    """Moves large attributes to a file of their own, if that is requested and allowed, and returns its id."""
    limit = commit.attribute_limit if rules.attribute_files else None
    large = [
        node
        for node in changed.values()
        if limit is not None
        and node is not None
        and isinstance(node.attributes, Mapping)
        and len(pack(node.attributes)) > limit
    ]
    if not large:
        return None
    data = encode_attributes([dict(node.attributes) for node in large])  # type: ignore[arg-type]
    identity = named.id_of(data, attributes_key)
    if attributes_key(identity) not in commit.reusable:
        files.write_attributes(identity, data)
    for at, node in enumerate(large):
        changed[node.path] = node._replace(attributes=AttributesReference(identity, at))
    return identity


def _listed(base: SnapshotFile, nodes: Nodes, placed: Placed, dropped: frozenset[ObjectId]) -> tuple[FileInfo, ...]:
    """The manifests of the snapshot: the previous ones, without those that no array lists any more, and the new ones."""
    unused = _unused(placed.unlisted | dropped, nodes)
    return (
        *(info for info in base.manifest_files if info.id not in unused),
        *(FileInfo(file) for file, _ in placed.files),
    )


def _attribute_files(
    base: SnapshotFile,
    nodes: Nodes,
    changed: Mapping[str, NodeSnapshot | None],
    new: ObjectId | None,
) -> tuple[FileInfo, ...]:
    if not base.attribute_files:
        return () if new is None else (FileInfo(new),)
    before = [base.nodes.get(path) for path in changed]
    dropped = {
        node.attributes.id
        for node in before
        if isinstance(node, NodeSnapshot) and isinstance(node.attributes, AttributesReference)
    }
    unused = _unused(dropped, nodes)
    files = [info for info in base.attribute_files if info.id not in unused]
    return tuple(files) if new is None else (*files, FileInfo(new))


def _unused(ids: Iterable[ObjectId], nodes: Nodes) -> set[ObjectId]:
    """The ids that no node names. An id is distinctive text, so the bytes of all nodes are searched, and none is decoded."""
    unused = set(ids)
    if not unused:
        return unused
    data = encode_nodes(nodes)
    return {identity for identity in unused if encode_id(identity).encode() not in data}
