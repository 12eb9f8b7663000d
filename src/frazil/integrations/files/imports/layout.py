"""Chunks and shards of imported arrays: those that the user gives, or a choice with its reason. Pure (docs/design/066-import.md).

Chunks have about 1 MiB. Those of the file are kept, joined or cut, depending on their size. Data that is one run in the file is cut so that a map (the last two
dimensions) and a time series (the others) read about as many chunks. Shards have 32 to 64 MiB, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, lcm, prod
from typing import Final, TypeAlias

from frazil.base.record import Record
from frazil.base.reports import counted, extents_text, human
from frazil.errors import InvalidInputError
from frazil.integrations.files.scanned import ScannedArray, element_nbytes

AUTO: Final = "auto"
SAME: Final = "same"

_CHUNK: Final = 2**20  # target size of a chunk in bytes
_LEAST, _MOST = 2**18, 2**22  # sizes of a file's chunks that are kept unchanged, in bytes
_SHARD: Final = 2**25  # smallest target size of a shard in bytes

Extents: TypeAlias = "str | int | Sequence[int] | Mapping[str, int] | None"


class LayoutOptions(Record):
    """The layout that the user wants.

    chunks  "auto"; "same": those of the file; extents along each dimension, for the variables of that rank; or extents by the name of the dimension
    shards  the same, without "same"; None: no shards
    codecs  "auto"; "same": those equivalent to the filters of the file; or as for create_array"""

    chunks: Extents = AUTO
    shards: Extents = AUTO
    codecs: object = AUTO


class ArrayLayout(Record):
    """The layout of one array. reason: for the choice, in words, without control characters"""

    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: object
    reason: str


def choose_layout(array: ScannedArray, options: LayoutOptions, budget: int) -> ArrayLayout:
    """The chunks, shards and codecs of one array. budget: bytes that the import may hold, of which a shard has at most a fifth. Raises InvalidInputError for
    extents that do not fit the array."""
    stored = array.chunk_shape if array.chunked else None
    is_text, itemsize = array.dtype.kind == "O", element_nbytes(array.dtype) + array.text_nbytes
    requested = _requested(options.chunks, array, "chunks")
    if requested is not None:
        chunks, reason = requested, "as requested"
    elif options.chunks == SAME:
        chunks, reason = array.chunk_shape, "as in the file"
    else:
        chunks, reason = choose_chunks(array.shape, itemsize, stored)
    size = prod(chunks) * itemsize
    summary = f"chunks {extents_text(chunks)} of {human(size)}: {reason}"
    requested_shards = _requested(options.shards, array, "shards")
    if requested_shards is not None and isinstance(options.shards, Mapping):  # others are whole, so whole chunks here
        requested_shards = tuple(
            [-(-extent // chunk) * chunk for extent, chunk in zip(requested_shards, chunks, strict=True)]
        )
    if options.shards is None:
        return ArrayLayout(chunks, None, _codecs(array, options), summary)
    if requested_shards is not None:
        return ArrayLayout(
            chunks,
            requested_shards,
            _codecs(array, options),
            f"{summary}; shards {extents_text(requested_shards)}: as requested",
        )
    if is_text:
        return ArrayLayout(chunks, None, _codecs(array, options), f"{summary}; no shards, as text may be of any length")
    shards = choose_shards(array.shape, chunks, itemsize, stored, budget)
    if shards is None:
        return ArrayLayout(chunks, None, _codecs(array, options), f"{summary}; no shards, as there is one chunk")
    shard_size = human(prod(shards) * itemsize)
    return ArrayLayout(
        chunks,
        shards,
        _codecs(array, options),
        f"{summary}; shards {extents_text(shards)} of {shard_size}: neighbours in the order of the file",
    )


def check_dimensions(arrays: Iterable[ScannedArray], options: LayoutOptions) -> None:
    """Refuses extents by dimension name where no array has a dimension of that name. Raises InvalidInputError."""
    existing = dict.fromkeys([name for array in arrays for name in array.dimension_names or () if name])
    for extents, option in ((options.chunks, "chunks"), (options.shards, "shards")):
        for name in extents if isinstance(extents, Mapping) else ():
            if name not in existing:
                raise InvalidInputError(
                    f"{option} names the dimension {name!r}, which no variable has",
                    hint=f"the dimensions are {', '.join(existing)}"
                    if existing
                    else "no variable names its dimensions: give extents, as in chunks=[10, 10]",
                )


def choose_chunks(shape: Sequence[int], itemsize: int, stored: Sequence[int] | None) -> tuple[tuple[int, ...], str]:
    """The chunks of an array, and the reason. stored: the chunks of the file; None: its data is one run."""
    whole = tuple([max(extent, 1) for extent in shape])
    size = prod(whole) * itemsize
    if size <= _CHUNK:
        return whole, "the whole array, which is small"
    if stored is None:
        chunks = _balanced(whole, itemsize)
        maps, series = _chunks_read(whole, chunks)
        if len(whole) < 2:
            return chunks, "about 1 MiB each"
        return chunks, f"a map reads {counted(maps, 'chunk')} and a series {series}"
    stored = tuple([min(chunk, extent) for chunk, extent in zip(stored, whole, strict=True)])
    nbytes = prod(stored) * itemsize
    if nbytes < _LEAST:
        chunks = _joined_chunks(stored, whole, itemsize)
        return chunks, f"those of the file, {extents_text(stored)} of {human(nbytes)}, put together"
    if nbytes > _MOST or (stored == whole and nbytes > _CHUNK):
        return _split_chunks(stored, itemsize), f"parts of those of the file, {extents_text(stored)} of {human(nbytes)}"
    return stored, "as in the file"


def choose_shards(
    shape: Sequence[int], chunks: Sequence[int], itemsize: int, stored: Sequence[int] | None, budget: int
) -> tuple[int, ...] | None:
    """The shards of an array with these chunks: whole along the last dimensions first, the order of data in the file. None if one chunk covers everything."""
    if all(chunk >= extent for chunk, extent in zip(chunks, shape, strict=True)):
        return None
    least, most = max(1, min(_SHARD, budget // 8)), max(1, min(2 * _SHARD, budget // 5))
    covers = [ceil(max(extent, 1) / chunk) * chunk for extent, chunk in zip(shape, chunks, strict=True)]
    shards = list(chunks)
    if stored is not None:  # so that each chunk of the file is decoded for only one shard
        common = [min(lcm(chunk, part), cover) for chunk, part, cover in zip(chunks, stored, covers, strict=True)]
        if prod(common) * itemsize <= most:
            shards = common
    for axis in reversed(range(len(shards))):
        nbytes = prod(shards) * itemsize
        cover = ceil(covers[axis] / shards[axis]) * shards[axis]
        if nbytes // shards[axis] * cover <= most:
            shards[axis] = cover
            continue
        shards[axis] *= max(1, least // nbytes)
        break
    return tuple(shards)


def _requested(extents: Extents, array: ScannedArray, name: str) -> tuple[int, ...] | None:
    """The extents that the user gives for this array; None if they are to be chosen. Raises InvalidInputError."""
    if extents is None or isinstance(extents, str):
        if extents not in (None, AUTO, *([SAME] if name == "chunks" else [])):
            raise InvalidInputError(f"{name} is {extents!r}; it must be extents or {AUTO!r}")
        return None
    if isinstance(extents, Mapping):
        names = array.dimension_names or ()
        if not any(name in extents for name in names):
            return None
        requested = [
            extents.get(dimension or "", max(extent, 1)) for dimension, extent in zip(names, array.shape, strict=True)
        ]
    else:
        requested = [extents] * len(array.shape) if isinstance(extents, int) else list(extents)
        if len(requested) != len(array.shape):
            return None
    if any(isinstance(extent, bool) or not isinstance(extent, int) or extent < 1 for extent in requested):
        raise InvalidInputError(f"{name} is {extents!r}; extents are whole numbers above 0", path=array.path)
    return tuple(requested)


def _codecs(array: ScannedArray, options: LayoutOptions) -> object:
    if isinstance(options.codecs, str) and options.codecs == SAME:
        return AUTO if array.dtype.kind == "O" else [dict(codec) for codec in array.codecs]
    return options.codecs


def _balanced(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Chunks of about 1 MiB, such that the first dimensions and the last two are cut into about as many parts."""
    parts = [1] * len(shape)
    groups = [range(len(shape) - 2), range(max(0, len(shape) - 2), len(shape))]
    if len(shape) == 2:
        groups = [range(1), range(1, 2)]

    def extent(axis: int) -> int:
        return -(-shape[axis] // parts[axis])

    while prod(map(extent, range(len(shape)))) * itemsize > _CHUNK * 5 // 4:
        open_groups = [group for group in groups if any(extent(axis) > 1 for axis in group)]
        if not open_groups:
            break
        group = min(open_groups, key=lambda group: prod(parts[axis] for axis in group))
        # a short dimension of an odd extent would be cut unevenly, so others come first
        axis = max(group, key=lambda axis: (extent(axis) % 2 == 0 or extent(axis) > 8, extent(axis)))
        parts[axis] = shape[axis] if extent(axis) <= 2 else parts[axis] * 2
    return tuple(map(extent, range(len(shape))))


def _chunks_read(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, int]:
    """Chunks that a map and a series along the first dimensions read."""
    grid = [-(-extent // chunk) for extent, chunk in zip(shape, chunks, strict=True)]
    last = max(1, len(grid) - 2) if len(grid) > 1 else 0
    return prod(grid[last:]), prod(grid[:last])


def _joined_chunks(stored: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Several chunks of the file joined, along the dimension of which they cover the smallest part."""
    chunks = list(stored)
    while True:
        axes = [axis for axis, extent in enumerate(chunks) if extent < shape[axis]]
        if not axes or prod(chunks) * itemsize * 2 > _CHUNK * 5 // 4:
            return tuple([min(chunk, extent) for chunk, extent in zip(chunks, shape, strict=True)])
        chunks[min(axes, key=lambda axis: chunks[axis] / shape[axis])] *= 2


def _split_chunks(stored: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Parts of a chunk of the file; no part is in two chunks."""
    chunks = list(stored)
    while prod(chunks) * itemsize > _CHUNK * 5 // 4:
        axes = [axis for axis, extent in enumerate(chunks) if extent > 1]
        if not axes:
            break
        axis = max(axes, key=lambda axis: (_factor(chunks[axis]) < 8, chunks[axis]))
        chunks[axis] = -(-chunks[axis] // _factor(chunks[axis]))
    return tuple(chunks)


def _factor(number: int) -> int:
    """The smallest factor above 1; 8 if it is larger, because such parts would be too different."""
    return next((factor for factor in (2, 3, 5, 7) if number % factor == 0), min(8, number))
