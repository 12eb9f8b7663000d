"""The changes from one snapshot to another, as a Delta. The format matches the nodes; manifests/chunk_comparison.py compares the chunks of one array.
Nodes in the same bytes cost nothing, nor do manifests that both snapshots list."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from frazil.base.arrays import distinct
from frazil.base.record import Record
from frazil.formats.ids import ObjectId
from frazil.formats.manifests import Manifest
from frazil.formats.nodes import ArrayData, NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.repository.format import NodeMatching, RepositoryFormat
from frazil.repository.manifests.chunk_comparison import FoundRows, Listed, compare_chunks, own_manifests
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.merge.delta import Delta, DeltaBuilder, Made, MetadataChange
from frazil.repository.merge.difference import ChunkDifference
from frazil.repository.session.change_set import Append, ChangeSet, append_of
from frazil.repository.session.changed_references import (
    PENDING,
    SHARED,
    VIRTUAL,
    Rows,
    distinct_numbers,
    manifest_rows,
    removed_rows,
)
from frazil.stores.values import Columns, Pieces, Sources

_BATCH: Final = 64  # manifests that are fetched together, of several arrays


def snapshot_delta(
    files: RepositoryFormat,
    old: Snapshot,
    new: Snapshot,
    matching: NodeMatching,
    *,
    chunks_of: Mapping[str, Columns | None] | None = None,
    attributes_of: Container[str] = (),
    source: ChangeSet | None = None,
    exact: bool = False,
) -> Delta:
    """What differs between two snapshots of a repository.

    chunks_of      nodes of the old snapshot whose chunks are compared, and which of them (sorted), None: all of the node; None: all nodes, including new ones
    attributes_of  paths of new nodes whose attributes are read if they have a file of their own; others keep the reference of the snapshot
    source         gets the inline chunks and the locations that the references of chunks refer to, so that the delta can be applied; None: no references, and
                   all attributes are read then
    exact          chunks with equal references never count as changed, which may need more manifests (compare_chunks)

    Raises NotFoundError and FormatError, with the key, for manifests and attribute files that are needed and cannot be read. Nodes that cannot be read are
    compared as bytes. A node whose kind or rank changed counts as removed and added."""
    found = DeltaBuilder(files)
    was_free, is_free = files.rules(old).extents, files.rules(new).extents
    removed, added = set(matching.removed), list(matching.added)
    arrays: list[_ArrayPair] = []
    for old_path, path in matching.pairs.items():
        before, after = old.nodes.get(old_path), new.nodes.get(path)
        if not isinstance(before, NodeSnapshot) or not isinstance(after, NodeSnapshot):
            found.metadata[old_path] = MetadataChange(None)
            if old_path != path:
                found.moved[old_path] = path
            if old.nodes.is_array(old_path):
                found.arrays.add(old_path)
        elif before.rank != after.rank:
            removed.add(old_path)
            added.append(path)
        else:
            found.compare(before, after, _growth(before, after))
            if before.array is not None and after.array is not None and (chunks_of is None or old_path in chunks_of):
                listed = _listed(before, before.array, was_free), _listed(after, after.array, is_free)
                only = None if chunks_of is None else chunks_of[old_path]
                arrays.append(_ArrayPair(old_path, False, *listed, only))
    for path in added:
        node = new.nodes.get(path)
        if not isinstance(node, NodeSnapshot):
            found.made[path] = Made(None)
            continue
        if source is not None or path in attributes_of:
            node = node._replace(attributes=found.plain(node.attributes))
        array = None if node.array is None else node.array._replace(manifests=())  # the rows have their references
        found.made[path] = Made(node._replace(array=array))
        if node.array is not None and chunks_of is None:
            now = _listed(node, node.array, is_free)
            arrays.append(_ArrayPair(path, True, now._replace(manifests=()), now))
    for pair, chunks, references in _compare_arrays(files, arrays, exact=exact):
        rows = None if source is None else _rows(chunks, references, source)
        if pair.is_new:
            found.made[pair.path] = found.made[pair.path]._replace(chunks=chunks, rows=rows)
            continue
        found.chunks[pair.path] = chunks
        if rows is not None:
            found.rows[pair.path] = rows
    return found.delta({path: bool(old.nodes.is_array(path)) for path in removed})


class _ArrayPair(Record):
    """An array whose chunks are compared. path: in the new snapshot for a new array, else in the old one; only: chunks, None: all"""

    path: str
    is_new: bool
    old: Listed
    new: Listed
    only: Columns | None = None


def _growth(before: NodeSnapshot, after: NodeSnapshot) -> Append | None:
    """The append by which an array may have grown."""
    if before.array is None or after.array is None:
        return None
    return append_of(before.array.metadata.shape, after.array.metadata.shape)


def _listed(node: NodeSnapshot, array: ArrayData, free: bool) -> Listed:
    return Listed(node.id, grid_of(array.metadata), array.manifests, free)


def _compare_arrays(
    files: RepositoryFormat, arrays: Iterable[_ArrayPair], *, exact: bool
) -> Iterator[tuple[_ArrayPair, ChunkDifference, FoundRows]]:
    """The arrays with different chunks, and the new references of these chunks."""
    for batch, ids in _batches(arrays):
        fetched = _fetch(files, ids)

        def load(ids: Sequence[ObjectId], fetched: Mapping[ObjectId, Manifest] = fetched) -> list[Manifest]:
            found = {**fetched, **_fetch(files, [file for file in ids if file not in fetched])}
            return [found[file] for file in ids]

        for pair in batch:
            written, removed, references = compare_chunks(pair.old, pair.new, load, pair.only, exact=exact)
            if len(written) or len(removed):
                yield pair, ChunkDifference(written, removed), references


def _rows(chunks: ChunkDifference, references: FoundRows, source: ChangeSet) -> Rows:
    """The references of the different chunks of one array, with the numbers of a change set, to which inline chunks and locations are added."""
    parts = [removed_rows(chunks.removed)]
    for number in distinct(references.numbers).tolist():
        of_part, manifest = references.numbers == number, references.manifests[number]
        rows = manifest_rows(chunks.written[of_part], manifest, references.rows[of_part])
        objects, offsets = np.full(len(rows.kinds), SHARED, np.int64), rows.offsets.copy()
        inline, virtual = rows.kinds == PENDING, rows.kinds == VIRTUAL
        if inline.any():
            spans = np.stack([np.full(inline.sum(), -1), offsets[inline], rows.lengths[inline]], axis=1)
            pieces = Pieces(Sources(None, [manifest.inline.data]), spans, np.arange(len(spans) + 1))
            objects[inline], offsets[inline] = source.pending.add(pieces, rows.lengths[inline])
        if virtual.any():
            numbers, location_of = distinct_numbers(rows.objects[virtual])
            number_of = {text: at for at, text in enumerate(source.locations)}
            texts = [manifest.location(location) for location in numbers]
            objects[virtual] = np.array(
                [source.location(text, manifest.checks.get(text), number_of) for text in texts]
            )[location_of]
        parts.append(rows._replace(objects=objects, offsets=offsets))
    return Rows._make([np.concatenate(columns) for columns in zip(*parts, strict=True)])


def _fetch(files: RepositoryFormat, ids: Sequence[ObjectId]) -> dict[ObjectId, Manifest]:
    return dict(zip(ids, files.manifests(ids), strict=True)) if ids else {}


def _batches(arrays: Iterable[_ArrayPair]) -> Iterator[tuple[list[_ArrayPair], list[ObjectId]]]:
    """Batches of arrays with manifests that only one of the snapshots lists; and these manifests, which are fetched together."""
    batch: list[_ArrayPair] = []
    ids: dict[ObjectId, None] = {}
    for pair in arrays:
        own = own_manifests(pair.old, pair.new)
        if own:
            batch.append(pair)
            ids |= dict.fromkeys(own)
        if len(ids) >= _BATCH:
            yield batch, list(ids)
            batch, ids = [], {}
    if batch:
        yield batch, list(ids)
