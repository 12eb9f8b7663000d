"""Ids of snapshots, manifests, chunk files and attribute files: 12 bytes, or 20 characters in texts and file names (Icechunk specification, Reference Files;
Crockford's base 32)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from frazil.base.arrays import Octets
from frazil.errors import FormatError, InvalidInputError

ObjectId: TypeAlias = bytes

ID_BYTES: Final = 12
ID_CHARACTERS: Final = 20
CRC_BYTES: Final = 4  # at the end of the id of a chunk file, in repositories with digests: the CRC-32C of its bytes, the highest byte first

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = [high + low for high in ALPHABET for low in ALPHABET]
_READ: Final = {**{letter: at for at, letter in enumerate(ALPHABET)}, "O": 0, "I": 1, "L": 1}
# the characters that a reader accepts, and their digits for int()
_TAKEN: Final = "".join([*_READ, *(letter.lower() for letter in _READ if letter.isalpha())])
_DIGITS: Final = str.maketrans({letter: "0123456789abcdefghijklmnopqrstuv"[_READ[letter.upper()]] for letter in _TAKEN})
_LETTERS: Final = np.frombuffer(ALPHABET.encode(), np.uint8)
_WEIGHTS: Final = np.array([16, 8, 4, 2, 1], np.uint8)


@lru_cache(2**12)  # the names of a commit's files are needed several times each
def encode_id(value: ObjectId) -> str:
    """The text of 12 bytes. Raises InvalidInputError for another number of bytes."""
    if len(value) != ID_BYTES:
        raise InvalidInputError(f"an id must have {ID_BYTES} bytes, found {len(value)}")
    number, pairs = int.from_bytes(value, "big") << 4, _PAIRS
    return "".join([pairs[number >> shift & 1023] for shift in range(90, -1, -10)])


def decode_id(text: str, key: str | None = None) -> ObjectId:
    """The bytes of a text, in capital or small letters, O for 0 and I or L for 1; its 4 spare bits are ignored.
    Raises FormatError with `key`, the file that contained the text."""
    if len(text) != ID_CHARACTERS or text.strip(_TAKEN):
        raise FormatError(
            f"an id must be {ID_CHARACTERS} characters of Crockford's base 32, found {text[:40]!r}", key=key
        )
    return (int(text.translate(_DIGITS), 32) >> 4).to_bytes(ID_BYTES, "big")


def encode_ids(values: Octets) -> list[str]:
    """The texts of uint8[n, 12], as from encode_id."""
    bits = np.zeros((len(values), ID_CHARACTERS * 5), np.uint8)
    bits[:, : ID_BYTES * 8] = np.unpackbits(values, axis=1)
    letters = _LETTERS[bits.reshape(len(values), ID_CHARACTERS, 5) @ _WEIGHTS]
    text = letters.tobytes().decode()
    return [text[at : at + ID_CHARACTERS] for at in range(0, len(text), ID_CHARACTERS)]


def new_id(random: Callable[[int], bytes]) -> ObjectId:
    """A new id from bytes of `random`, such as os.urandom."""
    return random(ID_BYTES)
