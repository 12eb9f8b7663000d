"""The `sharding_indexed` codec as an entry of a document (sharding codec 1.0, Configuration parameters).

In arrays this codec is planned, not run (chain/compilation.py). sharding/whole_shard.py encodes or decodes a single shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from frazil.codecs.array_to_bytes.bytes import Bytes
from frazil.codecs.bytes_to_bytes.crc32c import Crc32c
from frazil.codecs.chain import compilation
from frazil.codecs.codec import Array, ChunkSpec, Codec, Sharding, choice, codec_list, integer, resolve
from frazil.codecs.sharding import shard
from frazil.errors import MetadataError


class ShardingIndexed(Sharding):
    """chunk_shape: extent of an inner chunk, by the dimensions of this codec's input; codecs: of the inner chunks (None: bytes);
    index_codecs: of the shard index, whose size must not depend on its values; index_location: "start" or "end"."""

    name = "sharding_indexed"
    required = ("chunk_shape", "codecs", "index_codecs")
    nested = ("codecs", "index_codecs")
    optional = ("index_location",)

    def __init__(
        self,
        chunk_shape: Iterable[int],
        codecs: Sequence[Codec] | None = None,
        index_codecs: Sequence[Codec] | None = None,
        index_location: str = "end",
    ) -> None:
        if isinstance(chunk_shape, str) or not isinstance(chunk_shape, Iterable):
            raise MetadataError(
                f"chunk_shape is {chunk_shape!r}; it must be a list of whole numbers above 0", path="chunk_shape"
            )
        self.chunk_shape = tuple(integer(extent, "chunk_shape", 1, 2**63 - 1) for extent in chunk_shape)
        self.codecs = (Bytes(),) if codecs is None else codec_list(codecs, "codecs")
        self.index_codecs = (
            (Bytes("little"), Crc32c()) if index_codecs is None else codec_list(index_codecs, "index_codecs")
        )
        self.index_location = choice(index_location, "index_location", ("start", "end"))

    def resolved(self, spec: ChunkSpec) -> Self:
        codecs = resolve(self.codecs, spec._replace(shape=self.chunk_shape))
        index = resolve(self.index_codecs, shard.index_spec([1] * len(self.chunk_shape)))
        return type(self)(self.chunk_shape, codecs, index, self.index_location)

    def check(self, spec: ChunkSpec, path: str) -> None:
        member = f"{path}.configuration.chunk_shape"
        if len(self.chunk_shape) != len(spec.shape):
            raise MetadataError(
                f"chunk_shape has {len(self.chunk_shape)} dimensions; the shard has {len(spec.shape)}", path=member
            )
        for axis, (inner, extent) in enumerate(zip(self.chunk_shape, spec.shape, strict=True)):
            if extent % inner:
                raise MetadataError(
                    f"chunk_shape {list(self.chunk_shape)} does not divide the shard shape {list(spec.shape)} along dimension {axis}",
                    path=member,
                    hint=f"use an extent that divides {extent}",
                )

    def bound(self, spec: ChunkSpec) -> int:
        return compilation.compile_shard(self, spec, self.name).bound

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        return compilation.compile_shard(self, spec, self.name).encode(array, spec)

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        return compilation.compile_shard(self, spec, self.name).decode(data, spec)
