"""Hierarchies of the draft of 2022 in both dialects through the functions of frazil: found, created, changed, removed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MetadataError,
    NotFoundError,
    UnknownExtensionError,
)
from frazil.stores import MemoryStore, WrappedStore
from frazil.stores.store import Store

DIALECTS = pytest.mark.parametrize("dialect", ["draft", "draft-2021"])


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else frazil.stores.LocalStore(tmp_path / "a.zr3")


def document(store: Store, key: str) -> dict[str, object]:
    value = store.get(key)
    assert value is not None, store.list()
    made = json.loads(value)
    assert isinstance(made, dict)
    return made


def keys(dialect: str, path: str, kind: str) -> str:
    return f"meta/root/{path}.{kind}.json" if dialect == "draft-2021" else f"meta/{path}.{kind}.json"


@DIALECTS
@pytest.mark.rule("D34", "D35", "D36", "D71", "Z1")
def test_created_hierarchies_are_found(store: Store, dialect: str) -> None:
    values = np.arange(60, dtype="f4").reshape(6, 10)
    made = frazil.create_array(
        store, path="g/x", data=values, chunks=(3, 4), shards=(6, 8), attributes={"a": 1}, zarr_format=dialect
    )
    opened = frazil.open_array(store, "r+", path="g/x")
    assert opened == made
    assert pickle.loads(pickle.dumps(opened))[...].tobytes() == values.tobytes()
    assert (opened.chunks, opened.shards, opened.metadata.zarr_format) == ((3, 4), (6, 8), dialect)
    entry = document(store, "zarr.json")
    assert isinstance(entry["metadata_encoding"], dict) == (dialect == "draft")
    stored = document(store, keys(dialect, "g/x", "array"))
    assert ("compressor" in stored) == (dialect == "draft-2021")
    assert stored["chunk_grid"] == {"type": "regular", "chunk_shape": [3, 4], "separator": "/"}
    assert [key for key in store.list() if "g/x" in key and key.startswith("data")] == [
        f"data/{'root/' if dialect == 'draft-2021' else ''}g/x/c0/{i}" for i in (0, 1)
    ]
    assert not [key for key in store.list() if key.endswith("group.json")], "groups above need no document"
    opened.attrs["b"] = 2
    opened.resize((9, 10))
    opened.append(values[:1])
    assert frazil.open_array(store, path="g/x").shape == (10, 10)
    assert document(store, keys(dialect, "g/x", "array")) == {
        **stored,
        "shape": [10, 10],
        "attributes": {"a": 1, "b": 2},
    }


@DIALECTS
@pytest.mark.rule("D6", "D68", "D69")
def test_root_arrays(store: Store, dialect: str) -> None:
    frazil.create_array(store, data=np.arange(3), zarr_format=dialect)
    assert frazil.open_array(store)[...].tolist() == [0, 1, 2]
    assert isinstance(frazil.open(store), frazil.Array)
    with pytest.raises(AlreadyExistsError):
        frazil.create_array(store, data=np.arange(3), zarr_format=dialect)


@pytest.mark.rule("D34")
def test_a_hierarchy_within_another() -> None:
    store = MemoryStore("outer-of-a-hierarchy")
    frazil.create_array(store, path="x", shape=4, dtype="u1")
    below = "memory://outer-of-a-hierarchy/deep/er"
    frazil.create_array(below, path="g/y", data=np.arange(3), zarr_format="draft")
    assert [key for key in store.list() if "deep" in key] == [
        "deep/er/data/g/y/c0",
        "deep/er/meta/g/y.array.json",
        "deep/er/zarr.json",
    ]
    assert frazil.open_array(below, path="g/y")[...].tolist() == [0, 1, 2]
    group = frazil.open(store, path="deep/er")
    assert isinstance(group, frazil.Group)
    assert [path for path, _ in group.members(max_depth=None)] == ["g", "g/y"]


@DIALECTS
@pytest.mark.rule("D51", "D52", "D75", "Z15")
def test_groups_without_documents(store: Store, dialect: str) -> None:
    root = frazil.create_group(store, zarr_format=dialect, attributes={"title": "t"})
    root.create_array("a/b/c", shape=2, dtype="i2")
    for path in ("a", "a/b"):
        group = frazil.open_group(store, path=path)
        assert group.metadata.implicit
        assert dict(group.attrs) == {}
    assert [path for path, _ in root.members(max_depth=None)] == ["a", "a/b", "a/b/c"]
    assert [path for path, _ in root.members(max_depth=1)] == ["a", "a/b"]
    assert (list(root), "a" in root, "a/b" in root, "a/x" in root) == (["a"], True, True, False)
    assert [path for path, _ in root["a"].tree().nodes] == ["b", "b/c"]
    with pytest.raises(NotFoundError):
        frazil.open_group(store, path="a/x")
    group = frazil.open_group(store, "r+", path="a")
    group.attrs["now"] = "there"
    assert document(store, keys(dialect, "a", "group"))["attributes"] == {"now": "there"}
    assert not frazil.open_group(store, path="a").metadata.implicit


@DIALECTS
@pytest.mark.rule("D52", "D74")
def test_removal_and_what_it_leaves(store: Store, dialect: str) -> None:
    root = frazil.create_group(store, zarr_format=dialect)
    root.create_array("a/b/x", data=np.arange(4))
    root.remove("a/b/x")
    assert list(root) == [], "groups without documents vanish with their last member"
    assert store.list() == sorted({"zarr.json", *(key for key in store.list() if key.endswith("group.json"))})
    root.create_array("a/b/x", data=np.arange(4))
    root.remove("a/b/x", keep_parent=True)
    assert [path for path, _ in root.members(max_depth=None)] == ["a", "a/b"]
    root.create_array("a/c/y", shape=1, dtype="u1", explicit_groups=True)
    root.remove("a/c/y")
    assert [path for path, _ in root.members(max_depth=None)] == ["a", "a/b", "a/c"]
    del root["a"]
    assert list(root) == []
    with pytest.raises(NotFoundError):
        del root["a"]


@DIALECTS
@pytest.mark.rule("D2", "Z14")
def test_creating_where_something_is(store: Store, dialect: str) -> None:
    root = frazil.create_group(store, zarr_format=dialect)
    root.create_array("a/x", data=np.arange(4))
    for path in ("a/x", "a"):
        with pytest.raises(AlreadyExistsError):
            root.create_array(path, shape=1, dtype="u1")
    with pytest.raises(InvalidInputError, match="no children"):
        root.create_group("a/x/y")
    with pytest.raises(AlreadyExistsError):
        root.create_group("a/x")
    with pytest.raises(AlreadyExistsError):
        frazil.create_group(store, zarr_format=dialect)
    root.create_group("a", attributes={"k": 1})
    assert [path for path, _ in root.members(max_depth=None)] == ["a", "a/x"]
    root.create_array("a/x", shape=6, dtype="i8", chunks=2, overwrite=True, fill_value=7)
    assert root["a/x"][...].tolist() == [7] * 6
    base = "data/root/" if dialect == "draft-2021" else "data/"
    store.set(f"{base}orphan/c0", bytes(16))
    assert root.create_array("orphan", shape=2, dtype="i8", fill_value=3, codecs=[])[...].tolist() == [3, 3]


@pytest.mark.rule("D72")
def test_a_hierarchy_has_one_dialect(store: Store) -> None:
    frazil.create_group(store, zarr_format="draft")
    assert frazil.create_array(store, path="a", shape=1, dtype="u1").metadata.zarr_format == "draft"
    for other in (3, "draft-2021"):
        with pytest.raises(InvalidInputError, match="zarr_format 'draft'"):
            frazil.create_array(store, path="b", shape=1, dtype="u1", zarr_format=other)
    with pytest.raises(InvalidInputError, match="must be one of"):
        frazil.create_array(store, path="b", shape=1, dtype="u1", zarr_format="draft-2020")
    assert frazil.create_group(store, zarr_format=3, overwrite=True).metadata.zarr_format == 3
    assert store.list() == ["zarr.json"]
    with pytest.raises(AlreadyExistsError):
        frazil.create_group(store, zarr_format="draft")
    frazil.create_group(store, zarr_format="draft-2021", overwrite=True)
    assert store.list() == ["meta/root.group.json", "zarr.json"]


@DIALECTS
@pytest.mark.rule("D22", "X25", "X26", "Z9")
@pytest.mark.parametrize("there", ["c", "c0", None])
def test_the_chunk_without_dimensions(store: Store, dialect: str, there: str | None) -> None:
    array = frazil.create_array(store, path="z", shape=(), dtype="i4", codecs=[], fill_value=5, zarr_format=dialect)
    base = "data/root/z/" if dialect == "draft-2021" else "data/z/"
    if there is not None:
        store.set(base + there, (7).to_bytes(4, "little"))
    assert array[()] == array[...] == (5 if there is None else 7)
    array[...] = 9
    default = "c0" if dialect == "draft-2021" else "c"
    assert [key for key in store.list() if key.startswith("data")] == [base + (there or default)]
    assert frazil.open_array(store, path="z")[()] == 9
    assert array.nchunks_initialized == 1


class Prefixed(WrappedStore):
    """Counts the operations that go through it."""

    __slots__ = ("call_count",)

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.call_count = 0

    def fetch(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
        self.call_count += 1
        return self.inner.fetch(*arguments, **named)  # type: ignore[arg-type]


@pytest.mark.rule("D77", "D78")
def test_transformers_at_opening() -> None:
    inner = MemoryStore()
    frazil.create_array(inner, path="x", data=np.arange(4), zarr_format="draft")
    seen: list[Prefixed] = []

    def through(store: object) -> object:
        assert isinstance(store, Store)
        seen.append(Prefixed(store))
        return seen[-1]

    array = frazil.open_array(inner, path="x", storage_transformers=[through])
    assert array[...].tolist() == [0, 1, 2, 3]
    assert seen[0].call_count
    group = frazil.open_group(inner, storage_transformers=[through])
    found = group["x"]
    assert isinstance(found, frazil.Array)
    assert found[...].tolist() == [0, 1, 2, 3]
    assert seen[1].call_count
    with pytest.raises(InvalidInputError, match="not a store"):
        frazil.open_array(inner, path="x", storage_transformers=[lambda store: 1])
    with pytest.raises(InvalidInputError, match="must make a store"):
        frazil.open_array(inner, path="x", storage_transformers=["cache"])  # type: ignore[list-item]


@pytest.mark.rule("D48", "D49")
@pytest.mark.parametrize(
    ("member", "value", "kind"),
    [
        ("dimension_names", ["x"], MetadataError),
        ("compressor", None, MetadataError),
        ("zarr_format", 3, MetadataError),
        ("storage_transformers", [{"extension": "https://example.org/t", "type": "x"}], UnknownExtensionError),
        ("extensions", [{"extension": "https://example.org/t", "must_understand": True}], UnknownExtensionError),
    ],
)
def test_strict_in_the_dialect_of_december_2022(member: str, value: object, kind: type[Exception]) -> None:
    store = MemoryStore()
    frazil.create_array(store, path="x", data=np.arange(4), zarr_format="draft")
    store.set("meta/x.array.json", json.dumps({**document(store, "meta/x.array.json"), member: value}).encode())
    with pytest.raises(kind) as caught:
        frazil.open_array(store, path="x")
    assert isinstance(caught.value, frazil.FrazilError)
    assert (caught.value.path or "").startswith(member)
    assert caught.value.key == "meta/x.array.json"


@DIALECTS
@pytest.mark.parametrize("other", [3, "draft", "draft-2021"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": 4, "dtype": "int23"},
        {"dtype": "u1"},
        {"shape": 4, "dtype": "u1", "chunks": 0},
        {"shape": 4, "dtype": "u1", "attributes": {"x": object()}},
        {"shape": 4, "dtype": "u1", "codecs": ["nope"]},
    ],
)
def test_refused_creations_replace_nothing(
    store: Store, dialect: str, other: int | str, arguments: dict[str, object]
) -> None:
    frazil.create_array(store, path="precious", data=np.arange(4), zarr_format=dialect)
    before = store.list()
    with pytest.raises(frazil.FrazilError):
        frazil.create_array(store, zarr_format=other, overwrite=True, **arguments)  # type: ignore[arg-type]
    with pytest.raises(frazil.FrazilError):
        frazil.open_group(store, "w", zarr_format=other, attributes={"x": object()})
    assert store.list() == before
    assert frazil.create_group(store, zarr_format=other, overwrite=True).metadata.zarr_format == other
    assert list(frazil.open_group(store)) == []


@DIALECTS
def test_a_zarr_json_inside_a_hierarchy_is_no_node_of_it(store: Store, dialect: str) -> None:
    """The state that an interrupted conversion in place leaves."""
    root = frazil.create_group(store, zarr_format=dialect)
    root.create_array("g/a", data=np.arange(3))
    final = MemoryStore()
    frazil.create_array(final, path="g/a", data=np.arange(3) + 7)
    for key in final.list():
        if key != "zarr.json":
            store.set(key, final.get(key) or b"")
    assert frazil.open_array(store, path="g/a")[...].tolist() == [0, 1, 2]
    assert frazil.open_group(store, path="g").metadata.zarr_format == dialect
    assert frazil.open_array(store, path="g/a", zarr_format=3)[...].tolist() == [7, 8, 9], "who says so gets it"


@DIALECTS
def test_a_hierarchy_between_the_location_and_the_node(store: Store, dialect: str) -> None:
    frazil.create_group(store)
    below = MemoryStore()
    frazil.create_array(below, path="g/x", data=np.arange(3), zarr_format=dialect)
    for key in below.list():
        store.set(f"deep/er/{key}", below.get(key) or b"")
    array = frazil.open_array(store, path="deep/er/g/x")
    assert (array[...].tolist(), array.path, array.metadata.zarr_format) == ([0, 1, 2], "g/x", dialect)
    with pytest.raises(NotFoundError):
        frazil.open_array(store, path="deep/er/g/y")
    with pytest.raises(NotFoundError):
        frazil.open_array(store, path="deeper/g/x")
    with pytest.raises(InvalidInputError, match="not of 'draft"):
        frazil.open_group(store, path="", zarr_format=dialect)
