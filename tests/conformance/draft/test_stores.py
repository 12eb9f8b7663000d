"""The abstract store interface of the draft, rule by rule, over stores of every kind. frazil.testing.StoreTests goes further; it runs in tests/stores."""

from __future__ import annotations

import os
import string
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import frazil
from frazil.errors import InvalidInputError, ReadOnlyError, StoreError
from frazil.stores import CachingStore, LocalStore, MemoryStore, Store, WrappedStore, adapt, read_only
from frazil.testing import CountingStore
from frazil.testing.checks import refusal
from tests.external_data import zarr2_python
from tests.stores.draft_operations import subset

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda path: MemoryStore(),
    "disk": lambda path: LocalStore(path / "store"),
    "dict": lambda path: adapt({}),
    "whole": lambda path: adapt(subset("get", "set", "erase", "list")),
    "partial": lambda path: adapt(subset("get_partial_values", "set_partial_values", "erase_values", "list_dir")),
    "sized": lambda path: adapt(subset("get_partial_values", "size", "set", "erase", "list_prefix", "erase_prefix")),
    "wrapped": lambda path: WrappedStore(MemoryStore()),
    "counted": lambda path: CountingStore(LocalStore(path / "store")),
    "cached": lambda path: CachingStore(MemoryStore(), 1000),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


@pytest.mark.rule("D58")
def test_keys_and_values(store: Store) -> None:
    keys = [
        string.ascii_lowercase,
        string.ascii_uppercase + "_",
        string.digits,
        ".-_",
        "a/b/c",
        "meta/a.array.json",
        "data/a/c0/0",
    ]
    for key in keys:
        store.set(key, key.encode())
    assert [store.get(key) for key in keys] == [key.encode() for key in keys]
    assert store.list() == sorted(keys)
    store.set("a/b/c", bytes(range(256)))
    assert store.get("a/b/c") == bytes(range(256)), "one value a key"
    assert store.list() == sorted(keys)
    for value in ("text", 5, None):
        refusal(InvalidInputError, lambda value=value: store.set("a/b/c", value))  # type: ignore[misc]
    assert store.get("a/b/c") == bytes(range(256)), "a value is bytes"
    store.set("foo", b"a")
    store.set("FOO", b"b")
    assert (store.get("foo"), store.get("FOO"), store.get("Foo")) == (b"a", b"b", None)
    for key in ("a b", "ü/é", "a+b@c"):
        store.set(key, b"not of the draft's characters")
        assert store.get(key) == b"not of the draft's characters", "final Zarr v3 has any Unicode"
    before = store.list()
    for key in ("a/", "/", "", "a//b", "a/../b", 5, "value\0"):
        for call in (store.get, store.erase, lambda key: store.set(key, b"")):
            refusal(InvalidInputError, lambda call=call, key=key: call(key))  # type: ignore[misc]
    assert store.list() == before


@pytest.mark.rule("D59", "D62")
def test_reading(store: Store) -> None:
    store.set("a", b"0123456789")
    store.set("b", b"")
    assert (store.get("a"), store.get("b"), store.get("c")) == (b"0123456789", b"", None)
    requested: list[tuple[str, tuple[int, int | None]]] = [
        ("a", (2, 3)), ("c", (0, None)), ("a", (0, None)), ("b", (0, None)), ("a", (7, None)), ("a", (2, 3)), ("a", (8, 9)), ("c", (5, 1)), ("a", (4, 0)),
    ]  # fmt: skip
    values = [b"234", None, b"0123456789", b"", b"789", b"234", b"89", None, b""]
    assert store.get_partial_values(requested) == values
    assert store.get_partial_values(requested[::-1]) == values[::-1]
    for wrong in ((0, -1), (1.5, 2), "0", (0,)):
        refusal(InvalidInputError, lambda wrong=wrong: store.get_partial_values([("a", wrong)]))  # type: ignore[misc]


@pytest.mark.rule("X27")
def test_the_end_of_a_value(store: Store) -> None:
    store.set("a", b"0123456789")
    requested: list[tuple[str, tuple[int, int | None]]] = [
        ("a", (-3, None)),
        ("a", (-3, 2)),
        ("a", (-99, None)),
        ("c", (-3, None)),
    ]
    assert store.get_partial_values(requested) == [b"789", b"78", b"0123456789", None]


@pytest.mark.rule("X27")
def test_the_end_of_a_value_is_one_request() -> None:
    store = CountingStore(MemoryStore())
    store.set("a", b"0123456789")
    store.clear()
    assert store.get_partial_values([("a", (-3, None))]) == [b"789"]
    assert [(done.operation, done.start, done.nbytes) for done in store.requests] == [("fetch", -3, 3)]


