"""Handles that outlive their array: a write is refused if another array, or none, is in its place; other changes by other writers do no harm."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.pairs import pairs

import frazil
from frazil.errors import ChunkDecodeError, ConflictError, FrazilError, NotFoundError, StoreError
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.stores.values import Capabilities
from frazil.testing import CountingStore, Fault, FaultPlan, FaultyStore, SlowStore

SHAPE = (20, 20)
LAYOUTS = {"chunks": {"chunks": (5, 5)}, "shards": {"chunks": (5, 5), "shards": (10, 10)}, "one": {"chunks": (20, 20)}}
Write = Callable[[frazil.Array], object]
WRITES: dict[str, Write] = {
    "one element": lambda array: array.__setitem__((0, 0), 5),
    "one chunk": lambda array: array.__setitem__((slice(0, 5), slice(0, 5)), 5),
    "all": lambda array: array.__setitem__(..., 5),
    "a part": lambda array: array.__setitem__((slice(1, 19), slice(1, 19)), 5),
    "points": lambda array: array.vindex.__setitem__(([0, 7], [0, 7]), 5),
    "orthogonal": lambda array: array.oindex.__setitem__(([0, 7], slice(None)), 5),
    "a block": lambda array: array.blocks.__setitem__((0, 0), 5),
    "append": lambda array: array.append(np.ones((5, 20), "i4")),
    "resize": lambda array: array.resize((30, 20)),
    "attributes": lambda array: array.attrs.update(a=1),
}
STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "local": lambda path: LocalStore(path / "store"),
    "remote": lambda _: SlowStore(MemoryStore(), 0.0),
}


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


def contents(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


@pytest.mark.parametrize(
    ("store", "layout", "used", "name"), pairs(STORES, ["chunks", "shards"], [False, True], WRITES), indirect=["store"]
)
def test_a_write_to_an_array_that_was_replaced_is_refused(store: Store, layout: str, used: bool, name: str) -> None:
    old = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    if used:
        old[...] = 1
        old[0, 0] = 1
    new = frazil.create_array(store, shape=SHAPE, dtype="i4", chunks=(4, 4), overwrite=True)
    new[...] = 7
    before = contents(store)
    with pytest.raises(ConflictError, match="another array") as caught:
        WRITES[name](old)
    assert caught.value.hint == "open it again"
    assert contents(store) == before
    assert (frazil.open_array(store)[...] == 7).all()


READS: dict[str, Write] = {
    "one element": lambda array: array[0, 0],
    "a part": lambda array: array[1:19, 1:19],
    "points": lambda array: array.vindex[[0, 7], [0, 7]],
    "orthogonal": lambda array: array.oindex[[0, 7], :],
    "a block": lambda array: array.blocks[0, 0],
    "with chunks": lambda array: array.nchunks_initialized,
}


@pytest.mark.parametrize("layout", ["chunks", "shards"])
@pytest.mark.parametrize("name", list(READS))
def test_a_read_that_finds_chunks_of_another_array(store: Store, layout: str, name: str) -> None:
    """They are not damaged."""
    old = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    old[...] = 1
    copy = pickle.loads(pickle.dumps(old)) if isinstance(store, LocalStore) else old
    frazil.create_array(store, shape=(8, 8), dtype="i4", chunks=(4, 4), codecs=["gzip"], overwrite=True)[...] = 7
    for array in (old, copy):
        if name == "with chunks" and layout == "chunks":
            continue  # it decodes nothing
        with pytest.raises(ConflictError, match="another array") as caught:
            READS[name](array)
        assert caught.value.hint == "open it again"


def remove(store: Store) -> None:
    store.erase("zarr.json")


def damage(store: Store) -> None:
    store.set("zarr.json", b"{")


@pytest.mark.parametrize("change", [remove, damage, None])
def test_damaged_chunks_are_reported_whatever_is_wrong_with_the_document(
    change: Callable[[Store], None] | None, tmp_path: Path
) -> None:
    inner = LocalStore(tmp_path)
    frazil.create_array(inner, data=np.arange(8), chunks=(4,), codecs=["zstd"])
    inner.set("c/0", b"damaged")
    store = FaultyStore(inner, FaultPlan())
    array = frazil.open_array(store)
    if change is not None:
        change(inner)
    else:
        store.plan = FaultPlan([Fault("fetch", store.calls["fetch"] + 2)])
    with pytest.raises(ChunkDecodeError) as caught:
        array[:2]
    assert (caught.value.path, caught.value.key, caught.value.chunk) == ("/", "c/0", (0,))


@pytest.mark.parametrize("name", list(WRITES))
def test_a_write_to_an_array_that_was_removed_is_refused(store: Store, name: str) -> None:
    group = frazil.create_group(store)
    array = group.create_array("a", shape=SHAPE, dtype="i4", chunks=(5, 5))
    array[...] = 1
    del group["a"]
    with pytest.raises(NotFoundError, match="gone"):
        WRITES[name](array)
    assert [key for key in store.list() if key.startswith("a/")] == []
    group.create_group("a")
    with pytest.raises(FrazilError):
        WRITES[name](array)
    assert [key for key in store.list() if key.startswith("a/")] == ["a/zarr.json"]


@pytest.mark.parametrize("zarr_format", [3, "draft", "draft-2021"])
def test_a_write_after_a_replacement_conflicts_in_every_dialect(zarr_format: int | str) -> None:
    store = MemoryStore()
    old = frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,), zarr_format=zarr_format)
    old[:] = 1
    old[0] = 2
    frazil.create_array(store, shape=(8,), dtype="i4", chunks=(8,), zarr_format=zarr_format, overwrite=True)[:] = 7
    with pytest.raises(ConflictError):
        old[0] = 5
    assert (frazil.open_array(store)[:] == 7).all()


def test_lengths_and_attributes_that_others_change_are_none_of_its_business(store: Store) -> None:
    array = frazil.create_array(store, shape=(20,), dtype="i4", chunks=(5,))
    array[:] = 1
    other = frazil.open_array(store, "r+")
    other.attrs["a"] = 1
    array[0:5] = 2
    other.append(np.full(3, 9, "i4"))
    array[3:7] = 3
    other.resize(21)
    other.attrs["b"] = [1]
    array[10] = 4
    array.attrs["c"] = 2
    expected = [2, 2, 2, 3, 3, 3, 3, *[1] * 3, 4, *[1] * 9, 9]
    assert other.refresh()[:].tolist() == expected
    assert other.attrs.asdict() == {"a": 1, "b": [1], "c": 2}


def test_an_equal_array_in_its_place_is_as_good(store: Store) -> None:
    old = frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,))
    old[:] = 1
    new = frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,), overwrite=True)
    old[0] = 5
    assert new[:].tolist() == [5, *[0] * 7]


def test_a_document_of_the_same_size_is_distinguished_from_the_old_one(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=(8,), dtype="i4", chunks=(4,))
    array[:] = 1
    document = tmp_path / "a" / "zarr.json"
    stamp = document.stat()
    array[0] = 1
    frazil.create_array(tmp_path / "a", shape=(8,), dtype="i4", chunks=(2,), overwrite=True)
    assert document.stat().st_size == stamp.st_size
    os.utime(document, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    with pytest.raises(ConflictError):
        array[0] = 2


def test_a_document_that_cannot_be_read_stops_the_write() -> None:
    inner = MemoryStore()
    array = frazil.create_array(inner, shape=(8,), dtype="i4", chunks=(4,))
    array[:] = 1
    inner.set("zarr.json", b"{nonsense")
    with pytest.raises(FrazilError):
        array[:] = 2
    assert inner.get("c/0") is not None
    inner.set("zarr.json", b"")
    frazil.create_array(inner, shape=(8,), dtype="i4", chunks=(4,), overwrite=True)
    array = frazil.open_array(FaultyStore(inner, FaultPlan([Fault("fetch", 2)])), "r+")
    with pytest.raises(StoreError):
        array[:] = 2
    assert inner.list_prefix("c/") == []


def test_the_look_at_the_document_is_one_request_beside_the_others() -> None:
    """The request for the document runs while the chunks are read, and nothing is published before it is answered."""
    inner = MemoryStore()
    frazil.create_array(inner, shape=(20,), dtype="i4", chunks=(5,))[:] = 1
    store = SlowStore(inner, 0.0)
    array = frazil.open_array(store, "r+")
    store.clear()
    store.meet(2)  # the first two wait for each other
    array[3] = 2
    assert [call.operation for call in store.calls] == ["fetch", "fetch", "put"]


def test_a_write_that_lost_a_race_looks_again() -> None:
    """The chunk may have been replaced together with its array."""
    inner = MemoryStore()

    class Replaced(CountingStore):
        armed = False

        def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
            if Replaced.armed:
                Replaced.armed = False
                frazil.create_array(inner, shape=(20,), dtype="i4", chunks=(20,), overwrite=True)[:] = 7
            return super().put_many(names, pieces, expect)

    array = frazil.create_array(Replaced(inner), shape=(20,), dtype="i4", chunks=(5,))
    array[:] = 1
    Replaced.armed = True
    with pytest.raises(ConflictError, match="another array"):
        array[3] = 2
    assert (frazil.open_array(inner)[:] == 7).all()


def test_pickled_handles_look_too() -> None:
    import pickle

    store = MemoryStore("test_pickled_handles_look_too")
    old = pickle.loads(pickle.dumps(frazil.create_array(store, shape=(8,), dtype="i4", chunks=(4,))))
    frazil.create_array(store, shape=(8,), dtype="i4", chunks=(8,), overwrite=True)
    with pytest.raises(ConflictError):
        old[:] = 1
    store.erase_prefix("")


# --- arrays that became smaller -------------------------------------------------------------------------------------------------------------

BEYOND: dict[str, Write] = {
    "one element": lambda array: array.__setitem__((17, 3), 5),
    "one chunk": lambda array: array.__setitem__((slice(15, 20), slice(0, 5)), 5),
    "a last chunk": lambda array: array.__setitem__((slice(15, 20), slice(15, 20)), 5),
    "a chunk at the new end": lambda array: array.__setitem__((slice(10, 15), slice(0, 5)), 5),
    "a part of one": lambda array: array.__setitem__((slice(12, 14), 3), 5),
    "all": lambda array: array.__setitem__(..., 5),
    "fill values": lambda array: array.__setitem__(..., 0),
    "with steps": lambda array: array.__setitem__((slice(1, 20, 2), 1), 5),
    "points": lambda array: array.vindex.__setitem__(([0, 12], [0, 7]), 5),
    "orthogonal": lambda array: array.oindex.__setitem__(([14, 0], slice(None)), 5),
    "a mask": lambda array: array.vindex.__setitem__(np.eye(20, dtype=bool), 5),
    "a block": lambda array: array.blocks.__setitem__((-1, 0), 5),
}
INSIDE: dict[str, Write] = {
    "one element": lambda array: array.__setitem__((11, 3), 5),
    "one chunk": lambda array: array.__setitem__((slice(5, 10), slice(0, 5)), 5),
    "all there is": lambda array: array.__setitem__((slice(0, 12), slice(0, 20)), 5),
    "points": lambda array: array.vindex.__setitem__(([0, 11], [0, 7]), 5),
    "nothing": lambda array: array.__setitem__((slice(20, 20), slice(None)), 5),
    "no points": lambda array: array.vindex.__setitem__(([], []), 5),
}


@pytest.mark.parametrize(
    ("store", "layout", "used", "name"), pairs(STORES, LAYOUTS, [False, True], BEYOND), indirect=["store"]
)
def test_a_write_beyond_the_end_of_an_array_that_became_smaller_is_refused(
    store: Store, layout: str, used: bool, name: str
) -> None:
    old = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    if used:
        old[...] = 1
        old[0, 0] = 1
    other = frazil.open_array(store, "r+")
    other.resize((12, 20))
    before = contents(store)
    with pytest.raises(ConflictError, match=r"smaller now.*\(20, 20\) to \(12, 20\)") as caught:
        BEYOND[name](old)
    assert "refresh" in str(caught.value.hint)
    assert contents(store) == before
    other.resize(SHAPE)
    assert (other[12:] == 0).all()
    BEYOND[name](old)
    assert name == "fill values" or (old[12:] == 5).any(), "where it has grown again it may write"


@pytest.mark.parametrize(("store", "layout", "name"), pairs(STORES, LAYOUTS, INSIDE), indirect=["store"])
def test_a_write_inside_of_an_array_that_became_smaller_brings_nothing_back(
    store: Store, layout: str, name: str
) -> None:
    old = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    old[...] = expected = np.ones(SHAPE, "i4")
    other = frazil.open_array(store, "r+")
    other.resize((12, 20))
    INSIDE[name](old)
    other.resize(SHAPE)
    assert (other[12:] == 0).all()
    assert other[:12].sum() == expected[:12].sum() + 4 * int((other[:12] == 5).sum())
    assert (other[:12] == 5).any() == (not name.startswith("no"))


@pytest.mark.parametrize(("layout", "name", "moved"), pairs(LAYOUTS, BEYOND, [False, True]))
def test_in_a_session_other_handles_know_that_an_array_became_smaller(layout: str, name: str, moved: bool) -> None:
    root = frazil.Repository.create(MemoryStore()).writable_session("main").root
    old = root.create_array("a", shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    old[...] = 1
    if moved:
        root.move("a", "b")
        root.create_array("a", shape=SHAPE, dtype="i4", chunks=(5, 5))
    other = root["b" if moved else "a"]
    assert isinstance(other, frazil.Array)
    other.resize((12, 20))
    with pytest.raises(ConflictError, match="smaller now"):
        BEYOND[name](old)
    old[:12] = 2
    other.resize(SHAPE)
    assert (other[12:] == 0).all()
    assert (other[:12] == 2).all()


# --- races with a shrink ---------------------------------------------------------------------------------------------------------------------


class Acting(CountingStore):
    """Calls a function once, before or after the next operation of a kind. direct: whether the store is."""

    when: tuple[str, str] | None = None

    def __init__(self, inner: Store, direct: bool = True) -> None:
        super().__init__(inner)
        self.is_direct = direct

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities._replace(direct=self.is_direct)

    def arm(self, when: str, operation: str, act: Callable[[], object]) -> None:
        self.when, self.act = (when, operation), act

    def _at(self, when: str, operation: str) -> None:
        if self.when == (when, operation):
            self.when = None
            self.act()

    def fetch(self, names, spans, **how):  # type: ignore[no-untyped-def, override]
        kind = "document" if names == ["zarr.json"] else "fetch"
        self._at("before", kind)
        done = super().fetch(names, spans, **how)
        self._at("after", kind)
        return done

    def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def, override]
        kind = "document put" if "zarr.json" in names else "put"
        self._at("before", kind)
        done = super().put_many(names, pieces, expect)
        self._at("after", kind)
        return done

    def list_page(self, *arguments, **named):  # type: ignore[no-untyped-def, override]
        done = super().list_page(*arguments, **named)
        self._at("after", "list")
        return done


RACES: dict[str, Write] = {
    "one element": lambda array: array.__setitem__((13, 3), 5),
    "elements": lambda array: array.__setitem__((slice(11, 14), 3), 5),
    "whole": lambda array: array.__setitem__(..., 5),
    "chunks": lambda array: array.__setitem__((slice(10, 20), slice(None)), 5),
}
"""Which of these may be refused or not; behind the end nothing stays."""


def shown_by_growing(store: Store) -> np.ndarray:
    array = frazil.open_array(store, "r+")
    assert array.shape == (12, 20)
    array.resize(SHAPE)
    return np.asarray(array[12:])


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", list(RACES))
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize(
    ("direct", "when", "operation"),
    [
        (True, "before", "fetch"),
        (True, "after", "fetch"),
        (True, "before", "document"),
        (False, "before", "document"),
    ],
)
def test_a_shrink_before_the_document_is_read_stops_a_write(
    layout: str, name: str, direct: bool, when: str, operation: str, stored: bool
) -> None:
    """The version of a chunk is read before the document. If both are requests, they run at the same time: then only changes before the document count."""
    inner = MemoryStore()
    store = Acting(inner, direct)
    array = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    array[0, 0] = 1
    if stored:
        array[...] = 1
    store.arm(when, operation, lambda: frazil.open_array(inner, "r+").resize((12, 20)))
    try:
        RACES[name](array)
    except ConflictError as error:
        assert "smaller now" in str(error)  # noqa: PT017
    else:
        assert store.when is not None, "nothing was read of chunks that are written whole"
        return
    assert (shown_by_growing(inner) == 0).all()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", list(RACES))
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("moment", [("after", "list"), ("before", "document put"), ("after", "document put")])
def test_a_shrink_clears_chunks_published_meanwhile(
    layout: str, name: str, moment: tuple[str, str], stored: bool
) -> None:
    inner = MemoryStore()
    store = Acting(inner)
    array = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    array[0, 0] = 1
    if stored:
        array[...] = 1
    writing = Acting(inner)
    late = frazil.open_array(writing, "r+")
    late[0, 0] = 2
    done: list[bool] = []

    def write() -> None:
        """A write that read the document before the shrink."""
        if moment == ("after", "document put"):
            writing.arm("before", "document", lambda: None)
        try:
            RACES[name](late)
            done.append(True)
        except ConflictError:
            done.append(False)

    store.arm(*moment, write)
    array.resize((12, 20))
    assert done == [moment != ("after", "document put")]
    assert (shown_by_growing(inner) == 0).all()


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_a_shrink_clears_nothing_that_is_appended_behind_it(layout: str) -> None:
    inner = MemoryStore()
    store = Acting(inner)
    array = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    array[...] = 1
    other = frazil.open_array(inner, "r+")
    store.arm("after", "document put", lambda: other.append(np.full((8, 20), 7)))
    array.resize((12, 20))
    assert store.when is None
    found = frazil.open_array(inner)
    assert found.shape == SHAPE
    assert (found[12:] == 7).all()
    assert (found[:12] == 1).all()


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_a_write_that_published_between_document_and_shrink_fails_for_its_version(layout: str) -> None:
    """The document was read before the shrink: then the chunk has another version when it is published, or is cleared."""
    inner = MemoryStore()
    store = Acting(inner)
    array = frazil.create_array(store, shape=SHAPE, dtype="i4", **LAYOUTS[layout])  # type: ignore[arg-type]
    array[...] = 1
    store.arm("before", "put", lambda: frazil.open_array(inner, "r+").resize((12, 20)))
    with pytest.raises(ConflictError, match="smaller now"):
        array[13, 3] = 5
    assert (shown_by_growing(inner) == 0).all()


@pytest.mark.parametrize("layout", ["shards", "one"])
def test_an_append_whose_chunk_was_replaced_fails_where_the_array_is_smaller_now(layout: str) -> None:
    inner = MemoryStore()
    store = Acting(inner)
    array = frazil.create_array(store, data=np.ones((13, 20), "i4"), **LAYOUTS[layout])  # type: ignore[arg-type]
    store.arm("before", "put", lambda: frazil.open_array(inner, "r+").resize((12, 20)))
    with pytest.raises(ConflictError, match=r"smaller now.*\(14, 20\) to \(12, 20\)"):
        array.append(np.full((1, 20), 5))
    assert (frazil.open_array(inner)[...] == 1).all()
    assert (shown_by_growing(inner) == 0).all()
