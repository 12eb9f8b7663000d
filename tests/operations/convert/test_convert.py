"""Conversions: the result, refusals before any change, and the messages."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from tests.conformance.draft.zarr2 import Zarr2
from tests.operations.archives import assert_same
from tests.operations.hierarchies import content, copy_of, fill

import frazil
from frazil.codecs import Bytes, BytesToBytes, Zstd
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import (
    AlreadyExistsError,
    ConversionError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from frazil.operations.convert.hierarchy_keys import JOURNAL_NAME
from frazil.runtime import Runtime
from frazil.stores import LocalStore, MemoryStore, read_only
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore

FORMATS = (3, "draft", "draft-2021")
PAIRS = list(itertools.permutations(FORMATS, 2))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_conversions_between_all_dialects_keep_values(source: int | str, target: int | str, tmp_path: Path) -> None:
    store = fill(LocalStore(tmp_path / "source"), source)
    before = content(store)
    memory = MemoryStore()
    for place in (tmp_path / "folder", memory):
        done = frazil.convert(store, place, zarr_format=target)
        assert (done.source_format, done.target_format, done.in_place) == (source, target, False)
        assert done.nbytes == sum(array.nbytes for array in done.arrays) > 0
        assert_same(store, place)
        assert frazil.open(place).metadata.zarr_format == target
    assert content(LocalStore(tmp_path / "folder")) == content(memory)
    assert content(store) == before
    done = frazil.convert(store, zarr_format=target)
    assert done.in_place
    if 3 in (source, target):
        assert done.removed == len(before.keys() - content(store).keys())
    explicit = {key for key in content(store) if "level1.group" in key} - set(content(memory))
    assert not explicit or 3 not in (source, target)
    store.erase_values(explicit)
    assert content(store) == content(memory), "in place comes to the same as elsewhere"
    left = {path.relative_to(tmp_path / "source").parts[0] for path in (tmp_path / "source").rglob("*")}
    assert left == {key.partition("/")[0] for key in content(memory)}, "nor is an empty folder left"
    frazil.convert(store, zarr_format=source)
    assert_same(store, memory)


@pytest.mark.parametrize("zarr_format", FORMATS)
def test_a_conversion_below_a_prefix_leaves_other_keys(zarr_format: int | str) -> None:
    frazil.stores.MemoryStore("convert-prefix").erase_prefix("")
    store = MemoryStore("convert-prefix")
    source = fill(MemoryStore(), zarr_format)
    for key in source.list():
        store.set(f"deep/er/{key}", source.get(key) or b"")
    others = {"deep/zzz": b"", "deep/er2/zarr.json": b"not to be looked at", "c/0": b""}
    for key, value in others.items():
        store.set(key, value)
    for target in FORMATS:
        frazil.convert("memory://convert-prefix/deep/er", f"memory://convert-prefix/new/{target}", zarr_format=target)
        assert_same(source, f"memory://convert-prefix/new/{target}")
        frazil.convert("memory://convert-prefix/deep/er", zarr_format=target)
        assert_same(source, "memory://convert-prefix/deep/er")
    assert {key: store.get(key) for key in others} == others
    frazil.convert("memory://convert-prefix/deep/er", zarr_format=zarr_format)
    store.erase_prefix("new/")
    groups = {"level1"} if zarr_format != 3 else set[str]()  # in final Zarr v3 it needed a document
    assert {key for key in store.list() if not any(f"{name}.group.json" in key for name in groups)} == {
        *others,
        *(f"deep/er/{key}" for key in source.list()),
    }


def test_key_encodings_survive_as_far_as_they_can() -> None:
    store, old, back = MemoryStore(), MemoryStore(), MemoryStore()
    values = np.arange(12, dtype="i1").reshape(3, 4)
    for name, separator in itertools.product(("default", "v2"), ("/", ".")):
        encoding = {"name": name, "configuration": {"separator": separator}}
        for path, data in ((f"{name}{ord(separator)}", values), (f"scalar{name}{ord(separator)}", np.array(5, "i1"))):
            frazil.create_array(
                store, path=path, data=data, chunks=(2,) * data.ndim, codecs=[Bytes()], chunk_key_encoding=encoding
            )
    frazil.convert(store, old, zarr_format="draft")
    assert {key for key in old.list() if key.startswith("data/v2") and "scalar" not in key} == {
        f"data/v2{ord(s)}/c{i}{s}{j}" for s in "/." for i in (0, 1) for j in (0, 1)
    }
    frazil.convert(old, back)
    assert_same(store, back)
    same = MemoryStore()
    frazil.convert(store, same)
    assert content(same) == content(store), "to the same dialect it is a copy"


def test_an_array_without_dimensions_has_the_key_of_its_dialect() -> None:
    store = MemoryStore()
    frazil.create_array(store, data=np.array(7, "i2"), codecs=[Bytes("little")], zarr_format="draft-2021")
    assert "data/root/c0" in store.list()
    for target, key in (("draft", "data/c"), (3, "c"), ("draft-2021", "data/root/c0")):
        frazil.convert(store, zarr_format=target)
        assert key in store.list()
        assert frazil.open_array(store)[...] == 7
    store.set("data/root/c", b"\1\0")
    done = frazil.convert(store)
    assert done.left_behind == 1, "of two keys the one that is read is the chunk"
    assert frazil.open_array(store)[...] == 7


# --- what is refused -----------------------------------------------------------------------------------------------------------------


class Secret(BytesToBytes):
    """A user's codec."""

    name = "secret"

    def configuration(self) -> None:
        return None

    def encode(self, data: bytes) -> bytes:
        return data[::-1]

    def decode(self, data: bytes, limit: int | None = None) -> bytes:
        return data[::-1]


