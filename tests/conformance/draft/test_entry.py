"""The entry point zarr.json, rule by rule: which dialect it defines, and what is refused (docs/conformance/zarr-draft.md)."""

from __future__ import annotations

import json

import pytest

import frazil
from frazil.errors import MetadataError, UnknownExtensionError
from tests.conformance.draft.documents import (
    CORE,
    ENTRY,
    JSON_ENCODING,
    MISSING,
    OLD_CORE,
    OLD_ENTRY,
    array,
    changed,
    codec,
    document,
    extension_type,
    hierarchy,
    old,
    one,
    opened,
    refusal,
    sharding,
)

LATER = {"zarr_format": CORE.replace("3.0", "3.7")}
EXTENSION = {
    "extension": "https://example.org/zarr/extension/foo",
    "must_understand": False,
    "configuration": {"foo": 1},
}


def refused_entry(**change: object) -> str | None:
    """The member that the error names when an array is opened; the same as for the root."""
    store = one(array(), entry=changed(ENTRY, change))
    named = refusal(store).path
    assert refusal(store, path="").path == named
    return named


def accepts(entry: object) -> bool:
    """Whether an array of the strict dialect is read under this entry point."""
    return opened(one(array(), {"c0": b"\1\2"}, entry))[...].tolist() == [1, 2, 0, 0]


@pytest.mark.rule("D34", "D39")
@pytest.mark.parametrize("text", [b"", b"[]", b"3", b'"x"', b"null", b"{", b"\xff", b'{"zarr_format": 3,}', b"{} {}"])
def test_the_entry_point_is_one_json_object(text: bytes) -> None:
    error = refusal(one(array(), entry=text))
    assert isinstance(error, MetadataError)
    assert error.key == "zarr.json"


@pytest.mark.rule("D34", "D71")
def test_every_hierarchy_that_is_made_has_an_entry_point() -> None:
    store = hierarchy(entry=MISSING)
    frazil.create_array(store, path="x/y", shape=3, dtype="u1", zarr_format="draft")
    assert document(store, "zarr.json") == ENTRY
    store = hierarchy(entry=MISSING)
    frazil.create_array(store, path="x/y", shape=3, dtype="u1", zarr_format="draft-2021")
    assert document(store, "zarr.json") == OLD_ENTRY


@pytest.mark.rule("D35", "X4c")
def test_zarr_format() -> None:
    assert accepts(ENTRY)
    assert accepts(changed(ENTRY, {"zarr_format": OLD_CORE}))
    for value in (
        "https://purl.org/zarr/spec/core/2.0",
        "https://purl.org/zarr/spec/core/4.0",
        "https://purl.org/zarr/spec/core/",
        "https://example.org/zarr/spec/core/3.0",
        "3.0",
        "",
        None,
        [CORE],
    ):
        assert refused_entry(zarr_format=value) == "zarr_format", value


@pytest.mark.rule("D4", "D35", "X8")
def test_later_minor_versions_may_have_more_members() -> None:
    assert accepts(changed(ENTRY, {**LATER, "more": {"a": 1}}))
    assert refused_entry(more={"a": 1}) == "more"
    assert refused_entry(more={"must_understand": False}) == "more"


@pytest.mark.rule("D4", "X8")
def test_documents_of_a_later_minor_version_may_have_more_members() -> None:
    """In every object that the core defines: the array, its grid, data type, codecs, storage transformers and extensions, and groups."""
    entry = changed(ENTRY, LATER)
    more = {"since": "3.7", "must_understand": True}
    grid = {"type": "regular", "chunk_shape": [2], "separator": "/"}
    unknown = {"extension": "https://example.org/x", "must_understand": False}
    fancy = extension_type("string", "S1")
    for change in (
        more,
        {"chunk_grid": {**grid, **more}},
        {"codecs": [{**codec("gzip", level=1), **more}]},
        {"storage_transformers": [{**sharding([2]), **more}]},
        {"extensions": [{**unknown, **more, "must_understand": False}]},
        {"data_type": {**fancy, **more}, "fill_value": ""},
    ):
        made = array(**change)
        assert refusal(one(made)) is not None, "in version 3.0"
        store = one(made, entry=entry)
        read = opened(store, mode="r+")
        read[...] = read[...]
        read.attrs["a"] = 1
        assert document(store) == {**made, "attributes": {"a": 1}}, "what is not known is kept"
    group = hierarchy({"meta/g.group.json": {"attributes": {"a": 1}, **more}}, entry)
    found = frazil.open_group(group, "r+", path="g")
    assert dict(found.attrs) == {"a": 1}
    found.attrs["a"] = 2
    assert document(group, "meta/g.group.json") == {"attributes": {"a": 2}, **more}


