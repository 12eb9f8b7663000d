"""The checksum of an array's content, independent of its storage. docs/checksums.md has the definition, docs/design/027-checksums.md the reasons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.array.arguments import checked_progress
from frazil.array.array import Array, with_limit
from frazil.base.threads import Threads
from frazil.errors import InvalidInputError
from frazil.operations.array_source import open_source
from frazil.operations.slabs import Slab, SlabPlan, plan_slabs, read_slabs
from frazil.runtime import Runtime
from frazil.stores.locations import Location

if TYPE_CHECKING:
    from hashlib import _Hash

BLOCK_BYTES: Final = 2**14
_HEADER: Final = "frazil checksum 1"
_MODULUS: Final = 2**256


def checksum(
    source: Location | Array,
    *,
    path: str = "",
    runtime: Runtime | None = None,
    progress: Callable[[int], object] | None = None,
) -> str:
    """The checksum of an array's content, 64 hexadecimal digits: of its dtype, shape and elements, to the bit. Chunks, shards, codecs, byte order, fill value,
    attributes and dialect do not change it (docs/checksums.md).

    source    an Array, or the location of one;  path: of the node there
    runtime   bytes_in_flight: bytes in memory; None: that of the Array, or the default
    progress  called with the bytes of elements that were read since the last call
    Raises NotFoundError, InvalidInputError, DataError, StoreError."""
    report = checked_progress(progress)
    array = open_source(source, path, runtime)
    dtype = array.dtype
    if dtype.hasobject:
        raise InvalidInputError(f"elements of type {dtype} have no checksum", path=array.path or "/")
    limits = array._location.runtime.checked()
    half = limits.bytes_in_flight // 2
    digests = _Digests(dtype, array.shape)
    # one chunk is decoded whole in any case
    plan = _plan(array, digests.blocks, max(half, prod(array.chunks) * dtype.itemsize))
    with Threads(limits.threads, "frazil checksum") as pool:
        for slab in read_slabs(with_limit(array, half), plan):
            origins = digests.origins(slab)
            per_thread = -(-len(origins) // limits.threads)
            parts = [origins[low : low + per_thread] for low in range(0, len(origins), per_thread)]
            digests.total += sum(pool.map(partial(digests.add, slab), parts))
            report(slab.values.nbytes)
    return digests.final()


def _plan(array: Array, blocks: tuple[int, ...], max_bytes: int) -> SlabPlan:
    """The slab plan that reads chunks the fewest times. Along the first dimension a slab may end within blocks: their elements are consecutive in C order, so
    that a digest can be resumed, which needs less memory than keeping rows."""
    shape, itemsize = array.shape, array.dtype.itemsize
    plan = plan_slabs(shape, itemsize, blocks, array.chunks, max_bytes, array.shards)
    if not shape:
        return plan
    rows = plan_slabs(shape, itemsize, (1, *blocks[1:]), array.chunks, max_bytes, array.shards, axis=0)
    return min(plan, rows, key=lambda plan: (plan.nbytes > max_bytes, plan.reads(array.chunks)))


def block_shape(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Extents of the blocks of a checksum: starting from 1 in each dimension, the smallest extent below the length (the last of several equal ones) is doubled,
    until a block has BLOCK_BYTES or all extents reach the length."""
    extents = [1] * len(shape)
    while prod(extents) * itemsize < BLOCK_BYTES:
        growing = [(extent, -axis) for axis, extent in enumerate(extents) if extent < shape[axis]]
        if not growing:
            break
        extents[-min(growing)[1]] *= 2
    return tuple(extents)


class _Digests:
    """The sum of the digests of blocks. For an incomplete block the digest so far is kept; its rows come in order, as slabs that end within blocks are
    consecutive along the first dimension."""

    __slots__ = ("_begun", "_dtype", "_shape", "blocks", "total")

    def __init__(self, dtype: np.dtype[np.generic], shape: Sequence[int]) -> None:
        self._dtype, self._shape = dtype.newbyteorder("<"), tuple(shape)
        self.blocks = block_shape(shape, dtype.itemsize)
        self.total = 0
        self._begun: dict[int, _Hash] = {}

    def origins(self, slab: Slab) -> list[tuple[int, ...]]:
        """The first elements of the blocks of a slab, or of the parts of blocks in it, as indices of the array."""
        return list(
            product(
                *(
                    [part.start, *range((part.start // block + 1) * block, part.stop, block)]
                    for part, block in zip(slab.box, self.blocks, strict=True)
                )
            )
        )

    def add(self, slab: Slab, origins: Sequence[tuple[int, ...]]) -> int:
        """Adds the elements of blocks to their digests. Returns the sum of the digests of the complete blocks. Several threads may call it, each with other
        blocks."""
        total, starts = 0, [part.start for part in slab.box]
        stop = slab.box[0].stop if slab.box else 0
        for origin in origins:
            number = self._number(origin)
            digest = self._begun.pop(number, None)
            if digest is None:
                digest = hashlib.sha256(number.to_bytes(8, "little"), usedforsecurity=False)
            inside: tuple[EllipsisType | slice, ...] = (  # ... so that a result without dimensions stays an array
                ...,
                *(
                    slice(at - start, (at // block + 1) * block - start)
                    for at, start, block in zip(origin, starts, self.blocks, strict=True)
                ),
            )
            data = np.ascontiguousarray(slab.values[inside], self._dtype).reshape(-1).view(np.uint8)
            digest.update(data.data)
            if origin and stop < min((origin[0] // self.blocks[0] + 1) * self.blocks[0], self._shape[0]):
                self._begun[number] = digest
            else:
                total += int.from_bytes(digest.digest(), "little")
        return total

    def _number(self, origin: Sequence[int]) -> int:
        """The number of a block in the C order of all blocks."""
        number = 0
        for at, length, block in zip(origin, self._shape, self.blocks, strict=True):
            number = number * -(-length // block) + at // block
        return number

    def final(self) -> str:
        """The checksum."""
        described = json.dumps(np.lib.format.dtype_to_descr(self._dtype), separators=(",", ":"))
        head = f"{_HEADER}\n{described}\n{','.join(map(str, self._shape))}\n".encode()
        total = (self.total % _MODULUS).to_bytes(32, "little")
        return hashlib.sha256(head + total, usedforsecurity=False).hexdigest()
