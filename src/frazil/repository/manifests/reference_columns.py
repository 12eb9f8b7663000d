"""New references to virtual chunks, from the arguments of a user: checked columns with distinct locations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from frazil.base.record import Record
from frazil.errors import InvalidInputError
from frazil.formats.manifests import FileCheck
from frazil.repository.manifests.coordinates import sorting_order
from frazil.repository.virtual.file_checks import plain_location
from frazil.repository.virtual.virtual_fetch import VirtualContainers
from frazil.stores.values import Columns

_INT64_MAX: Final = 2**63 - 1
_COORDINATE_LIMIT: Final = 2**32  # of the format


class VirtualReferences(Record):
    """n references. Rows are distinct and in the grid; offset + length is below 2**63."""

    coordinates: Columns  # [n, d]
    locations: NDArray[np.int32]  # [n], number of the location
    offsets: Columns  # [n], bytes
    lengths: Columns  # [n], bytes, at least 1
    names: tuple[str, ...]  # the distinct locations, in the order of their first rows
    checks: Mapping[str, FileCheck] = {}  # of locations that were looked up


def reference_columns(
    coordinates: ArrayLike,
    locations: str | Iterable[str],
    offsets: ArrayLike,
    lengths: ArrayLike,
    *,
    grid: Sequence[int],
    path: str | None = None,
) -> VirtualReferences:
    """References in columns: coordinates of chunks, integers [n, d] in a grid of `grid` chunks along each dimension; a URL for each, or one for all; offsets
    and lengths in bytes, integers [n], or one for all. path: of the array.

    Raises InvalidInputError, with the first wrong chunk. set_checks checks locations."""
    rank = len(grid)
    chunks = _integers(coordinates, "coordinates", path)
    if chunks.ndim == 1 and chunks.size == 0:
        chunks = chunks.reshape(0, rank)
    if chunks.ndim != 2 or chunks.shape[1] != rank:
        raise InvalidInputError(
            f"coordinates of chunks must be integers of shape (n, {rank}), found {chunks.shape}", path=path
        )
    count = len(chunks)
    starts = _column(offsets, "offsets", count, path)
    sizes = _column(lengths, "lengths", count, path)
    limits = np.minimum(np.array(grid, np.int64), _COORDINATE_LIMIT)
    _refuse(((chunks < 0) | (chunks >= limits)).any(axis=1), chunks, path, f"is outside of the grid {tuple(grid)}")
    _refuse(starts < 0, chunks, path, "has a negative offset")
    _refuse(sizes < 1, chunks, path, "has a length below 1")
    _refuse(starts > _INT64_MAX - sizes, chunks, path, "ends beyond 2**63 - 1")
    repeated = _repeated(chunks)
    if repeated is not None:
        raise InvalidInputError("a chunk is given twice", path=path, chunk=repeated)
    numbers, names = _distinct(locations, count, path)
    return VirtualReferences(chunks, numbers, starts, sizes, names)


def set_checks(
    references: VirtualReferences, containers: VirtualContainers, *, look_up: bool = True
) -> VirtualReferences:
    """The references, with the present state of their files if look_up is set; a missing file has no check. Raises InvalidInputError for locations that are
    not allowed, StoreError."""
    for name in references.names:
        if plain_location(name) != name:
            raise InvalidInputError(
                "a location must not end in a mark that Frazil adds", key=name, hint=f"give {plain_location(name)!r}"
            )
    if look_up:
        return references._replace(checks=containers.look_up(references.names))
    for name in references.names:
        containers.find(name)
    return references


def _integers(value: ArrayLike, label: str, path: str | None) -> Columns:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{label} must be an array of integers: {error}", path=path) from None
    if array.size == 0 and array.dtype.kind == "f":  # of an empty list
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidInputError(f"{label} must be integers, found {array.dtype}", path=path)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.max(initial=0) > _INT64_MAX:
        raise InvalidInputError(f"{label} must be below 2**63", path=path)
    return np.ascontiguousarray(array, np.int64) if array.ndim else array.astype(np.int64)


def _column(value: ArrayLike, label: str, count: int, path: str | None) -> Columns:
    column = _integers(value, label, path)
    if column.ndim == 0:
        return np.full(count, column, np.int64)
    if column.shape != (count,):
        raise InvalidInputError(f"{label} must be {count}, one for each chunk, found shape {column.shape}", path=path)
    return column


def _refuse(wrong: np.bool_ | NDArray[np.bool_], chunks: Columns, path: str | None, reason: str) -> None:
    if wrong.any():
        raise InvalidInputError(f"a chunk {reason}", path=path, chunk=tuple(chunks[int(wrong.argmax())].tolist()))


def _repeated(chunks: Columns) -> tuple[int, ...] | None:
    """A chunk that occurs twice; all coordinates are at least 0."""
    ordered = chunks[sorting_order(chunks)]
    same = (ordered[1:] == ordered[:-1]).all(axis=1)
    return tuple(ordered[int(same.argmax())].tolist()) if same.any() else None


def _distinct(
    locations: str | Iterable[str], count: int, path: str | None
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """The number of each row's location, and the locations."""
    if isinstance(locations, str):
        return np.zeros(count, np.int32), (locations,) if count else ()
    if isinstance(locations, np.ndarray):
        if locations.dtype.kind == "U" and locations.ndim == 1 and len(locations) == count > 0:
            return _distinct_runs(locations)
        locations = locations.tolist()
    if not isinstance(locations, Iterable):
        raise InvalidInputError(f"locations must be URLs, found {locations!r}", path=path)
    texts = locations if isinstance(locations, list) else list(locations)
    if len(texts) != count:
        raise InvalidInputError(
            f"locations must be {count}, one for each chunk, or one text, found {len(texts)}", path=path
        )
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"a location must be text, not {type(text).__name__}", path=path)
    number_of: dict[str, int] = {}
    numbers = np.fromiter([number_of.setdefault(text, len(number_of)) for text in texts], np.int32, count)
    return numbers, tuple(number_of)


def _distinct_runs(locations: NDArray[np.str_]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """As _distinct, for an array in which neighbours are mostly equal: each run is converted to one text."""
    first = np.concatenate(([True], locations[1:] != locations[:-1]))
    number_of: dict[str, int] = {}
    numbers = [number_of.setdefault(text, len(number_of)) for text in locations[first].tolist()]
    return np.array(numbers, np.int32)[np.cumsum(first) - 1], tuple(number_of)
