"""Every mode of every opening function, on every kind of existing node, in all dialects; stores that lack operations; and concurrent creators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.errors import (
    AlreadyExistsError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from frazil.stores import MemoryStore, WrappedStore, adapt, read_only
from frazil.stores.store import Store
from frazil.stores.values import Page

DIALECTS = pytest.mark.parametrize("dialect", [3, "draft", "draft-2021"])
DRAFTS = pytest.mark.parametrize("dialect", ["draft", "draft-2021"])
SMALL = {"shape": (4,), "dtype": "i4", "chunks": (2,), "codecs": []}
OLD = [1, 2, 3, 4]


def with_a(dialect: int | str, there: str) -> MemoryStore:
    """A hierarchy with a node at a."""
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=dialect)
    if there == "array":
        root.create_array("a", **SMALL, attributes={"old": True})[:] = OLD
    elif there == "group":
        root.create_group("a", attributes={"old": True})
    elif there == "group with members":
        root.create_array("a/b", **SMALL)[:] = OLD
    return store


def contents(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def what(node: frazil.Array | frazil.Group) -> tuple[str, bool]:
    """Its kind, and whether it is the old one."""
    if isinstance(node, frazil.Array):
        return "array", node[:].tolist() == OLD
    return "group", "old" in node.attrs or "b" in node


# existing node -> mode -> result of open_array, and of open_group
OUTCOMES: dict[str, dict[str, tuple[object, object]]] = {
    "nothing": {
        "r": (NotFoundError, NotFoundError),
        "r+": (NotFoundError, NotFoundError),
        "a": (("array", False), ("group", False)),
        "w": (("array", False), ("group", False)),
        "w-": (("array", False), ("group", False)),
    },
    "array": {
        "r": (("array", True), InvalidInputError),
        "r+": (("array", True), InvalidInputError),
        "a": (("array", True), InvalidInputError),
        "w": (("array", False), ("group", False)),
        "w-": (AlreadyExistsError, AlreadyExistsError),
    },
    "group": {
        "r": (InvalidInputError, ("group", True)),
        "r+": (InvalidInputError, ("group", True)),
        "a": (InvalidInputError, ("group", True)),
        "w": (("array", False), ("group", False)),
        "w-": (AlreadyExistsError, AlreadyExistsError),
    },
}
OUTCOMES["group with members"] = OUTCOMES["group"]


@DIALECTS
@pytest.mark.parametrize("door", ["array", "group"])
@pytest.mark.parametrize("mode", ["r", "r+", "a", "w", "w-"])
@pytest.mark.parametrize("there", list(OUTCOMES))
def test_each_function_opens_creates_or_refuses_by_mode(dialect: int | str, door: str, mode: str, there: str) -> None:
    store = with_a(dialect, there)
    before = contents(store)
    expected = OUTCOMES[there][mode][door == "group"]
    arguments = SMALL if door == "array" and mode not in ("r", "r+") else {}

    def opened() -> frazil.Array | frazil.Group:
        if door == "array":
            return frazil.open_array(store, mode, path="a", **arguments)  # type: ignore[arg-type]
        return frazil.open_group(store, mode, path="a")  # type: ignore[arg-type]

    if isinstance(expected, type):
        with pytest.raises(expected) as caught:
            opened()
        assert isinstance(caught.value, FrazilError)
        assert caught.value.path == "a"
        assert contents(store) == before, "nothing is touched"
        return
    node = opened()
    assert what(node) == what(frazil.open(store, path="a")) == expected
    assert node.metadata.zarr_format == dialect
    assert node.read_only == (mode == "r")
    if mode in ("r", "r+", "a") and there != "nothing":
        assert contents(store) == before
    if mode == "w":
        assert not [key for key in store.list() if "a/b" in key], "what was below is gone"
    if mode in ("r+", "a", "w", "w-"):
        node.attrs["new"] = 1
        assert frazil.open(store, path="a").attrs["new"] == 1
    else:
        with pytest.raises(ReadOnlyError):
            node.attrs["new"] = 1


@DIALECTS
def test_a_store_that_is_read_only(dialect: int | str) -> None:
    inner = with_a(dialect, "group with members")
    before = contents(inner)
    store = read_only(inner)
    assert frazil.open_array(store, "a", path="a/b")[:].tolist() == OLD
    attempts: list[Callable[[], object]] = [
        lambda: frazil.create_array(store, path="n", **SMALL),
        lambda: frazil.create_array(store, path="a", **SMALL, overwrite=True),
        lambda: frazil.create_group(store, path="n/m"),
        lambda: frazil.create_group(store, overwrite=True, zarr_format=3 if dialect == "draft" else "draft"),
        lambda: frazil.open_group(store, "a", path="n"),
        lambda: frazil.open_group(store, "w"),
        lambda: frazil.open_group(store, "r+").remove("a", keep_parent=True),
        lambda: frazil.open_group(store, "r+").remove("a/b", keep_parent=True),
        lambda: frazil.open_array(store, "r+", path="a/b").append([1]),
        lambda: frazil.open_group(store, "r+").attrs.update({"x": 1}),
        lambda: frazil.open_group(store).create_group("n"),
        lambda: frazil.open_group(store).remove("a"),
        lambda: frazil.create_group(read_only(MemoryStore()), zarr_format=dialect),
    ]
    for attempt in attempts:
        with pytest.raises(ReadOnlyError):
            attempt()
    assert contents(inner) == before


class Unlisted:
    """An object that can get, set and erase, and cannot list."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def erase(self, key: str) -> None:
        self.values.pop(key, None)


