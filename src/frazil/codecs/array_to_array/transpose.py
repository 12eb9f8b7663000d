"""The `transpose` codec: the dimensions in another order (Zarr v3.1 core, transpose codec)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, integer
from frazil.errors import MetadataError


class Transpose(ArrayToArray):
    """order: dimension j of the encoded array is dimension order[j] of the decoded one."""

    name = "transpose"
    required = ("order",)

    def __init__(self, order: Iterable[int]) -> None:
        if isinstance(order, str) or not isinstance(order, Iterable):
            raise MetadataError(
                f"order is {order!r}; it must be a permutation of the dimensions, such as [1, 0]", path="order"
            )
        self.order = tuple(integer(axis, "order", 0, 2**31) for axis in order)
        if sorted(self.order) != list(range(len(self.order))):
            raise MetadataError(
                f"order is {list(self.order)}; it must be a permutation of the dimensions, such as [1, 0]", path="order"
            )

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if len(self.order) != len(spec.shape):
            raise MetadataError(
                f"order has {len(self.order)} dimensions; the chunk has {len(spec.shape)}",
                path=f"{path}.configuration.order",
            )
        return spec._replace(shape=tuple(spec.shape[axis] for axis in self.order))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.transpose(self.order)

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.transpose(np.argsort(self.order))
