"""Arrays whose chunks have several shapes: for each shape a compiled chain and a plan. How plans are made is in indexing/rectilinear.py.

A selection is planned once for each shape of the chunks that it touches. In a regular grid there is one plan for all chunks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from frazil.array.access import Access
from frazil.array.compiled_array import compile_shape
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.shards.shard_indexes import remembered_indexes
from frazil.base.arrays import Columns
from frazil.indexing.points import Plan
from frazil.indexing.rectilinear import GridAxis, block_selection, plans
from frazil.indexing.selection import BoxSelection, Selection, blocks
from frazil.metadata.grids.rectilinear import RectilinearGrid
from frazil.metadata.model import ArrayMetadata


def grid_of(metadata: ArrayMetadata) -> RectilinearGrid:
    """The grid of an array of several shapes of chunks."""
    assert isinstance(metadata.chunk_grid, RectilinearGrid)
    return metadata.chunk_grid


def shaped_plans(
    access: Access, location: NodeLocation, metadata: ArrayMetadata, selection: Selection
) -> Iterator[tuple[Access, Plan]]:
    """For each shape of the chunks that a selection touches: the access to these chunks, and their plan."""
    for shape, plan in plans(selection, _axes(access, metadata, selection.shape)):
        yield shaped_access(access, location, metadata, shape), plan


def shaped_access(access: Access, location: NodeLocation, metadata: ArrayMetadata, shape: tuple[int, ...]) -> Access:
    """The access to the chunks of one shape."""
    chain, heap = compile_shape(location.registry, metadata, shape), access.chain.inner_chunk.heap
    if heap is not None:
        chain = chain._replace(inner_chunk=chain.inner_chunk.with_heap(heap))
    return access._replace(chain=chain, indexes=remembered_indexes(location, metadata, chain))


def shape_groups(metadata: ArrayMetadata, coords: Columns) -> Iterator[tuple[tuple[int, ...], Columns]]:
    """Chunks by their shape: each shape with the coordinates of its chunks."""
    grid = grid_of(metadata)
    shapes, kind = np.unique(grid.corners(coords + 1) - grid.corners(coords), axis=0, return_inverse=True)
    for number, shape in enumerate(shapes.tolist()):
        yield tuple(shape), coords[kind.reshape(-1) == number]


def select_blocks(access: Access, metadata: ArrayMetadata, selection: object, shape: tuple[int, ...]) -> BoxSelection:
    """a.blocks[selection]."""
    axes = _axes(access, metadata, shape)
    counts = tuple(axis.chunks for axis in axes)
    return block_selection(blocks(selection, counts, (1,) * len(counts)), axes)


def _axes(access: Access, metadata: ArrayMetadata, shape: tuple[int, ...]) -> list[GridAxis]:
    grid, chain = grid_of(metadata), access.chain
    inner_chunk = chain.inner_chunk.shape if chain.levels else (None,) * len(shape)
    return [
        GridAxis(length, grid.starts(axis), grid.largest[axis], inner_chunk[axis]) for axis, length in enumerate(shape)
    ]
