"""fallbacks.py and operations.py: which operations of an object are called, which answers are allowed, and errors of objects."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.no_backoff import no_pauses
from tests.reference_cycles import is_freed
from tests.stores.draft_operations import Table

import frazil
from frazil.errors import InvalidInputError, StoreError
from frazil.stores import CachingStore, Store, WrappedStore, adapt
from frazil.testing.checks import refusal

# --- which operations are called ---------------------------------------------------------------------------------------------------------


class Counting:
    """Forwards some operations of a table, and counts them."""

    def __init__(self, *names: str) -> None:
        self.table = Table("suffix_ranges" in names)
        self.calls: Counter[str] = Counter()
        self.bytes_read = 0
        self.suffix_ranges = self.table.suffix_ranges
        for name in set(names) - {"suffix_ranges"}:
            setattr(self, name, self._counted(name))

    def _counted(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.calls[name] += 1
            answer = getattr(self.table, name)(*args)
            if name in {"get", "get_partial_values"}:
                self.bytes_read += sum(map(len, filter(None, [answer] if isinstance(answer, bytes) else answer)))
            return answer

        return call


SUBSETS_THAT_WRITE_PARTS = [
    ("set_partial_values",),
    ("set_partial_values", "set"),
    ("set_partial_values", "size"),
    ("set_partial_values", "get"),
    ("set_partial_values", "get_partial_values", "erase"),
    (
        "set_partial_values",
        "get",
        "get_partial_values",
        "set",
        "erase",
        "list",
        "size",
        "version",
        "set_if",
        "erase_if",
    ),
]


@pytest.mark.rule("D63", "D65")
@pytest.mark.parametrize("names", SUBSETS_THAT_WRITE_PARTS, ids="+".join)
@pytest.mark.parametrize("wrap", [lambda store: store, WrappedStore, lambda store: CachingStore(store, 2**20)])
def test_partial_values_are_written_by_the_objects_own_operation(
    names: tuple[str, ...], wrap: Callable[[Store], Store]
) -> None:
    """One call for all keys, whatever else the object supports; no whole value is written."""
    inner = Counting(*names)
    inner.table.values.update(a=b"0123456789", b=b"xyz")
    store = adapt(inner)  # type: ignore[arg-type]
    if store.capabilities.writable:
        store = wrap(store)
    store.set_partial_values([("a", 6, b"ST"), ("b", 3, b"new"), ("a", 1, b"AB"), ("c", 0, b"!")])
    assert inner.table.values == {"a": b"0AB345ST89", "b": b"xyznew", "c": b"!"}
    assert (inner.calls["set_partial_values"], inner.calls["set"], inner.calls["set_if"]) == (1, 0, 0)


@pytest.mark.rule("D63", "X29")
@pytest.mark.parametrize("names", SUBSETS_THAT_WRITE_PARTS[2:], ids="+".join)
def test_partial_values_beyond_the_end_are_refused_wherever_the_end_is_known(names: tuple[str, ...]) -> None:
    inner = Counting(*names)
    inner.table.values.update(a=b"0123456789")
    store = adapt(inner)  # type: ignore[arg-type]
    for key, start in (("a", 11), ("new", 1)):
        assert (
            refusal(
                InvalidInputError,
                lambda key=key, start=start: store.set_partial_values([("a", 0, b"?"), (key, start, b"!")]),
            ).key
            == key
        )  # type: ignore[misc]
    assert inner.table.values == {"a": b"0123456789"}


@pytest.mark.rule("D59", "D65")
@pytest.mark.parametrize(
    ("names", "calls", "nbytes"),
    [
        (("get",), {"get": 1}, 1000),
        (("get_partial_values",), {"get_partial_values": 1}, 1000),
        (("get", "get_partial_values"), {"get": 1}, 1000),
        (("get", "get_partial_values", "size"), {"size": 1, "get_partial_values": 1}, 7),
        (("get_partial_values", "suffix_ranges"), {"get_partial_values": 1}, 7),
    ],
)
def test_requests_for_the_end_of_a_value(names: tuple[str, ...], calls: dict[str, int], nbytes: int) -> None:
    inner = Counting(*names)
    inner.table.set("a", bytes(range(250)) * 4)
    store = adapt(inner)  # type: ignore[arg-type] # mypy does not see setattr
    assert store.get_partial_values([("a", (-7, None))]) == [bytes(range(243, 250))]
    assert (inner.calls, inner.bytes_read) == (calls, nbytes)


def test_ranges_of_many_keys_are_one_call() -> None:
    inner = Counting("get", "get_partial_values")
    for key in "abc":
        inner.table.set(key, key.encode() * 9)
    store = adapt(inner)  # type: ignore[arg-type]
    assert store.get_partial_values([("a", (0, 2)), ("b", (3, None)), ("x", (0, 1)), ("a", (0, 2))]) == [
        b"aa", b"bbbbbb", None, b"aa",
    ]  # fmt: skip
    assert store.get_partial_values([("a", (0, None)), ("c", (0, None))]) == [b"a" * 9, b"c" * 9]
    assert inner.calls == {"get_partial_values": 2}


def test_a_chunk_of_a_shard_is_read_by_ranges() -> None:
    inner = Counting("get", "get_partial_values", "set", "size", "list")
    store = adapt(inner)  # type: ignore[arg-type]
    array = frazil.create_array(store, shape=(100, 100), dtype="f8", chunks=(10, 10), shards=(100, 100), codecs=[])
    array[...] = np.arange(10000).reshape(100, 100)
    inner.calls.clear()
    inner.bytes_read = 0
    assert array[55, 55] == 5555
    assert inner.bytes_read == 1604 + 800 + 1604, "the index, the chunk, and whether the index is the same"
    assert inner.calls["get_partial_values"] == 2
    assert inner.calls["get"] == 0


def test_existence_is_asked_for_by_the_least() -> None:
    for names, calls, nbytes in (
        (("get",), {"get": 2}, 100),
        (("get", "get_partial_values"), {"get_partial_values": 2}, 1),
        (("get", "size"), {"size": 2}, 0),
    ):
        inner = Counting(*names)
        inner.table.set("a", bytes(100))
        store = adapt(inner)  # type: ignore[arg-type]
        assert (store.exists("a"), store.exists("b")) == (True, False)
        assert (inner.calls, inner.bytes_read) == (calls, nbytes)


@pytest.mark.rule("D63", "D65")
def test_partial_writes_go_where_they_belong() -> None:
    inner = Counting("get_partial_values", "set", "set_partial_values")
    inner.table.set("a", bytes(1000))
    store = adapt(inner)  # type: ignore[arg-type]
    store.set_partial_values([("a", 10, b"new"), ("a", 1000, b"end"), ("b", 0, b"b")])
    assert inner.table.values == {"a": bytes(10) + b"new" + bytes(987) + b"end", "b": b"b"}
    assert (inner.calls, inner.bytes_read) == ({"set_partial_values": 1, "get_partial_values": 1}, 1)


@pytest.mark.rule("D65")
def test_whole_values_of_partial_ones_are_cut() -> None:
    inner = Counting("get_partial_values", "set_partial_values", "erase")
    store = adapt(inner)  # type: ignore[arg-type]
    store.set("a", b"a long value")
    assert inner.calls["erase"] == 0
    store.set("a", b"a LONGER value")
    assert inner.calls["erase"] == 0, "what is not longer is written over"
    store.set("a", b"short")
    assert inner.calls["erase"] == 1
    assert inner.table.values == {"a": b"short"}
    store.set("a", b"")
    assert inner.table.values == {"a": b""}


@pytest.mark.rule("D65", "D66")
def test_invalid_ranges_are_refused() -> None:
    table = Table()
    store = adapt(SimpleNamespace(get=table.get, set_partial_values=table.set_partial_values))
    store.set("a", b"12345")
    store.set("a", b"54321")
    error = refusal(StoreError, lambda: store.set("a", b"123"))
    assert error.key == "a"
    assert table.values == {"a": b"54321"}
    blind = adapt(SimpleNamespace(erase_values=table.erase_values, set_partial_values=table.set_partial_values))
    blind.set("a", b"123")
    assert table.values == {"a": b"123"}, "who cannot read erases first"


@pytest.mark.rule("D63")
def test_erase_prefix_of_the_object_is_used() -> None:
    inner = Counting("get", "set", "erase", "erase_prefix", "list")
    store = adapt(inner)  # type: ignore[arg-type]
    for key in ("a/b", "a/c/d", "ab"):
        store.set(key, b"")
    store.erase_prefix("a/")
    assert inner.calls == {"set": 3, "erase_prefix": 1}
    store.erase_prefix("none/")
    store.erase_prefix("")
    assert inner.calls == {"set": 3, "erase_prefix": 2, "list": 1, "erase": 1}, '"" is no prefix in the document'
    prefixes_only = adapt(SimpleNamespace(set=inner.table.set, erase_prefix=inner.table.erase_prefix))
    inner.table.set("a/b", b"")
    prefixes_only.erase_prefix("a/")
    assert inner.table.values == {}
    refusal(StoreError, lambda: prefixes_only.erase("a/b"))


@pytest.mark.rule("D64")
@pytest.mark.parametrize("name", ["list", "list_prefix", "list_dir"])
def test_any_listing_operation_lists_all_keys(name: str) -> None:
    table = Table()
    for key in ("b", "a/b", "a/c/d", "a/c/e/f", "a0"):
        table.set(key, b"")
    store = adapt(SimpleNamespace(**{name: getattr(table, name)}))
    assert store.list() == ["a/b", "a/c/d", "a/c/e/f", "a0", "b"]
    assert store.list_prefix("a/c/") == ["a/c/d", "a/c/e/f"]
    assert store.list_prefix("none/") == []
    assert store.list_dir("") == (["a0", "b"], ["a/"])
    assert store.list_dir("a/") == (["a/b"], ["a/c/"])
    assert store.list_dir("none/") == ([], [])
    assert (store.is_empty("a/c/"), store.is_empty("none/")) == (False, True)


@pytest.mark.rule("D64")
def test_listings_take_what_stores_are_known_to_give() -> None:
    folders = adapt(SimpleNamespace(list_dir=lambda prefix: ([prefix + "k", prefix + "k"], [prefix + "p"])))
    assert folders.list_dir("a/") == (["a/k"], ["a/p/"]), "prefixes without their slash, and keys twice"
    markers = adapt(SimpleNamespace(list_prefix=lambda prefix: ["a/", "a/b", "", "a//b", "a/c/", None]))
    assert markers.list_prefix("a/") == ["a/b"], "names that are no keys"

    def nothing(prefix: str) -> list[str]:
        raise FileNotFoundError(prefix)

    assert adapt(SimpleNamespace(list_prefix=nothing)).list() == []


# --- faulty objects ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "answer", "call"),
    [
        ("get", "text", lambda store: store.get("a")),
        ("get", {"zarr_format": 3}, lambda store: store.get("a")),
        ("get_partial_values", [b"123"], lambda store: store.get_partial_values([("a", (0, 2))])),
        ("get_partial_values", [b"1", b"2"], lambda store: store.get("a")),
        ("get_partial_values", [], lambda store: store.get("a")),
        ("get_partial_values", None, lambda store: store.get("a")),
        ("get_partial_values", [5], lambda store: store.get("a")),
        ("list", None, lambda store: store.list()),
        ("list_prefix", ["b/c"], lambda store: store.list_prefix("a/")),
        ("list_dir", ["a/b"], lambda store: store.list_dir("a/")),
        ("list_dir", (["a/b/c"], []), lambda store: store.list_dir("a/")),
        ("list_dir", ([], ["b/"]), lambda store: store.list_dir("a/")),
        ("list_dir", ([], [5]), lambda store: store.list_dir("a/")),
    ],
)
def test_wrong_answers(name: str, answer: object, call: Callable[[Store], object]) -> None:
    store = adapt(SimpleNamespace(**{name: lambda *args: answer}))
    assert refusal(StoreError, lambda: call(store)).message


@pytest.mark.parametrize("error", [OSError(5, "broken"), ValueError("of the store"), NotImplementedError()])
def test_failures_say_where_they_came_from(error: Exception) -> None:
    def fail(*args: object) -> Any:
        raise error

    names = ("get", "set", "set_partial_values", "erase", "erase_values", "erase_prefix", "list", "list_prefix")
    calls: dict[str, Callable[[Store], object]] = {
        "get": lambda store: store.get("a"),
        "set": lambda store: store.set("a", b""),
        "set_partial_values": lambda store: store.set_partial_values([("a", 0, b"")]),
        "erase": lambda store: store.erase("a"),
        "erase_prefix": lambda store: store.erase_prefix("a/"),
        "list": lambda store: store.list(),
        "list_prefix": lambda store: store.list_prefix("a/"),
    }
    for name, call in calls.items():
        inner = SimpleNamespace(**{one: fail for one in names if one != "erase_values"})
        found_error = refusal(StoreError, lambda call=call, inner=inner: call(adapt(inner)))  # type: ignore[misc]
        assert found_error.message.startswith(f"{name} of the store failed with {type(error).__name__}")
        assert found_error.__cause__ is error
        assert found_error.errno == getattr(error, "errno", None)


def test_a_missing_key_is_no_excuse_for_a_write() -> None:
    def fail(*args: object) -> None:
        raise KeyError("table")

    for inner in (SimpleNamespace(set=fail), SimpleNamespace(set_partial_values=fail, get=fail)):
        refusal(StoreError, lambda inner=inner: adapt(inner).set("a", b""))  # type: ignore[misc]


@pytest.mark.parametrize("error", [KeyError, FileNotFoundError, IsADirectoryError, frazil.errors.NotFoundError])
def test_errors_that_mean_a_missing_key(error: Callable[[str], Exception]) -> None:
    def missing(*args: Any) -> Any:
        raise error("a")

    for names in (("get",), ("get_partial_values",), ("get", "size")):
        store = adapt(SimpleNamespace(**dict.fromkeys(names, missing)))
        assert store.get("a") is None
        assert store.get_partial_values([("a", (0, 2)), ("b", (1, 2))]) == [None, None]
        assert not store.exists("a")
        assert store.sizes(["a", "b"]).tolist() == [-1, -1]
    store = adapt(SimpleNamespace(set=missing, erase_values=missing))
    store.erase_values(["a", "b"])


def test_a_missing_key_does_not_hide_others() -> None:
    table = Table()
    table.set("a", b"12")

    def strict(key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes]:
        return [table.get(key)[start:][:length] for key, (start, length) in key_ranges]

    store = adapt(SimpleNamespace(get_partial_values=strict))
    assert store.get_partial_values([("b", (0, 1)), ("a", (0, 1)), ("c", (0, 1))]) == [None, b"1", None]


class WithoutRanges:
    """As a file system over a web server that ignores ranges, and checks no answers."""

    value = bytes(range(100))

    def get_partial_values(self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes]:
        return [self.value] * len(key_ranges)

    def size(self, key: str) -> int:
        return len(self.value)


@pytest.mark.parametrize("requested", [(5, 10), (90, None), (1, None), (5, 200), (-5, None), (200, None)])
def test_a_whole_value_is_no_answer_to_a_range(requested: tuple[int, int | None]) -> None:
    store = adapt(WithoutRanges())
    assert store.get("a") == WithoutRanges.value
    with no_pauses():
        refusal(StoreError, lambda: store.get_partial_values([("a", requested)]))


class Signed:
    """Its errors show what it asked for, as those of aiohttp do."""

    def get_partial_values(self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes]:
        raise OSError(
            "403\n, url='https://me:secret@files.example.org/x?sig=secret&e=1', not https://a.example.org/b?sig=secret"
        )


def test_errors_of_others_have_a_key_and_no_secrets() -> None:
    error = refusal(StoreError, lambda: adapt(Signed()).get("a/b"))
    assert "secret" not in f"{error}"
    assert "OSError: 403 , url='https://files.example.org/x', not https://a.example.org/b" in error.message
    assert error.key == "a/b"
    assert "secret" not in "".join(traceback.format_exception(error))


class Chained:
    """Its errors are raised from others, or while others are handled."""

    def __init__(self, first: str, kind: str) -> None:
        self.first, self.kind = first, kind

    def get(self, key: str) -> bytes:
        before: Exception = OSError(self.first)
        if self.kind == "note":
            before = OSError("no access")
            before.add_note(self.first)
        elif self.kind == "group":
            before = ExceptionGroup("two", [OSError(self.first), OSError("another")])
        if self.kind == "context":
            try:
                raise before
            except OSError:
                raise ValueError("not read")  # noqa: B904
        raise ValueError("not read") from before


@pytest.mark.parametrize("kind", ["cause", "context", "note", "group"])
@pytest.mark.parametrize("first", ["https://e.org/x?sig=secret", "s3://me:secret@e.org/x", "https://e.org/x"])
def test_tracebacks_of_others_have_no_secrets(first: str, kind: str) -> None:
    error = refusal(StoreError, lambda: adapt(Chained(first, kind)).get("a"))
    shown = "".join(traceback.format_exception(error))
    assert "secret" not in shown
    assert ("e.org" in shown) == ("secret" not in first), "an error without secrets is the cause of ours"
    assert error.__context__ is None or error.__context__ is error.__cause__


def test_errors_are_freed_with_their_last_reference() -> None:
    class Failed(Exception):
        pass

    def fail(*_: object) -> None:
        raise Failed

    store = adapt(SimpleNamespace(get=fail, set=fail, list=fail))
    for call in (lambda: store.get("a"), lambda: store.set("a", bytes(10)), store.list):
        assert is_freed(StoreError, call)
