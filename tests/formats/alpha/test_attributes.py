"""Attribute files: each attribute written is found at its location, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import strategies
from tests.formats.encoding import Wide, encoded

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.attributes import decode_attributes, encode_attributes

KEY = "attributes/X"
FILE = encode_attributes([{"a": 1}, {"b": [1, {"c": None}]}, {}])


@given(st.lists(strategies.objects, max_size=5))
@pytest.mark.rule("I246", "I251")
def test_attributes_come_back(maps: list[dict[str, object]]) -> None:
    data = encode_attributes(maps)  # type: ignore[arg-type]
    assert data == encoded(maps)
    assert [decode_attributes(data, location, KEY) for location in range(len(maps))] == maps


def test_long_headers_are_read() -> None:
    assert decode_attributes(encoded(Wide([Wide({"a": Wide(1)}), {}])), 0) == {"a": 1}


@pytest.mark.parametrize("location", [3, 2**32 - 1, -1])
def test_a_missing_location_is_refused(location: int) -> None:
    with pytest.raises(FormatError, match=f"3 maps of attributes, and none at location {location}") as caught:
        decode_attributes(FILE, location, KEY)
    assert caught.value.key == KEY


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\xc0",
        b"\x91\x90",
        b"\x91\x81\x01\x01",
        b"\x91\x80\x80",
        b"\xdd\xff\xff\xff\xff\x80",
        b"\x92\x80\xc1",
    ],
)
def test_invalid_attribute_files_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_attributes(data, 0, KEY)
    assert caught.value.key == KEY


@given(st.integers(0, len(FILE) - 1), st.integers(0, 2))
def test_files_that_are_cut_short_are_refused(cut: int, location: int) -> None:
    with pytest.raises(FormatError):
        decode_attributes(FILE[:cut], location, KEY)


@given(st.integers(0, len(FILE) - 1), st.integers(0, 255), st.integers(0, 2))
def test_a_wrong_byte_is_refused_or_read(at: int, byte: int, location: int) -> None:
    key = None
    try:
        decode_attributes(FILE[:at] + bytes([byte]) + FILE[at + 1 :], location, KEY)
    except FormatError as error:
        key = error.key
    assert key in {None, KEY}


@pytest.mark.parametrize("maps", [[{"a": {1}}], [{1: 2}]])
def test_invalid_attributes_are_not_written(maps: list[object]) -> None:
    with pytest.raises(InvalidInputError):
        encode_attributes(maps)  # type: ignore[arg-type]
