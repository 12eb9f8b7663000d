"""What changed from one snapshot to another, as a Delta. Which nodes are the same is said by alpha/node_matching.py; chunks are compared in
manifests/chunk_comparison.py. Nodes that lie in the same bytes cost nothing, nor do manifests that both list."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from frazil.formats.alpha.nodes import ArrayData, AttributesReference, NodeSnapshot
from frazil.formats.alpha.zarr_metadata import ZarrArrayMetadata
from frazil.repository.files.attributes import Attributes, same_attributes
from frazil.repository.format import NodeMatching
from frazil.repository.manifests.chunk_comparison import Listed, compare_chunks, own_manifests
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.merge.delta import Delta, Made
from frazil.repository.merge.difference import ChunkDifference, Resize

if TYPE_CHECKING:
    from frazil.formats.alpha.manifests import Manifest
    from frazil.formats.alpha.snapshots import Snapshot
    from frazil.formats.ids import ObjectId
    from frazil.repository.format import RepositoryFormat

__all__ = ["snapshot_delta"]

_AT_ONCE: Final = 64  # manifests that are fetched together, of several arrays


def snapshot_delta(
    files: RepositoryFormat,
    old: Snapshot,
    new: Snapshot,
    matching: NodeMatching,
    *,
    chunks_of: Container[str] | None = None,
    attributes_of: Container[str] = (),
) -> Delta:
    """What differs between two snapshots of a repository.

    chunks_of      nodes of the old snapshot whose chunks are compared; None: all, and new ones too
    attributes_of  new nodes, by their paths, whose attributes are read where they lie in a file; those of the others are as the snapshot says

    Raises NotFoundError and FormatError, with the key, for manifests and attribute files that are needed and cannot be read. Nodes that cannot be read are compared as
    bytes. A node of another kind or rank than before is told as removed and made."""
    found = _Found(files, old, new, chunks_of)
    gone, added = set(matching.gone), list(matching.added)
    moved: dict[str, str] = {}
    for before, after in matching.pairs.items():
        if not found.compare_nodes(before, after):
            gone.add(before)
            added.append(after)
        elif before != after:
            moved[before] = after
    made: dict[str, Made] = {}
    for path in added:
        node = new.nodes.get(path)
        made[path] = Made(node if isinstance(node, NodeSnapshot) else None)
        if isinstance(node, NodeSnapshot):
            found.note_made(path, node)
            if path in attributes_of:
                made[path] = Made(node._replace(attributes=found.plain(node.attributes)))
    chunks: dict[str, ChunkDifference] = {}
    for path, is_new, difference in found.compare_chunks():
        if is_new:
            made[path] = made[path]._replace(chunks=difference)
        else:
            chunks[path] = difference
    arrays = {path for path in (*moved, *found.attributes, *found.metadata, *chunks) if old.nodes.is_array(path)}
    return Delta(
        {path: bool(old.nodes.is_array(path)) for path in gone},
        moved,
        made,
        frozenset(arrays),
        found.attributes,
        found.metadata,
        found.resized,
        {},
        chunks,
    )


class _Found:
    """What was found so far, and the arrays whose chunks are still to be compared: path, whether it is new, and how it was and is listed."""

    def __init__(self, files: RepositoryFormat, old: Snapshot, new: Snapshot, chunks_of: Container[str] | None) -> None:
        self.files, self.old, self.new, self.chunks_of = files, old, new, chunks_of
        self.attributes: dict[str, Attributes] = {}
        self.metadata: dict[str, ZarrArrayMetadata | None] = {}
        self.resized: dict[str, Resize] = {}
        self.arrays: list[tuple[str, bool, Listed, Listed]] = []

    def compare_nodes(self, old_path: str, path: str) -> bool:
        """Compares a node with what became of it; False where that is so another thing that nothing can be compared."""
        before, after = self.old.nodes.get(old_path), self.new.nodes.get(path)
        if not isinstance(before, NodeSnapshot) or not isinstance(after, NodeSnapshot):
            self.metadata[old_path] = None
            return True
        if before.array is None or after.array is None:
            if before.array is not after.array:
                return False
        elif len(before.array.metadata.shape) != len(after.array.metadata.shape):
            return False
        else:
            self._compare_arrays(before, before.array, after, after.array)
        if not same_attributes(self.files, before.attributes, after.attributes):
            self.attributes[old_path] = self.plain(after.attributes)
        return True

    def plain(self, attributes: Attributes) -> Attributes:
        """Attributes as they are, wherever they lie."""
        if isinstance(attributes, AttributesReference):
            return self.files.attributes(attributes.id, attributes.location)
        return attributes

    def _compare_arrays(self, before: NodeSnapshot, was: ArrayData, after: NodeSnapshot, now: ArrayData) -> None:
        path = before.path
        if was.metadata != now.metadata:
            self.metadata[path] = now.metadata
            if was.metadata._replace(shape=now.metadata.shape) == now.metadata:
                self.resized[path] = Resize(was.metadata.shape, now.metadata.shape, now.metadata.chunk_shape)
        if self.chunks_of is None or path in self.chunks_of:
            self._note(
                path,
                False,
                _listed(self.files.rules(self.old).extents, before.id, was),
                _listed(self.files.rules(self.new).extents, after.id, now),
            )

    def note_made(self, path: str, node: NodeSnapshot) -> None:
        """A new array, whose chunks are all new."""
        if node.array is not None and self.chunks_of is None:
            listed = _listed(self.files.rules(self.new).extents, node.id, node.array)
            self._note(path, True, listed._replace(manifests=()), listed)

    def _note(self, path: str, is_new: bool, old: Listed, new: Listed) -> None:
        if own_manifests(old, new):
            self.arrays.append((path, is_new, old, new))

    def compare_chunks(self) -> Iterator[tuple[str, bool, ChunkDifference]]:
        """The chunks of the arrays, of several with one fetch of what they need."""
        for batch in self._batches():
            ids = list(dict.fromkeys([file for *_, old, new in batch for file in own_manifests(old, new)]))
            fetched: dict[ObjectId, Manifest] = dict(zip(ids, self.files.manifests(ids), strict=True))

            def load(ids: Sequence[ObjectId], fetched: Mapping[ObjectId, Manifest] = fetched) -> list[Manifest]:
                missing = [file for file in ids if file not in fetched]
                found = dict(zip(missing, self.files.manifests(missing), strict=True)) if missing else {}
                return [fetched[file] if file in fetched else found[file] for file in ids]

            for path, is_new, old, new in batch:
                written, removed = compare_chunks(old, new, load)
                if len(written) or len(removed):
                    yield path, is_new, ChunkDifference(written, removed)

    def _batches(self) -> Iterator[list[tuple[str, bool, Listed, Listed]]]:
        batch: list[tuple[str, bool, Listed, Listed]] = []
        ids: set[ObjectId] = set()
        for array in self.arrays:
            ids.update(own_manifests(array[2], array[3]))
            batch.append(array)
            if len(ids) >= _AT_ONCE:
                yield batch
                batch, ids = [], set()
        if batch:
            yield batch


def _listed(extents: bool, node: int, array: ArrayData) -> Listed:
    return Listed(node, grid_of(array.metadata), array.manifests, extents)
