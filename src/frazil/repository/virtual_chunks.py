"""Virtual chunks of a session: setting them, and fetching them beside chunks of other kinds.

Where their files may lie is in virtual.py, how references are looked through in virtual_columns.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.format.ids import ID_BYTES
from frazil.repository.changes import VIRTUAL, Rows
from frazil.repository.virtual_columns import reference_columns, set_checks
from frazil.stores.chunk_storage import NOWHERE, Located, fetch_located, object_spans
from frazil.stores.composing import joined_sources
from frazil.stores.values import FOUND, STALE, Fetched, Version

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from frazil.repository.transaction import Transaction
    from frazil.repository.virtual import VirtualPlaces
    from frazil.repository.virtual_checks import FileCheck
    from frazil.stores.store import Store

    Columns = NDArray[np.int64]

__all__ = ["VIRTUAL_KIND", "ObjectNames", "fetch_mixed", "set_virtual"]

VIRTUAL_KIND: Final = 3  # of Located.kind: in the file at the location names[object]


class ObjectNames(list[str]):
    """Names of what chunks lie in: first keys of chunk files, then locations, with the state that each of their files must have."""

    __slots__ = ("checks", "native")

    def __init__(self, keys: Sequence[str], locations: Sequence[str], checks: Sequence[FileCheck | None]) -> None:
        super().__init__([*keys, *locations])
        self.native, self.checks = len(keys), checks


def set_virtual(
    transaction: Transaction,
    path: str,
    coordinates: ArrayLike,
    locations: str | Sequence[str],
    offsets: ArrayLike,
    lengths: ArrayLike,
    *,
    check: bool,
) -> None:
    """Lets chunks of the array at a normalised path lie in files elsewhere. check: keeps the present state of each file. Raises InvalidInputError, ReadOnlyError,
    NotFoundError, StoreError; then nothing was changed."""
    transaction.require_writable()
    absolute = "/" + path
    with transaction.lock:
        grid = transaction.grid_of(absolute)
    made = reference_columns(coordinates, locations, offsets, lengths, grid=grid, path=absolute)
    made = set_checks(made, transaction.options.virtual, look_up=check)
    with transaction.lock:
        changes = transaction.changes
        known = {text: number for number, text in enumerate(changes.locations)}
        numbers = np.array([changes.location(name, known) for name in made.names], np.int64)
        changes.location_checks.update(made.checks)
        count = len(made.coordinates)
        rows = Rows(
            made.coordinates,
            np.full(count, VIRTUAL, np.uint8),
            np.zeros((count, ID_BYTES), np.uint8),
            numbers[made.locations] if count else np.zeros(0, np.int64),
            made.offsets,
            made.lengths,
        )
        transaction.set_rows(absolute, rows)


def fetch_mixed(
    store: Store,
    places: VirtualPlaces,
    located: Located,
    spans: Columns,
    *,
    expect: Sequence[Version | None] | None,
    once: bool,
) -> Fetched:
    """ChunkStorage.fetch where some chunks are virtual. Raises what VirtualPlaces.fetch raises, too."""
    names = located.names
    assert isinstance(names, ObjectNames)
    virtual = located.kind == VIRTUAL_KIND
    others = located._replace(
        names=names[: names.native], kind=np.where(virtual, NOWHERE, located.kind).astype(np.uint8)
    )
    fetched = fetch_located(store, others, spans, expect=None, once=once)
    of_files = np.flatnonzero(virtual[spans[:, 0]])
    moved = object_spans(located, spans[of_files])
    moved[:, 0] -= names.native
    from_files = places.fetch(names[names.native :], moved, checks=names.checks)
    sources, rows = joined_sources(fetched.sources, from_files.sources, from_files.rows)
    every = fetched.rows.copy()
    every[of_files] = rows
    status, sizes = np.array(fetched.status, np.uint8), fetched.sizes.copy()
    status[virtual], sizes[virtual] = FOUND, located.length[virtual]
    versions = fetched.versions if located.versions is None else located.versions
    if expect is not None:
        stale = [
            i for i, wanted in enumerate(expect) if wanted is not None and status[i] == FOUND and versions[i] != wanted
        ]
        status[stale] = STALE
    return Fetched(sources, status.tolist(), versions, sizes, every)