@pytest.mark.rule("D4")
def test_a_later_minor_version_is_refused_where_something_of_it_has_to_be_known() -> None:
    """Its extensions, codecs, data types, grids and transformers must be known, as in 3.0."""
    entry = changed(ENTRY, LATER)
    assert opened(one(array(), {"c0": b"\1\2"}, entry))[...].tolist() == [1, 2, 0, 0]
    nobody = "https://example.org/nobody"
    for change in (
        {"codecs": [{"type": nobody}]},
        {"extensions": [{"extension": nobody, "must_understand": True}]},
        {"data_type": {"extension": nobody, "type": "x"}},
        {"chunk_grid": {"extension": nobody, "type": "x"}},
        {"chunk_memory_layout": {"extension": nobody, "type": "x"}},
        {"storage_transformers": [{"extension": nobody, "type": "x"}]},
    ):
        store = one(array(**change), entry=entry)
        with pytest.raises(UnknownExtensionError):
            opened(store)
    required = changed(entry, {"extensions": [{"extension": nobody, "must_understand": True}]})
    with pytest.raises(UnknownExtensionError):
        opened(one(array(), entry=required))
    for major in ("2.0", "4.0"):
        assert refused_entry(zarr_format=CORE.replace("3.0", major)) == "zarr_format"


@pytest.mark.rule("X8")
def test_a_later_minor_version_of_the_core_does_not_change_configurations() -> None:
    """Codecs and transformers define them, and have their own versions."""
    entry = changed(ENTRY, LATER)
    transformer = sharding([2], configuration={"chunks_per_shard": [2], "index_location": "start"})
    for change in ({"codecs": [codec("gzip", level=1, more=1)]}, {"storage_transformers": [transformer]}):
        assert refusal(one(array(**change), entry=entry)).path is not None


@pytest.mark.rule("D36")
def test_metadata_encoding() -> None:
    for value, member in (
        ({"type": "json"}, "metadata_encoding.metadata_key_suffix"),
        ({"metadata_key_suffix": ".json"}, "metadata_encoding.type"),
        ({"type": "json", "metadata_key_suffix": 1}, "metadata_encoding.metadata_key_suffix"),
        ({"type": 1, "metadata_key_suffix": ".json"}, "metadata_encoding.type"),
        ({**JSON_ENCODING, "more": 1}, "metadata_encoding.more"),
        ([], "metadata_encoding"),
        (None, "metadata_encoding"),
        (3, "metadata_encoding"),
    ):
        assert refused_entry(metadata_encoding=value) == member, value
    for value in (
        {"type": "xml", "metadata_key_suffix": ".xml"},
        {"extension": "https://example.org/encoding", "type": "xml", "metadata_key_suffix": ".xml"},
    ):
        error = refusal(one(array(), entry=changed(ENTRY, {"metadata_encoding": value})))
        assert str(error.path).startswith("metadata_encoding")
    assert isinstance(error, UnknownExtensionError)


@pytest.mark.rule("D37", "D40")
def test_extensions_are_objects() -> None:
    for value, member in (
        ({}, "extensions"),
        (None, "extensions"),
        (["x"], "extensions[0]"),
        ([{"must_understand": False}], "extensions[0].extension"),
        ([{"extension": "https://example.org/x"}], "extensions[0].must_understand"),
        ([{**EXTENSION, "must_understand": 0}], "extensions[0].must_understand"),
        ([{**EXTENSION, "must_understand": "false"}], "extensions[0].must_understand"),
        ([{**EXTENSION, "extension": 1}], "extensions[0].extension"),
        ([EXTENSION, {**EXTENSION, "more": 1}], "extensions[1].more"),
    ):
        assert refused_entry(extensions=value) == member, value


