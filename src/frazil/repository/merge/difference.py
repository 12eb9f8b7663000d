"""Differences of two states of a hierarchy as values, and the comparison of two snapshots that makes one.

A session says in the same values what it changed. Chunks are compared in chunk_comparison.py; what two differences have to do with each other is in conflicts.py."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.formats.alpha.nodes import ArrayData, Nodes, NodeSnapshot
from frazil.record import Record
from frazil.repository.files.attributes import same_attributes
from frazil.repository.files.freedoms import has_freedoms
from frazil.repository.manifests.chunk_comparison import Listed, compare_chunks, own_manifests
from frazil.repository.manifests.coordinates import grid_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.alpha.manifests import Manifest
    from frazil.formats.alpha.snapshots import Snapshot
    from frazil.formats.ids import ObjectId
    from frazil.formats.msgpack import Json
    from frazil.repository.files.file_cache import Files

    Columns = NDArray[np.int64]

__all__ = ["ChunkDifference", "Difference", "Resize", "compare"]

Shape: TypeAlias = tuple[int, ...]

_TOLD: Final = 100  # chunks of an array, in JSON
_AT_ONCE: Final = 64  # manifests that are fetched together, of several arrays


class Resize(Record):
    """The shapes that an array had and has, in elements, and that of its chunks, which stayed."""

    old: Shape
    new: Shape
    chunk_shape: Shape


class ChunkDifference(Record):
    """Chunks of one array, by coordinates: int64[n, d], sorted. written: added or changed; removed: not there any more"""

    written: Columns
    removed: Columns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChunkDifference):
            return NotImplemented
        return np.array_equal(self.written, other.written) and np.array_equal(self.removed, other.removed)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.written.tobytes(), self.removed.tobytes()))


class Difference(Record):
    """What became of the nodes of a hierarchy. Paths are absolute and sorted.

    added, removed  a path that is in both has another node than before, or an array of another rank, or a group in place of an array;
                    of added nodes only their chunks are told beside, of removed ones nothing
    renamed         old and new path, also of each node beneath a group that was renamed; all else of such a node is told under its new path
    metadata        arrays whose metadata is another, more than the shape; and nodes that cannot be read and have other bytes than before
    attributes      nodes with other attributes; none are the same as {}
    chunks          of arrays, where there are any
    resized         arrays of whose metadata only the shape is another
    arrays          which of all these paths are arrays, as they are now; of removed ones, as they were"""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    metadata: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    chunks: Mapping[str, ChunkDifference] = {}
    resized: Mapping[str, Resize] = {}
    arrays: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not any(self[:-1])

    @property
    def paths(self) -> frozenset[str]:
        """All nodes that differ and are there now."""
        moved = [new for _, new in self.renamed]
        return frozenset([*self.added, *moved, *self.metadata, *self.attributes, *self.chunks, *self.resized])

    def __str__(self) -> str:
        """A line for each node that differs, by path: + added, - removed, r renamed, ~ changed."""
        changes = self._changes()
        lines = [(path, 0, f"- {path} ({self._kind(path)})") for path in self.removed]
        lines += [(path, 1, f"+ {path} ({self._kind(path)}){changes.pop(path, '')}") for path in self.added]
        lines += [(new, 1, f"r {old} -> {new}{changes.pop(new, '')}") for old, new in self.renamed]
        lines += [(path, 1, f"~ {path}{told}") for path, told in changes.items()]
        return "\n".join([line for _, _, line in sorted(lines)])

    def as_json(self, chunks: int = _TOLD) -> dict[str, Json]:
        """Plain values. Of the chunks of each array so many coordinates are told, of those written and of those removed; how many there are is told in any
        case."""
        return {
            "added": [{"path": path, "kind": self._kind(path)} for path in self.added],
            "removed": [{"path": path, "kind": self._kind(path)} for path in self.removed],
            "renamed": [{"old": old, "new": new} for old, new in self.renamed],
            "metadata": list(self.metadata),
            "attributes": list(self.attributes),
            "resized": [
                {"path": path, "old": list(resize.old), "new": list(resize.new)}
                for path, resize in sorted(self.resized.items())
            ],
            "chunks": [
                {
                    "path": path,
                    "written": len(found.written),
                    "removed": len(found.removed),
                    "written_chunks": found.written[:chunks].tolist(),
                    "removed_chunks": found.removed[:chunks].tolist(),
                }
                for path, found in sorted(self.chunks.items())
            ],
        }

    def _kind(self, path: str) -> str:
        return "array" if path in self.arrays else "group"

    def _changes(self) -> dict[str, str]:
        """What is to be told of nodes, beside where they are."""
        told: dict[str, list[str]] = {}
        for path, (written, removed) in self.chunks.items():
            counts = [(len(written), "written"), (len(removed), "removed")]
            texts = [f"{count} chunk{'s' * (count != 1)} {what}" for count, what in counts if count]
            told.setdefault(path, []).extend(texts)
        for path, resize in self.resized.items():
            told.setdefault(path, []).append(f"shape {resize.old} -> {resize.new}")
        for what, paths in (("metadata", self.metadata), ("attributes", self.attributes)):
            for path in paths:
                told.setdefault(path, []).append(what)
        return {path: "  " + "; ".join(texts) for path, texts in told.items()}


# --- comparison -----------------------------------------------------------------------------------------------------------------------


def compare(
    files: Files,
    old: Snapshot,
    new: Snapshot,
    *,
    same_below: int | None = None,
    chunks_of: Container[str] | None = None,
) -> Difference:
    """What differs between two snapshots of a repository. Nodes that lie in the same bytes cost nothing, nor do manifests that both list.

    same_below  ids of nodes below it mean the same node in both, so that renames are seen and a node that was made anew at its path is told as removed and added;
                None: nodes are told apart by path alone
    chunks_of   arrays whose chunks are compared, by either of their paths; None: all

    Raises NotFoundError and FormatError, with the key, for manifests and attribute files that are needed and cannot be read. Nodes that cannot be read are compared as
    bytes."""
    pairs, added, removed = _matched(old.nodes, new.nodes, same_below)
    found = _Found(files, old, new, chunks_of)
    for before, after in pairs:
        if not found.compare_nodes(before, after):
            removed.append(before)
            added.append(after)
    for path in added:
        found.add(path)
    gone = set(removed)
    difference = Difference(
        tuple(sorted(added)),
        tuple(sorted(gone)),
        tuple(sorted([(before, after) for before, after in pairs if before != after and before not in gone])),
        tuple(sorted(found.metadata)),
        tuple(sorted(found.attributes)),
        dict(sorted(found.compare_chunks())),
        dict(sorted(found.resized.items())),
    )
    told = {*difference.paths, *gone}
    arrays = [path for path in told if (new.nodes if path in new.nodes else old.nodes).is_array(path)]
    return difference._replace(arrays=frozenset(arrays))


def _matched(old: Nodes, new: Nodes, same_below: int | None) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Of what may differ: old and new path of each node that both have, paths of new nodes, paths of nodes that are gone."""
    differing = old.differing(new)
    before, after = [path for path in differing if path in old], [path for path in differing if path in new]
    if same_below is None:
        left = set(before)
        pairs = [(path, path) for path in after if path in left]
    else:
        ours, theirs = _by_id(old, before, same_below), _by_id(new, after, same_below)
        pairs = [(path, theirs[number]) for number, path in ours.items() if number in theirs]
        paired, placed = {path for path, _ in pairs}, {path for _, path in pairs}
        for path in before:
            if path in new and path not in paired and path not in placed:
                number, other = old.id_of(path), new.id_of(path)
                # ids that come twice, or cannot be read, tell nothing
                if number is None or other is None or number == other < same_below:
                    pairs.append((path, path))
    one, other_side = {path for path, _ in pairs}, {path for _, path in pairs}
    added = [path for path in after if path not in other_side]
    return pairs, added, [path for path in before if path not in one]


