"""The codecs `reshape` (Zarr extensions registry, reshape) and `zarrs.squeeze`: other dimensions for the same elements in the same C order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, integer
from frazil.errors import MetadataError

_FORM = "a list of whole numbers above 0, lists of dimensions, and at most one -1"


class _SameOrder(ArrayToArray):
    """A codec that changes only the dimensions."""

    keeps_order = True

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec._replace(shape=self.encoded_shape(spec.shape, path))

    @abstractmethod
    def encoded_shape(self, shape: tuple[int, ...], path: str) -> tuple[int, ...]: ...

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.reshape(self.encoded_shape(spec.shape, self.name))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return array.reshape(spec.shape)


class Reshape(_SameOrder):
    """shape: for each dimension of the result its length, or the dimensions of the input whose product it is; one may be -1: the remaining length."""

    name = "reshape"
    required = ("shape",)

    def __init__(self, shape: Iterable[int | Sequence[int]]) -> None:
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise MetadataError(f"shape is {shape!r}; it must be {_FORM}", path="shape")
        self.shape = tuple(_part(part) for part in shape)
        if self.shape.count(-1) > 1:
            raise MetadataError(f"shape is {self._listed()}; -1 may occur once", path="shape")
        dimensions = [dimension for part in self.shape if isinstance(part, tuple) for dimension in part]
        if any(after <= before for before, after in pairwise(dimensions)):
            raise MetadataError(f"shape is {self._listed()}; its dimensions must ascend", path="shape")

    def _listed(self) -> list[object]:
        return [list(part) if isinstance(part, tuple) else part for part in self.shape]

    def encoded_shape(self, shape: tuple[int, ...], path: str) -> tuple[int, ...]:
        lengths = [self._length(part, shape, path) for part in self.shape]
        if -1 in lengths:
            others = prod(length for length in lengths if length != -1)
            lengths[lengths.index(-1)] = max(prod(shape) // others, 1)
        if prod(lengths) != prod(shape):
            raise _shape_error(path, f"a chunk of {list(shape)} cannot have the shape {self._listed()}")
        for at, part in enumerate(self.shape):
            if isinstance(part, tuple) and part:
                before, after = prod(shape[: part[0]]), prod(shape[part[-1] + 1 :])
                if (prod(lengths[:at]), prod(lengths[at + 1 :])) != (before, after):
                    raise _shape_error(
                        path, f"in a chunk of {list(shape)}, {list(part)} are not the elements along dimension {at}"
                    )
        return tuple(lengths)

    def _length(self, part: int | tuple[int, ...], shape: tuple[int, ...], path: str) -> int:
        if not isinstance(part, tuple):
            return part
        if part and part[-1] >= len(shape):
            raise _shape_error(path, f"shape has dimension {part[-1]}, and the chunk has {len(shape)}")
        return prod(shape[dimension] for dimension in part)


class Squeeze(_SameOrder):
    """Leaves out the dimensions of length 1. A chunk of one element has one dimension."""

    name = "zarrs.squeeze"

    def encoded_shape(self, shape: tuple[int, ...], path: str) -> tuple[int, ...]:
        return tuple(length for length in shape if length != 1) or (1,)


def _part(part: object) -> int | tuple[int, ...]:
    if isinstance(part, Sequence) and not isinstance(part, str):
        return tuple(integer(dimension, "shape", 0, 2**31) for dimension in part)
    if isinstance(part, bool) or not isinstance(part, int) or part < -1 or part == 0:
        raise MetadataError(f"shape has {part!r}; it must be {_FORM}", path="shape")
    return part


def _shape_error(path: str, text: str) -> MetadataError:
    return MetadataError(text, path=f"{path}.configuration.shape")
