"""The data of a new array, in boxes of whole shards: values in memory, array-likes that are read box by box, or iterables of blocks.

Nothing is written here (docs/design/043-shard-writer.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol, cast

import numpy as np

from frazil.array.array import Array
from frazil.array.interface.indexer import as_values, without_mask
from frazil.array.interface.lazy_view import LazyView
from frazil.base.arrays import ArrayLike, Values, boxes_of
from frazil.base.record import Record
from frazil.errors import FrazilError, InvalidInputError
from frazil.stores import location_overlap

_WRAPPERS: Final = 16  # the most wrappers around one array

Box = tuple[slice, ...]


class Sliced(Protocol):
    """An array that is not in memory: of dask, h5py, zarr, xarray, or of Frazil."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    def __getitem__(self, box: Box, /) -> ArrayLike: ...


class DataSource(Record):
    """values: an array in memory; sliced: an array that is not; blocks: rows, one block after the other. One of the three is given.

    shape  None where it is not known;  dtype: NumPy's, or a data type of the registry"""

    values: Values | None
    sliced: Sliced | None
    blocks: Iterator[object] | None
    shape: tuple[int, ...] | None
    dtype: object

    def parts(
        self,
        shape: tuple[int, ...],
        parts: Sequence[int],
        chunks: Sequence[int],
        dtype: np.dtype[np.generic],
        most: int,
    ) -> Iterator[tuple[Box, ArrayLike]]:
        """Boxes of an array of this shape and dtype, and their values.

        parts  extents of a shard, of a chunk where there are none;  chunks: of an inner chunk;  most: elements of a box, which has at least a shard (an inner
               chunk, for blocks)
        Raises InvalidInputError for blocks that do not fit."""
        if self.values is not None:
            yield tuple(slice(0, length) for length in shape), self.values
        elif self.sliced is not None:
            for box in boxes(shape, parts, most):
                yield box, _as_array(self.sliced[box])
        else:
            assert self.blocks is not None, "one of them is given"
            yield from _rows(self.blocks, shape, dtype, _row_count(shape, parts, chunks, most))


def data_source(data: object) -> DataSource:
    """The source for an argument `data`. Raises InvalidInputError for a value that is not an array-like."""
    if isinstance(data, Iterator) or (
        isinstance(data, Iterable) and not hasattr(data, "__len__") and not hasattr(data, "__array__")
    ):
        blocks = iter(data)
        first = next(blocks, None)
        if first is None:
            raise InvalidInputError("data has no blocks", hint="leave data out to create an array without values")
        block = as_array(first)
        return DataSource(None, None, chain([block], blocks), None, block.dtype)
    if not isinstance(data, np.ndarray | np.generic) and _is_sliced(data):
        sliced = cast("Sliced", data)
        array = data.array if isinstance(data, LazyView) else data
        dtype = array.metadata.data_type if isinstance(array, Array) else sliced.dtype
        return DataSource(None, sliced, None, tuple(sliced.shape), dtype)
    values = as_array(data)
    return DataSource(values, None, None, values.shape, values.dtype)


def as_array(data: object) -> Values:
    """Data as an array in memory. Raises InvalidInputError for data that is not an array, and for masked elements."""
    try:
        return _as_array(data)
    except FrazilError:  # some of which are also ValueErrors
        raise
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"data is not an array: {error}") from error


def _as_array(data: object) -> Values:
    array = np.asanyarray(without_mask(cast("ArrayLike", data), "data"))
    return np.asarray(without_mask(array, "data"))


def _is_sliced(data: object) -> bool:
    """Whether it can be read box by box; data without dimensions is read whole."""
    shape, dtype = getattr(data, "shape", None), getattr(data, "dtype", None)
    whole = isinstance(shape, tuple) and bool(shape) and all(isinstance(length, int) for length in shape)
    return whole and isinstance(dtype, np.dtype) and hasattr(data, "__getitem__")


def addresses_read(data: object) -> list[tuple[object, str]]:
    """The locations that data is read from, as address_of gives them: for an array of Frazil or zarr-python, the array of a view, and arrays in the graph of a
    dask array. For other data the locations are not known."""
    if isinstance(data, LazyView):
        data = data.array
    graph = getattr(data, "__dask_graph__", None)
    found = [data] if graph is None else [getattr(task, "value", task) for task in dict(graph()).values()]
    return [address for source in found if (address := _address(source)) is not None]


def _address(data: object) -> tuple[object, str] | None:
    """The location of an array; None for anything else. Wrappers of xarray hold the wrapped array as `array`, its backends as `_array`."""
    for _ in range(_WRAPPERS):
        if isinstance(data, Array):
            return location_overlap.address_of(data._location.store, data._location.layout.data_prefix(data.path))
        if (address := location_overlap.address_of_zarr(data)) is not None:
            return address
        if isinstance(data, np.ndarray) or type(data).__module__.partition(".")[0] not in ("xarray", "frazil"):
            return None
        inner = getattr(data, "array", None)
        data = getattr(data, "_array", None) if inner is None else inner
    return None


def boxes(shape: tuple[int, ...], parts: Sequence[int], most: int) -> Iterator[Box]:
    """Boxes of whole parts in C order, each of at least one part, and otherwise at most `most` elements."""
    extents = [max(1, min(part, length)) for part, length in zip(parts, shape, strict=True)]
    size = int(np.prod(extents, dtype=object))
    for axis in reversed(range(len(shape))):
        count = -(-shape[axis] // extents[axis])
        times = max(1, min(count, most // size))
        extents[axis], size = extents[axis] * times, size * times
        if times < count:
            break
    yield from boxes_of(shape, extents)


def _row_count(shape: tuple[int, ...], parts: Sequence[int], chunks: Sequence[int], most: int) -> int:
    """Rows that are written at once: of whole shards where that many fit, else of inner chunks."""
    if not shape:
        raise InvalidInputError("an array without dimensions cannot be created from blocks")
    fits = most // max(1, int(np.prod(shape[1:], dtype=object)))
    extent = parts[0] if fits >= parts[0] else chunks[0]
    return max(extent, fits // extent * extent)


def _rows(
    blocks: Iterator[object], shape: tuple[int, ...], dtype: np.dtype[np.generic], count: int
) -> Iterator[tuple[Box, ArrayLike]]:
    """Blocks joined to `count` rows; the last ones may be fewer."""
    waiting: Values | None = None  # memory for `count` rows, reused for each box
    rows = begun = 0
    inner = tuple(slice(0, length) for length in shape[1:])

    for source_block in blocks:
        block = as_array(source_block)
        if block.ndim != len(shape) or block.shape[1:] != shape[1:] or begun + rows + len(block) > shape[0]:
            raise InvalidInputError(
                f"a block of shape {block.shape} does not fit after {begun + rows} rows of an array of shape {shape}",
                hint="blocks are joined along the first dimension, and must have the other lengths of the array",
            )
        while len(block):
            taken = min(count - rows, len(block))
            values = block
            if taken < count:
                if waiting is None:
                    waiting = np.empty((min(count, shape[0]), *shape[1:]), dtype)
                waiting[rows : rows + taken] = as_values(block[:taken], dtype, "data")
                values = waiting
            rows, block = rows + taken, block[taken:]
            if rows == count:
                yield (slice(begun, begun + count), *inner), values[:count]
                rows, begun = 0, begun + count
    if begun + rows != shape[0]:
        raise InvalidInputError(f"the blocks have {begun + rows} rows; the array has {shape[0]}", path="shape")
    if rows:
        assert waiting is not None
        yield (slice(begun, begun + rows), *inner), waiting[:rows]