@DRAFTS
@pytest.mark.rule("D61", "D76")
def test_a_store_that_cannot_list(dialect: str) -> None:
    inner = Unlisted()
    store = adapt(inner)
    root = frazil.create_group(store, zarr_format=dialect)
    made = root.create_array("g/x", **SMALL)
    made[:] = OLD
    made.resize(6)
    root.create_group("h")
    assert frazil.open_array(store, path="g/x")[:].tolist() == [*OLD, 0, 0]
    assert ("g/x" in root, "h" in root) == (True, True)
    with pytest.raises(AlreadyExistsError):
        root.create_array("g/x", **SMALL)
    assert frazil.open_group(store, "a", path="k").require_group("l").path == "k/l", (
        "what opens or creates needs no listing"
    )
    before = dict(inner.values)
    attempts: list[Callable[[], object]] = [
        lambda: "g" in root,  # only a listing could find these
        lambda: "nothing" in root,
        lambda: root["g"],
        lambda: root.get("nothing"),
        lambda: frazil.open_group(store, path="g"),
        lambda: frazil.open(store, path="nothing"),
        lambda: root.remove("nothing"),
        lambda: list(root),
        lambda: list(root.members(None)),
        root.tree,
        lambda: root.remove("g/x"),
        lambda: root.create_array("g/x", **SMALL, overwrite=True),
        lambda: frazil.open_group(store, "w", path="h"),
    ]
    for attempt in attempts:
        with pytest.raises(StoreError, match="not listable"):
            attempt()
    assert inner.values == before, "nothing is removed where the rest could not be"


# --- creators that come in between ------------------------------------------------------------------------------------------------------