def test_an_error_lists_all_refusals() -> None:
    store, registry = MemoryStore(), DEFAULT_REGISTRY.with_codec(Secret)
    root = frazil.create_group(store, registry=registry)
    root.create_array("names", shape=(2, 2), dtype="i4", codecs=[Zstd(1)], dimension_names=("y", None))
    root.create_array("secret", shape=(2,), dtype="i4", codecs=[Bytes("little"), Secret()])
    root.create_group("grüße").create_group("below")
    root.create_array("fine", shape=(2,), dtype="i4", codecs=[Bytes("little")])
    document = {"zarr_format": 3, "node_type": "group", "more": {"must_understand": False}}
    store.set("unknown/zarr.json", json.dumps(document).encode())
    store.set("broken/zarr.json", b'{"zarr_format": 3, "node_type": "array"}')
    before = content(store)
    for target in ("draft", "draft-2021"):
        to = MemoryStore()
        with pytest.raises(ConversionError) as caught:
            frazil.convert(store, to, zarr_format=target, registry=registry)
        refused = {(path, member) for path, member, _ in caught.value.refusals}
        expected = {
            ("broken", "shape"),
            ("grüße", None),
            ("grüße/below", None),
            ("names", "dimension_names"),
            ("secret", "codecs[1]"),
            ("unknown", "more"),
        }
        if target == "draft":
            expected.add(("names", "codecs[1]"))
        assert refused == expected
        assert all(f"/{path}" in str(caught.value) for path, _ in refused)
        assert pickle.loads(pickle.dumps(caught.value)).refusals == caught.value.refusals
        assert content(to) == {}
        with pytest.raises(ConversionError):
            frazil.convert(store, zarr_format=target, registry=registry)
        assert content(store) == before


def test_codecs_of_a_user_are_decoded_on_request() -> None:
    store, to, registry = MemoryStore(), MemoryStore(), DEFAULT_REGISTRY.with_codec(Secret)
    values = np.arange(40, dtype="i4").reshape(4, 10)
    options = {"data": values, "codecs": [Bytes("little"), Secret()], "registry": registry}
    frazil.create_array(store, path="chunks", chunks=(2, 3), **options)  # type: ignore[arg-type]
    frazil.create_array(store, path="shards", chunks=(2, 5), shards=(4, 5), **options)  # type: ignore[arg-type]
    with pytest.raises(ConversionError, match="recode=True"):
        frazil.convert(store, to, zarr_format="draft", registry=registry)
    done = frazil.convert(store, to, zarr_format="draft", registry=registry, recode=True)
    assert done.nbytes == done.nbytes_recoded > 0
    for path, chunks, shards in (("chunks", (2, 3), None), ("shards", (2, 5), (4, 5))):
        array = frazil.open_array(to, path=path)
        assert (array.chunks, array.shards) == (chunks, shards)
        np.testing.assert_array_equal(array[...], values)
    frazil.convert(store, zarr_format="draft", registry=registry, recode=True)
    assert content(store) == content(to)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("extensions", [{"extension": "https://example.org/x", "must_understand": False}]),
        ("storage_transformers", [{"extension": "https://example.org/y", "type": "z"}]),
    ],
)
def test_members_that_only_the_draft_has(member: str, value: object) -> None:
    store = fill(MemoryStore(), "draft")
    key = "meta/level1/shards.array.json"
    store.update(key, lambda old: json.dumps({**json.loads(old or b""), member: value}).encode())
    with pytest.raises(ConversionError) as caught:
        frazil.convert(store, MemoryStore())
    assert [path for path, _, _ in caught.value.refusals] == ["level1/shards"]
    assert (caught.value.refusals[0][1] or "").startswith(member)


