"""Bare NaN and infinities, which are not JSON, but which other programs write into attributes."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest

from frazil.errors import MetadataError
from frazil.metadata.draft.entry_point import JsonEncoding
from frazil.metadata.json_text import Json, NonFinite, as_json, dump_json
from frazil.metadata.v3.documents import emit_node, parse_node

ARRAY = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [2],
    "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0.0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}


def test_bare_words_in_attributes_round_trip() -> None:
    attributes = {
        "_FillValue": float("nan"),
        "range": [float("-inf"), float("inf"), 1.5],
        "deep": {"x": [float("nan")]},
    }
    array = parse_node(json.dumps({**ARRAY, "attributes": attributes}).encode())
    assert repr(array.attributes) == repr(attributes)
    assert parse_node(emit_node(array)) == array
    assert repr(json.loads(emit_node(array))["attributes"]) == repr(attributes)


def test_many_bare_words() -> None:
    array = parse_node(json.dumps({**ARRAY, "attributes": {"x": [float("nan")] * 20_000}}).encode())
    assert repr(array.attributes["x"]) == repr([float("nan")] * 20_000)


def test_text_stays_text() -> None:
    attributes = {"a": "NaN", "b": ["Infinity", float("nan")]}
    array = parse_node(json.dumps({**ARRAY, "attributes": attributes}).encode())
    again = parse_node(emit_node(array)).attributes
    assert repr(again) == repr(attributes)
    assert again["a"] != NonFinite("NaN")


def test_numbers_that_are_not_finite_can_be_compared_hashed_and_pickled() -> None:
    numbers = [NonFinite(word) for word in ("NaN", "Infinity", "-Infinity")]
    assert numbers == pickle.loads(pickle.dumps(numbers))
    assert len({*numbers, *copy.deepcopy(numbers)}) == 3
    assert all(math.isnan(number) or math.isinf(number) for number in numbers)


def test_infinities_are_equal_to_those_of_python() -> None:
    for word in ("Infinity", "-Infinity"):
        number, plain = NonFinite(word), float(word)
        assert number == plain and plain == number and hash(number) == hash(plain)
        assert number == np.float32(plain) and number not in (-plain, word, 0)
        assert (number != np.array([1, plain])).tolist() == [True, False]
    nan, plain = NonFinite("NaN"), float("nan")
    assert nan == NonFinite("NaN") and nan != plain


def test_users_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(MetadataError):
        dump_json({"words": NonFinite("NaN"), "x": float("nan")})
    with pytest.raises(MetadataError):
        as_json({"x": float("nan")}, "attributes")


def test_drafts_have_strings_but_for_the_older_one() -> None:
    document: dict[str, Json] = {"attributes": {"a": [NonFinite("NaN"), "Infinity"]}}
    assert JsonEncoding().decode(JsonEncoding().encode(document)) == {"attributes": {"a": ["NaN", "Infinity"]}}
    assert JsonEncoding(lenient=True).decode(JsonEncoding(lenient=True).encode(document)) == document


def test_bare_words_in_consolidated_metadata_are_read() -> None:
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": {
            "kind": "inline",
            "metadata": {"a": {"fill_value": float("nan"), "attributes": {"b": float("nan")}}},
        },
    }
    read = parse_node(json.dumps(group).encode()).consolidated
    assert read == {
        "kind": "inline",
        "metadata": {"a": {"fill_value": "NaN", "attributes": {"b": NonFinite("NaN")}}},
    }


def test_elsewhere_they_are_refused() -> None:
    for member in ("fill_value", "shape"):
        with pytest.raises(MetadataError) as caught:
            parse_node(json.dumps({**ARRAY, member: float("nan"), "attributes": {"x": float("nan")}}).encode())
        assert caught.value.path == member
