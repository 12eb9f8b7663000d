"""Cached results, and nodes of cached documents."""

from __future__ import annotations

import json
import pickle

import pytest

from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import MetadataError
from frazil.metadata.model import GroupMetadata
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.result_cache import ResultCache
from frazil.metadata.v3.documents import parse_node

DOCUMENT = (
    b'{"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int8", "fill_value": 0, "attributes": {"a": [1]},'
    b' "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_key_encoding": "default", "codecs": ["bytes"]}'
)


def test_the_same_objects_have_one_result() -> None:
    cache, part = ResultCache(), (1, 2)
    made = cache.get_or_make((part, 3), lambda: [1], list)
    assert cache.get_or_make((part, 3), lambda: [2], list) is made
    assert cache.get_or_make((tuple([1, 2]), 3), lambda: [2], list) == [2], "an equal object is another one"  # noqa: C409
    assert cache.get_or_make((part, 3), lambda: "text", str) == "text", "of another kind"


def test_the_result_cache_is_bounded() -> None:
    cache = ResultCache()
    parts = [(object(),) for _ in range(1000)]
    for at, part in enumerate(parts):
        assert cache.get_or_make(part, lambda at=at: [at], list) == [at]  # type: ignore[misc]
    assert len(cache._results) <= 256


def test_the_bytes_of_cached_documents_are_bounded() -> None:
    cache = ResultCache()
    for at in range(10):
        cache.put(bytes([at]) * 2**19, at)
        assert cache.get(bytes([at]) * 2**19, int) == at
    cache.put(bytes(2**20 + 1), 0)
    assert 1 <= len(cache._results) <= 4


def test_a_group_with_many_documents_is_parsed_once() -> None:
    nodes = {f"node {at}": {"zarr_format": 3, "node_type": "group"} for at in range(1000)}
    members = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline", "metadata": nodes}}
    document, extensions = json.dumps(members).encode(), CORE_EXTENSIONS.without_fallbacks()
    one, two = parse_node(document, extensions), parse_node(document, extensions)
    assert isinstance(one, GroupMetadata)
    assert isinstance(two, GroupMetadata)
    assert one.consolidated is not None
    assert one.consolidated is two.consolidated
    assert one.consolidated_metadata is not None
    one.consolidated_metadata.metadata["node 1"]["node_type"] = "array"  # type: ignore[index, call-overload]
    assert two.consolidated == members["consolidated_metadata"], "users get copies"


def test_an_error_is_not_remembered() -> None:
    def fail() -> str:
        raise MetadataError("no")

    cache, part = ResultCache(), object()
    with pytest.raises(MetadataError):
        cache.get_or_make((part,), fail, str)
    assert cache.get_or_make((part,), lambda: "yes", str) == "yes"


def test_the_cache_does_not_change_equality_of_registries() -> None:
    copy = pickle.loads(pickle.dumps(DEFAULT_REGISTRY))
    copy.compiled.get_or_make((copy,), lambda: "made", str)
    parse_node(DOCUMENT, copy.metadata)
    assert copy == DEFAULT_REGISTRY
    assert hash(copy) == hash(DEFAULT_REGISTRY)
    again = pickle.loads(pickle.dumps(copy))
    assert again.compiled.get_or_make((copy,), lambda: "anew", str) == "anew"
    assert not again.metadata.parsed._results


def test_the_same_bytes_have_the_same_parts() -> None:
    extensions = CORE_EXTENSIONS.without_fallbacks()  # with empty caches
    one, two = parse_node(DOCUMENT, extensions), parse_node(DOCUMENT, extensions)
    assert one == two == parse_node(DOCUMENT)
    assert one.codecs is two.codecs  # type: ignore[union-attr]
    assert parse_node(DOCUMENT, extensions.without_warnings()).codecs is one.codecs  # type: ignore[union-attr]
    assert parse_node(DOCUMENT, extensions.without_fallbacks()).codecs is not one.codecs, "of other extensions"  # type: ignore[union-attr]


def test_attributes_are_not_shared() -> None:
    extensions = CORE_EXTENSIONS.without_fallbacks()
    for _ in range(3):
        node = parse_node(DOCUMENT, extensions)
        assert node.attributes == {"a": [1]}
        node.attributes["a"].append(2)  # type: ignore[union-attr]
        node.attributes["b"] = 3  # type: ignore[index]