def test_a_foreign_transformer_is_refused_even_for_a_copy() -> None:
    """Its content and its keys are its own affair."""
    store = fill(MemoryStore(), "draft")
    entry = {"extension": "https://example.org/y", "type": "z"}
    store.update(
        "meta/level1/chunks.array.json",
        lambda old: json.dumps({**json.loads(old or b""), "storage_transformers": [entry]}).encode(),
    )
    for target in ("draft", "draft-2021"):
        with pytest.raises(ConversionError) as caught:
            frazil.convert(store, MemoryStore(), zarr_format=target)
        assert [refusal[:2] for refusal in caught.value.refusals] == [("level1/chunks", "storage_transformers[0]")]


def test_attributes_are_exact() -> None:
    attributes = {
        "text": 'ü\u2028 "quoted" \\ 💧',
        "numbers": [0.1, -0.0, 1e300, 2**70, -5, True, None],
        "nested": {"a": {"b": [{}, []]}, "filters": 1, "": " "},
    }
    store = frazil.create_group(first := MemoryStore(), attributes=attributes).store
    frazil.create_array(store, path="x", shape=(1,), dtype="i1", codecs=[Bytes()], attributes=attributes)
    for target in ("draft", 3, "draft-2021", "draft", "draft-2021", 3):
        second = MemoryStore()
        frazil.convert(first, second, zarr_format=target)
        for node in (frazil.open(second), frazil.open(second, path="x")):
            assert repr(dict(node.attrs)) == repr(attributes)
        first = second


def test_extensions_of_the_hierarchy_are_not_lost() -> None:
    store = fill(MemoryStore(), "draft")
    extension = {"extension": "https://example.org/x", "must_understand": False}
    store.update("zarr.json", lambda old: json.dumps({**json.loads(old or b""), "extensions": [extension]}).encode())
    with pytest.raises(ConversionError, match=r"extensions of zarr\.json"):
        frazil.convert(store, MemoryStore())


def test_a_type_is_not_replaced_by_its_fallback() -> None:
    store = fill(MemoryStore(), "draft")
    kind = {"extension": "https://example.org/types/money", "type": "eur", "fallback": "int32"}
    store.update(
        "meta/dots.array.json",
        lambda old: json.dumps({**json.loads(old or b""), "data_type": kind, "codecs": [], "fill_value": 0}).encode(),
    )
    with pytest.raises(ConversionError) as caught:
        frazil.convert(store, MemoryStore())
    assert [refusal[:2] for refusal in caught.value.refusals] == [("dots", "data_type")]


def test_documents_that_would_be_folders() -> None:
    store = MemoryStore()
    frazil.create_group(store, path="a")
    frazil.create_group(store, path="a.group.json/b")
    with pytest.raises(ConversionError, match="would be a document and the folder"):
        frazil.convert(store, MemoryStore(), zarr_format="draft")


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [(3, "draft", "meta"), (3, "draft-2021", "data"), ("draft", 3, "data"), ("draft-2021", "draft", "meta")],
)
def test_keys_of_both_dialects_in_one_place(source: int | str, target: int | str, name: str) -> None:
    store = MemoryStore()
    frazil.create_array(store, path=f"{name}/x", data=np.arange(5), codecs=[Bytes("little")], zarr_format=source)
    before = content(store)
    with pytest.raises(ConversionError, match="the same place") as caught:
        frazil.convert(store, zarr_format=target)
    assert "another location" in (caught.value.hint or "")
    assert content(store) == before
    to = MemoryStore()
    frazil.convert(store, to, zarr_format=target)
    assert_same(store, to)