@pytest.mark.rule("D38")
def test_unknown_extensions() -> None:
    assert accepts(changed(ENTRY, {"extensions": [EXTENSION, EXTENSION]}))
    required = changed(ENTRY, {"extensions": [EXTENSION, {**EXTENSION, "must_understand": True}]})
    error = refusal(one(array(), entry=required))
    assert isinstance(error, UnknownExtensionError)
    assert str(error.path).startswith("extensions[1]")
    assert EXTENSION["extension"] in error.message


@pytest.mark.rule("D40")
@pytest.mark.parametrize("member", sorted(ENTRY))
def test_all_members_are_required(member: str) -> None:
    assert refused_entry(**{member: MISSING}) == member


@pytest.mark.rule("X1")
def test_the_form_of_metadata_encoding_decides_where_nodes_lie() -> None:
    """Existing nodes do not count: a node may be named root in both dialects."""
    strict, older = array(fill_value=1), array(fill_value=2)
    keys = {
        "meta/root.array.json": strict,
        "meta/root/root.array.json": older,
        "data/root/c0": b"\1\1",
        "data/root/root/c0": b"\2\2",
    }
    assert frazil.open_array(hierarchy(keys), path="root")[...].tolist() == [1, 1, 1, 1]
    assert frazil.open_array(hierarchy(keys, OLD_ENTRY), path="root")[...].tolist() == [2, 2, 2, 2]


@pytest.mark.rule("X1", "X15")
@pytest.mark.parametrize(
    ("dialect", "keys"),
    [
        ("draft", ["data/c0", "meta/array.json", "zarr.json"]),
        ("draft-2021", ["data/root/c0", "meta/root.array.json", "zarr.json"]),
    ],
)
def test_keys_of_the_root_in_each_dialect(dialect: str, keys: list[str]) -> None:
    store = hierarchy(entry=MISSING)
    frazil.create_array(store, shape=2, dtype="u1", chunks=2, zarr_format=dialect)[...] = [1, 2]
    assert store.list() == keys
    assert frazil.open(store)[...].tolist() == [1, 2]


@pytest.mark.rule("X5", "Z1")
def test_the_older_forms_of_metadata_encoding() -> None:
    """Text, with or without a custom suffix. Those with a media type are in test_writers.py."""
    for entry in (
        OLD_ENTRY,
        changed(OLD_ENTRY, {"zarr_format": CORE}),
        changed(OLD_ENTRY, {"metadata_key_suffix": MISSING, "extensions": MISSING}),
    ):
        store = old(array(data_type="<u2", extensions=MISSING), {"c0": b"\1\0\2\0"}, entry)
        assert opened(store)[...].tolist() == [1, 2, 0, 0], entry
    store = old(array(), entry=changed(OLD_ENTRY, {"metadata_key_suffix": ".txt"}))
    store.set("meta/root/a.array.txt", store.get("meta/root/a.array.json") or b"")
    store.erase("meta/root/a.array.json")
    assert opened(store)[...].tolist() == [0, 0, 0, 0]


@pytest.mark.rule("X24")
def test_a_comma_too_many_is_no_json() -> None:
    """As in the document's own example of a group."""
    store = hierarchy({"meta/g.group.json": '{"attributes": {"spam": "ham", "eggs": 42,}}'})
    error = refusal(store, path="g")
    assert error.key == "meta/g.group.json"
    for text in ("", "[]", "null", "NaN", '{"shape": [1]', b"\xff\xfe"):
        assert refusal(one(text)).key == "meta/a.array.json"


def test_a_number_is_the_final_format() -> None:
    store = hierarchy(entry={"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}})
    assert dict(frazil.open_group(store).attrs) == {"a": 1}
    store.set("zarr.json", json.dumps({**ENTRY, "zarr_format": 3}).encode())
    with pytest.raises(MetadataError):
        frazil.open(store)
