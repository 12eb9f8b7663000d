"""Ids of objects in columns: arrays of 12 bytes an element, which NumPy sorts and searches. Pure.

formats/ids.py converts single ids. An element taken out of such an array loses the zeros at its end; `id_list` returns whole ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from frazil.base.arrays import Octets, among, distinct
from frazil.formats.ids import ALPHABET, ID_BYTES, ID_CHARACTERS, ObjectId

Ids: TypeAlias = "NDArray[np.bytes_]"

_TYPE: Final = np.dtype(f"S{ID_BYTES}")
NO_IDS: Final[Ids] = np.zeros(0, _TYPE)
_NO_DIGIT: Final = 255
_BATCH: Final = 2**16  # names that are decoded at once
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


def join(parts: Sequence[Ids]) -> Ids:
    """All of several columns, sorted and distinct."""
    return distinct(np.concatenate([NO_IDS, *parts]))


def without(ids: Ids, others: Ids) -> Ids:
    """The ids that are not in a sorted column, in their order."""
    return ids[~among(ids, others)]


def ids_of_names(names: Sequence[str]) -> tuple[Ids, NDArray[np.int64]]:
    """The ids whose texts are among some names, in their order, and the numbers of these names. Foreign names are skipped."""
    rows = [row for row, name in enumerate(names) if len(name) == ID_CHARACTERS and name.isascii()]
    text = "".join([names[row] for row in rows])
    ids, valid = ids_of_column(np.frombuffer(text.encode(), f"S{ID_CHARACTERS}"))
    return ids, np.array(rows, np.int64)[valid]


def ids_of_column(names: NDArray[np.bytes_]) -> tuple[Ids, NDArray[np.bool_]]:
    """The ids whose texts are in a column of texts of 20 bytes, in their order, and bool[n]: which texts are ids."""
    parts = [_decoded(names[low : low + _BATCH]) for low in range(0, len(names), _BATCH)]
    valid = np.concatenate([np.zeros(0, np.bool_), *(valid for _, valid in parts)])
    ids = np.concatenate([NO_IDS, *(ids for ids, _ in parts)])
    return ids, valid


def _decoded(names: NDArray[np.bytes_]) -> tuple[Ids, NDArray[np.bool_]]:
    digits = _DIGITS[names.view(np.uint8)].reshape(-1, ID_CHARACTERS)
    valid = (digits.max(axis=1) != _NO_DIGIT) & (digits[:, -1] & _SPARE_BITS == 0)
    digits = digits[valid].astype(np.uint32)
    # 4 characters are 20 bits; 5 times that are 3 words of 32 bits and 4 spare ones
    groups = digits[:, 0::4] << 15 | digits[:, 1::4] << 10 | digits[:, 2::4] << 5 | digits[:, 3::4]
    first, second, third, fourth, fifth = groups.T
    words = np.empty((len(groups), 3), ">u4")
    words[:, 0] = first << 12 | second >> 8
    words[:, 1] = second << 24 | third << 4 | fourth >> 16
    words[:, 2] = fourth << 16 | fifth >> 4
    return id_column(words.view(np.uint8)), valid
