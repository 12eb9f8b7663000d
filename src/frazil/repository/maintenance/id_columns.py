"""Ids of objects in columns: arrays of 12 bytes an element, which NumPy sorts and searches. Pure.

One id as bytes and as text is in formats/ids.py. An element that is taken out of such an array has lost the zeros at its end; `id_list` gives whole ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from frazil.formats.ids import ALPHABET, ID_BYTES, ID_CHARACTERS, ObjectId

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Octets = NDArray[np.uint8]

__all__ = ["NO_IDS", "Ids", "among", "distinct", "id_column", "id_list", "ids_of_names", "join", "octets", "without"]

Ids: TypeAlias = "NDArray[np.bytes_]"

_TYPE: Final = np.dtype(f"S{ID_BYTES}")
NO_IDS: Final[Ids] = np.zeros(0, _TYPE)
_NO_DIGIT: Final = 255
_SPARE_BITS: Final = 15  # of the last character of a text, beyond the bytes of the id

_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET))


def id_column(ids: Octets | Sequence[ObjectId]) -> Ids:
    """uint8[n, 12], or some ids, as a column."""
    if isinstance(ids, np.ndarray):
        return np.ascontiguousarray(ids).reshape(-1).view(_TYPE)
    return np.frombuffer(b"".join(ids), _TYPE)


def octets(ids: Ids) -> Octets:
    """A column as uint8[n, 12]."""
    return np.ascontiguousarray(ids).view(np.uint8).reshape(-1, ID_BYTES)


def id_list(ids: Ids) -> list[ObjectId]:
    """Each id as its 12 bytes."""
    data = ids.tobytes()
    return [data[at : at + ID_BYTES] for at in range(0, len(data), ID_BYTES)]


def distinct(ids: Ids) -> Ids:
    """Sorted, each once."""
    ids = np.sort(ids)
    kept = np.ones(len(ids), np.bool_)
    kept[1:] = ids[1:] != ids[:-1]
    return ids if kept.all() else ids[kept]


def join(parts: Sequence[Ids]) -> Ids:
    """All of several columns, sorted, each once."""
    return distinct(np.concatenate([NO_IDS, *parts]))


def among(ids: Ids, known: Ids) -> NDArray[np.bool_]:
    """bool[n]: which ids are in a sorted column."""
    if not len(known):
        return np.zeros(len(ids), np.bool_)
    at = np.minimum(known.searchsorted(ids), len(known) - 1)
    found: NDArray[np.bool_] = known[at] == ids
    return found


def without(ids: Ids, known: Ids) -> Ids:
    """The ids that are not in a sorted column, in their order."""
    return ids[~among(ids, known)]


def ids_of_names(names: Sequence[str]) -> tuple[Ids, NDArray[np.int64]]:
    """The ids whose texts stand among some names, in their order, and the numbers of these names; foreign names are left out."""
    rows = [row for row, name in enumerate(names) if len(name) == ID_CHARACTERS and name.isascii()]
    text = "".join([names[row] for row in rows])
    digits = _DIGITS[np.frombuffer(text.encode(), np.uint8)].reshape(-1, ID_CHARACTERS)
    valid = (digits != _NO_DIGIT).all(axis=1) & (digits[:, -1] & _SPARE_BITS == 0)
    bits = np.unpackbits(digits[valid, :, None], axis=2)[:, :, 3:].reshape(-1, ID_CHARACTERS * 5)
    return id_column(np.packbits(bits[:, : ID_BYTES * 8], axis=1)), np.array(rows, np.int64)[valid]
