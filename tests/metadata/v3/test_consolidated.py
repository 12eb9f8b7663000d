"""The form of consolidated metadata in zarr.json."""

from __future__ import annotations

import json

import pytest

from frazil.errors import MetadataError
from frazil.metadata.v3 import consolidated
from frazil.metadata.v3.documents import parse_node

ARRAY = {"zarr_format": 3, "node_type": "array"}
GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}}


def test_emitted_consolidated_metadata_is_read_back() -> None:
    copies = {"a": ARRAY, "b": GROUP, "b/c": ARRAY}
    emitted = consolidated.emit_copies(copies)
    assert (emitted["kind"], emitted["must_understand"]) == ("inline", False)
    empty = {"kind": "inline", "must_understand": False, "metadata": {}}
    assert consolidated.read_copies(emitted) == copies | {"b": {**GROUP, "consolidated_metadata": empty}}
    assert "consolidated_metadata" not in GROUP


def test_another_kind_of_consolidated_metadata_is_ignored() -> None:
    assert consolidated.read_copies({"kind": "elsewhere", "must_understand": False}) is None


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/..", "__a"])
def test_bad_paths(path: str) -> None:
    with pytest.raises(MetadataError, match="paths of nodes"):
        consolidated.read_copies({"metadata": {path: ARRAY}})


@pytest.mark.parametrize("metadata", [None, [], {"a": None}, {"a": "b"}])
def test_consolidated_metadata_must_be_an_object(metadata: object) -> None:
    with pytest.raises(MetadataError):
        consolidated.read_copies({"metadata": metadata})  # type: ignore[dict-item]


def test_numbers_in_copies_stay_exact() -> None:
    text = b'{"zarr_format":3,"node_type":"group","consolidated_metadata":{"metadata":{"a":{"fill_value":-0}}}}'
    group = parse_node(text)
    copies = consolidated.read_copies(group.consolidated or {})  # type: ignore[union-attr]
    assert copies is not None
    assert type(copies["a"]["fill_value"]).__name__ == "NegativeZero"  # type: ignore[index, call-overload]
    assert json.loads(text)["node_type"] == "group"
