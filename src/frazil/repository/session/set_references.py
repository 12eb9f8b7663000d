"""Letting chunks of a session's array lie in files elsewhere. How references are looked through is in reference_columns.py, how they are read in virtual_fetch.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.errors import InvalidInputError
from frazil.formats.ids import ID_BYTES
from frazil.repository.session.changed_references import VIRTUAL, Rows
from frazil.repository.session.transaction import Transaction
from frazil.repository.virtual.file_checks import FileCheck
from frazil.repository.virtual.reference_columns import reference_columns, set_checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from frazil.repository.virtual.virtual_fetch import VirtualPlaces

__all__ = ["Check", "set_virtual"]

Given: TypeAlias = "str | tuple[int, str] | FileCheck"
Check: TypeAlias = "bool | Mapping[str, Given]"


def set_virtual(
    transaction: Transaction,
    path: str,
    coordinates: ArrayLike,
    locations: str | Sequence[str],
    offsets: ArrayLike,
    lengths: ArrayLike,
    *,
    check: Check,
) -> None:
    """Lets chunks of the array at a normalised path lie in files elsewhere. check: keeps the present state of each file, or that which is given, where the repository
    can hold that: the library of the alpha drops it, so that it is not kept in what that is to read. Raises InvalidInputError, ReadOnlyError,
    NotFoundError, StoreError; then nothing was changed."""
    transaction.require_writable()
    places = transaction.options.virtual
    given = None if isinstance(check, bool) else _given_checks(check, places)
    absolute = "/" + path
    with transaction.lock:
        grid = transaction.grid_of(absolute)
    made = reference_columns(coordinates, locations, offsets, lengths, grid=grid, path=absolute)
    if given is None:
        made = set_checks(made, places, look_up=bool(check) and transaction.rules.checks)
    else:
        made = set_checks(made, places, look_up=False)
        unknown = next((location for location in given if location not in made.names), None)
        if unknown is not None and made.names:
            raise InvalidInputError("the version is given of a file that no chunk lies in", key=unknown)
        made = made._replace(checks=given if transaction.rules.checks else {})
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


def _given_checks(given: Mapping[str, Given], places: VirtualPlaces) -> dict[str, FileCheck]:
    """Checks of locations from what a user gives. Raises InvalidInputError."""
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"check is {given!r}; it must be True, False, or a mapping", hint=_MAPPING)
    checks: dict[str, FileCheck] = {}
    for location, value in given.items():
        if not isinstance(location, str):
            raise InvalidInputError(f"check has {location!r}, which is no location", hint=_MAPPING)
        place, key = places.find(location)
        checks[location] = _given_check(location, value, place.where(key))
    return checks


_MAPPING: Final = 'from locations to ETags, or to (size, ETag): check={"s3://bucket/sea.nc": (4096, \'"0123abcd"\')}'


def _given_check(location: str, value: Given, place: str) -> FileCheck:
    match value:
        case FileCheck():
            return value
        case str(tag):
            size = -1
        case (int(size), str(tag)) if size >= 0 and not isinstance(size, bool):
            pass
        case _:
            raise InvalidInputError(f"the version of a file is given as {value!r}", key=location, hint=_MAPPING)
    if not tag or not tag.isascii() or not tag.isprintable():
        raise InvalidInputError(f"no server has the ETag {tag!r}", key=location, hint=_MAPPING)
    if tag.startswith("W/"):
        raise InvalidInputError(
            f"{tag} is a weak ETag, which other bytes may have, too",
            key=location,
            hint="check=True keeps the time instead",
        )
    return FileCheck(size, -1, tag if tag.endswith('"') else f'"{tag}"', place)
