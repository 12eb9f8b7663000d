"""The extension points of the entry point (draft of 2022, Extensions): generic extensions and metadata encodings, each registered by a user and used, and what
happens to unknown ones. The extensions themselves are in user_extensions.py."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import frazil
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MetadataError,
    UnknownExtensionError,
)
from frazil.stores import MemoryStore, Store
from tests.conformance.draft.points import (
    JSON_ENCODING,
    UNKNOWN,
    VALUES,
    document,
    entry_point,
    got,
    one,
    put,
    refused,
    works,
)
from tests.conformance.draft.user_extensions import (
    FOLDER,
    PACKED,
    REGISTRY,
    unpack,
)

PACKED_ENCODING = {"extension": PACKED, "type": "packed", "metadata_key_suffix": ".bin"}


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else frazil.stores.LocalStore(tmp_path / "a.zr3")


# --- generic extensions of the hierarchy -----------------------------------------------------------------------------------------------


FOLDERED = {"extension": FOLDER, "must_understand": True, "configuration": {"name": "all"}}


@pytest.mark.rule("D37", "D38")
def test_a_generic_extension_of_the_hierarchy(store: Store) -> None:
    put(store, "zarr.json", entry_point(extensions=[FOLDERED]))
    frazil.create_array(store, path="g/x", shape=(6, 8), dtype="i4", chunks=(4, 4), fill_value=0, registry=REGISTRY)
    works(store, "g/x")
    root = frazil.open_group(store, "r+", registry=REGISTRY)
    root.create_group("h", attributes={"k": 1})
    for handle in (root, pickle.loads(pickle.dumps(root))):
        assert [path for path, _ in handle.members(max_depth=None)] == ["g", "g/x", "h"]
    assert {key.split("/")[0] for key in store.list()} == {"all", "zarr.json"}
    assert {"all/data/g/x/c0/0", "all/meta/h.group.json"} <= set(store.list())
    del root["g"]
    assert store.list() == ["all/meta/h.group.json", "zarr.json"]
    assert got(store, "zarr.json") == entry_point(extensions=[FOLDERED])


@pytest.mark.rule("D37")
def test_a_hierarchy_is_created_with_an_extension(store: Store) -> None:
    root = frazil.create_group(store, zarr_format="draft", entry_point={"extensions": [FOLDERED]}, registry=REGISTRY)
    root.create_array("x", shape=(6, 8), dtype="i4", chunks=(4, 4))
    works(store)
    assert {key.split("/")[0] for key in store.list()} == {"all", "zarr.json"}
    assert got(store, "zarr.json") == entry_point(extensions=[FOLDERED])


@pytest.mark.rule("D38")
def test_an_unknown_extension_of_the_hierarchy(store: Store) -> None:
    ignored = {"extension": UNKNOWN, "must_understand": False, "configuration": {"foo": "bar"}}
    put(store, "zarr.json", entry_point(extensions=[ignored]))
    put(store, "meta/x.array.json", document())
    works(store)
    frazil.create_array(store, path="y", shape=1, dtype="u1")
    assert got(store, "zarr.json") == entry_point(extensions=[ignored]), "and it is kept"
    put(store, "zarr.json", entry_point(extensions=[ignored, FOLDERED]))
    error = refused(store)
    assert (error.key, error.path) == ("zarr.json", "extensions[1]")
    assert FOLDER in str(error)
    assert "must_understand" in str(error)
    assert "with_hierarchy_extension" in (error.hint or "")
    with pytest.raises(UnknownExtensionError):
        frazil.create_array(store, path="z", shape=1, dtype="u1")
    with pytest.raises(UnknownExtensionError):
        frazil.create_group(store, zarr_format="draft", entry_point={"extensions": [FOLDERED]}, overwrite=True)
    assert store.get("meta/x.array.json") is not None


@pytest.mark.rule("D37")
def test_wrong_results_of_hierarchy_extensions_are_refused() -> None:
    store = MemoryStore()
    put(store, "zarr.json", entry_point(extensions=[FOLDERED]))
    with pytest.raises(InvalidInputError, match="made int, which is not a store"):
        frazil.open(store, registry=REGISTRY.with_hierarchy_extension(FOLDER, lambda entry, store: 1))


@pytest.mark.rule("D37", "D45")
@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ([{"must_understand": False}], "extensions[0].extension"),
        ([{"extension": UNKNOWN}], "extensions[0].must_understand"),
        ([{"extension": UNKNOWN, "must_understand": "false"}], "extensions[0].must_understand"),
        ([{"extension": "foo", "must_understand": False}], "extensions[0].extension"),
        ([{"extension": UNKNOWN, "must_understand": False, "configuration": []}], "extensions[0].configuration"),
        ([{"extension": UNKNOWN, "must_understand": False, "more": 1}], "extensions[0].more"),
        ([UNKNOWN], "extensions[0]"),
        ({}, "extensions"),
        (None, "extensions"),
    ],
)
def test_entries_of_another_form(entry: object, path: str) -> None:
    store = MemoryStore()
    one(store, extensions=entry)
    assert refused(store, MetadataError).path == path
    put(store, "meta/x.array.json", document())
    put(store, "zarr.json", entry_point(extensions=entry))
    error = refused(store, MetadataError)
    assert (error.key, error.path) == ("zarr.json", path)


# --- metadata encoding -----------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D36", "D39")
@pytest.mark.parametrize("by_hand", [True, False])
def test_a_metadata_encoding(store: Store, by_hand: bool) -> None:
    if by_hand:
        put(store, "zarr.json", entry_point(metadata_encoding=PACKED_ENCODING))
        root = frazil.create_group(store, registry=REGISTRY, attributes={"title": "t", "scale": 0.5, "none": None})
    else:
        root = frazil.create_group(
            store,
            zarr_format="draft",
            attributes={"title": "t", "scale": 0.5, "none": None},
            entry_point={"metadata_encoding": PACKED_ENCODING},
            registry=REGISTRY,
        )
    root.create_array("g/x", shape=(6, 8), dtype="i4", chunks=(2, 4), shards=(4, 8), explicit_groups=True)
    array = frazil.open_array(store, "r+", path="g/x", registry=REGISTRY)
    array[...] = VALUES
    array.attrs["deep"] = {"flag": True, "list": [1, -2, "ä"], "nothing": None}
    array.resize((7, 8))
    documents = [key for key in store.list() if key.startswith("meta/")]
    assert documents == ["meta/g.group.bin", "meta/g/x.array.bin", "meta/group.bin"]
    for key in documents:
        assert (store.get(key) or b"").startswith(b"PACK")
    assert unpack(store.get("meta/group.bin") or b"", 4)[0] == {
        "attributes": {"title": "t", "scale": 0.5, "none": None}
    }
    assert got(store, "zarr.json") == entry_point(metadata_encoding=PACKED_ENCODING), "which is JSON all the same"
    again = pickle.loads(pickle.dumps(frazil.open(store, registry=REGISTRY)))
    assert isinstance(again, frazil.Group)
    assert dict(again.attrs) == {"title": "t", "scale": 0.5, "none": None}
    assert [path for path, _ in again.members(max_depth=None)] == ["g", "g/x"]
    found = again["g/x"]
    assert isinstance(found, frazil.Array)
    assert found.metadata == array.metadata
    assert found[:6].tolist() == VALUES.tolist()
    assert found.attrs["deep"] == {"flag": True, "list": [1, -2, "ä"], "nothing": None}
    del root["g"]
    assert list(root) == []


@pytest.mark.rule("D36")
def test_an_unknown_metadata_encoding() -> None:
    store = MemoryStore()
    put(store, "zarr.json", entry_point(metadata_encoding=PACKED_ENCODING))
    error = refused(store, path="")
    assert (error.key, error.path) == ("zarr.json", "metadata_encoding")
    assert PACKED in str(error)
    assert "with_metadata_encoding" in (error.hint or "")
    for arguments in ({"overwrite": True}, {"path": "g"}):
        with pytest.raises(UnknownExtensionError):
            frazil.create_group(store, **arguments)  # type: ignore[arg-type]
    frazil.create_group(store, zarr_format="draft", overwrite=True)
    assert store.list() == ["meta/group.json", "zarr.json"], "who names the format wants what is there replaced"


@pytest.mark.rule("D36")
@pytest.mark.parametrize(
    ("encoding", "path"),
    [
        ({"type": "json"}, "metadata_encoding.metadata_key_suffix"),
        ({"metadata_key_suffix": ".json"}, "metadata_encoding.type"),
        ({"type": "json", "metadata_key_suffix": ".js"}, "metadata_encoding.metadata_key_suffix"),
        ({"type": "yaml", "metadata_key_suffix": ".json"}, "metadata_encoding.type"),
        ({"type": "json", "metadata_key_suffix": ".json", "indent": 4}, "metadata_encoding.indent"),
        ({"extension": "packed", "type": "packed", "metadata_key_suffix": ".bin"}, "metadata_encoding.extension"),
        ({"extension": PACKED, "metadata_key_suffix": ".bin"}, "metadata_encoding.type"),
        ({"extension": PACKED, "type": 1, "metadata_key_suffix": ".bin"}, "metadata_encoding.type"),
        ({"extension": PACKED, "type": "packed"}, "metadata_encoding.metadata_key_suffix"),
        (
            {"extension": PACKED, "type": "packed", "metadata_key_suffix": "/bin"},
            "metadata_encoding.metadata_key_suffix",
        ),
        (None, "metadata_encoding"),
        ([], "metadata_encoding"),
    ],
)
def test_encodings_of_another_form(encoding: object, path: str) -> None:
    store = MemoryStore()
    put(store, "zarr.json", entry_point(metadata_encoding=encoding))
    with pytest.raises(MetadataError) as caught:
        frazil.open(store, registry=REGISTRY)
    assert (caught.value.key, caught.value.path) == ("zarr.json", path)


@pytest.mark.rule("D36")
def test_errors_of_an_encoding_of_the_user_name_the_key() -> None:
    store = MemoryStore()
    root = frazil.create_group(
        store, zarr_format="draft", entry_point={"metadata_encoding": PACKED_ENCODING}, registry=REGISTRY
    )
    for value, words in ((b"JSON", "begins with PACK"), (b"PACK", "failed with ")):
        store.set("meta/x.array.bin", value)
        with pytest.raises(MetadataError, match=words) as caught:
            root["x"]
        assert caught.value.key == "meta/x.array.bin"
    store.set("meta/x.array.bin", b"PACKn")
    with pytest.raises(MetadataError, match="the document must be an object"):
        root["x"]
    for kind, words in ((Broken, "TypeError"), (Silent, "NoneType instead of bytes")):
        registry = REGISTRY.with_metadata_encoding(PACKED, kind)
        with pytest.raises(MetadataError, match=words):
            frazil.open_group(store, "r+", registry=registry).create_group("y")


class Broken:
    def __init__(self, entry: object) -> None:
        pass

    def encode(self, document: object) -> bytes:
        raise TypeError("no")

    def decode(self, value: bytes) -> None:
        return unpack(value, 4)[0]  # type: ignore[return-value]


class Silent(Broken):
    def encode(self, document: object) -> bytes:
        return None  # type: ignore[return-value]


@pytest.mark.rule("D36")
def test_dialects_with_an_entry_point() -> None:
    requested = {"metadata_encoding": PACKED_ENCODING}
    store = MemoryStore()
    for zarr_format in (None, 3, "draft-2021"):
        with pytest.raises(InvalidInputError):
            frazil.create_group(store, zarr_format=zarr_format, entry_point=requested, registry=REGISTRY)
    with pytest.raises(MetadataError, match="more is not known"):
        frazil.create_group(store, zarr_format="draft", entry_point={"more": 1})
    assert store.list() == []
    frazil.create_group(store, zarr_format="draft", entry_point=requested, registry=REGISTRY)
    frazil.create_group(store, path="a", zarr_format="draft", entry_point=requested, registry=REGISTRY)
    frazil.open_group(store, "a", path="b", zarr_format="draft", entry_point=requested, registry=REGISTRY)
    with pytest.raises(InvalidInputError, match="another metadata_encoding"):
        frazil.create_group(store, path="c", entry_point={"metadata_encoding": JSON_ENCODING}, registry=REGISTRY)
    with pytest.raises(AlreadyExistsError):
        frazil.create_group(store, zarr_format="draft", entry_point=requested, registry=REGISTRY)
    assert list(frazil.open_group(store, registry=REGISTRY)) == ["a", "b"]
    frazil.create_group(
        store,
        zarr_format="draft",
        entry_point={"metadata_encoding": JSON_ENCODING},
        registry=REGISTRY,
        overwrite=True,
    )
    assert store.list() == ["meta/group.json", "zarr.json"]
    ignored = [{"extension": UNKNOWN, "must_understand": False}]
    frazil.open_group(store, "w", zarr_format="draft-2021", entry_point={"extensions": ignored})
    assert got(store, "zarr.json")["extensions"] == ignored
    assert store.list() == ["meta/root.group.json", "zarr.json"]
