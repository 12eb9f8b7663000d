"""A session's keys: the specifics of documents and chunks. The suite of all stores is in test_session_as_store.py."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.repository.plain_nodes import GROUP, PlainNodes, array, group, plain_session, repository_session

import frazil
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import InvalidInputError, MetadataError, ReadOnlyError
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.metadata.v3.documents import parse_node
from frazil.stores import ABSENT, ANY, Changed, ChunkStorage, MemoryStore, PlainChunks, Store
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.transfer.content import read_values
from frazil.stores.values import ABSENT_KEY, FOUND, STALE, WHOLE, pieces_of


@pytest.fixture(params=[plain_session, repository_session])
def _sessions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "new_session", request.param)


everywhere = pytest.mark.usefixtures("_sessions")  # over plain nodes, and in a repository
new_session: Callable[[], NodeStore] = plain_session


# --- documents -----------------------------------------------------------------------------------------------------------------------


def filled(**values: bytes) -> NodeStore:
    """A store with documents and chunks; "__" in a name stands for "/"."""
    store = new_session()
    for key, value in values.items():
        store.set(key.replace("__", "/").replace("zarr_json", "zarr.json"), value)
    return store


def document_of(store: Store, key: str) -> dict[str, object]:
    value = store.get(key)
    assert value is not None
    found: dict[str, object] = json.loads(value)
    return found


@everywhere
def test_documents_contain_the_set_values() -> None:
    store = new_session()
    store.set("a/zarr.json", array(4, 6, fill_value=7, attributes={"b": [1, None]}, dimension_names=["x", None]))
    with pytest.warns(UserWarning, match="cannot hold consolidated_metadata of"):
        store.set("zarr.json", b'{"node_type": "group", "zarr_format": 3, "consolidated_metadata": {"kind": "inline"}}')
    assert document_of(store, "zarr.json") == GROUP
    document = document_of(store, "a/zarr.json")
    assert (document["fill_value"], document["attributes"]) == (7, {"b": [1, None]})
    assert (document["dimension_names"], document["codecs"]) == (["x", None], [{"name": "bytes"}])
    assert parse_node(store.get("a/zarr.json") or b"") == parse_node(
        array(4, 6, fill_value=7, attributes={"b": [1, None]}, dimension_names=["x", None])
    )
    assert store.sizes(["a/zarr.json", "b/zarr.json"]).tolist() == [len(store.get("a/zarr.json") or b""), -1]


@everywhere
def test_equal_documents_have_equal_versions() -> None:
    store = new_session()
    first = store.put("a/zarr.json", group(b=1), ABSENT)
    assert isinstance(first, bytes)
    assert store.put("a/zarr.json", json.dumps(json.loads(group(b=1)), indent=4).encode(), first) == first
    second = store.put("a/zarr.json", group(b=2), first)
    assert second != first
    assert store.put("a/zarr.json", group(b=3), first) == Changed(second)  # type: ignore[arg-type]
    assert store.get_versioned("a/zarr.json") == (store.get("a/zarr.json"), second)
    assert document_of(store, "a/zarr.json")["attributes"] == {"b": 2}


@everywhere
def test_groups_above_are_made() -> None:
    store = new_session()
    store.set("a/b/c/zarr.json", array())
    assert store.list() == ["a/b/c/zarr.json", "a/b/zarr.json", "a/zarr.json", "zarr.json"]
    assert document_of(store, "a/zarr.json") == GROUP
    assert isinstance(store.put("a/zarr.json", group(), ABSENT), Changed)


@everywhere
@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("zarr.json", b"{", None),
        ("a/zarr.json", b"[]", None),
        ("a/zarr.json", array(4, codecs=[]), "codecs"),
        ("a/zarr.json", array(4, data_type="no-such"), "data_type"),
        ("a/zarr.json", array(4, data_type="string", fill_value=0), "fill_value"),
        ("a/zarr.json", array(4, chunk_key_encoding={"name": "v2"}), "chunk_key_encoding"),
        ("a/zarr.json", array(4, mine={"must_understand": False}), "mine"),
        ("a/zarr.json", json.dumps({**GROUP, "mine": {"must_understand": False}}).encode(), "mine"),
        ("a/zarr.json", group(b=2**64), "attributes.b"),
        ("a/zarr.json", b'{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0"}', "zarr_format"),
        ("__a/zarr.json", group(), "__a"),
        ("a/.../zarr.json", group(), "a/..."),
    ],
)
def test_bad_documents_are_refused_before_anything_is_written(key: str, value: bytes, path: str | None) -> None:
    store = filled(x__zarr_json=array(4), x__c__0=b"old")
    before = {key: store.get(key) for key in store.list()}
    with pytest.raises(InvalidInputError) as caught:
        store.put_many(["x/zarr.json", "x/c/0", key], pieces_of([array(2), b"new", value]), [ANY] * 3)
    assert (caught.value.key, caught.value.path) == (key, path)
    assert {key: store.get(key) for key in store.list()} == before


@everywhere
def test_documents_and_their_chunks_in_one_batch() -> None:
    store = new_session()
    names = ["a/b/c/1", "d/c", "a/b/zarr.json", "a/zarr.json", "d/zarr.json", "a/b/c/0"]
    values = [b"one", b"", array(2), group(e=1), array(), b"zero"]
    answers = store.put_many(names, pieces_of(values), [ABSENT] * 6)
    assert answers == [store.get_versioned(name)[1] for name in names]  # type: ignore[index]
    assert [store.get(name) for name in ("a/b/c/0", "a/b/c/1", "d/c")] == [b"zero", b"one", b""]
    assert document_of(store, "a/zarr.json")["attributes"] == {"e": 1}
    versions = [answer for answer in answers if isinstance(answer, bytes)]
    assert store.erase_many(names, versions) == [None] * 6
    assert store.list() == ["zarr.json"]


@everywhere
def test_a_changed_document_keeps_the_chunks() -> None:
    store = filled(a__zarr_json=array(4), a__c__0=b"zero", a__c__3=b"three")
    store.set("a/zarr.json", array(2, attributes={"b": 1}))
    assert store.list_prefix("a/") == ["a/c/0", "a/zarr.json"]
    assert store.get_partial_values([("a/c/0", (1, 2)), ("a/c/3", (0, None))]) == [b"er", None]
    store.set("a/zarr.json", array(6))
    assert store.get("a/c/0") == b"zero"
    assert document_of(store, "a/zarr.json")["attributes"] == {}


@everywhere
@pytest.mark.parametrize(
    ("old", "below", "new"),
    [
        (group(), ("a/b/zarr.json", group()), array(4)),
        (array(4), ("a/c/0", b"chunk"), group()),
        (array(4), ("a/c/0", b"chunk"), array(4, 4)),
    ],
)
def test_writes_of_other_kinds_of_documents_are_refused(old: bytes, below: tuple[str, bytes], new: bytes) -> None:
    store = filled(a__zarr_json=old)
    store.set(*below)
    was = document_of(store, "a/zarr.json")
    with pytest.raises(InvalidInputError, match="change the kind") as caught:
        store.set("a/zarr.json", new)
    assert caught.value.hint is not None
    assert "erase_prefix('a/')" in caught.value.hint
    assert (document_of(store, "a/zarr.json"), store.exists(below[0])) == (was, True)
    store.erase(below[0])
    store.set("a/zarr.json", new)
    assert parse_node(store.get("a/zarr.json") or b"") == parse_node(new)


@everywhere
def test_a_node_goes_with_all_below() -> None:
    store = filled(a__b__zarr_json=array(4), a__b__c__0=b"0", a__x__zarr_json=group(), ab__zarr_json=group())
    version = store.get_versioned("a/zarr.json")
    assert version is not None
    assert store.erase_many(["a/zarr.json"], [ABSENT]) == [Changed(version[1] or b"")]
    assert store.erase_many(["a/zarr.json", "a/b/zarr.json"], [version[1], ANY]) == [None, None]
    assert store.list() == ["ab/zarr.json", "zarr.json"]
    assert store.get("a/b/c/0") is None
    assert store.erase_many(["a/zarr.json", "a/b/c/0"], [version[1], version[1]]) == [Changed(ABSENT)] * 2
    store.erase_values(["a/zarr.json", "a/b/c/0", "foo"])


# --- chunks --------------------------------------------------------------------------------------------------------------------------

NO_CHUNKS = [
    "a/c/4",
    "a/c/0/0",
    "a/c",
    "a/c/4294967296",
    "a/c/9999999999999999999",
    "g/c/0",
    "g/c",
    "none/c/0",
    "c/0",
    "e/c/0",
]
NO_KEYS = [
    ".zarray",
    "a/foo",
    "foo",
    "a/c/00",
    "a/c/-1",
    "a/c/x",
    "a/c/0/x",
    "a/c.0",
    "a/0",
    "a/zarr.json/c0",
    "a/C/0",
    "zarr.jso",
]


@everywhere
@pytest.mark.parametrize("key", NO_CHUNKS + NO_KEYS)
def test_unknown_keys(key: str) -> None:
    store = filled(
        a__zarr_json=array(4), a__c__0=b"0", g__zarr_json=group(), e__zarr_json=array(0), s__zarr_json=array()
    )
    before = store.list()
    assert (store.get(key), store.exists(key), store.sizes([key]).tolist()) == (None, False, [-1])
    with pytest.raises(InvalidInputError) as caught:
        store.put_many(["a/c/0", key], pieces_of([b"new", b"1"]), [ANY, ANY])
    assert caught.value.key == key
    assert caught.value.hint is not None
    assert store.get("a/c/0") == b"0", "nothing was written"
    store.erase(key)
    assert store.erase_many([key, "a/c/0"], [b"version", ABSENT])[0] == Changed(ABSENT)
    assert store.list() == before


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("a/c/4/0", "its chunks are 'a/c/0/0' to 'a/c/3/2'"),
        ("s/c/0", "its only chunk is 's/c'"),
        ("e/c/0", "it has none, as it has no elements"),
        ("g/c/0", "set 'g/zarr.json' to the document of an array first"),
        ("c/0", "set 'zarr.json' to the document of an array first"),
        ("g/foo", 'documents are "zarr.json" and "group/array/zarr.json"'),
    ],
)
def test_hints_describe_the_keys_of_a_node(key: str, hint: str) -> None:
    store = filled(
        a__zarr_json=array(4, 5, chunks=(1, 2)), s__zarr_json=array(), e__zarr_json=array(0), g__zarr_json=group()
    )
    with pytest.raises(InvalidInputError) as caught:
        store.set(key, b"")
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@everywhere
def test_nodes_with_names_like_parts_of_chunk_keys() -> None:
    store = filled(c__c__0__zarr_json=array(4), c__0__zarr_json=array(4, 4))
    store.set("c/c/0/c/3", b"one")
    store.set("c/0/c/3/0", b"two")
    assert store.get_partial_values([(key, (0, None)) for key in ("c/c/0/c/3", "c/0/c/3/0", "c/0/c/3", "c/3")]) == [
        *(b"one", b"two"),
        *(None, None),
    ]
    assert store.list_dir("c/0/c/") == ([], ["c/0/c/3/"])
    assert store.list_dir("c/c/0/") == (["c/c/0/zarr.json"], ["c/c/0/c/"])
    root = filled(zarr_json=array(4, 4), c__0__1=b"chunk")
    assert root.list() == ["c/0/1", "zarr.json"]
    assert root.list_dir("") == (["zarr.json"], ["c/"])


class Counting(PlainNodes):
    """Counts the requests for chunks."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.calls: list[str] = []

    def chunks(self, path: str, metadata: ArrayMetadata) -> ChunkStorage:
        inner = PlainChunks(self.store, f"{path}/", DefaultKeys("/"))

        class Counted(PlainChunks):
            __slots__ = ()

            def __getattribute__(counted, name: str) -> object:
                if name in {"fetch", "publish", "erase", "sizes", "stored"}:
                    self.calls.append(f"{name} {path}")
                return object.__getattribute__(inner, name)

        return Counted(self.store, "", DefaultKeys("/"))