def test_keys_that_are_there_already(tmp_path: Path) -> None:
    for name, target, keys in (
        ("chunks", "draft", ["data/level1/shards/c9/9"]),
        ("found", "draft", ["data/level1/shards/c0/0", "meta/dots.array.json"]),
        ("final", 3, ["dots/c.0.0"]),
    ):
        store = fill(LocalStore(tmp_path / name), 3 if target != 3 else "draft")
        if target == 3:
            store.update(
                "meta/dots.array.json", lambda old: (old or b"").replace(b'"separator": "/"', b'"separator": "."')
            )
            keys = ["dots/c.0.0"]
        for key in keys:
            store.set(key, b"left behind by a removed node")
        before = content(store)
        if name == "chunks":
            assert frazil.convert(store, zarr_format=target).left_behind == 1, "it is no chunk of the new array"
            continue
        with pytest.raises(AlreadyExistsError) as caught:
            frazil.convert(store, zarr_format=target)
        assert caught.value.key in keys
        assert content(store) == before


def test_wrong_arguments(tmp_path: Path) -> None:
    store = fill(LocalStore(tmp_path / "a"))
    for arguments in (
        {"zarr_format": 2},
        {"zarr_format": "final"},
        {"zarr_format": True},
        {"overwrite": True},
        {"destination": MemoryStore(), "recode": 1},
        {"dry_run": None},
        {"destination": tmp_path / "a"},
        {"destination": str(tmp_path / "a" / "b")},
        {"destination": tmp_path},
        {"destination": LocalStore(tmp_path / "x" / ".." / "a")},
    ):
        with pytest.raises(InvalidInputError):
            frazil.convert(store, **{"zarr_format": "draft", **arguments})  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        frazil.convert(tmp_path / "nothing", MemoryStore())
    with pytest.raises(ReadOnlyError):
        frazil.convert(store, read_only(MemoryStore()), zarr_format="draft")
    with pytest.raises(ReadOnlyError):
        frazil.convert(read_only(store), zarr_format="draft")
    assert_same(store, fill(MemoryStore()))


def test_objects_of_users_are_stores_too() -> None:
    store, to = fill(MemoryStore()), dict[str, bytes]()
    frazil.convert(store, to, zarr_format="draft")
    assert_same(store, to)
    with pytest.raises(InvalidInputError, match="same location"):
        frazil.convert(to, to)
    frazil.convert(to)
    assert_same(store, to)
    assert frazil.open(to).metadata.zarr_format == 3


def test_a_destination_that_holds_something(tmp_path: Path) -> None:
    store, to = fill(MemoryStore()), MemoryStore()
    to.set("other", b"1")
    with pytest.raises(AlreadyExistsError):
        frazil.convert(store, to, zarr_format="draft")
    with pytest.raises(AlreadyExistsError):
        frazil.convert(store, to, zarr_format="draft", dry_run=True)
    assert content(to) == {"other": b"1"}
    frazil.convert(store, to, zarr_format="draft", overwrite=True)
    assert "other" not in to.list()
    assert_same(store, to)


def test_zarr_python_2_reads_created_and_converted_arrays(zarr2: Zarr2, tmp_path: Path) -> None:
    store = fill(MemoryStore())
    frazil.create_array(store, path="zstd", data=np.arange(300.0).reshape(20, 15), chunks=(4, 5), shards=(8, 5))
    frazil.convert(store, tmp_path / "old", zarr_format="draft-2021")
    for path, node in frazil.open_group(store).members(None):
        if isinstance(node, frazil.Array):
            np.testing.assert_array_equal(zarr2.read(tmp_path / "old", path), node[...])


# --- messages and costs --------------------------------------------------------------------------------------------------------------


