"""Extents of chunks and shards that a user names by dimension, for one variable. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

from frazil.array.creation.defaults import CHUNK_BYTES
from frazil.base.record import Record
from frazil.errors import InvalidInputError, shown

Extents: TypeAlias = Mapping[str, int] | int | str | None
_AUTO: Final = "auto"


class Layout(Record):
    """chunks and shards for new arrays: extents by dimension, one extent for all, "auto", or None for those in each variable's encoding"""

    chunks: Mapping[str, int] | int | str | None
    shards: Mapping[str, int] | int | str | None


def layout_of(chunks: object, shards: object) -> Layout:
    """The arguments of a user. Raises InvalidInputError."""
    return Layout(_checked(chunks, "chunks"), _checked(shards, "shards"))


def _checked(value: object, name: str) -> Extents:
    if value is None or value == _AUTO:
        return value
    extents = value.values() if isinstance(value, Mapping) else [value]
    if any(isinstance(extent, bool) or not hasattr(extent, "__index__") or int(extent) < 1 for extent in extents):
        raise InvalidInputError(
            f"{name} is {shown(value)}; it must give extents by dimension, one extent for all, or be 'auto'",
            path=name,
            hint=f'{name}={{"time": 100}}',
        )
    if isinstance(value, Mapping):
        return {str(dimension): int(extent) for dimension, extent in value.items()}
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_dimensions(layout: Layout, dimensions: Collection[object]) -> None:
    """Raises InvalidInputError for an extent of an unknown dimension."""
    for name, extents in (("chunks", layout.chunks), ("shards", layout.shards)):
        unknown = [key for key in extents if key not in dimensions] if isinstance(extents, Mapping) else []
        if unknown:
            raise InvalidInputError(
                f"{name} names the dimension {shown(unknown[0])}, which is not in the dataset",
                path=name,
                hint=f"its dimensions: {', '.join(map(str, dimensions)) or 'none'}",
            )


def laid_out(
    layout: Layout, encoding: Mapping[str, object], dimensions: Sequence[object], shape: Sequence[int], itemsize: int
) -> dict[str, object]:
    """The encoding with chunks and shards of the layout. encoding: the previous one, which is used where the layout has None"""
    result = dict(encoding)
    if layout.chunks is not None and shape:
        result["chunks"] = _AUTO if layout.chunks == _AUTO else _extents(layout.chunks, dimensions, shape)
        result["shards"] = None
    if layout.shards is None or not shape or not all(shape):
        return result
    if layout.shards == _AUTO:
        result["shards"] = _AUTO
        return result
    if isinstance(layout.shards, Mapping) and not any(dimension in layout.shards for dimension in dimensions):
        return result
    shards = _extents(layout.shards, dimensions, shape)
    chunks = result.get("chunks")
    if not isinstance(chunks, tuple) or len(chunks) != len(shape):
        chunks = _inner(shards, itemsize)
    if isinstance(layout.chunks, Mapping | int):  # lengths of whole dimensions are adjusted to fit
        named = layout.shards if isinstance(layout.shards, Mapping) else dict.fromkeys(map(str, dimensions), 1)
        shards = tuple(
            [
                shard if dimension in named else -(-shard // chunk) * chunk
                for dimension, shard, chunk in zip(dimensions, shards, chunks, strict=True)
            ]
        )
    elif any(shard % chunk for shard, chunk in zip(shards, chunks, strict=True)):
        chunks = _inner(shards, itemsize)
    if chunks == shards or all(chunk >= length for chunk, length in zip(chunks, shape, strict=True)):
        return {**result, "chunks": chunks}  # one chunk in each shard
    return {**result, "chunks": chunks, "shards": shards}


def _extents(
    requested: Mapping[str, int] | int | str, dimensions: Sequence[object], shape: Sequence[int]
) -> tuple[int, ...]:
    """An extent for each dimension: the whole length of one that is not named."""
    if isinstance(requested, Mapping):
        return tuple(
            [
                requested.get(dimension, max(length, 1)) if isinstance(dimension, str) else max(length, 1)
                for dimension, length in zip(dimensions, shape, strict=True)
            ]
        )
    assert isinstance(requested, int)
    return (requested,) * len(shape)


def _inner(shards: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Chunks of about CHUNK_BYTES at most that divide shards evenly, the longest dimension first."""
    chunks = list(shards)
    while prod(chunks) * itemsize > CHUNK_BYTES:
        axis = max(range(len(chunks)), key=chunks.__getitem__)
        chunks[axis] //= next(part for part in range(2, chunks[axis] + 1) if chunks[axis] % part == 0)
    return tuple(chunks)