@pytest.mark.rule("D63")
def test_writing_and_erasing(store: Store) -> None:
    for key in ("a", "b/c", "b/d/e", "bc", "f"):
        store.set(key, b"0123456789")
    store.set_partial_values([("a", 8, b"XYZ"), ("f", 0, b"x"), ("a", 0, b"--"), ("new", 0, b"n"), ("new", 1, b"ew")])
    assert [store.get(key) for key in ("a", "f", "new")] == [b"--234567XYZ", b"x123456789", b"new"]
    store.set("a", b"short")
    assert store.get("a") == b"short"
    store.erase("a")
    store.erase("a")
    assert store.get("a") is None
    store.erase_values({"f", "new", "never there"})
    store.erase_prefix("b/")
    store.erase_prefix("none/")
    assert store.list() == ["bc"]


@pytest.mark.rule("D63")
@pytest.mark.parametrize(
    "wrong", [[("b", 0, b"12"), ("b", 1, b"3")], [("b", 1, b"1"), ("b", 1, b"1")], [("b", 0, b"123"), ("b", 1, b"2")]]
)
def test_ranges_that_overlap_are_refused(store: Store, wrong: list[tuple[str, int, bytes]]) -> None:
    store.set("a", b"0123")
    store.set("b", b"0123")
    assert "overlap" in refusal(InvalidInputError, lambda: store.set_partial_values([("a", 0, b"X"), *wrong])).message
    assert (store.get("a"), store.get("b")) == (b"0123", b"0123")


@pytest.mark.rule("X29")
def test_gaps_are_refused(store: Store) -> None:
    store.set("a", b"0123")
    store.set("b", b"0123")
    for wrong in (("a", 5, b"x"), ("new", 1, b"x"), ("a", -1, b"x")):
        error = refusal(InvalidInputError, lambda wrong=wrong: store.set_partial_values([("b", 0, b"X"), wrong]))  # type: ignore[misc]
        assert error.key == wrong[0]
        assert (store.get("a"), store.get("b"), store.get("new")) == (b"0123", b"0123", None)
    store.set_partial_values([("a", 4, b"4"), ("a", 5, b"5")])
    assert store.get("a") == b"012345"


@pytest.mark.rule("D60", "D64", "X17")
def test_listing(store: Store) -> None:
    for key in ("a/b", "a/c", "a/d/e", "a/f/g", "e"):
        store.set(key, b"")
    assert store.list() == ["a/b", "a/c", "a/d/e", "a/f/g", "e"]
    assert store.list_prefix("a/") == ["a/b", "a/c", "a/d/e", "a/f/g"]
    assert store.list_dir("a/") == (["a/b", "a/c"], ["a/d/", "a/f/"])
    assert store.list_dir("a/d/") == (["a/d/e"], [])
    assert store.list_dir("b/") == ([], [])
    assert store.list_prefix("b/") == []
    for prefix in ("a", "/", "a//", "b/c"):
        for call in (store.list_prefix, store.list_dir, store.erase_prefix):
            refusal(InvalidInputError, lambda call=call, prefix=prefix: call(prefix))  # type: ignore[misc]


@pytest.mark.rule("X19")
def test_everything_is_listed_without_a_prefix(store: Store) -> None:
    for key in ("zarr.json", "meta/a.array.json", "data/a/c0"):
        store.set(key, b"")
    assert store.list() == store.list_prefix("") == ["data/a/c0", "meta/a.array.json", "zarr.json"]
    assert store.list_dir("") == (["zarr.json"], ["data/", "meta/"])
    store.erase_prefix("")
    assert store.list() == []


@pytest.mark.rule("D61")
def test_read_only_stores(store: Store) -> None:
    store.set("a/b", b"1")
    reader = read_only(store)
    assert (reader.get("a/b"), reader.list()) == (b"1", ["a/b"])
    for call in (
        lambda: reader.set("a/b", b"2"),
        lambda: reader.set_partial_values([("a/b", 0, b"2")]),
        lambda: reader.erase("a/b"),
        lambda: reader.erase_values(["a/b"]),
        lambda: reader.erase_prefix("a/"),
    ):
        refusal(ReadOnlyError, call)
    assert store.get("a/b") == b"1"


@pytest.mark.rule("D66")
def test_stores_without_erase() -> None:
    store = adapt(subset("get", "set", "list"))
    store.set("a/b", b"1")
    store.set("a/b", b"2")
    for call in (lambda: store.erase("a/b"), lambda: store.erase_values(["a/b"]), lambda: store.erase_prefix("a/")):
        assert "erasable" in refusal(StoreError, call).message
    assert store.get("a/b") == b"2"


@pytest.mark.rule("D58", "D62", "D63", "D64")
def test_stores_of_zarr_python(tmp_path: Path) -> None:
    """Its stores of the draft have roughly the operations of the document; the others are mappings."""
    source = Path(frazil.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(source), "ZARR_V3_EXPERIMENTAL_API": "1", "ZARR_V3_SHARDING": "1"}
    done = subprocess.run(
        [zarr2_python(), Path(__file__).parent / "zarr2_stores.py", tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 8
