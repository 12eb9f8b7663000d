"""Ids of files: their text, one and many."""

from __future__ import annotations

import os
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil import _kernel
from frazil.errors import FormatError, InvalidInputError
from frazil.formats.ids import ALPHABET, decode_id, encode_id, encode_ids, new_id
from tests.formats import strategies


@pytest.mark.rule("I153")
def test_known_ids_are_encoded_and_decoded() -> None:
    assert encode_id(bytes(range(12))) == "000G40R40M30E209185G"
    assert decode_id("000G40R40M30E209185G") == bytes(range(12))
    assert encode_id(b"\xff" * 12) == "Z" * 19 + "G"
    assert encode_id(bytes(12)) == "0" * 20


@given(strategies.ids)
@pytest.mark.rule("I153")
def test_ids_have_20_characters_and_come_back(value: bytes) -> None:
    text = encode_id(value)
    assert len(text) == 20
    assert set(text) <= set(ALPHABET)
    assert decode_id(text) == value


@given(strategies.ids, st.lists(st.booleans(), min_size=20, max_size=20), st.integers(0, 15), st.randoms())
def test_readers_of_base_32_are_lenient(value: bytes, small: list[bool], tail: int, random) -> None:
    text = encode_id(value)
    text = text[:-1] + ALPHABET[ALPHABET.index(text[-1]) | tail]
    text = "".join(random.choice({"0": "0O", "1": "1IL"}.get(letter, letter)) for letter in text)
    text = "".join(letter.lower() if low else letter for letter, low in zip(text, small, strict=True))
    assert decode_id(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 19,
        "0" * 21,
        "U" * 20,
        "../../../../etc/pass",
        "0" * 19 + "*",
        "0" * 19 + "٣",
        "_" * 20,
        " " * 20,
        "+0" * 10,
        "0" * 19 + "\n",
    ],
)
def test_invalid_ids_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match="20 characters") as caught:
        decode_id(text, "refs/tag.x/ref.json")
    assert caught.value.key == "refs/tag.x/ref.json"


@pytest.mark.parametrize("size", [0, 11, 13])
def test_ids_have_12_bytes(size: int) -> None:
    with pytest.raises(InvalidInputError, match="12 bytes"):
        encode_id(bytes(size))
    with pytest.raises(ValueError) if size else nullcontext():
        assert _kernel.encode_ids(bytes(size)) == []


@given(st.lists(strategies.ids, max_size=20))
def test_many_at_once_are_as_one_by_one(values: list[bytes]) -> None:
    columns = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), 12)
    texts = encode_ids(columns)
    assert texts == [encode_id(value) for value in values]


def test_new_ids_are_what_the_source_gives() -> None:
    assert new_id(lambda size: bytes(range(size))) == bytes(range(12))
    assert new_id(os.urandom) != new_id(os.urandom)