def _by_id(nodes: Nodes, paths: Sequence[str], below: int) -> dict[int, str]:
    """Paths by ids below one, of such that come once."""
    found: dict[int, str] = {}
    twice: set[int] = set()
    for path in paths:
        number = nodes.id_of(path)
        if number is not None and number < below:
            if number in found:
                twice.add(number)
            found[number] = path
    return {number: path for number, path in found.items() if number not in twice}


class _Found:
    """What was found so far, and the arrays whose chunks are still to be compared."""

    def __init__(self, files: Files, old: Snapshot, new: Snapshot, chunks_of: Container[str] | None) -> None:
        self.files, self.old, self.new, self.chunks_of = files, old, new, chunks_of
        self.metadata: list[str] = []
        self.attributes: list[str] = []
        self.resized: dict[str, Resize] = {}
        self.arrays: list[tuple[str, Listed, Listed]] = []

    def compare_nodes(self, old_path: str, path: str) -> bool:
        """Compares a node with what became of it; False where that is so another thing that nothing can be compared."""
        before, after = self.old.nodes.get(old_path), self.new.nodes.get(path)
        if not isinstance(before, NodeSnapshot) or not isinstance(after, NodeSnapshot):
            self.metadata.append(path)
            return True
        if before.array is None or after.array is None:
            if before.array is not after.array:
                return False
        elif len(before.array.metadata.shape) != len(after.array.metadata.shape):
            return False
        else:
            self._compare_arrays(old_path, before, before.array, after, after.array)
        if not same_attributes(self.files, before.attributes, after.attributes):
            self.attributes.append(path)
        return True

    def _compare_arrays(
        self, old_path: str, before: NodeSnapshot, was: ArrayData, after: NodeSnapshot, now: ArrayData
    ) -> None:
        path = after.path
        if was.metadata != now.metadata:
            if was.metadata._replace(shape=now.metadata.shape) == now.metadata:
                self.resized[path] = Resize(was.metadata.shape, now.metadata.shape, now.metadata.chunk_shape)
            else:
                self.metadata.append(path)
        if self._is_asked(old_path) or self._is_asked(path):
            self._note(path, _listed(self.old, before.id, was), _listed(self.new, after.id, now))

    def add(self, path: str) -> None:
        """A new node, whose chunks are all new."""
        node = self.new.nodes.get(path)
        if isinstance(node, NodeSnapshot) and node.array is not None and self._is_asked(path):
            listed = _listed(self.new, node.id, node.array)
            self._note(path, listed._replace(manifests=()), listed)

    def _is_asked(self, path: str) -> bool:
        return self.chunks_of is None or path in self.chunks_of

    def _note(self, path: str, old: Listed, new: Listed) -> None:
        if own_manifests(old, new):
            self.arrays.append((path, old, new))

    def compare_chunks(self) -> Iterator[tuple[str, ChunkDifference]]:
        """The chunks of the arrays, of several with one fetch of what they need."""
        for batch in self._batches():
            ids = list(dict.fromkeys([file for _, old, new in batch for file in own_manifests(old, new)]))
            fetched: dict[ObjectId, Manifest] = dict(zip(ids, self.files.manifests(ids), strict=True))

            def load(ids: Sequence[ObjectId], fetched: Mapping[ObjectId, Manifest] = fetched) -> list[Manifest]:
                missing = [file for file in ids if file not in fetched]
                found = dict(zip(missing, self.files.manifests(missing), strict=True)) if missing else {}
                return [fetched[file] if file in fetched else found[file] for file in ids]

            for path, old, new in batch:
                written, removed = compare_chunks(old, new, load)
                if len(written) or len(removed):
                    yield path, ChunkDifference(written, removed)

    def _batches(self) -> Iterator[list[tuple[str, Listed, Listed]]]:
        batch: list[tuple[str, Listed, Listed]] = []
        ids: set[ObjectId] = set()
        for array in self.arrays:
            ids.update(own_manifests(array[1], array[2]))
            batch.append(array)
            if len(ids) >= _AT_ONCE:
                yield batch
                batch, ids = [], set()
        if batch:
            yield batch


def _listed(snapshot: Snapshot, node: int, array: ArrayData) -> Listed:
    return Listed(node, grid_of(array.metadata), array.manifests, has_freedoms(snapshot))