def test_chunks_of_an_array_are_fetched_in_one_call() -> None:
    nodes = Counting(MemoryStore())
    store = NodeStore(nodes, DEFAULT_REGISTRY)
    store.put_many(["a/zarr.json", "b/zarr.json"], pieces_of([array(9), array(9, 9)]), [ANY] * 2)
    names = [f"a/c/{i}" for i in range(9)] + [f"b/c/{i}/{j}" for i in range(9) for j in range(9)]
    for call, expected in (
        (lambda: store.put_many(names, pieces_of([b"x"] * 90), [ANY] * 90), "publish"),
        (lambda: store.get_partial_values([(name, (0, 1)) for name in names]), "fetch"),
        (lambda: store.sizes(names), "fetch"),
        (lambda: store.list_page("", "a/c/3", limit=50), "stored"),
        (lambda: store.erase_values(names), "erase"),
    ):
        nodes.calls.clear()
        call()
        assert nodes.calls == [f"{expected} a", f"{expected} b"]
    nodes.calls.clear()
    assert store.list_dir("") == (["zarr.json"], ["a/", "b/"])
    assert list(store.list_page("", "b/c/9", limit=1).keys) == ["b/zarr.json"]
    store.erase_prefix("b/")
    assert nodes.calls == ["stored b"]