class Interrupted(WrappedStore):
    """Lets another creator act before the nth operation."""

    __slots__ = ("act", "left")

    def __init__(self, inner: Store, number: int, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self.left, self.act = number, act

    def _count(self) -> None:
        self.left -= 1
        if not self.left:
            self.act()

    def fetch(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
        self._count()
        return self.inner.fetch(*arguments, **named)  # type: ignore[arg-type]

    def put_many(self, *arguments: object) -> object:  # type: ignore[override]
        self._count()
        return self.inner.put_many(*arguments)  # type: ignore[arg-type]

    def erase_many(self, *arguments: object) -> object:  # type: ignore[override]
        self._count()
        return self.inner.erase_many(*arguments)  # type: ignore[arg-type]

    def erase_prefix(self, prefix: str) -> None:
        self._count()
        self.inner.erase_prefix(prefix)

    def list_page(self, *arguments: object, **named: object) -> Page:  # type: ignore[override]
        self._count()
        return self.inner.list_page(*arguments, **named)  # type: ignore[arg-type]


def interrupted(prepare: Callable[[], Store], own: Callable[[Store], object], other: Callable[[Store], object]) -> int:
    """Runs `own` as often as it has operations, each time with `other` before another one of them; checks the results of both. Returns how often that was."""
    number, done = 1, False
    while not done:
        store = prepare()
        wrapped = Interrupted(store, number, lambda store=store: other(store))  # type: ignore[misc]
        own(wrapped)
        done = wrapped.left > 0
        number += 1
    return number - 2


@pytest.mark.parametrize(
    ("dialect", "begun", "orphans"),
    [
        *((dialect, begun, False) for dialect in (3, "draft", "draft-2021") for begun in (False, True)),
        ("draft", True, True),  # a final hierarchy refuses to create if chunks exist there
        ("draft-2021", True, True),
    ],
)
def test_an_array_that_another_process_creates_and_writes_stays_unchanged(
    dialect: int | str, begun: bool, orphans: bool
) -> None:
    def prepare() -> Store:
        store = MemoryStore()
        if begun:
            frazil.create_group(store, zarr_format=dialect)
        if orphans:
            for chunk in ("c0", "c1", "c7"):
                store.set(f"data/{'root/' if dialect == 'draft-2021' else ''}x/{chunk}", b"old chunk")
        return store

    def own(store: Store) -> None:
        frazil.open_array(store, "a", path="x", zarr_format=dialect, **SMALL)[:2] = [1, 2]
        assert frazil.open_array(store, path="x")[:].tolist() in ([1, 2, 3, 4], [1, 2, 0, 0])
        if isinstance(store, Interrupted) and store.left <= 0:
            assert frazil.open_array(store, path="x")[:].tolist() == [1, 2, 3, 4]

    def other(store: Store) -> None:
        frazil.open_array(store, "a", path="x", zarr_format=dialect, **SMALL)[2:] = [3, 4]

    assert interrupted(prepare, own, other) > 4


@pytest.mark.parametrize("own_dialect", [3, "draft", "draft-2021"])
@pytest.mark.parametrize("other_dialect", [3, "draft", "draft-2021"])
def test_hierarchies_of_two_dialects_at_one_place(own_dialect: int | str, other_dialect: int | str) -> None:
    """The first creator decides. The other gets an error, or finds the existing node."""

    def own(store: Store) -> None:
        assert isinstance(store, Interrupted)
        try:
            made = frazil.create_group(store, zarr_format=own_dialect).create_array("x", **SMALL)
            made[:] = OLD
        except (AlreadyExistsError, InvalidInputError):
            assert store.left <= 0
        root = frazil.open_group(store.inner)
        formats = {root.metadata.zarr_format, *(node.metadata.zarr_format for _, node in root.members(None))}
        assert len(formats) == 1, "a hierarchy has one dialect"
        tops = {key.split("/")[0] for key in store.inner.list()}
        assert tops <= ({"zarr.json", "x", "y"} if formats == {3} else {"zarr.json", "meta", "data"})

    def other(store: Store) -> None:
        try:
            frazil.create_group(store, zarr_format=other_dialect).create_array("y", **SMALL)[:] = OLD
        except (AlreadyExistsError, InvalidInputError):
            pass

    assert interrupted(MemoryStore, own, other) > 4


@DRAFTS
def test_a_handle_of_a_hierarchy_that_was_replaced(dialect: str) -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=dialect)
    frazil.create_group(store, zarr_format="draft" if dialect == "draft-2021" else "draft-2021", overwrite=True)
    before = contents(store)
    with pytest.raises(AlreadyExistsError, match="another hierarchy"):
        root.create_array("x", data=np.arange(3))
    assert contents(store) == before
