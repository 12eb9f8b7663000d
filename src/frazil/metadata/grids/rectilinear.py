"""Rectilinear chunk grids: along each dimension, chunks of given lengths (Zarr extensions registry, rectilinear)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from frazil.base.arrays import Columns, offsets_of
from frazil.errors import MetadataError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, found, item, member
from frazil.metadata.members import INT64_MAX, Members, check_integer, lengths_from_user, refusal
from frazil.metadata.value import Value, assign

Runs = tuple[tuple[int, int], ...]  # (length, how many chunks have it), one after the other
_MOST_CHUNKS: Final = 2**24  # along all dimensions together: each has a row in memory
_CHUNK_SHAPES: Final = "chunk_grid.configuration.chunk_shapes"


class RectilinearGrid(Value, excluded=("_starts", "largest")):
    """chunk_shapes: for each dimension one length, which repeats, or the lengths of all chunks as runs (length, count). Chunks may begin behind the end of the
    array.

    largest: the largest length along each dimension. Raises MetadataError for anything else."""

    __slots__ = ("_starts", "chunk_shapes", "largest")
    chunk_shapes: tuple[int | Runs, ...]
    largest: tuple[int, ...]
    _starts: tuple[Columns | None, ...]

    def __init__(self, chunk_shapes: Sequence[object], *, path: str = _CHUNK_SHAPES) -> None:
        """chunk_shapes: for each dimension one length, or a list of lengths and of pairs [length, count]."""
        if isinstance(chunk_shapes, str) or not isinstance(chunk_shapes, Sequence):
            raise refusal(path, "a list with the lengths of chunks along each dimension", found(chunk_shapes))
        shapes = tuple([_along(lengths, item(path, at)) for at, lengths in enumerate(chunk_shapes)])
        if sum([count for runs in shapes if not isinstance(runs, int) for _, count in runs]) > _MOST_CHUNKS:
            raise MetadataError(
                f"there are at most {_MOST_CHUNKS} chunks along all dimensions of this grid together", path=path
            )
        assign(self, "chunk_shapes", shapes)
        starts = tuple([None if isinstance(runs, int) else _starts(runs) for runs in shapes])
        assign(self, "_starts", starts)
        assign(self, "largest", tuple(map(_largest, shapes, starts)))

    def extension(self) -> Extension:
        shapes: list[Json] = [
            runs if isinstance(runs, int) else [length if count == 1 else [length, count] for length, count in runs]
            for runs in self.chunk_shapes
        ]
        return Extension("rectilinear", {"kind": "inline", "chunk_shapes": shapes})

    def check(self, shape: tuple[int, ...], path: str = "chunk_grid") -> None:
        inner_path = f"{path}.configuration.chunk_shapes"
        if len(shape) != len(self.chunk_shapes):
            raise MetadataError(
                f"chunk_shapes must have an entry for each of the {len(shape)} dimensions, found {len(self.chunk_shapes)}",
                path=inner_path,
            )
        for at, (length, starts) in enumerate(zip(shape, self._starts, strict=True)):
            if starts is not None and starts[-1] < length:
                raise MetadataError(
                    f"the chunks along dimension {at} have {int(starts[-1])} elements, and the array has {length}",
                    path=item(inner_path, at),
                )

    def grid_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([self._count(axis, length) for axis, length in enumerate(shape)])

    def _count(self, axis: int, length: int) -> int:
        runs, starts = self.chunk_shapes[axis], self._starts[axis]
        if isinstance(runs, int):
            return -(-length // runs)
        assert starts is not None
        return int(starts[:-1].searchsorted(length))

    def starts(self, axis: int) -> Columns | None:
        """int64[n + 1]: the beginnings of the chunks along a dimension, and the end of the last one. None if all have one length."""
        return self._starts[axis]

    @property
    def different(self) -> tuple[tuple[int, ...], ...]:
        """The lengths that occur along each dimension, ascending."""
        return tuple(
            [
                (runs,) if isinstance(runs, int) else tuple(sorted({length for length, _ in runs}))
                for runs in self.chunk_shapes
            ]
        )

    @property
    def lengths(self) -> tuple[int | tuple[int, ...], ...]:
        """For each dimension the one length of its chunks, or the lengths of all."""
        return tuple(
            [
                runs if isinstance(runs, int) else tuple([length for length, count in runs for _ in range(count)])
                for runs in self.chunk_shapes
            ]
        )

    def corners(self, coords: Columns) -> Columns:
        """int64[n, d]: the first elements of chunks."""
        first = np.empty_like(coords)
        for axis, (runs, starts) in enumerate(zip(self.chunk_shapes, self._starts, strict=True)):
            first[:, axis] = coords[:, axis] * runs if isinstance(runs, int) else starts[coords[:, axis]]  # type: ignore[index]
        return first

    def covering(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The lengths of the smallest array of whole chunks that contains an array of these lengths."""
        ends = []
        for axis, (length, starts) in enumerate(zip(shape, self._starts, strict=True)):
            count, runs = self._count(axis, length), self.chunk_shapes[axis]
            ends.append(min(count * runs, INT64_MAX) if isinstance(runs, int) else int(starts[count]))  # type: ignore[index]
        return tuple(ends)

    def grown(self, shape: tuple[int, ...]) -> RectilinearGrid:
        """The same grid for an array of other lengths: if its chunks end before the array does, the last length is repeated."""
        shapes: list[object] = []
        for length, runs, starts in zip(shape, self.chunk_shapes, self._starts, strict=True):
            if isinstance(runs, int) or starts is None or length <= starts[-1]:
                shapes.append(runs)
            else:
                last, count = runs[-1]
                shapes.append([*map(list, runs[:-1]), [last, count - (int(starts[-1]) - length) // last]])
        return self if tuple(shapes) == self.chunk_shapes else type(self)(shapes)

    def continues(self, other: object) -> bool:
        """Whether the chunks of one of the two grids are the first chunks of the other, as after `grown`."""
        if not isinstance(other, RectilinearGrid) or len(other.chunk_shapes) != len(self.chunk_shapes):
            return False
        for ours, theirs, mine, its in zip(
            self.chunk_shapes, other.chunk_shapes, self._starts, other._starts, strict=True
        ):
            if mine is None or its is None:
                if ours != theirs:
                    return False
            else:
                shared = min(len(mine), len(its))
                if not np.array_equal(mine[:shared], its[:shared]):
                    return False
        return True


class RectangularGrid(RectilinearGrid, excluded=("_starts", "largest")):
    """The form of the draft ZEP 3, and of zarrs under the name `rectangular`: without runs."""

    def extension(self) -> Extension:
        shapes: list[Json] = [lengths if isinstance(lengths, int) else [*lengths] for lengths in self.lengths]
        return Extension("rectangular", {"chunk_shape": shapes})


class BoundedGrid(RectilinearGrid, excluded=("_starts", "largest", "shape")):
    """The grid `zarrs.regular_bounded`: chunks of the shape `inner`, but those at the upper edges end with the array.

    shape: the lengths of the array, from ArrayMetadata. Raises MetadataError for anything but positive lengths."""

    __slots__ = ("inner", "shape")
    inner: tuple[int, ...]
    shape: tuple[int, ...]

    def __init__(
        self, inner: object, shape: tuple[int, ...] = (), *, path: str = "chunk_grid.configuration.chunk_shape"
    ) -> None:
        assign(self, "inner", lengths_from_user(inner, path, low=1))
        assign(self, "shape", shape)
        shapes = map(_cut, self.inner, shape) if len(shape) == len(self.inner) else self.inner
        super().__init__(tuple(shapes), path=path)

    def extension(self) -> Extension:
        return Extension("zarrs.regular_bounded", {"chunk_shape": list[Json](self.inner)})

    def fitted(self, shape: tuple[int, ...]) -> BoundedGrid:
        """The grid of an array of these lengths."""
        return self if shape == self.shape else BoundedGrid(self.inner, shape)

    def grown(self, shape: tuple[int, ...]) -> BoundedGrid:
        """Raises MetadataError if a chunk would have another length than before, or may get one later: other handles know the old one."""
        for axis, (before, after, inner) in enumerate(zip(self.shape, shape, self.inner, strict=True)):
            if after < before or (after > before and before % inner):
                raise MetadataError(
                    f"an array cannot change from {before} to {after} elements along dimension {axis}, because its last chunk ends with it",
                    path="shape",
                    hint="copy the data into an array with a regular grid: frazil.from_array(location, data=array, chunks=...)",
                )
        return self.fitted(shape)

    def continues(self, other: object) -> bool:
        return isinstance(other, BoundedGrid) and other.inner == self.inner


def _cut(length: int, extent: int) -> object:
    """The lengths of chunks along a dimension that end with the array."""
    whole, rest = divmod(extent, length)
    return [*[[length, whole]] * bool(whole), rest] if rest else length


def _along(lengths: object, path: str) -> int | Runs:
    """The lengths along one dimension, equal ones joined."""
    if not isinstance(lengths, list | tuple):
        return check_integer(_plain(lengths), path, low=1)
    if not lengths:
        raise refusal(path, "a length, or a list with one at least", [])
    joined = _joined(_pairs(lengths, path))
    if joined is None:  # reads and writes plan each shape separately
        raise MetadataError(
            f"there are at most {_MOST_CHUNKS} chunks along a dimension of this grid, and 2^63 - 1 elements if all were as long as the longest",
            path=path,
        )
    return joined


def _pairs(lengths: Sequence[object], path: str) -> list[tuple[int, int]]:
    """Lengths and how many chunks have them. Most entries are numbers, or pairs of numbers: their path is not needed."""
    pairs: list[tuple[int, int]] = []
    for entry in lengths:
        both: Sequence[object] = entry if isinstance(entry, list | tuple) else (entry, 1)
        length, count = both if len(both) == 2 else (None, None)
        if type(length) is int and type(count) is int and 0 < length <= INT64_MAX and 0 < count <= INT64_MAX:
            pairs.append((length, count))
        else:
            pairs.append(_pair(entry, item(path, len(pairs))))
    return pairs


def _joined(pairs: list[tuple[int, int]]) -> Runs | None:
    """The pairs, neighbours of one length joined; None if there are too many chunks, or elements."""
    length, count = np.array(pairs, np.int64).T
    chunks = sum(count.tolist())
    if chunks > _MOST_CHUNKS or chunks * int(length.max()) > INT64_MAX:
        return None
    first = np.flatnonzero(np.append(True, length[1:] != length[:-1]))
    return tuple(zip(length[first].tolist(), np.add.reduceat(count, first).tolist(), strict=True))


def _pair(entry: object, path: str) -> tuple[int, int]:
    if not isinstance(entry, list | tuple):
        return check_integer(_plain(entry), path, low=1), 1
    if len(entry) != 2:
        raise refusal(path, "a length, or [length, count]", list(entry))
    length, count = (check_integer(_plain(number), item(path, at), low=1) for at, number in enumerate(entry))
    return length, count


def _plain(number: object) -> Json:
    return int(number) if isinstance(number, np.integer) else number  # type: ignore[return-value]


def _largest(runs: int | Runs, starts: Columns | None) -> int:
    if isinstance(runs, int):
        return runs
    assert starts is not None
    return int(np.diff(starts).max())


def _starts(runs: Runs) -> Columns:
    lengths, counts = np.array(runs, np.int64).T
    starts = offsets_of(np.repeat(lengths, counts))
    starts.flags.writeable = False
    return starts


def read(extension: Extension, path: str) -> RectilinearGrid:
    """The grid of an entry in a document."""
    members = Members(extension.configuration, member(path, "configuration"))
    kind = _KINDS[extension.name]
    name = "chunk_shapes" if kind is RectilinearGrid else "chunk_shape"
    if kind is RectilinearGrid:
        members.choice("kind", ("inline",))
    shapes = members.array(name)
    members.finish()
    return kind(shapes, path=members.at(name))


_KINDS: Final[dict[str, Callable[..., RectilinearGrid]]] = {
    "rectilinear": RectilinearGrid,
    "rectangular": RectangularGrid,
    "zarrs.regular_bounded": BoundedGrid,
}