@everywhere
def test_names_that_repeat() -> None:
    store = filled(a__zarr_json=array(4), a__c__0=b"zero")
    version = store.get_versioned("a/c/0")
    assert version is not None
    names = ["a/c/0", "a/zarr.json", "a/c/0", "a/c/1", "a/zarr.json", "a/c/1"]
    spans = np.array([(row, 0, 2) for row in range(6)], np.int64)
    fetched = store.fetch(names, spans, expect=[version[1], None, b"other", ABSENT, b"other", b"other"])
    assert list(fetched.status) == [FOUND, FOUND, STALE, ABSENT_KEY, STALE, STALE]
    assert read_values(fetched, names, spans) == [b"ze", b"{\n", None, None, None, None]
    assert store.sizes(names)[[0, 2, 3]].tolist() == [4, 4, -1]


# --- nodes that cannot be read, and sessions that cannot be written -------------------------------------------------------------------


def test_a_broken_node_harms_no_other() -> None:
    plain = MemoryStore()
    store = plain_session(plain)
    store.put_many(["a/zarr.json", "a/c/0", "b/zarr.json"], pieces_of([array(2), b"0", group()]), [ANY] * 3)
    plain.set("b/zarr.json", b"{")
    assert store.get("a/c/0") == b"0"
    assert (store.exists("b/zarr.json"), store.list_dir("b/")) == (True, (["b/zarr.json"], []))
    assert store.list() == ["a/c/0", "a/zarr.json", "b/zarr.json", "zarr.json"]
    for key in ("b/zarr.json", "b/c/0"):
        with pytest.raises(MetadataError):
            store.get(key)
    store.set("b/zarr.json", group(mended=True))
    assert document_of(store, "b/zarr.json")["attributes"] == {"mended": True}
    plain.set("b/zarr.json", b"{")
    store.erase("b/zarr.json")
    assert not store.exists("b/zarr.json")


