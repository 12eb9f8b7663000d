"""Nodes: names, keys, groups with and without documents, and the operations on them (docs/conformance/zarr-draft.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NotFoundError, StoreError
from frazil.metadata.draft import layout as draft_layout
from frazil.metadata.json_text import NonFinite
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.values import Capabilities
from frazil.stores.wrappers import WrappedStore
from frazil.testing import CountingStore
from tests.conformance.draft.documents import (
    ENTRY,
    MISSING,
    OLD_ENTRY,
    array,
    contents,
    document,
    hierarchy,
    one,
    opened,
    refusal,
)

GROUP = {"attributes": {"spam": "ham", "eggs": 42}}
DIALECTS = ["draft", "draft-2021"]


def tree() -> MemoryStore:
    """/foo/bar, a group with a document; /foo/baz/qux, an array below groups that have none."""
    return hierarchy(
        {"meta/foo/bar.group.json": GROUP, "meta/foo/baz/qux.array.json": array(), "data/foo/baz/qux/c1": b"\1\2"}
    )


def paths(store: MemoryStore, path: str = "") -> dict[str, str]:
    members = frazil.open_group(store, path=path).members(max_depth=None)
    return {name: type(node).__name__.lower() for name, node in members}


@pytest.mark.rule("D1")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_arrays_have_no_children(dialect: str) -> None:
    store = MemoryStore()
    group = frazil.create_group(store, zarr_format=dialect)
    group.create_array("a", data=np.arange(3))
    before = contents(store)
    for create in (
        lambda: group.create_array("a/b", data=np.arange(3)),
        lambda: group.create_group("a/b"),
        lambda: group.create_array("a/b/c", data=np.arange(3)),
        lambda: frazil.create_array(store, path="a/x", shape=1, dtype="u1"),
    ):
        with pytest.raises(InvalidInputError, match="arrays have no children"):
            create()
    assert contents(store) == before


@pytest.mark.rule("D2")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_path_has_one_node(dialect: str) -> None:
    store = MemoryStore()
    group = frazil.create_group(store, zarr_format=dialect)
    group.create_array("a", data=np.arange(3))
    group.create_group("g")
    group.create_array("implied/below", data=np.arange(3))
    before = contents(store)
    for path in ("a", "g", "implied"):
        with pytest.raises(AlreadyExistsError):
            group.create_array(path, data=np.arange(2))
    for path in ("a", "g"):
        with pytest.raises(AlreadyExistsError):
            group.create_group(path)
    assert contents(store) == before


@pytest.mark.rule("D2", "D75")
def test_an_array_precedes_a_group_at_the_same_path() -> None:
    store = hierarchy({"meta/a.array.json": array(), "meta/a.group.json": GROUP})
    assert isinstance(frazil.open(store, path="a"), frazil.Array)
    assert paths(store) == {"a": "array"}


@pytest.mark.rule("D3", "D6")
def test_paths() -> None:
    store = tree()
    for path in ("foo/baz/qux", "/foo/baz/qux", "foo/baz/qux/", "/foo/baz/qux/", "//foo//baz/qux//"):
        assert frazil.open(store, path=path).path == "foo/baz/qux"
        assert frazil.open_group(store)[path].basename == "qux"
    for path in ("", "/", "//"):
        root = frazil.open(store, path=path)
        assert (root.path, root.basename) == ("", "")
    before = contents(store)
    for path in ("foo/./baz", "foo/../foo", "//.//foo"):
        with pytest.raises(InvalidInputError):
            frazil.open(store, path=path)
        with pytest.raises(InvalidInputError):
            frazil.create_group(store, path=path)
    assert contents(store) == before
    for path in ("/new/x", "new/y/"):
        made = frazil.create_array(store, path=path, shape=1, dtype="u1")
        assert made.path == path.strip("/")
        assert store.exists(f"meta/{path.strip('/')}.array.json"), "one node, however its path is written"


@pytest.mark.rule("D5")
def test_a_hierarchy_is_opened_at_its_root(tmp_path: Path) -> None:
    folder = LocalStore(tmp_path / "h.zr3")
    for key, value in contents(tree()).items():
        folder.set(key, value)
    assert frazil.open_array(tmp_path / "h.zr3", path="foo/baz/qux")[...].tolist() == [0, 0, 1, 2]
    assert isinstance(frazil.open(tmp_path / "h.zr3")["foo"]["baz"]["qux"], frazil.Array)
    for inner in ("meta", "data", "meta/foo"):
        with pytest.raises(FrazilError):
            frazil.open(tmp_path / "h.zr3" / inner)
    store = one(array())
    store.erase("zarr.json")
    for path in ("", "a"):
        with pytest.raises(NotFoundError):
            frazil.open(store, path=path)


@pytest.mark.rule("D7", "D9")
@pytest.mark.parametrize(
    "name",
    [
        "a",
        "0",
        "-",
        "_",
        "a.b",
        ".a",
        "a-b_c.d",
        "__x",
        "zarr.json",
        "c0",
        "root",
        "x.array",
        "x.group",
        "meta",
        "data",
        "n" * 300,
    ],
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_names(name: str, dialect: str) -> None:
    store = MemoryStore()
    group = frazil.create_group(store, zarr_format=dialect)
    group.create_array(name, data=np.arange(3))
    group.create_array(f"g/{name}/{name}", data=np.arange(2))
    assert sorted(paths(store)) == sorted([name, "g", f"g/{name}", f"g/{name}/{name}"])
    assert group[name][...].tolist() == [0, 1, 2]
    assert frazil.open_array(store, path=f"g/{name}/{name}")[...].tolist() == [0, 1]


@pytest.mark.rule("D7")
@pytest.mark.parametrize("name", [".", "..", "...", "a b", "ä", "a:b", "a*", "a\\b", "a\n", "a\0", "~", "a+b", "日本"])
def test_invalid_names_are_refused(name: str) -> None:
    store = MemoryStore()
    group = frazil.create_group(store, zarr_format="draft")
    before = contents(store)
    for create in (group.create_group, lambda path: group.create_array(path, data=np.arange(3))):
        for path in (name, f"{name}/x", f"x/{name}", f"x/{name}/y"):
            with pytest.raises(InvalidInputError):
                create(path)
    assert contents(store) == before


@pytest.mark.rule("D8")
def test_case_counts() -> None:
    store = hierarchy({"meta/foo.array.json": array(fill_value=1), "meta/FOO.array.json": array(fill_value=2)})
    assert frazil.open_array(store, path="foo")[0] == 1
    assert frazil.open_array(store, path="FOO")[0] == 2
    assert paths(store) == {"FOO": "array", "foo": "array"}


@pytest.mark.rule("D10")
def test_names_that_a_file_system_cannot_hold_beside_each_other(tmp_path: Path) -> None:
    """The document of /foo is the file meta/foo.array.json, and so cannot be the folder of a group with that name."""
    group = frazil.create_group(tmp_path / "h", zarr_format="draft")
    group.create_array("foo", data=np.arange(3))
    with pytest.raises(FrazilError):
        group.create_array("foo.array.json/x", data=np.arange(3))
    assert sorted(name for name, _ in group.members(max_depth=None)) == ["foo"]
    group.create_array("bar.group.json/x", data=np.arange(3))
    with pytest.raises(FrazilError):
        group.create_group("bar")
    assert group["bar.group.json/x"][...].tolist() == [0, 1, 2]


@pytest.mark.rule("D50")
def test_documents_of_groups() -> None:
    store = hierarchy({"meta/g.group.json": GROUP})
    assert dict(frazil.open_group(store, path="g").attrs) == GROUP["attributes"]
    for value, member in (
        ({"attributes": []}, "attributes"),
        ({"attributes": None}, "attributes"),
        ({}, "attributes"),
        ({"attributes": {}, "extensions": []}, "extensions"),
        ({"attributes": {}, "zarr_format": 3}, "zarr_format"),
        ({"attributes": {}, "x": {"must_understand": False}}, "x"),
        ([], None),
        ("x", None),
    ):
        error = refusal(hierarchy({"meta/g.group.json": value}), path="g")
        assert (error.path, error.key) == (member, "meta/g.group.json"), value
    store = MemoryStore()
    frazil.create_group(store, path="g", attributes={"a": 1}, zarr_format="draft")
    assert document(store, "meta/g.group.json") == {"attributes": {"a": 1}}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_mode_w_minus_makes_no_group_of_one_that_is_there_without_a_document(dialect: str) -> None:
    store = MemoryStore()
    frazil.create_array(store, path="g/x", data=[1], zarr_format=dialect)
    before = contents(store)
    for path in ("", "g"):
        with pytest.raises(AlreadyExistsError) as caught:
            frazil.open_group(store, "w-", path=path)
        assert caught.value.path == (path or "/")
    assert contents(store) == before
    assert frazil.open_group(store, "a", path="g").metadata.implicit
    assert not frazil.open_group(store, "w-", path="h").metadata.implicit
    assert not frazil.create_group(store, path="g").metadata.implicit
    assert frazil.open_group(MemoryStore(), "w-", zarr_format=dialect).path == ""


@pytest.mark.rule("D50", "D67")
@pytest.mark.parametrize("old", [False, True])
def test_a_document_under_the_key_of_the_other_kind_is_refused_by_name(old: bool) -> None:
    stored = one(array()).get("meta/a.array.json")
    assert stored is not None
    root = "meta/root" if old else "meta"
    layout = draft_layout.new_layout("", old=old)
    for key, value, kinds in (
        (f"{root}/a.group.json", stored, "a group is that of an array"),
        (f"{root}/a.array.json", b'{"attributes": {}}', "an array is that of a group"),
    ):
        store = MemoryStore()
        frazil.create_group(store, zarr_format=layout.zarr_format)
        store.set(key, value)
        error = refusal(store, path="a")
        assert kinds in error.message
        assert error.key == key


@pytest.mark.rule("D34", "D46")
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_bare_words_are_no_json(word: str) -> None:
    store = hierarchy({})
    store.set("meta/g.group.json", f'{{"attributes": {{"a": [1, {word}]}}}}'.encode())
    error = refusal(store, path="g")
    assert (error.path, error.key) == ("attributes.a[1]", "meta/g.group.json")
    assert word in error.message
    store = MemoryStore()
    frazil.create_group(store, zarr_format="draft-2021")
    store.set("meta/root/g.group.json", f'{{"attributes": {{"a": {word}}}}}'.encode())
    assert frazil.open_group(store, path="g").attrs["a"] == NonFinite(word)


@pytest.mark.rule("D51", "D72", "D73")
def test_groups_need_no_document() -> None:
    store = tree()
    assert paths(store) == {"foo": "group", "foo/bar": "group", "foo/baz": "group", "foo/baz/qux": "array"}
    assert paths(store, "foo") == {"bar": "group", "baz": "group", "baz/qux": "array"}
    for path in ("", "foo", "foo/baz"):
        group = frazil.open_group(store, path=path)
        assert dict(group.attrs) == {}
    assert list(frazil.open_group(store)) == ["foo"]
    assert list(frazil.open_group(store, path="foo")) == ["bar", "baz"]
    assert "foo/baz" in frazil.open_group(store)
    assert "foo/nothing" not in frazil.open_group(store)


@pytest.mark.rule("D51", "D71")
@pytest.mark.parametrize(("dialect", "root"), [("draft", ""), ("draft-2021", "root/")])
def test_creating_a_node_stores_its_document_alone(dialect: str, root: str) -> None:
    store = MemoryStore()
    frazil.create_array(store, path="x/y/a", shape=4, dtype="u1", chunks=2, codecs=[], zarr_format=dialect)
    assert store.list() == [f"meta/{root}x/y/a.array.json", "zarr.json"]
    frazil.create_group(store, path="x/z/g")
    assert store.list() == [f"meta/{root}x/y/a.array.json", f"meta/{root}x/z/g.group.json", "zarr.json"]
    frazil.open_array(store, "r+", path="x/y/a")[2:] = 1
    assert store.get(f"data/{root}x/y/a/c1") == b"\1\1"


@pytest.mark.rule("D52")
def test_groups_get_documents_on_request() -> None:
    store = MemoryStore()
    frazil.create_array(store, path="x/y/a", shape=4, dtype="u1", zarr_format="draft", explicit_groups=True)
    assert [key for key in store.list() if "group" in key] == [
        "meta/group.json",
        "meta/x.group.json",
        "meta/x/y.group.json",
    ]
    store = tree()
    frazil.open_group(store, "r+", path="foo/baz").attrs["a"] = 1
    assert document(store, "meta/foo/baz.group.json") == {"attributes": {"a": 1}}
    store = tree()
    group = frazil.open_group(store, "r+")
    group.remove("foo/baz/qux", keep_parent=True)
    assert paths(store) == {"foo": "group", "foo/bar": "group", "foo/baz": "group"}
    store = tree()
    del frazil.open_group(store, "r+")["foo/baz/qux"]
    assert paths(store) == {"foo": "group", "foo/bar": "group"}


@pytest.mark.rule("D67", "D68", "D69", "D70", "X22")
def test_keys() -> None:
    for key, path in (
        ("meta/array.json", ""),
        ("meta/foo.array.json", "foo"),
        ("meta/foo/baz/qux.array.json", "foo/baz/qux"),
        ("meta/meta/data.array.json", "meta/data"),
        ("meta/x.array.array.json", "x.array"),
    ):
        data = f"data/{path}/c1" if path else "data/c1"
        store = hierarchy({key: array(), data: b"\1\2"})
        assert frazil.open_array(store, path=path)[...].tolist() == [0, 0, 1, 2]
        made = MemoryStore()
        frazil.create_array(made, path=path, shape=4, dtype="u1", chunks=2, codecs=[], zarr_format="draft")[2:] = [1, 2]
        assert made.list() == sorted(["zarr.json", key, data])
        if path:
            assert path in paths(store)
    for key, path in (("meta/group.json", ""), ("meta/foo.group.json", "foo"), ("meta/foo/bar.group.json", "foo/bar")):
        assert dict(frazil.open_group(hierarchy({key: GROUP}), path=path).attrs) == GROUP["attributes"]
    store = hierarchy({"meta/foo/baz.array.json": array([2, 1], [1, 1]), "data/foo/baz/c1/0": b"\5"})
    assert frazil.open_array(store, path="foo/baz")[...].tolist() == [[0], [5]]


@pytest.mark.rule("D72", "D73", "Z13")
def test_keys_that_are_no_documents_are_skipped() -> None:
    store = tree()
    for key in (
        "meta/.zmetadata",
        "meta/foo/x.json",
        "meta/foo/x.array",
        "meta/foo/x.array.txt",
        "other/y.array.json",
        "data/foo/z/c0",
    ):
        store.set(key, b"?")
    assert paths(store) == {"foo": "group", "foo/bar": "group", "foo/baz": "group", "foo/baz/qux": "array"}
    assert list(frazil.open_group(store, path="foo")) == ["bar", "baz"]


@pytest.mark.rule("D72", "D73")
def test_the_roots_own_document_is_no_member() -> None:
    store = hierarchy({"meta/group.json": GROUP, "meta/a.array.json": array()})
    assert paths(store) == {"a": "array"}
    assert dict(frazil.open(store).attrs) == GROUP["attributes"]


@pytest.mark.rule("D73")
def test_a_hierarchy_is_listed_at_once() -> None:
    """One listing, one batch of documents."""
    store = CountingStore(tree())
    group = frazil.open_group(store)
    store.clear()
    assert len(str(group.tree()).splitlines()) == 5
    assert store.count("list") == 1
    assert sorted(done.key for done in store.requests if done.operation == "fetch") == [
        "meta/foo/bar.group.json",
        "meta/foo/baz/qux.array.json",
    ]


class Unlistable(WrappedStore):
    """A store that cannot list."""

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(listable=False)


@pytest.mark.rule("D76")
def test_stores_without_listings_open_nodes_and_refuse_listings() -> None:
    store = Unlistable(tree())
    assert frazil.open_array(store, path="foo/baz/qux")[...].tolist() == [0, 0, 1, 2]
    assert dict(frazil.open_group(store, path="foo/bar").attrs) == GROUP["attributes"]
    root = frazil.open_group(store)
    assert root["foo/baz/qux"][...].tolist() == [0, 0, 1, 2]
    calls: list[Callable[[], object]] = [
        root.tree,
        lambda: list(root),
        lambda: list(root.members()),
        lambda: "foo/implied" in root,
        lambda: "nothing" in root,
        lambda: root["foo/baz"],
        lambda: frazil.open_group(store, path="foo/baz"),
    ]
    for ask in calls:
        with pytest.raises(StoreError, match="not listable"):
            ask()
    assert "foo/baz/qux" in root
    assert "foo/bar" in root
    root = frazil.open_group(store, "r+")
    root.create_array("x/y", data=np.arange(3))
    assert frazil.open_array(store, path="x/y")[...].tolist() == [0, 1, 2]


@pytest.mark.rule("D74")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_removing(dialect: str) -> None:
    store = MemoryStore()
    group = frazil.create_group(store, zarr_format=dialect)
    beside = {"ab": group.create_array("ab", data=np.arange(3)), "a.b": group.create_array("a.b", data=np.arange(3))}
    kept = contents(store)
    group.create_array("a", data=np.arange(3))
    del group["a"]
    assert contents(store) == kept
    group.create_array("implied/x/a", data=np.arange(3))
    del group["implied"]
    assert contents(store) == kept
    group.create_group("g", attributes={"a": 1}).create_array("x/a", data=np.arange(3))
    del group["g"]
    assert contents(store) == kept
    for path in ("a", "implied", "g", "g/x"):
        with pytest.raises(NotFoundError):
            del group[path]
        with pytest.raises(NotFoundError):
            group[path]
    assert all(array_[...].tolist() == [0, 1, 2] for array_ in beside.values())


@pytest.mark.rule("D75")
def test_whether_a_node_is_there() -> None:
    group = frazil.open_group(tree())
    assert [path in group for path in ("foo", "foo/bar", "foo/baz", "foo/baz/qux", "fo", "foo/ba", "foo/baz/qux/c1", "meta")] == [
        True, True, True, True, False, False, False, False,
    ]  # fmt: skip
    for path in ("fo", "foo/ba", "bar"):
        with pytest.raises(NotFoundError):
            frazil.open(tree(), path=path)


@pytest.mark.rule("X23")
def test_a_document_of_a_group_counts_where_it_has_children() -> None:
    store = hierarchy({"meta/g.group.json": GROUP, "meta/g/a.array.json": array()})
    assert paths(store) == {"g": "group", "g/a": "array"}
    assert dict(frazil.open_group(store)["g"].attrs) == GROUP["attributes"]
    assert dict(dict(frazil.open_group(store).members())["g"].attrs) == GROUP["attributes"]


@pytest.mark.rule("Z14")
@pytest.mark.parametrize(("dialect", "entry", "root"), [("draft", ENTRY, ""), ("draft-2021", OLD_ENTRY, "root/")])
def test_chunks_without_an_array(dialect: str, entry: object, root: str) -> None:
    """They are not nodes, and not part of an array that is created in their place; nor are nodes below an array."""
    store = hierarchy({f"data/{root}g/x/c0": b"\7\7", f"meta/{root}g/y.array.json": array()}, entry)
    assert paths(store) == {"g": "group", "g/y": "array"}
    made = frazil.create_array(store, path="g/x", shape=4, dtype="u1", chunks=2, codecs=[])
    assert made.metadata.zarr_format == dialect
    assert made[...].tolist() == [0, 0, 0, 0]


@pytest.mark.rule("D40", "D34")
def test_new_nodes_have_the_dialect_of_the_hierarchy() -> None:
    for dialect, key in (("draft", "meta/x/a.array.json"), ("draft-2021", "meta/root/x/a.array.json")):
        store = MemoryStore()
        frazil.create_group(store, zarr_format=dialect)
        frazil.create_array(store, path="x/a", shape=1, dtype="u1")
        assert store.exists(key)
        with pytest.raises(FrazilError):
            frazil.create_array(store, path="y", shape=1, dtype="u1", zarr_format=3)


@pytest.mark.rule("D46", "D49")
def test_a_document_that_is_changed_keeps_what_it_said() -> None:
    """Other codecs, spellings and extensions are unchanged; shape and attributes are new."""
    extension = {"extension": "https://example.org/e", "must_understand": False, "configuration": {"a": [1]}}
    before = array(data_type="<f4", fill_value="0x40e00000", extensions=[extension], codecs=[], attributes={"a": 1})
    store = one(before, {"c0": struct.pack("<2f", 1, 2)})
    changed = opened(store, mode="r+")
    changed.attrs["b"] = 2
    changed.resize(7)
    assert document(store) == {**before, "shape": [7], "attributes": {"a": 1, "b": 2}}
    assert opened(store)[...].tolist() == [1, 2, 7, 7, 7, 7, 7]


def test_creations_without_a_hierarchy_are_refused() -> None:
    store = hierarchy(entry=MISSING)
    for opener in (frazil.open, frazil.open_array, frazil.open_group):
        with pytest.raises(NotFoundError):
            opener(store)
    assert store.list() == []
