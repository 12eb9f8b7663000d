"""Ids of snapshots, manifests, chunk files and attribute files: 12 bytes, or 20 characters in texts and file names (Icechunk specification, Reference Files;
Crockford's base 32)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Octets
from frazil.errors import FormatError, InvalidInputError

ObjectId: TypeAlias = bytes

ID_BYTES: Final = 12
ID_CHARACTERS: Final = 20
CRC_BYTES: Final = 4  # at the end of the id of a chunk file, in repositories with digests: the CRC-32C of its bytes, the highest byte first

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@lru_cache(2**12)  # the names of a commit's files are needed several times each
def encode_id(value: ObjectId) -> str:
    """The text of 12 bytes. Raises InvalidInputError for another number of bytes."""
    if len(value) != ID_BYTES:
        raise InvalidInputError(f"an id must have {ID_BYTES} bytes, found {len(value)}")
    return _kernel.encode_ids(value)[0]


def decode_id(text: str, key: str | None = None) -> ObjectId:
    """The bytes of a text, in capital or small letters, O for 0 and I or L for 1; its 4 spare bits are ignored.
    Raises FormatError with `key`, the file that contained the text."""
    found = _kernel.decode_id(text) if text.isascii() else None
    if found is None:
        raise FormatError(
            f"an id must be {ID_CHARACTERS} characters of Crockford's base 32, found {text[:40]!r}", key=key
        )
    return found


def encode_ids(values: Octets) -> list[str]:
    """The texts of uint8[n, 12], as from encode_id."""
    return _kernel.encode_ids(np.ascontiguousarray(values))


def new_id(random: Callable[[int], bytes]) -> ObjectId:
    """A new id from bytes of `random`, such as os.urandom."""
    return random(ID_BYTES)
