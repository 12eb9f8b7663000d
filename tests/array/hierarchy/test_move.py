"""Renaming nodes in plain stores, in all dialects: what moves, what is refused, and what remains after a crash at any step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import frazil
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import Capabilities, Changed, Pieces, Version
from frazil.stores.wrappers import WrappedStore

SMALL = {"shape": (4,), "dtype": "i4", "chunks": (2,)}
DIALECTS = pytest.mark.parametrize("dialect", [3, "draft", "draft-2021"])


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "root")


def content(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def filled(store: Store, dialect: int | str = 3) -> frazil.Group:
    """a/b/leaf, a/b/sharded, a/side and top, with attributes"""
    root = frazil.create_group(store, zarr_format=dialect)
    root.create_group("a", attributes={"name": "a"}).create_group("b", attributes={"name": "b"})
    root.create_array("a/b/leaf", **SMALL, attributes={"units": "m"})[...] = 2
    root.create_array("a/b/sharded", shape=(8, 8), dtype="u1", chunks=(2, 2), shards=(4, 4))[1:, 2:] = 3
    root.create_array("a/side", **SMALL)[...] = 1
    root.create_array("top", **SMALL)[1:] = 4
    return root


def described(group: frazil.Group) -> dict[str, object]:
    """All that users see below a group."""
    return {
        path: (dict(node.attrs), node[...].tolist() if isinstance(node, frazil.Array) else None)  # type: ignore[union-attr]
        for path, node in group.members(None)
    }


@DIALECTS
@pytest.mark.parametrize(
    ("path", "to"),
    [("a/b", "c"), ("a/b", "a/c"), ("a", "x/y/z"), ("top", "a/b/new"), ("a/b/leaf", "leaf"), ("a/b", "ab")],
)
def test_a_node_has_its_new_path_with_all_below(store: Store, dialect: int | str, path: str, to: str) -> None:
    root = filled(store, dialect)
    before = described(root)
    moved = {at: value for at, value in before.items() if at == path or at.startswith(path + "/")}
    root.move(path, to)
    found = described(frazil.open_group(store))
    assert {at: value for at, value in found.items() if at == to or at.startswith(to + "/")} == {
        to + at[len(path) :]: value for at, value in moved.items()
    }
    assert path not in root
    others = {at: value for at, value in before.items() if at not in moved}
    assert {at: found[at] for at in others} == others
    assert not [key for key in store.list() if f"/{path}/" in "/" + key]


def test_a_group_of_zarr_v2_moves_with_all_below(store: Store) -> None:
    root = frazil.create_group(store, zarr_format=2)
    root.create_group("a/b", attributes={"name": "b"}).create_array("leaf", **SMALL, attributes={"units": "m"})[...] = 2
    before = content(store)
    seen = described(root["a"])  # type: ignore[arg-type]
    root.move("a", "c")
    assert described(frazil.open_group(store)["c"]) == seen  # type: ignore[arg-type]
    root.move("c", "a")
    assert content(store) == before


@DIALECTS
def test_moves_and_back_keep_all_bytes(store: Store, dialect: int | str) -> None:
    root = filled(store, dialect)
    store.set(("" if dialect == 3 else "data/" if dialect == "draft" else "data/root/") + "a/b/notes.txt", b"foreign")
    before = content(store)
    root["a"].move("b", "c")  # type: ignore[union-attr]
    assert len(content(store)) == len(before)
    root.move("/a/c/", "a/b")
    assert content(store) == before


@DIALECTS
def test_refused_moves_change_nothing(store: Store, dialect: int | str) -> None:
    root = filled(store, dialect)
    before = content(store)
    refused: list[tuple[type[FrazilError], str, str]] = [
        (NotFoundError, "gone", "new"),
        (NotFoundError, "a/b/leaf/c", "new"),
        (AlreadyExistsError, "a", "a"),
        (AlreadyExistsError, "a/b", "a"),
        (AlreadyExistsError, "top", "a/b"),
        (AlreadyExistsError, "a", "top"),
        (InvalidInputError, "a", "a/in"),
        (InvalidInputError, "a", "a/b/leaf/in"),
        (InvalidInputError, "a", "top/in"),
        (InvalidInputError, "a", "top/in/it"),
        (InvalidInputError, "", "new"),
        (InvalidInputError, "a", "/"),
        (InvalidInputError, "a", "b/../c"),
    ]
    for kind, path, to in refused:
        with pytest.raises(kind):
            root.move(path, to)
        assert content(store) == before
    with pytest.raises(ReadOnlyError):
        frazil.open_group(store).move("a", "new")
    with pytest.raises(ReadOnlyError):
        frazil.open_group(Limited(store, writable=False), "r+").move("a", "new")
    with pytest.raises(StoreError, match="listable"):
        frazil.open_group(Limited(store, listable=False), "r+", zarr_format=dialect).move("top", "new")
    with pytest.raises(StoreError, match=r"not erasable.*cannot be renamed"):
        frazil.open_group(Limited(store, erasable=False), "r+").move("top", "new")
    assert content(store) == before


def test_chunks_without_a_document_are_in_the_way(store: Store) -> None:
    root = filled(store)
    store.set("new/c/0", b"1234")
    with pytest.raises(AlreadyExistsError):
        root.move("top", "new")


def test_a_node_that_cannot_be_read_can_be_moved(store: Store) -> None:
    root = filled(store)
    store.set("top/zarr.json", b"{")
    root.move("top", "damaged")
    assert store.get("damaged/zarr.json") == b"{"
    assert [*root] == ["a", "damaged"]


@DIALECTS
def test_groups_above_are_made_where_the_dialect_has_documents_for_them(dialect: int | str) -> None:
    store = MemoryStore()
    root = frazil.create_group(store, zarr_format=dialect)
    root.create_array("only/one", **SMALL)[...] = 7
    root.move("only/one", "x/y/z")
    assert [path for path, _ in root.members(None)] == (["only"] if dialect == 3 else []) + ["x", "x/y", "x/y/z"]
    assert ("x/zarr.json" in store.list()) == (dialect == 3)
    assert not [key for key in store.list() if key.endswith("group.json") and "/x" in key]


def test_consolidated_metadata_above_both_paths_is_dropped(store: Store) -> None:
    root = filled(store)
    root.create_group("other")
    copies = {"kind": "inline", "must_understand": False, "metadata": {}}
    for key in ("zarr.json", "a/zarr.json", "a/b/zarr.json", "other/zarr.json"):
        document = json.loads(store.get(key) or b"")
        store.set(key, json.dumps({**document, "consolidated_metadata": copies}).encode())
    root = frazil.open_group(store, "r+")
    root.move("a/b", "other/b")
    assert root.metadata.consolidated is None
    has = {path: frazil.open_group(store, path=path).metadata.consolidated is not None for path in ("", "a", "other")}
    assert has == {"": False, "a": False, "other": False}
    assert frazil.open_group(store, path="other/b").metadata.consolidated is not None, (
        "what it says of those below stays right"
    )


def test_handles_of_the_old_path_do_not_follow() -> None:
    root = filled(MemoryStore())
    old = root["top"]
    root.move("top", "new")
    with pytest.raises(NotFoundError):
        old.refresh()  # type: ignore[union-attr]


# --- what comes in between ---------------------------------------------------------------------------------------------------------------


class Limited(WrappedStore):
    """A store that lacks some operations."""

    def __init__(self, inner: Store, **lacks: bool) -> None:
        super().__init__(inner)
        self.lacks = lacks

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(**self.lacks)


class Crash(Exception):
    """The process ends here."""


class Crashing(WrappedStore):
    """A store that lets a number of keys be written or erased, one by one, and then fails."""

    def __init__(self, inner: Store, left: int) -> None:
        super().__init__(inner)
        self.left = left

    def _spend(self) -> None:
        if self.left <= 0:
            raise Crash
        self.left -= 1

    def copy_in(self, names, source, sources, **options):  # type: ignore[no-untyped-def]
        sizes = []
        for name, key in zip(names, sources, strict=True):
            self._spend()
            sizes += self.inner.copy_in([name], self.inner, [key], **options)
        return sizes

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self._spend()
        return super().put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        answers: list[Changed | None] = []
        for name, version in zip(names, expect, strict=True):
            self._spend()
            answers += self.inner.erase_many([name], [version])
        return answers


@DIALECTS
def test_a_crash_leaves_the_old_node_whole_or_the_new_one(dialect: int | str) -> None:
    seen = set()
    for left in range(100):
        store = MemoryStore()
        root = filled(store, dialect)
        before = described(root["a"])  # type: ignore[arg-type]
        crashed = True
        try:
            frazil.open_group(Crashing(store, left), "r+").move("a", "x/new")
            crashed = False
        except Crash:
            pass
        root = frazil.open_group(store, "r+")
        found = {
            path: path in root and isinstance(root[path], frazil.Group) and described(root[path]) == before  # type: ignore[arg-type]
            for path in ("a", "x/new")
        }
        assert any(found.values()), left
        if found["x/new"] and dict(root["x/new"].attrs):
            seen.add("both" if found["a"] else "new")
        else:
            assert found["a"]
            seen.add("old")
        if not crashed:
            assert "a" not in root
            break
    assert not crashed
    assert seen == {"old", "both", "new"}


def test_concurrent_changes_are_conflicts_of_a_move() -> None:
    class Vanishing(WrappedStore):
        def copy_in(self, names, source, sources, **options):  # type: ignore[no-untyped-def]
            self.inner.erase("a/b/leaf/c/0")
            return self.inner.copy_in(names, self.inner, sources, **options)

    class Appearing(WrappedStore):
        def copy_in(self, names, source, sources, **options):  # type: ignore[no-untyped-def]
            self.inner.put("x/zarr.json", self.inner.get("top/zarr.json") or b"")
            return self.inner.copy_in(names, self.inner, sources, **options)

    for changing, kind in ((Vanishing, ConflictError), (Appearing, AlreadyExistsError)):
        store = MemoryStore()
        filled(store)
        with pytest.raises(kind):
            frazil.open_group(changing(store), "r+").move("a/b", "x")
        assert "a/b" in frazil.open_group(store), "nothing of it was removed"


def test_copies_that_a_server_only_confirms_are_found_before_anything_is_removed() -> None:
    class Confirming(Limited):
        def copy_in(self, names, source, sources, **options):  # type: ignore[no-untyped-def]
            return [*self.inner.copy_in(names[1:], self.inner, sources[1:], **options), 0]

    store = MemoryStore()
    filled(store)
    before = store.list_prefix("a/b/")
    with pytest.raises(StoreError, match="is not at the new path"):
        frazil.open_group(Confirming(store, direct=False), "r+").move("a/b", "x")
    assert store.list_prefix("a/b/") == before