def test_dry_run_reports_the_same_and_writes_nothing() -> None:
    for destination in (None, MemoryStore()):
        store = fill(MemoryStore())
        store.set("level1/shards/c/9/9", b"outside the array")
        store.set(".zmetadata", b"{}")
        before = content(store)
        planned = frazil.convert(store, destination, zarr_format="draft", dry_run=True)
        assert content(store) == before
        assert destination is None or content(destination) == {}
        done = frazil.convert(store, destination, zarr_format="draft")
        assert planned._replace(dry_run=False, removed=done.removed) == done
        assert done.left_behind == 2
        ways = {array.path: (array.way, array.objects) for array in done.arrays}
        assert ways["level1/shards"] == ("shard index", 6)
        assert ways["unwritten"] == ("bytes", 0)
        assert json.loads(json.dumps(done.to_json()))["nbytes"] == done.nbytes
        assert pickle.loads(pickle.dumps(done)) == done
        assert "2 keys of no node left behind" in str(done)


def test_progress_adds_up_to_the_bytes() -> None:
    for destination in (None, MemoryStore()):
        store, seen = fill(MemoryStore()), list[int]()
        done = frazil.convert(store, destination, zarr_format="draft-2021", progress=seen.append)
        assert sum(seen) == done.nbytes
        assert min(seen) >= 0


def test_conversions_to_the_same_dialect() -> None:
    for zarr_format in FORMATS:
        store = fill(MemoryStore(), zarr_format)
        before = content(store)
        assert "nothing is to be done" in str(frazil.convert(store, zarr_format=zarr_format))
        assert content(store) == before


def test_large_objects_do_not_lie_in_memory_together() -> None:
    store = MemoryStore()
    frazil.create_array(store, data=np.zeros((40, 1000), "u1") + 1, chunks=(1, 1000), codecs=[Bytes()])
    counting = CountingStore(MemoryStore())
    frazil.convert(store, counting, zarr_format="draft", runtime=Runtime(bytes_in_flight=5000))
    assert_same(store, counting.inner)


def test_a_store_that_fails_is_an_error_and_the_next_run_finishes() -> None:
    for operation, kind in itertools.product(("fetch", "put_many", "list"), ("fail", "cut", "lose")):
        for call in range(1, 8):
            if (operation, kind) in {("fetch", "lose"), ("list", "cut"), ("list", "lose")}:
                continue
            inner, source = MemoryStore(), fill(MemoryStore())
            store = FaultyStore(inner, FaultPlan([Fault(operation, call, kind)]))  # type: ignore[arg-type]
            try:
                frazil.convert(source, store, zarr_format="draft")
            except (StoreError, FormatError):
                assert "zarr.json" not in inner.list() or JOURNAL_NAME in inner.list()
                store.plan = FaultPlan()
                frazil.convert(source, store, zarr_format="draft")
            assert JOURNAL_NAME not in inner.list()
            assert_same(source, inner)


def test_copies_are_not_made_twice(tmp_path: Path) -> None:
    source, to = fill(LocalStore(tmp_path / "a")), MemoryStore()
    whole = frazil.convert(source, to, zarr_format="draft")
    faulty = FaultyStore(inner := LocalStore(tmp_path / "b"), FaultPlan([Fault("put_many", 4)]))
    with pytest.raises(StoreError):
        frazil.convert(source, faulty, zarr_format="draft")
    assert JOURNAL_NAME in inner.list()
    there = len([key for key in inner.list() if key.startswith("data/")])
    assert there > 0
    shutil.copytree(tmp_path / "b", tmp_path / "later")
    for path in (tmp_path / "later").rglob("*"):
        os.utime(path, times=(time.time() + 10,) * 2)
    again = frazil.convert(source, tmp_path / "later", zarr_format="draft")
    assert sum(array.found for array in again.arrays) == there
    assert content(LocalStore(tmp_path / "later")) == content(to)
    with pytest.raises(AlreadyExistsError):
        frazil.convert(source, inner, zarr_format="draft-2021")
    with pytest.raises(AlreadyExistsError):
        frazil.convert(copy_of(source), inner, zarr_format="draft")
    frazil.open_array(source, path="level1/shards", mode="r+")[0, 3] = 7777
    source.erase("level1/chunks/c/1/0")
    del frazil.open_group(source, "r+")["dots"]
    again = frazil.convert(source, faulty, zarr_format="draft")
    assert sum(array.found for array in again.arrays) == 0, "what was changed at nearly the same time is not trusted"
    assert again.objects < whole.objects
    assert_same(source, inner)
    assert not [key for key in inner.list() if "dots" in key or key == JOURNAL_NAME]
