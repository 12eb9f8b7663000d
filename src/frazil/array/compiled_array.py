"""What follows from the metadata of an array alone, compiled when it is opened; once for all arrays that share the same values.

What an array needs beside it is in access.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.array.hierarchy.new_array import chunk_spec
from frazil.array.shard_options import check_strategy
from frazil.codecs.array_to_bytes.sharding_indexed import ShardingIndexed
from frazil.codecs.chain import compile_chain
from frazil.codecs.codec import Codec
from frazil.codecs.leaf import Chain
from frazil.codecs.registry import Registry
from frazil.errors import MetadataError
from frazil.metadata.chunk_grids import RegularGrid
from frazil.record import Record

if TYPE_CHECKING:
    import numpy as np

    from frazil.array.hierarchy.nodes import Place
    from frazil.metadata.model import ArrayMetadata


class CompiledArray(Record):
    """counts: leaf chunks in one chunk of the grid, along each dimension; None: there are no shards."""

    codecs: tuple[Codec, ...]
    chain: Chain
    counts: tuple[int, ...] | None
    fill: np.generic

    @property
    def inner_codecs(self) -> tuple[Codec, ...]:
        """The codecs of a chunk; of an innermost chunk, where there are shards."""
        codecs = self.codecs
        while (sharding := next((codec for codec in codecs if isinstance(codec, ShardingIndexed)), None)) is not None:
            codecs = sharding.codecs
        return codecs


def compile_array(registry: Registry, metadata: ArrayMetadata) -> CompiledArray:
    """The same value for metadata of the same parts, as the same document has, with the same registry.

    Raises MetadataError and UnknownExtensionError for codecs and grids that cannot be read."""
    parts = (metadata.codecs, metadata.data_type, metadata.chunk_grid, metadata.fill_value)
    return registry.compiled.get_or_make(parts, lambda: _compile(registry, metadata), CompiledArray)


def _compile(registry: Registry, metadata: ArrayMetadata) -> CompiledArray:
    codecs, grid = registry.parse_codecs(metadata.codecs), metadata.chunk_grid
    if not isinstance(grid, RegularGrid):
        raise MetadataError(
            f"arrays with a chunk grid of kind {type(grid).__name__} cannot be read, as it has no chunk_shape",
            path="chunk_grid",
            hint="chunks of one shape can be read: give the grid the attribute chunk_shape, or derive it from RegularGrid",
        )
    chain = compile_chain(codecs, chunk_spec(metadata.data_type, grid.chunk_shape, metadata.fill_value.data))
    counts = chain.leaf_counts if chain.levels else None
    return CompiledArray(codecs, chain, counts, metadata.fill_value.scalar)


def check_array_options(place: Place, metadata: ArrayMetadata, compiled: CompiledArray) -> None:
    """Raises InvalidInputError where this array does not allow the shard options of the place."""
    if place.shard_options.shard_writes != "rewrite":
        transformed = bool(place.transformers or metadata.storage_transformers or place.nodes is not None)
        check_strategy(place.shard_options, place.store, transformed, compiled.chain, compiled.inner_codecs, place.path)
