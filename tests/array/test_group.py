"""Groups: opening and creating in every mode, the mapping, batches, the state after a refusal. Many creators at once: faults/test_creators.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.recursion_limit import few_frames

import frazil
from frazil.errors import (
    AlreadyExistsError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    UnknownExtensionError,
)
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from frazil.testing import CountingStore

SMALL = {"shape": (4,), "dtype": "i4", "chunks": (2,)}


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "root")


def content(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def filled(store: Store) -> frazil.Group:
    """a group with an array, and a group in it with another array, each with an attribute"""
    group = frazil.create_group(store, attributes={"name": "root"})
    group.create_array("top", **SMALL)[...] = 1
    group.create_group("below", attributes={"name": "below"}).create_array("deep/leaf", **SMALL)[...] = 2
    return group


# --- modes -----------------------------------------------------------------------------------------------------------------------------


def test_arrays_in_every_mode(store: Store) -> None:
    for mode in ("r", "r+"):
        with pytest.raises(NotFoundError) as missing:
            frazil.open_array(store, mode)
        assert missing.value.key == "zarr.json"
        assert content(store) == {}
    array = frazil.open_array(store, "a", **SMALL)
    array[...] = 7
    before = content(store)
    assert (frazil.open_array(store, "r")[...] == 7).all()
    with pytest.raises(ReadOnlyError):
        frazil.open_array(store, "r")[0] = 1
    with pytest.raises(AlreadyExistsError):
        frazil.open_array(store, "w-", **SMALL)
    with pytest.raises(AlreadyExistsError):
        frazil.create_array(store, **SMALL)
    for mode in ("r+", "a"):
        again = frazil.open_array(store, mode, **({"shape": 9, "dtype": "f8"} if mode == "a" else {}))
        assert again.shape == (4,), "what is there is opened, not made anew"
        assert not again.read_only
    assert content(store) == before
    new = frazil.open_array(store, "w", **{**SMALL, "shape": 3})
    assert new[...].tolist() == [0, 0, 0]
    assert [*content(store)] == ["zarr.json"], "nothing of the old one is left"


def test_groups_in_every_mode(store: Store) -> None:
    for mode in ("r", "r+"):
        with pytest.raises(NotFoundError):
            frazil.open_group(store, mode)
    with pytest.raises(NotFoundError):
        frazil.open(store)
    assert content(store) == {}
    assert dict(frazil.open_group(store, "a", attributes={"a": 1}).attrs) == {"a": 1}
    filled_store = frazil.open_group(store, "r+")
    filled_store.create_array("x", **SMALL)[...] = 1
    before = content(store)
    assert dict(frazil.open_group(store, "a", attributes={"b": 1}).attrs) == {"a": 1}
    with pytest.raises(AlreadyExistsError):
        frazil.open_group(store, "w-")
    with pytest.raises(AlreadyExistsError):
        frazil.create_group(store)
    group = frazil.open_group(store)
    for change in (
        lambda: group.create_group("y"),
        lambda: group.create_array("y", **SMALL),
        lambda: group.create_arrays({"y": SMALL}),
        lambda: group.require_group("y"),
        lambda: group.require_array("y", shape=1, dtype="i4"),
        lambda: group.__delitem__("x"),
        lambda: group.__setitem__("y", [1]),
        lambda: group.attrs.update(a=2),
        lambda: group["x"].attrs.update(a=2),
        lambda: group["x"].resize(1),
        lambda: group["x"].append([1]),
    ):
        with pytest.raises(ReadOnlyError):
            change()
    assert content(store) == before
    assert len(frazil.open_group(store, "w")) == 0
    assert [*content(store)] == ["zarr.json"]


def test_the_other_kind_of_node_is_there(store: Store) -> None:
    filled(store)
    before = content(store)
    for mode in ("r", "r+", "a"):
        with pytest.raises(InvalidInputError):
            frazil.open_array(store, mode)
        with pytest.raises(InvalidInputError):
            frazil.open_group(store, mode, path="top")
    with pytest.raises(AlreadyExistsError):
        frazil.open_array(store, "w-", **SMALL)
    for mode in ("x", "", "rw"):
        with pytest.raises(InvalidInputError):
            frazil.open_group(store, mode)
        with pytest.raises(InvalidInputError):
            frazil.open_array(store, mode, **SMALL)
    assert content(store) == before
    assert isinstance(frazil.open(store), frazil.Group)
    assert isinstance(frazil.open(store, path="top"), frazil.Array)


def test_a_refused_creation_leaves_everything(store: Store) -> None:
    group = filled(store)
    before = content(store)
    refused: list[tuple[type[FrazilError], Callable[[], object]]] = [
        (AlreadyExistsError, lambda: group.create_array("top", **SMALL)),
        (AlreadyExistsError, lambda: group.create_group("top")),
        (AlreadyExistsError, lambda: group.create_array("below", **SMALL)),
        (AlreadyExistsError, lambda: group.create_arrays({"new/one": SMALL, "below/deep/leaf": SMALL})),
        (AlreadyExistsError, lambda: group.require_group("top")),
        (AlreadyExistsError, lambda: group.require_array("below", shape=4, dtype="i4")),
        (AlreadyExistsError, lambda: group.require_array("top", shape=5, dtype="i4")),
        (AlreadyExistsError, lambda: group.require_array("top", shape=4, dtype="f4")),
        (AlreadyExistsError, lambda: group.require_array("top", shape=4, dtype="f8", exact=True)),
        (InvalidInputError, lambda: group.create_array("top/under", **SMALL)),
        (InvalidInputError, lambda: group.create_group("top/under/that", overwrite=True)),
        (InvalidInputError, lambda: group.create_arrays({"new": SMALL, "new/under": SMALL})),
        (InvalidInputError, lambda: group.create_arrays({"new": SMALL, "/new/": SMALL})),
        (MetadataError, lambda: group.create_arrays({"new/one": SMALL, "two": {**SMALL, "chunks": (0,)}})),
        (InvalidInputError, lambda: group.create_array("top", **{**SMALL, "dtype": "no type"}, overwrite=True)),
        (UnknownExtensionError, lambda: group.create_array("top", **SMALL, codecs=["nocodec"], overwrite=True)),
        (InvalidInputError, lambda: group.create_array("top", overwrite=True)),
        (MetadataError, lambda: group.create_group("new", attributes={"a": {1, 2}})),
        (InvalidInputError, lambda: group.create_group("")),
        (InvalidInputError, lambda: group.create_group("/", overwrite=True)),
        (InvalidInputError, lambda: group.__delitem__("/")),
        (NotFoundError, lambda: group.__delitem__("nothing")),
        (NotFoundError, lambda: group.__delitem__("top/under")),
        (NotFoundError, lambda: group["nothing"]),
    ]
    for kind, create in refused:
        with pytest.raises(kind):
            create()
        assert content(store) == before
    for name in (
        "../a",
        "a/..",
        ".",
        "a/./b",
        "__a",
        "zarr.json",
        "a/zarr.json",
        "a\0b",
        "\ud800",
        "...",
        3,
        None,
    ):
        for use in (group.create_group, group.__getitem__, group.__delitem__, group.require_group):
            with pytest.raises(FrazilError):
                use(name)  # type: ignore[arg-type]
        assert name not in group
    assert content(store) == before


# --- as a mapping ----------------------------------------------------------------------------------------------------------------------


def test_groups_are_mappings_of_their_members(store: Store) -> None:
    group = filled(store)
    assert [*group] == [*group.keys()] == ["below", "top"]
    assert len(group) == 2
    assert {name: type(node) for name, node in group.items()} == {"below": frazil.Group, "top": frazil.Array}
    assert [*group.values()] == [group["below"], group["top"]]
    assert [name for name, _ in group.arrays()] == ["top"]
    assert [name for name, _ in group.groups()] == ["below"]
    for path in ("", "/"):
        assert group[path] is group.get(path) is group.require_group(path) is group
    for path in ("", "/", "top", "/top", "top/", "below/deep/leaf", "/below/deep/leaf/", "//below//deep/leaf"):
        assert path in group
        assert group[path].path == path.strip("/").replace("//", "/")
    for path in ("to", "top/c", "top/c/0", "below/leaf", "a//b", "..", 3, None, ("top",)):
        assert path not in group
    assert group.get("nothing") is None
    assert group.get("nothing", 5) == 5
    assert isinstance(group["below"], frazil.Group)
    leaf = group["below"]["deep"]["leaf"]
    assert leaf == group["below/deep/leaf"] != group["top"]
    assert (leaf.basename, leaf.path, leaf.name) == ("leaf", "below/deep/leaf", "/below/deep/leaf")
    assert (group.basename, group.path, group.name) == ("", "", "/")
    group["new/data"] = np.arange(6.0).reshape(2, 3)
    assert group["new/data"][1].tolist() == [3, 4, 5]
    assert group.setdefault("top", [1]) == group["top"]
    popped = group.pop("top")
    assert popped.path == "top"
    assert "top" not in group
    with pytest.raises(KeyError):
        group.pop("top")
    assert group.pop("top", None) is None
    group.update({"one": [1, 2], "two": [3.5]})
    assert sorted(group) == ["below", "new", "one", "two"]
    group.clear()
    assert [*group] == []
    assert content(store) == {"zarr.json": store.get("zarr.json")}


def test_removing_a_node_removes_the_nodes_below_and_no_others(store: Store) -> None:
    group = filled(store)
    group.create_array("below2", **SMALL)[...] = 3
    group.create_array("belo", **SMALL)[...] = 3
    others = {key: value for key, value in content(store).items() if not key.startswith("below/")}
    del group["below"]
    assert content(store) == others


def test_a_damaged_document_can_be_removed(store: Store) -> None:
    group = filled(store)
    store.set("top/zarr.json", b"{")
    with pytest.raises(MetadataError) as caught:
        group["top"]
    assert caught.value.key == "top/zarr.json"
    with pytest.raises(MetadataError) as caught:
        [*group.members()]
    assert caught.value.key == "top/zarr.json"
    assert [*group] == ["below", "top"]
    assert "top" in group
    del group["top"]
    assert [*group] == ["below"]
    group.create_array("top", **SMALL)
    store.set("top/zarr.json", b"{")
    assert group.create_array("top", **SMALL, overwrite=True)[...].tolist() == [0] * 4


def test_members_by_depth_and_the_tree(store: Store) -> None:
    group = filled(store)
    group.create_array("below/a-b", shape=(2, 3), dtype="f4")
    found = {depth: [name for name, _ in group.members(depth)] for depth in (0, 1, 2, None)}
    assert found[0] == ["below", "top"]
    assert found[1] == ["below", "below/a-b", "below/deep", "top"]
    assert found[2] == found[None] == ["below", "below/a-b", "below/deep", "below/deep/leaf", "top"]
    assert [name for name, _ in group["below"].members(None)] == ["a-b", "deep", "deep/leaf"]
    assert str(group.tree()).splitlines() == [
        "/",
        "├── below/",
        "│   ├── a-b (2, 3) float32",
        "│   └── deep/",
        "│       └── leaf (4,) int32",
        "└── top (4,) int32",
    ]
    assert str(group["below"].tree(0)).splitlines() == ["/below", "├── a-b (2, 3) float32", "└── deep/"]
    assert str(group.tree(max_nodes=2)).splitlines() == [
        "/",
        "└── below/",
        "    └── a-b (2, 3) float32",
        "and 3 more",
    ]
    assert str(group.tree(max_nodes=5)) == str(group.tree())
    with pytest.raises(InvalidInputError, match="max_nodes"):
        group.tree(max_nodes=-1)
    assert json.loads(json.dumps(group.tree().to_json()))["below/a-b"] == {
        "kind": "array",
        "shape": [2, 3],
        "data_type": "float32",
    }


NAMES = [
    "Tiefe in m",
    "глубина",
    "深さ",
    "e\u0301",
    "é",
    "a.b",
    "-x",
    "c",
    "c0",
    "~",
    "100%",
    "q?x=1&y#z",
    "a:b",
    "😀",
    "x" * 200,
]


@pytest.mark.parametrize("name", NAMES)
def test_names(store: Store, name: str) -> None:
    group = frazil.create_group(store)
    array = group.create_array(f"{name}/{name}", **SMALL)
    array[...] = 5
    assert [path for path, _ in group.members(None)] == [name, f"{name}/{name}"]
    assert name in group
    assert (frazil.open_array(store, path=f"{name}/{name}")[...] == 5).all()
    assert name in str(group.tree())
    del group[name]
    assert len(group) == 0


def test_names_do_not_fall_together(store: Store) -> None:
    group = frazil.create_group(store)
    for number, name in enumerate(NAMES):
        group.create_array(name, **SMALL)[...] = number
    assert sorted(group) == sorted(NAMES)
    assert [group[name][0] for name in NAMES] == [*range(len(NAMES))]


# --- creating --------------------------------------------------------------------------------------------------------------------------


def test_groups_above_are_made(store: Store) -> None:
    frazil.create_array(store, path="a/b/c", **SMALL)
    assert [path for path, _ in frazil.open_group(store).members(None)] == ["a", "a/b", "a/b/c"]
    frazil.create_group(store, path="a/x/y", attributes={"z": 1})
    assert isinstance(frazil.open(store, path="a/x"), frazil.Group)
    with pytest.raises(InvalidInputError):
        frazil.create_group(store, path="a/b/c/d")
    with pytest.raises(InvalidInputError):
        frazil.create_array(store, path="a/b/c/d/e", overwrite=True, **SMALL)


def test_overwriting_replaces_one_node_with_all_below(store: Store) -> None:
    group = filled(store)
    kept = {key: value for key, value in content(store).items() if not key.startswith("below")}
    array = group.create_array("below", **SMALL, overwrite=True)
    assert array[...].tolist() == [0] * 4
    assert content(store) == {**kept, "below/zarr.json": store.get("below/zarr.json")}
    group.create_group("below", overwrite=True)
    assert [*group["below"]] == []


def test_many_arrays_are_created_at_once(store: Store) -> None:
    group = frazil.create_group(store)
    specs = {f"g{i % 10}/a{i}": {**SMALL, "attributes": {"i": i}} for i in range(300)}
    made = group.create_arrays(specs)
    assert [*made] == [*specs]
    made["g3/a13"][...] = 13
    assert (group["g3/a13"][...] == 13).all()
    found = dict(group.members(None))
    assert len(found) == 310
    assert all(found[f"g{i % 10}/a{i}"].attrs["i"] == i for i in range(300))
    before = content(store)
    with pytest.raises(AlreadyExistsError):
        group.create_arrays({f"g{i % 10}/a{i}": SMALL for i in range(600)})
    assert content(store) == before
    again = group.create_arrays(specs, overwrite=True)
    assert again["g3/a13"][...].tolist() == [0] * 4


def test_require_opens_or_creates(store: Store) -> None:
    group = filled(store)
    before = content(store)
    assert group.require_group("below/deep").path == "below/deep"
    assert group.require_array("top", shape=4, dtype="int32", exact=True).path == "top"
    assert group.require_array("top", shape=4, dtype="f8").dtype == "int32"
    assert content(store) == before
    assert group.require_group("new/one").path == "new/one"
    assert group.require_array("new/two", shape=4, dtype="i4", chunks=(2,)).chunks == (2,)


def test_chunks_without_a_document_are_in_the_way(store: Store) -> None:
    """They would appear in a new array."""
    store.set("a/c/0", b"1234")
    with pytest.raises(AlreadyExistsError):
        frazil.create_array(store, path="a", **SMALL)
    with pytest.raises(AlreadyExistsError):
        frazil.open_array(store, "a", path="a", **SMALL)
    assert content(store) == {"a/c/0": b"1234"}
    assert frazil.create_array(store, path="a", **SMALL, overwrite=True)[...].tolist() == [0] * 4


# --- consolidated metadata -------------------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[frazil.Group], object]] = {
    "create array": lambda root: root.create_array("a/new", **SMALL),
    "create arrays": lambda root: root.create_arrays({"a/new": SMALL}),
    "create group": lambda root: root.create_group("new"),
    "require": lambda root: root["a"].require_group("new"),
    "create below": lambda root: root["a/b"].create_array("new", **SMALL),
    "create by location": lambda root: frazil.create_array(root.store, path="a/b/new", **SMALL),
    "open": lambda root: frazil.open_group(root.store, "a", path="a/b/new"),
    "remove": lambda root: root.__delitem__("a/b/leaf"),
    "remove below": lambda root: root["a/b"].__delitem__("leaf"),
    "overwrite": lambda root: root.create_array("a/b/leaf", **SMALL, overwrite=True),
    "attributes": lambda root: root["a/b/leaf"].attrs.update(new=1),
    "attributes of a group": lambda root: root["a/b"].attrs.update(new=1),
    "resize": lambda root: root["a/b/leaf"].resize(9),
    "append": lambda root: root["a/b/leaf"].append([1, 2]),
}


def refused(kind: type[FrazilError], call: Callable[[], object]) -> None:
    with pytest.raises(kind):
        call()


NO_CHANGES: dict[str, Callable[[frazil.Group], object]] = {
    "refused": lambda root: refused(AlreadyExistsError, lambda: root.create_array("a/b/leaf", **SMALL)),
    "refused below an array": lambda root: refused(InvalidInputError, lambda: root.create_group("a/b/leaf/x")),
    "not there": lambda root: refused(NotFoundError, lambda: root.__delitem__("a/b/x")),
    "wrong": lambda root: refused(MetadataError, lambda: root.create_array("x", **{**SMALL, "chunks": 0})),
    "its own attributes": lambda root: root.attrs.update(new=1),
    "required and there": lambda root: root.require_group("a/b"),
    "writing": lambda root: root["a/b/leaf"].__setitem__(0, 5),
    "the same attributes": lambda root: root["a/b/leaf"].attrs.update(),
    "the same shape": lambda root: root["a/b/leaf"].resize(4),
}


def consolidated(store: Store) -> frazil.Group:
    root = frazil.create_group(store)
    root.create_array("a/b/leaf", **SMALL)
    for key in ("zarr.json", "a/zarr.json"):
        document = json.loads(store.get(key) or b"")
        copies = {"kind": "inline", "must_understand": False, "metadata": {}}
        store.set(key, json.dumps({**document, "consolidated_metadata": copies}).encode())
    return frazil.open_group(store, "r+")


def has_copies(store: Store, key: str) -> bool:
    return "consolidated_metadata" in json.loads(store.get(key) or b"")


@pytest.mark.parametrize("change", CHANGES)
def test_consolidated_metadata_goes_where_something_below_changes(store: Store, change: str) -> None:
    root = consolidated(store)
    assert root.metadata.consolidated is not None
    CHANGES[change](root)
    assert not has_copies(store, "zarr.json")
    assert has_copies(store, "a/zarr.json") == (change == "create group")
    if change in ("create array", "create arrays", "create group", "remove", "overwrite"):
        assert root.metadata.consolidated is None


@pytest.mark.parametrize("change", NO_CHANGES)
def test_consolidated_metadata_stays_where_nothing_below_changes(store: Store, change: str) -> None:
    NO_CHANGES[change](consolidated(store))
    assert has_copies(store, "zarr.json")
    assert has_copies(store, "a/zarr.json")


def test_opening_and_creating_ask_little() -> None:
    counting = CountingStore(MemoryStore())
    frazil.create_group(counting)
    root = frazil.open_group(counting, "a")
    counting.clear()
    root["x"] = [1]
    counting.clear()
    assert "x" in root
    assert counting.count() == 1
    root["x"]
    assert counting.count() == 2
    counting.clear()
    frazil.open_array(counting, "a", path="x")
    assert counting.count() == 2, "its document, and the zarr.json of the location, which might be a draft's"
    counting.clear()
    frazil.open_array(counting, "a", path="x", zarr_format=3)
    assert counting.count() == 1


@pytest.mark.parametrize("kind", ["memory", "disk", "draft", "session"])
def test_more_levels_than_python_has_frames(kind: str, tmp_path: Path) -> None:
    frames, levels = 200, 250
    group = {
        "memory": lambda: frazil.create_group(MemoryStore()),
        "disk": lambda: frazil.create_group(tmp_path),
        "draft": lambda: frazil.create_group(MemoryStore(), zarr_format="draft"),
        "session": lambda: frazil.Repository.create(MemoryStore()).writable_session().root,
    }[kind]()
    with few_frames(frames):
        group.create_array("/".join(["g"] * levels + ["a"]), shape=4, dtype="i4")
        tree = group.tree()
        assert len(tree.nodes) == levels + 1 == len(str(tree).splitlines()) - 1
        assert len(tree.to_json()) == levels + 1
        assert len(list(group.members(max_depth=None))) == levels + 1
        for depth in (0, 1, 5):
            assert len(group.tree(depth).nodes) == depth + 1
        del group["g"]
    assert list(group) == []
    assert kind != "disk" or list(tmp_path.iterdir()) == [tmp_path / "zarr.json"]
