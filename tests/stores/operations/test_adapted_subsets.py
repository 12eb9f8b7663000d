"""AdaptedStore over every subset of the ten operations: each method of a store works, or its error names what the object lacks; so do the operations of
arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.stores.draft_operations import Table, subset

import frazil
from frazil.errors import FrazilError, InvalidInputError, StoreError
from frazil.stores import ABSENT, Store, StoreWithPartialAccess, adapt
from frazil.stores.operations.protocols import OPERATIONS
from frazil.stores.values import ANY, NO_SPANS, WHOLE, pieces_of
from frazil.testing.checks import refusal

LISTINGS = {"list", "list_prefix", "list_dir"}
BEYOND = ("size", "version", "set_if", "erase_if")
VALUES = {"a/b": b"abcdef", "a/c/d": b"q", "top": b"1"}

READING: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("a/b"),
    "get_versioned": lambda store: store.get_versioned("a/b"),
    "get_partial_values": lambda store: store.get_partial_values([("a/b", (1, 2)), ("a/b", (-1, None))]),
    "exists": lambda store: store.exists("a/b"),
    "sizes": lambda store: store.sizes(["a/b", "none"]),
    "fetch": lambda store: store.fetch(["a/b", "none"], WHOLE),
    "fetch nothing": lambda store: store.fetch(["a/b"], NO_SPANS),
}
WRITING: dict[str, Callable[[Store], object]] = {
    "set": lambda store: store.set("a/b", b"yy"),
    "put": lambda store: store.put("new", b"1"),
    "put where nothing is": lambda store: store.put("new", b"1", ABSENT),
    "append": lambda store: store.append("a/b", b"zz"),
    "update": lambda store: store.update("a/b", lambda _: b"new"),
    "set_partial_values": lambda store: store.set_partial_values([("a/b", 0, b"zz"), ("new", 0, b"u")]),
    "put_many": lambda store: store.put_many(["a/b"], pieces_of([b"x"]), [ANY]),
    "copy_in": lambda store: store.copy_in(["link"], store, ["a/b"], shares=True),
    "erase": lambda store: store.erase("a/b"),
    "erase_values": lambda store: store.erase_values(["a/b", "none"]),
    "erase_many": lambda store: store.erase_many(["a/b"], [ANY]),
    "erase_prefix": lambda store: store.erase_prefix("a/"),
    "erase everything": lambda store: store.erase_prefix(""),
}
LISTING: dict[str, Callable[[Store], object]] = {
    "list": lambda store: store.list(),
    "list_prefix": lambda store: store.list_prefix("a/"),
    "list_dir": lambda store: store.list_dir("a/"),
    "list_page": lambda store: store.list_page("a/"),
    "one level of list_page": lambda store: store.list_page("a/", delimited=True),
    "is_empty": lambda store: store.is_empty(),
}
METHODS = {**READING, **WRITING, **LISTING}


def every_subset() -> Iterator[tuple[str, ...]]:
    for count in range(1, len(OPERATIONS) + 1):
        yield from itertools.combinations(OPERATIONS, count)


def filled(names: Iterable[str]) -> Any:
    inner = subset(*names)
    table = inner.__dict__[next(iter(names))].__self__
    table.values.update(VALUES)
    table.versions.update(dict.fromkeys(VALUES, 1))
    return inner


def refused(act: Callable[[], object]) -> FrazilError | None:
    """The error that it raises. It must be ours, and must not hide an endless recursion."""
    caught: FrazilError | None = None
    try:
        act()
    except FrazilError as error:
        caught = error
    assert caught is None or caught.__cause__ is None, caught
    return caught


@pytest.mark.parametrize("count", range(1, len(OPERATIONS) + 1))
def test_every_method_over_every_subset_works_or_is_refused(count: int) -> None:
    for names in itertools.combinations(OPERATIONS, count):
        read = adapt(filled(names))  # which no method but those of WRITING changes
        for method, act in METHODS.items():
            store = adapt(filled(names)) if method in WRITING else read
            error = refused(lambda act=act, store=store: act(store))  # type: ignore[misc]
            can = store.capabilities
            if (method in READING and can.readable) or (method in LISTING and can.listable):
                assert error is None, (names, method, error)


def test_errors_of_stores_that_cannot_list() -> None:
    for names in every_subset():
        if LISTINGS.isdisjoint(names):
            for act in LISTING.values():
                error = refusal(StoreError, lambda act=act, names=names: act(adapt(filled(names))))  # type: ignore[misc]
                assert "is not listable" in error.message


@pytest.mark.parametrize("extra", [("size",), ("version",), ("set_if",), BEYOND], ids="+".join)
def test_operations_beyond_the_document_change_nothing_of_that(extra: tuple[str, ...]) -> None:
    for names in itertools.islice(every_subset(), 0, None, 7):
        for act in METHODS.values():
            refused(lambda act=act, names=names: act(adapt(filled((*names, *extra)))))  # type: ignore[misc]


def test_derived_classes_make_the_ten_operations_of_any_subset() -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "get": ("a/b",),
        "get_partial_values": ([("a/b", (1, 2))],),
        "set": ("a/b", b"x"),
        "set_partial_values": ([("a/b", 0, b"x")],),
        "erase": ("a/b",),
        "erase_values": (["a/b"],),
        "erase_prefix": ("a/",),
        "list": (),
        "list_prefix": ("a/",),
        "list_dir": ("a/",),
    }
    for names in every_subset():
        table = filled(OPERATIONS)
        own = {name: lambda self, *given, name=name, table=table: getattr(table, name)(*given) for name in names}
        derived = type("Derived", (StoreWithPartialAccess,), own)()
        for name, given in arguments.items():
            if name not in names:
                refused(lambda derived=derived, name=name, given=given: getattr(derived, name)(*given))  # type: ignore[misc]


# --- arrays and groups -------------------------------------------------------------------------------------------------------------------


def everything(store: Store, zarr_format: Any) -> Iterator[Callable[[], object]]:
    """Operations of a user on arrays and groups, each by itself."""
    kept: dict[str, Any] = {"array": None, "group": None}

    def create() -> None:
        kept["array"] = frazil.create_array(
            store, data=np.arange(16).reshape(4, 4), chunks=2, path="g/x", zarr_format=zarr_format
        )

    def group() -> None:
        kept["group"] = frazil.open_group(store, path="g")

    yield lambda: frazil.create_group(store, zarr_format=zarr_format)
    yield create
    yield lambda: frazil.open_array(store, path="g/x")[...]
    yield group
    if kept["array"] is not None:
        array = kept["array"]
        yield lambda: array.nchunks_initialized
        yield array.nbytes_stored
        yield lambda: array.info
        yield lambda: array.append(np.zeros((2, 4), "i8"))
        yield lambda: array.resize((3, 3))
        yield lambda: array.__setitem__((0, 0), 5)
        yield lambda: array.attrs.update(a=1)
    if kept["group"] is not None:
        yield lambda: list(kept["group"].members(None))
        yield kept["group"].tree
        yield lambda: list(kept["group"])
        yield lambda: frazil.open_group(store, "r+").remove("g/x", keep_parent=True)
    yield lambda: frazil.create_array(store, data=[1], path="g/x", overwrite=True, zarr_format=zarr_format)


@pytest.mark.parametrize(("first", "zarr_format"), [(0, 3), (4, "draft"), (8, "draft-2021")])
def test_arrays_and_groups_over_subsets(first: int, zarr_format: int | str) -> None:
    for names in itertools.islice(every_subset(), first, None, 11):
        store = adapt(subset(*names))
        for act in everything(store, zarr_format):
            refused(act)


def test_chunks_that_cannot_be_listed_are_no_endless_recursion() -> None:
    array = frazil.create_array(adapt(subset("get", "set", "erase")), data=np.arange(10), chunks=2)
    for act in (lambda: array.nchunks_initialized, array.nbytes_stored, lambda: array.resize(3)):
        assert "is not listable" in refusal(StoreError, act).message


# --- endless listings --------------------------------------------------------------------------------------------------------------------


def test_many_levels_are_listed() -> None:
    deep = "/".join(["a"] * 3000)
    inner = subset("get", "set", "list_dir")
    inner.set(deep, b"1")
    assert adapt(inner).list() == [deep]


def test_levels_without_end_are_refused() -> None:
    class Looped(Table):
        def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
            return set(), {prefix + "again/"}

    inner = Looped()
    inner.list = inner.list_prefix = None  # type: ignore[method-assign,assignment]
    assert "deeper than" in refusal(StoreError, adapt(inner).list).message


def test_an_operation_that_calls_itself_is_an_error() -> None:
    class Circular(StoreWithPartialAccess):
        def get(self, key: str) -> Any:
            return next(iter(self.get_partial_values([(key, (0, None))])))

    error = refusal(StoreError, lambda: Circular().get("a"))
    assert "calls itself" in (error.hint or "")
    assert isinstance(error.__cause__, RecursionError)


# --- invalid answers ---------------------------------------------------------------------------------------------------------------------

RUBBISH = [None, 5, -5, True, 1.5, "x", b"", b"zz", object(), [None], [5], (1, 2, 3), [b"x"], ([5], [None])]


@pytest.mark.parametrize("name", [*OPERATIONS, *BEYOND])
@pytest.mark.parametrize("others", [(*OPERATIONS, *BEYOND), OPERATIONS, ("get_partial_values", "set", "list_dir")])
def test_rubbish_and_any_exception_are_store_errors(
    name: str, others: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # versions that keep changing are retried often
    monkeypatch.setattr("frazil.base.retry.time.sleep", lambda _: None)
    for answer in (*RUBBISH, ZeroDivisionError("boom"), AttributeError("boom")):

        def bogus(*_: object, answer: object = answer) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        for method, act in METHODS.items():
            if method == "append":  # which retries for half a minute if `get` and `size` contradict each other
                continue
            inner = filled({*others, name})
            setattr(inner, name, bogus)
            try:
                act(adapt(inner))
            except FrazilError:
                continue


def test_a_class_is_no_store() -> None:
    assert "is a class" in refusal(InvalidInputError, lambda: adapt(Table)).message  # type: ignore[arg-type]
