"""Written documents of the 2022 draft: their content, and what they cannot express."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.draft_arrays import ATTRIBUTES, array_document, read, read_array, without, written
from tests.metadata.refusals import refused

from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.metadata.registry import CORE_EXTENSIONS

INT32 = CORE_EXTENSIONS.data_type(Extension("int32"))
LITTLE = Extension("bytes", {"endian": "little"})
GZIP = Extension("gzip", {"level": 1})
FILTERS: list[Json] = [{"id": "delta", "dtype": "<i4", "astype": "<i4"}]


def array(**changes: object) -> ArrayMetadata:
    fields: dict[str, object] = {
        "shape": (10, 20),
        "data_type": INT32,
        "fill_value": INT32.fill_from_user(1),
        "chunk_grid": RegularGrid((5, 4)),
        "chunk_key_encoding": DraftKeys("/"),
        "codecs": [LITTLE],
        "attributes": {"foo": 42},
        "zarr_format": "draft",
    }
    return ArrayMetadata(**{**fields, **changes})  # type: ignore[arg-type]


def sharded(**changes: object) -> Extension:
    configuration: dict[str, object] = {
        "chunk_shape": [5, 4],
        "codecs": [LITTLE.to_json()],
        "index_codecs": [LITTLE.to_json()],
    }
    return Extension("sharding_indexed", {**configuration, **changes})


@pytest.mark.rule("D53", "X7", "X14")
def test_a_new_document_has_all_members_and_no_more() -> None:
    assert written(array(), old=False) == array_document()
    assert list(written(array(codecs=[LITTLE, GZIP]), old=False)) == [*array_document(), "codecs"]
    old = written(array(codecs=[LITTLE, GZIP], chunk_key_encoding=DraftKeys("/", old=True)), old=True)
    assert list(old) == [*array_document(), "compressor"]
    assert old["data_type"] == "<i4"


@pytest.mark.rule("X4a", "X4b", "X2", "Z11")
def test_differences_between_the_dialects() -> None:
    big = Extension("bytes", {"endian": "big"})
    metadata = array(codecs=[sharded(codecs=[big.to_json(), GZIP.to_json()])], chunk_grid=RegularGrid((10, 8)))
    new, old = written(metadata, old=False), written(metadata, old=True)
    assert (new["data_type"], old["data_type"]) == ("int32", ">i4")
    assert [entry["type"] for entry in new["codecs"]] == [  # type: ignore[index, union-attr, call-overload]
        "https://purl.org/zarr/spec/codecs/endian/1.0",
        "https://purl.org/zarr/spec/codecs/gzip/1.0",
    ]
    assert old["compressor"] == {"codec": "https://purl.org/zarr/spec/codec/gzip/1.0", "configuration": {"level": 1}}
    transformer = {"type": "indexed", "configuration": {"chunks_per_shard": [2, 2]}}
    base = "https://purl.org/zarr/spec"
    assert new["storage_transformers"] == [
        {"extension": f"{base}/extensions/storage_transformers/sharding/1.0", **transformer}
    ]
    assert old["storage_transformers"] == [{"extension": f"{base}/storage_transformers/sharding/1.0", **transformer}]
    assert new["chunk_grid"] == old["chunk_grid"] == array_document()["chunk_grid"], "that of the chunks in the shards"


@pytest.mark.rule("D48")
def test_foreign_transformers_stand_behind_the_shards() -> None:
    other = Extension("https://e.org/x", {"type": "t", "configuration": {"a": 1}})
    document = written(
        array(codecs=[sharded()], chunk_grid=RegularGrid((10, 8)), storage_transformers=[other]), old=False
    )
    entries = document["storage_transformers"]
    assert isinstance(entries, list)
    assert entries[1] == {"extension": "https://e.org/x", "type": "t", "configuration": {"a": 1}}
    assert read_array(document).storage_transformers == (other,)


@pytest.mark.rule("K11", "K13", "K3", "K5", "K21", "K22", "D49")
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"dimension_names": ("y", None)}, "dimension_names", "no members but its own"),
        ({"unknown": {"more": {"must_understand": False}}}, "more", "no members but its own"),
        ({"chunk_key_encoding": DefaultKeys("/")}, "chunk_key_encoding", "chunk keys of its own, not default"),
        ({"codecs": [Extension("transpose", {"order": [1, 0]}), sharded()]}, "codecs", "before or behind"),
        ({"codecs": [sharded(), GZIP]}, "codecs", "before or behind"),
        ({"codecs": [sharded(index_location="start")]}, "codecs[0].configuration", "index at the end"),
        (
            {"codecs": [sharded(index_codecs=[LITTLE.to_json(), {"name": "crc32c"}])]},
            "codecs[0].configuration",
            "without a checksum",
        ),
        ({"codecs": [LITTLE, Extension("transpose", {"order": [1, 0]})]}, "codecs[1]", "first in the chain"),
    ],
)
def test_inexpressible_metadata_is_refused(old: bool, changes: dict[str, object], path: str, words: str) -> None:
    with refused(path, words):
        written(array(**{"chunk_grid": RegularGrid((10, 8)), **changes}), old=old)


@pytest.mark.rule("K24", "D50")
def test_groups() -> None:
    assert written(GroupMetadata(attributes={"a": 1}), old=False) == {"attributes": {"a": 1}}
    with refused("consolidated_metadata", "only attributes"):
        written(GroupMetadata(consolidated={"kind": "inline"}), old=False)


@pytest.mark.parametrize("old", [False, True])
@given(ATTRIBUTES)
def test_attributes_of_groups(old: bool, attributes: dict[str, Json]) -> None:
    metadata = GroupMetadata(attributes=attributes, zarr_format="draft-2021" if old else "draft")
    assert read(written(metadata, old=old), array=False, old=old) == metadata


@pytest.mark.rule("Z6")
def test_filters_stay_when_attributes_change() -> None:
    document = array_document(data_type="<i4", attributes={"foo": 42, "filters": FILTERS})
    metadata = read_array(document, old=True)
    assert metadata.attributes == {"foo": 42}
    changed = written(metadata.with_attributes({"bar": 1}), old=True)
    assert changed == {**document, "attributes": {"bar": 1, "filters": FILTERS}}
    assert read_array(changed, old=True).codecs == metadata.codecs
    assert read_array(array_document(attributes={"filters": FILTERS})).attributes == {"filters": FILTERS}, (
        "in December 2022 the name is the user's"
    )


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_document_that_was_read_is_written_with_its_own_words(rows: int, columns: int) -> None:
    http = "http://purl.org/zarr/spec/storage-transformers/sharding/1.0"
    document = array_document(
        data_type="<i4",
        codecs=[{"type": "http://purl.org/zarr/spec/codec/gzip", "configuration": {"level": 1}}],
        storage_transformers=[{"extension": http, "type": "indexed", "configuration": {"chunks_per_shard": [2, 2]}}],
    )
    assert written(read_array(document).with_shape((rows, columns)), old=False) == {
        **document,
        "shape": [rows, columns],
    }


@pytest.mark.rule("D53", "X6", "X7", "X14")
@pytest.mark.parametrize("old", [False, True])
def test_defaults_are_written_out(old: bool) -> None:
    grid: dict[str, object] = {"type": "regular", "chunk_shape": [5, 4]}
    document = without(array_document(data_type="<i4", chunk_grid=grid, fill_value=None), "extensions")
    assert written(read_array(document, old=old), old=old) == {
        **document,
        "chunk_grid": {**grid, "separator": "/"},
        "fill_value": 0,
        "extensions": [],
    }