def test_a_session_for_reading() -> None:
    nodes = PlainNodes(MemoryStore())
    writable, store = NodeStore(nodes, DEFAULT_REGISTRY), NodeStore(nodes, DEFAULT_REGISTRY, read_only=True)
    writable.put_many(["a/zarr.json", "a/c/0"], pieces_of([array(2), b"0"]), [ANY] * 2)
    assert store.capabilities == writable.capabilities._replace(writable=False, erasable=False)
    assert (store.get("a/c/0"), store.list()) == (b"0", ["a/c/0", "a/zarr.json", "zarr.json"])
    for call in (
        lambda: store.set("a/c/0", b""),
        lambda: store.erase("a/c/0"),
        lambda: store.erase_prefix(""),
        lambda: store.put_many(["a/c/0"], pieces_of([b""]), [ANY]),
        lambda: store.erase_many(["a/c/0"], [ANY]),
        lambda: store.append("a/c/0", b""),
    ):
        with pytest.raises(ReadOnlyError):
            call()
    assert pickle.loads(pickle.dumps(store)).read_only


def test_an_answer_of_another_store_cannot_be_held() -> None:
    with pytest.raises(InvalidInputError):
        plain_session().fetch(["a"], WHOLE, continue_from=MemoryStore().fetch(["a"], WHOLE))


