"""Manifests that several arrays share, in repositories of the alpha library: finds references that its defect replaced. Pure.

A commit of that library also files the references of each array under all arrays with a lower node id that share its manifest (Icechunk issue 418, fixed in
its version 0.1.0-alpha.6). Of two references to one chunk that of the highest id stays: the array `lat` gets the chunks of `time`.

Commits to compatible repositories give every array its own manifests, in manifests/placement.py: then one commit of that library does no harm, but a second one
does."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import numpy as np

from frazil.base.arrays import distinct
from frazil.errors import FormatError
from frazil.formats.alpha.refs import manifest_key
from frazil.formats.ids import ObjectId
from frazil.formats.manifests import NATIVE, Manifest, rows_of_array, rows_of_node
from frazil.formats.nodes import NodeSnapshot
from frazil.repository.alpha.file_cache import Files
from frazil.repository.manifests.chunk_comparison import same_references
from frazil.repository.manifests.coordinates import ChunkIndex, grid_of, within
from frazil.stores.caches.byte_cache import CacheSection
from frazil.stores.values import Columns

_ROW: Final = 32  # bytes of memory for each cached node


def refuse_mixed_up(files: Files, file: ObjectId, manifest: Manifest, node: NodeSnapshot) -> None:
    """As RepositoryFormat.check_references. Results for a manifest are cached."""
    assert node.array is not None
    cache: CacheSection[frozenset[int]] = CacheSection(files.memory, "mixed up")
    mixed_up = cache.get(file)
    if mixed_up is None:
        mixed_up = mixed_up_nodes(manifest)
        cache.put(file, mixed_up, _ROW * (1 + len(mixed_up)))
    check_references(
        manifest, mixed_up, node.id, grid_of(node.array.metadata), files.key(manifest_key(file)), node.path
    )


def mixed_up_nodes(manifest: Manifest) -> frozenset[int]:
    """The nodes with a native reference to a chunk file to which a node with a higher id refers, too: a chunk file belongs to one array."""
    rows = np.flatnonzero(manifest.kinds == NATIVE)
    if not rows.size or manifest.nodes[rows[0]] == manifest.nodes[rows[-1]]:
        return frozenset()
    ids = np.ascontiguousarray(manifest.ids[rows])
    first = ids[:, :8].copy().view(np.uint64)[:, 0]
    heads = np.sort(first)  # much faster than sorting all 12 bytes, which is only needed if two have the same beginning
    if not (heads[:-1] == heads[1:]).any():
        return frozenset()
    order = np.lexsort((ids[:, 8:].copy().view(np.uint32)[:, 0], first))
    ids, nodes = ids[order], manifest.nodes[rows[order]]  # equal ids side by side, in order of nodes
    return frozenset(nodes[:-1][(ids[:-1] == ids[1:]).all(axis=1) & (nodes[:-1] != nodes[1:])].tolist())


def check_references(
    manifest: Manifest, mixed_up: Container[int], node: int, grid: tuple[int, ...], key: str, path: str
) -> None:
    """Refuses the references of an array that are known to belong to another array: raises FormatError with the manifest's key and the array's path.

    mixed_up: the result of mixed_up_nodes, for native references. Inline and virtual references that equal those of another array are refused if the
    array also has references with another number of indices, or outside of its grid: only the defect causes these."""
    own = rows_of_node(manifest, node)
    if own.stop - own.start in (0, manifest.size):
        return
    rows, chunks = rows_of_array(manifest, node, len(grid))
    is_marked = rows.size < own.stop - own.start or not within(chunks, grid).all()
    if node in mixed_up or (is_marked and _have_duplicates(manifest, rows, chunks, own.stop)):
        raise FormatError(
            "the references of this array are those of another one: the alpha library mixed up arrays that share a manifest (Icechunk issue 418)",
            key=key,
            path=path,
            hint="go back to an older snapshot, in which they are right; or write the whole array again, or remove it",
        )


def _have_duplicates(manifest: Manifest, rows: Columns, chunks: Columns, stop: int) -> bool:
    """Whether a node with a higher id, whose rows begin at `stop`, has the same reference for one of these chunks."""
    index = ChunkIndex(chunks)
    for other in distinct(manifest.nodes[stop:]).tolist():
        theirs, their_chunks = rows_of_array(manifest, other, chunks.shape[1])
        positions = index.find(their_chunks)
        found = np.flatnonzero(positions >= 0)
        if found.size and same_references(manifest, theirs[found], manifest, rows[positions[found]]).any():
            return True
    return False
