"""The values that are computed from the metadata of an array alone, once for all arrays with the same metadata.

access.py has the state that each open array adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from frazil.array.shards.shard_options import check_location, check_strategy
from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.chain.compilation import compile_chain
from frazil.codecs.chain.compiled_chain import Chain
from frazil.codecs.codec import ChunkSpec, Codec
from frazil.codecs.registry import Registry
from frazil.errors import InvalidInputError, MetadataError
from frazil.metadata.grids import rectilinear
from frazil.metadata.grids.chunk_grids import RegularGrid

if TYPE_CHECKING:
    from frazil.array.hierarchy.nodes import NodeLocation
    from frazil.metadata.model import ArrayMetadata
    from frazil.metadata.types.core import DataType
    from frazil.metadata.types.fill_values import FillValue


class CompiledArray(Record):
    """Where chunks have several shapes, chain and counts are those of the largest length along each dimension.

    inner_codecs  of a chunk; of an innermost chunk, where there are shards
    counts        inner chunks in one chunk of the grid, along each dimension; None: there are no shards
    fill          the fill value as an element, an array without dimensions (a scalar of S or U loses zeros at its end)"""

    inner_codecs: tuple[Codec, ...]
    chain: Chain
    counts: tuple[int, ...] | None
    fill: Values


def compile_array(registry: Registry, metadata: ArrayMetadata) -> CompiledArray:
    """Returns the same value for metadata with the same parts, as from the same document, and the same registry.

    Raises MetadataError and UnknownExtensionError for codecs and grids that cannot be read."""
    parts = (metadata.codecs, metadata.data_type, metadata.chunk_grid, metadata.fill_value)
    return registry.compiled.get_or_make(parts, lambda: _compile(registry, metadata), CompiledArray)


def _compile(registry: Registry, metadata: ArrayMetadata) -> CompiledArray:
    codecs, grid = registry.parse_codecs(metadata.codecs), metadata.chunk_grid
    if isinstance(grid, RegularGrid):
        spec = chunk_spec(metadata.data_type, grid.chunk_shape, metadata.fill_value)
        chain = compile_chain(codecs, spec)
    elif isinstance(grid, rectilinear.RectilinearGrid):
        spec = chunk_spec(metadata.data_type, grid.largest, metadata.fill_value)
        chain = _compile_largest(registry, metadata, grid)
    else:
        raise MetadataError(
            f"arrays with a chunk grid of kind {type(grid).__name__} cannot be read, as it has no chunk_shape",
            path="chunk_grid",
            hint="chunks of one shape can be read: give the grid the attribute chunk_shape, or derive it from RegularGrid",
        )
    counts = chain.inner_chunk_counts if chain.levels else None
    while (sharding := next((codec for codec in codecs if isinstance(codec, ShardingIndexed)), None)) is not None:
        codecs = sharding.codecs
    return CompiledArray(codecs, chain, counts, np.frombuffer(spec.fill, spec.dtype).reshape(()))


def _compile_largest(registry: Registry, metadata: ArrayMetadata, grid: rectilinear.RectilinearGrid) -> Chain:
    """The chain for the chunks with the largest lengths. Each other length is compiled, too, to check that the codecs accept it."""
    chain = compile_shape(registry, metadata, grid.largest)
    for axis, runs in enumerate(grid.chunk_shapes):
        for length in () if isinstance(runs, int) else {length for length, _ in runs}:
            shape = (*grid.largest[:axis], length, *grid.largest[axis + 1 :])
            inner = compile_shape(registry, metadata, shape)
            if chain.levels and inner.inner_chunk.shape != chain.inner_chunk.shape:
                raise MetadataError(
                    f"shards of {list(shape)} and of {list(grid.largest)} have inner chunks of different shapes",
                    path="codecs",
                )
    return chain


def compile_shape(registry: Registry, metadata: ArrayMetadata, shape: tuple[int, ...]) -> Chain:
    """The chain for chunks of one shape of an array that has several."""
    parts = (metadata.codecs, metadata.data_type, metadata.fill_value)
    spec = chunk_spec(metadata.data_type, shape, metadata.fill_value)
    return registry.compiled.get_or_make(
        parts,
        lambda: compile_chain(registry.parse_codecs(metadata.codecs), spec),
        Chain,
        shape,
    )


def chunk_spec(data_type: DataType, shape: tuple[int, ...], fill: FillValue) -> ChunkSpec:
    """The chunks that the codecs of an array encode."""
    return ChunkSpec(shape, data_type.element, data_type.swaps, data_type.fill_element(fill))


def with_array_options(location: NodeLocation, metadata: ArrayMetadata, compiled: CompiledArray) -> NodeLocation:
    """The location with the shard options that an array there has. Raises InvalidInputError where the array does not allow options that it does not inherit."""
    options = location.shard_options
    if options.shard_writes != "rewrite":
        try:
            transformed = bool(location.transformers or metadata.storage_transformers or location.nodes is not None)
            check_location(options, location.store, transformed, location.path)
            check_strategy(options, compiled.chain, compiled.inner_codecs, location.path)
        except InvalidInputError:
            if not options.inherited:
                raise
            return location._replace(shard_options=options._replace(shard_writes="rewrite"))
    return location