def test_documents_that_others_change_meanwhile() -> None:
    """Bypassing this store: the expected state is checked once more when the document is stored."""

    class Restless(PlainNodes):
        """Another writer comes between the first read of a node and its change."""

        changes = 0

        def change(self, path: str, change: Callable[[Metadata], Metadata]) -> Metadata:
            if self.changes < 3:
                self.changes += 1
                super().change(path, lambda old: old.with_attributes({"theirs": self.changes}))
            return super().change(path, change)

    store = NodeStore(Restless(MemoryStore()), DEFAULT_REGISTRY)
    first = store.put("zarr.json", group(a=1))
    assert isinstance(first, bytes)
    answer = store.put("zarr.json", group(a=2), first)
    assert isinstance(answer, Changed)
    assert document_of(store, "zarr.json")["attributes"] == {"theirs": 1}
    assert isinstance(store.put("zarr.json", group(a=2)), bytes)
    assert document_of(store, "zarr.json")["attributes"] == {"a": 2}


@everywhere
def test_arrays_over_the_keys() -> None:
    """A program that knows only Zarr can do everything: here our own arrays and groups, over keys."""
    root = frazil.create_group(new_session())
    values = np.arange(600, dtype="i4").reshape(20, 30)
    made = root.create_array("x/y", shape=(20, 30), dtype="i4", chunks=(4, 5), shards=(8, 10), attributes={"a": 1})
    made[...] = values
    made[3:5, 7] = 0
    values[3:5, 7] = 0
    again = root["x/y"]
    assert isinstance(again, frazil.Array)
    np.testing.assert_array_equal(again[...], values)
    again.resize((10, 30))
    again.resize((20, 30))
    assert not again[10:].any()
    np.testing.assert_array_equal(again[:10], values[:10])
    assert list(root) == ["x"]
    root["x"].attrs["b"] = 2
    assert dict(root["x"].attrs) == {"b": 2}
    del root["x"]
    assert list(root) == []


@pytest.mark.parametrize("chunk_packing", ["auto", "off"])
def test_chunks_that_share_files_on_disk(tmp_path: Path, chunk_packing: str) -> None:
    repo = frazil.Repository.create(tmp_path, durable=False, chunk_packing=chunk_packing)
    data = np.random.default_rng(0).integers(0, 2**60, 4000)
    with repo.transaction(message="one") as root:
        root.create_array("a", data=data, chunks=1000, codecs=[])
    store = repo.readonly_session().store
    for at in range(4):
        whole = data[1000 * at : 1000 * at + 1000].tobytes()
        assert store.get(f"a/c/{at}") == whole
        assert store.get_partial_values([(f"a/c/{at}", (8, 16)), (f"a/c/{at}", (-8, None))]) == [
            whole[8:24],
            whole[-8:],
        ]
    np.testing.assert_array_equal(np.asarray(frazil.open_array(store, path="a")[...]), data)


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize("committed", [False, True])
def test_chunks_beyond_a_smaller_document_do_not_come_back(compatible: str | None, committed: bool) -> None:
    session = frazil.Repository.create(MemoryStore(), compatible=compatible).writable_session("main")
    store = session.store
    store.set("zarr.json", array(6, chunks=(2,)))
    for at in range(3):
        store.set(f"c/{at}", bytes([at + 1, at + 1]))
    if committed:
        session.commit("first")
        store.set("c/1", b"\7\7")
    for shape in (2, 4, 6):
        store.set("zarr.json", array(shape, chunks=(2,)))
    assert [key for key in store.list() if key.startswith("c/")] == ["c/0"]
    assert store.get("c/1") is None
    store.set("c/2", b"\4\4")
    session.commit("last")
    assert [store.get(f"c/{at}") for at in range(3)] == [b"\1\1", None, b"\4\4"]


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
def test_chunks_beyond_a_committed_smaller_document_do_not_come_back(compatible: str | None) -> None:
    """A session that grows the array does not know of the one that shrank it: no manifest has the chunks any more."""
    repo = frazil.Repository.create(MemoryStore(), compatible=compatible)
    session = repo.writable_session("main")
    session.store.set("zarr.json", array(6, chunks=(2,)))
    for at in range(3):
        session.store.set(f"c/{at}", bytes([at + 1, at + 1]))
    session.commit("first")
    for shape in (2, 6):
        session = repo.writable_session("main")
        session.store.set("zarr.json", array(shape, chunks=(2,)))
        session.commit(f"{shape} elements")
    assert [session.store.get(f"c/{at}") for at in range(3)] == [b"\1\1", None, None]
