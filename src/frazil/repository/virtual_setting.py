"""Letting chunks of a session's array lie in files elsewhere. How references are looked through is in virtual_columns.py, how they are read in virtual.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from frazil.errors import InvalidInputError
from frazil.format.ids import ID_BYTES
from frazil.repository.changes import VIRTUAL, Rows
from frazil.repository.transaction import Transaction
from frazil.repository.virtual_columns import reference_columns, set_checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["set_virtual"]


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
    """Lets chunks of the array at a normalised path lie in files elsewhere. check: keeps the present state of each file, where the repository can hold
    that: the library of the alpha drops it, so that it is not kept in what that is to read. Raises InvalidInputError, ReadOnlyError,
    NotFoundError, StoreError; then nothing was changed."""
    transaction.require_writable()
    if not isinstance(check, bool):
        raise InvalidInputError(f"check is {check!r}; it must be True or False")
    absolute = "/" + path
    with transaction.lock:
        grid = transaction.grid_of(absolute)
    made = reference_columns(coordinates, locations, offsets, lengths, grid=grid, path=absolute)
    made = set_checks(made, transaction.options.virtual, look_up=check and transaction.freedoms)
    with transaction.lock:
        changes = transaction.changes
        known = {text: number for number, text in enumerate(changes.locations)}
        numbers = np.array([changes.location(name, made.checks.get(name), known) for name in made.names], np.int64)
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
