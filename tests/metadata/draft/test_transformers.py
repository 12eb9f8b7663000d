"""The sharding storage transformer as the sharding codec, and back."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import MetadataError
from frazil.metadata.draft.transformers import (
    chain_with_shards,
    emit_shards,
    is_sharding,
    split_transformers,
    without_shards,
)
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json

CHAIN = (
    Extension("transpose", {"order": [1, 0]}),
    Extension("bytes", {"endian": "big"}),
    Extension("gzip", {"level": 1}),
)
STACKS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=3)


@pytest.mark.rule("D79", "D82")
@given(STACKS, st.booleans())
def test_sharding_transformers_round_trip(stack: list[tuple[int, int]], old: bool) -> None:
    transformers = split_transformers(emit_shards(stack, old=old), 2, old=old)
    assert transformers == (tuple(stack), ())
    chain, grid = chain_with_shards(CHAIN, (3, 4), transformers.shards)
    extents = [3, 4]
    for counts in stack:
        extents = [extent * count for extent, count in zip(extents, counts, strict=True)]
    assert list(grid.chunk_shape) == extents, "the last transformer is the outermost"
    assert without_shards(chain, grid.chunk_shape) == (CHAIN, (3, 4), tuple(stack))


@pytest.mark.rule("X4b")
@pytest.mark.parametrize(
    "uri",
    [
        "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0",
        "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0",
        "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
        "http://purl.org/zarr/spec/storage-transformers/sharding/1.0",
    ],
)
def test_the_sharding_transformer_is_recognised_by_its_uris(uri: str) -> None:
    assert is_sharding(uri)
    assert not is_sharding(uri + "x")


def entry(**changes: Json) -> dict[str, Json]:
    made = cast("dict[str, Json]", emit_shards([(2, 2)], old=False)[0])
    return {**made, **changes}


@pytest.mark.rule("D80", "D81", "D82")
@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (entry(type="morton"), "storage_transformers[0].type"),
        (entry(type=None), "storage_transformers[0].type"),
        (entry(configuration={}), "storage_transformers[0].configuration.chunks_per_shard"),
        (entry(configuration={"chunks_per_shard": [2]}), "storage_transformers[0].configuration.chunks_per_shard"),
        (
            entry(configuration={"chunks_per_shard": [2, 0]}),
            "storage_transformers[0].configuration.chunks_per_shard[1]",
        ),
        (entry(configuration={"chunks_per_shard": 2}), "storage_transformers[0].configuration.chunks_per_shard"),
        (
            entry(configuration={"chunks_per_shard": [2, 2], "order": "C"}),
            "storage_transformers[0].configuration.order",
        ),
        (entry(extension="sharding"), "storage_transformers[0].extension"),
        (entry(strategy="append"), "storage_transformers[0].strategy"),
    ],
)
def test_invalid_sharding_transformers_are_refused(broken: Json, path: str) -> None:
    with pytest.raises(MetadataError) as caught:
        split_transformers([broken], 2, old=False)
    assert caught.value.path == path


@pytest.mark.rule("X26", "Z11")
def test_shards_without_dimensions_are_parsed() -> None:
    for counts in ([], [1]):
        shards = [entry(configuration={"chunks_per_shard": cast("Json", counts)})]
        assert split_transformers(shards, 0, old=False).shards == ((),)


@pytest.mark.rule("D79")
def test_behind_another_transformer_it_stays_one() -> None:
    foreign: Json = {"extension": "https://example.org/cache", "type": "x"}
    found = split_transformers([entry(), foreign, entry()], 2, old=False)
    assert found.shards == ((2, 2),)
    assert [other.name for other in found.others] == ["https://example.org/cache", str(entry()["extension"])]


@pytest.mark.rule("D85", "K21")
@pytest.mark.parametrize(
    "change",
    [
        {"index_location": "start"},
        {"index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]},
        {"index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]},
    ],
)
def test_shards_that_no_transformer_makes(change: dict[str, Json]) -> None:
    chain, grid = chain_with_shards(CHAIN, (3, 4), [(2, 2)])
    other = Extension("sharding_indexed", {**chain[0].configuration, **change})
    with pytest.raises(MetadataError, match="index at the end"):
        without_shards([other], grid.chunk_shape)
    with pytest.raises(MetadataError, match="before or behind"):
        without_shards([*chain, Extension("gzip", {"level": 1})], grid.chunk_shape)


@pytest.mark.parametrize("inner", [[2], [2, 2, 2], []])
def test_inner_chunks_of_another_rank(inner: list[Json]) -> None:
    chain, grid = chain_with_shards(CHAIN, (3, 4), [(2, 2)])
    other = Extension("sharding_indexed", {**chain[0].configuration, "chunk_shape": inner})
    with pytest.raises(MetadataError) as caught:
        without_shards([other], grid.chunk_shape)
    assert caught.value.path == "codecs[0].configuration.chunk_shape"
