"""Bare NaN and infinities, which are not JSON, but which other programs write into attributes."""

from __future__ import annotations

import json

import pytest

from frazil.errors import MetadataError
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


def test_they_are_strings_in_attributes() -> None:
    attributes = {
        "_FillValue": float("nan"),
        "range": [float("-inf"), float("inf"), 1.5],
        "deep": {"x": [float("nan")]},
    }
    array = parse_node(json.dumps({**ARRAY, "attributes": attributes}).encode())
    assert array.attributes == {"_FillValue": "NaN", "range": ["-Infinity", "Infinity", 1.5], "deep": {"x": ["NaN"]}}
    assert parse_node(emit_node(array)) == array
    json.loads(emit_node(array), parse_constant=pytest.fail)


def test_also_in_consolidated_copies() -> None:
    group = {
        "zarr_format": 3,
        "node_type": "group",
        "consolidated_metadata": {"kind": "inline", "metadata": {"a": float("nan")}},
    }
    assert parse_node(json.dumps(group).encode()).consolidated == {"kind": "inline", "metadata": {"a": "NaN"}}


def test_elsewhere_they_are_refused() -> None:
    for member in ("fill_value", "shape"):
        with pytest.raises(MetadataError) as caught:
            parse_node(json.dumps({**ARRAY, member: float("nan"), "attributes": {"x": float("nan")}}).encode())
        assert caught.value.path == member
