"""Arrays over chunks that share objects, are inline, or are missing: everything as in NumPy, and no chunk is confused with another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.array.memory_nodes import KeptNodes, kept_location
from tests.faults.concurrent_calls import in_threads
from tests.slow_properties import search
from tests.stores.shared_chunks import SharedChunks
from tests.strategies import Layout, basic_selections, layouts, orthogonal_selections, same, values

import frazil
from frazil.array.group import Group
from frazil.array.io.task_costs import OPEN_OBJECTS
from frazil.errors import ChecksumError, DataError, StoreError
from frazil.metadata.model import GroupMetadata
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from frazil.testing import CountingStore


def over(store: Store, inline: int = 16, versions: bool = True) -> tuple[Group, dict[int, SharedChunks]]:
    """A group whose arrays keep their chunks in this way, and their storages by the numbers of the nodes."""
    made: dict[int, SharedChunks] = {}

    def chunks(number: int, _: object) -> SharedChunks:
        return made.setdefault(number, SharedChunks(store, f"{number}/", inline=inline, versions=versions))

    return Group(kept_location(KeptNodes(chunks)), GroupMetadata()), made


def shared_array(
    store: Store, inline: int = 16, versions: bool = True, **arguments: object
) -> tuple[frazil.Array, SharedChunks, Group]:
    """An array of such chunks at "a", their storage, and the group."""
    group, made = over(store, inline, versions)
    array = group.create_array("a", **arguments)  # type: ignore[arg-type]
    return array, made[1], group


def again(group: Group) -> frazil.Array:
    """The array as another handle with empty caches sees it."""
    array = group["a"]
    assert isinstance(array, frazil.Array)
    return array


@contextmanager
def a_store(on_disk: bool) -> Iterator[Store]:
    if not on_disk:
        yield MemoryStore()
        return
    with TemporaryDirectory() as folder:
        yield LocalStore(folder)


# --- as NumPy ----------------------------------------------------------------------------------------------------------------------------


@search(slowness=2)
@given(
    layouts(),
    st.sampled_from(["u1", "f8", "V3"]),
    st.sampled_from([0, 16, 10**6]),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(0, 2**32),
    st.data(),
)
def test_reading_and_writing_as_numpy(
    layout: Layout, dtype: str, inline: int, how: tuple[bool, bool], seed: int, data: st.DataObject
) -> None:
    with a_store(how[0]) as store:
        fill = values(seed, (), np.dtype(dtype))[()]
        dtype = "r24" if dtype == "V3" else dtype
        array, _, group = shared_array(store, inline, how[1], dtype=dtype, fill_value=fill, **layout._asdict())
        expected = np.full(layout.shape, fill, array.dtype)
        for turn in range(data.draw(st.integers(1, 4))):
            mine = again(group) if data.draw(st.booleans()) else array
            selection = data.draw(st.one_of(st.just((...,)), basic_selections(layout.shape)))
            new = values(seed + turn, expected[selection].shape, array.dtype)
            if data.draw(st.integers(0, 4)) == 0:
                new[...] = fill  # chunks that no longer exist
            mine[selection], expected[selection] = new, new
            found = data.draw(basic_selections(layout.shape))
            assert same(np.asarray(array[found]), np.asarray(expected[found]))
            assert same(array[...], expected), "what it remembers of old shards is not taken for the new ones"
        assert same(again(group)[...], expected)
        rows = data.draw(orthogonal_selections(layout.shape))
        assert same(np.asarray(array.oindex[rows]), outer(expected, rows))
        if layout.shape and expected.size:
            points = tuple(np.array([0, n - 1, n // 2]) for n in layout.shape)
            assert same(array.vindex[points], expected[points])
        assert again(group).nchunks_initialized == array.nchunks_initialized


def outer(array: np.ndarray, selection: tuple[object, ...]) -> np.ndarray:
    """Orthogonal selection, one axis after the other, the last one first."""
    for axis in reversed(range(len(selection))):
        array = array[(slice(None),) * axis + (selection[axis],)]
    return np.asarray(array)


@given(layouts(), st.sampled_from([0, 16]), st.booleans(), st.integers(0, 2**32), st.data())
def test_resizing_and_appending_as_numpy(
    layout: Layout, inline: int, versions: bool, seed: int, data: st.DataObject
) -> None:
    array, storage, group = shared_array(MemoryStore(), inline, versions, dtype="i4", fill_value=7, **layout._asdict())
    rank = len(layout.shape)
    array[...] = expected = values(seed, layout.shape, array.dtype)
    for turn in range(data.draw(st.integers(1, 3))):
        mine = again(group) if data.draw(st.booleans()) else array.refresh()
        before = len(storage.extended)
        if data.draw(st.booleans()) and rank:
            axis = data.draw(st.integers(0, rank - 1))
            shape = tuple(data.draw(st.integers(0, 5)) if d == axis else n for d, n in enumerate(expected.shape))
            grown = [(axis, expected.shape[axis], expected.shape[axis] + shape[axis])] if shape[axis] else []
            new = values(seed + turn, shape, array.dtype)
            mine.append(new, axis=axis)
            expected = np.concatenate((expected, new), axis=axis)
            assert storage.extended[before:] == grown
        else:
            shape = tuple(data.draw(st.integers(0, 13)) for _ in range(rank))
            mine.resize(shape)
            old, expected = expected, np.full(shape, 7, "i4")
            both = tuple(slice(min(a, b)) for a, b in zip(old.shape, shape, strict=True))
            expected[both] = old[both]
        assert same(mine[...], expected)
        assert same(again(group)[...], expected)
    array.refresh().resize((30,) * rank)
    assert int((array[...] != 7).sum()) == int((expected != 7).sum())


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_writers_of_one_chunk_keep_each_others_work(versions: bool, shards: tuple[int, int] | None) -> None:
    array, _, group = shared_array(
        MemoryStore(), 0, versions, shape=(8, 8), dtype="u1", chunks=(2, 2) if shards else (4, 4), shards=shards
    )
    handles = [array, again(group)]

    def write(number: int) -> None:
        for at in range(number, 64, 4):
            handles[number % 2][at // 8, at % 8] = at + 1

    in_threads(4, write)
    assert again(group)[...].reshape(-1).tolist() == list(range(1, 65))


@pytest.mark.parametrize("inline", [0, 16])
def test_stored_bytes_are_those_of_the_chunks(inline: int) -> None:
    array, _, _ = shared_array(MemoryStore(), inline, shape=64, dtype="u1", chunks=8, codecs=[])
    array[:40] = np.arange(1, 41)
    array[32:48] = 0
    assert (array.nbytes_stored(), array.nchunks_initialized) == (32, 4)
    assert array.info.stored_nbytes == 32
    assert array.info.stored_objects == 4


# --- costs -------------------------------------------------------------------------------------------------------------------------------


def test_inline_and_missing_chunks_cost_no_request() -> None:
    store = CountingStore(MemoryStore())
    for shards in (None, 8):
        array, _, group = shared_array(store, 10**6, shape=64, dtype="u1", chunks=4, shards=shards, codecs=[])
        array[3:30] = 5
        store.clear()
        expected = np.zeros(64, "u1")
        expected[3:30] = 5
        assert same(again(group)[...], expected)
        assert same(again(group)[1:61:3], expected[1:61:3])
        assert again(group)[7] == 5
        assert again(group)[40] == 0
        array[10] = 6
        array[60] = 0
        assert store.count() == 0


def test_versions_that_are_known_are_not_asked_for() -> None:
    store = CountingStore(MemoryStore())
    array, _, group = shared_array(store, 0, shape=64, dtype="u1", chunks=4, shards=32, codecs=[])
    array[...] = 5
    reader = again(group)
    store.clear()
    assert reader[0:4].tolist() == [5] * 4
    assert [done.length for done in store.requests] == [132, 4], "the index, and the chunk"
    store.clear()
    assert reader[5] == 5
    assert reader[6:20].sum() == 70
    assert store.count() == 2, "the indexes of chunks of one object are remembered, each as its own"
    store.clear()
    assert reader[30:34].sum() == 20
    assert store.count() == 3
    array[0:32] = 0
    store.clear()
    assert reader[0:4].tolist() == [0] * 4
    assert store.count() == 0


def test_objects_of_one_fetch_are_few() -> None:
    """Chunks that are separate, required objects are open while they are read."""

    class Few(CountingStore):
        most = 0

        def fetch(self, names, spans, **how):  # type: ignore[no-untyped-def, override]
            self.most = max(self.most, len(names))
            return super().fetch(names, spans, **how)

    store = Few(MemoryStore())
    array, storage, group = shared_array(store, 0, shape=3 * OPEN_OBJECTS + 5, dtype="u1", chunks=1, codecs=[])
    for i in range(array.shape[0]):
        array[i] = i % 200 + 1
    assert len(storage.locate(storage.stored(array.shape)).names) > 3 * OPEN_OBJECTS
    store.most = 0
    assert again(group)[...].tolist() == [i % 200 + 1 for i in range(array.shape[0])]
    assert store.most == OPEN_OBJECTS
    assert again(group)[::-1].tolist() == [i % 200 + 1 for i in range(array.shape[0])][::-1]
    picked = np.arange(array.shape[0])[::-3]
    assert again(group).vindex[picked].tolist() == (picked % 200 + 1).tolist()


@pytest.mark.parametrize("shards", [None, 8])
def test_chunks_that_are_written_whole_are_not_looked_up(shards: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a repository that could require reading another manifest."""
    array, storage, group = shared_array(MemoryStore(), 0, shape=64, dtype="u1", chunks=4, shards=shards, codecs=[])
    looked_up = list[int]()
    locate = storage.locate
    monkeypatch.setattr(storage, "locate", lambda coords: looked_up.append(len(coords)) or locate(coords))
    array[...] = 5
    array[8:24] = 6
    assert looked_up == []
    array[8:25] = 7
    assert sum(looked_up) == 1
    assert again(group)[...].tolist() == [5] * 8 + [7] * 17 + [5] * 39


# --- errors ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("shards", [None, 8])
def test_a_missing_object_is_an_error_and_never_the_fill_value(on_disk: bool, shards: int | None) -> None:
    with a_store(on_disk) as store:
        array, storage, group = shared_array(store, 0, shape=64, dtype="u1", chunks=4, shards=shards, codecs=[])
        array[...] = 5
        assert array[...].sum() == 320
        lost = storage.locate(storage.stored((64,))[:1]).names[0]
        store.erase(lost)
        acts = [
            lambda handle: handle[...],
            lambda handle: handle[0],
            lambda handle: handle[0:2],
            lambda handle: handle.vindex[[0, 60]],
            lambda handle: handle.__setitem__(1, 6),
        ]
        for act in acts:
            for handle in (array, again(group)):
                with pytest.raises(StoreError, match="missing") as caught:
                    act(handle)
                assert caught.value.key == lost
        array[...] = 6
        assert again(group)[...].sum() == 384, "writing chunks whole mends it"


@pytest.mark.parametrize("inline", [0, 10**6])
def test_errors_of_shared_objects_name_the_damaged_chunk(inline: int) -> None:
    store = MemoryStore()
    array, storage, group = shared_array(store, inline, shape=32, dtype="u1", chunks=4, shards=8, codecs=["crc32c"])
    array[...] = 5
    reference = storage.chunks[2,]
    if inline:
        assert reference.inline is not None
        damaged = bytearray(reference.inline)
        damaged[0] ^= 1
        storage.chunks[2,] = reference._replace(inline=bytes(damaged))
    else:
        whole = bytearray(store.get(reference.name) or b"")
        whole[reference.base] ^= 1
        store.set(reference.name, bytes(whole))
    for handle in (array, again(group)):
        assert handle[:16].sum() == 80
        with pytest.raises(ChecksumError) as caught:
            handle[...]
        assert caught.value.chunk == (4,)
        assert caught.value.key == (None if inline else reference.name)


def test_a_reference_beyond_its_object_is_an_error() -> None:
    store = MemoryStore()
    array, storage, _ = shared_array(store, 0, shape=8, dtype="u1", chunks=4, codecs=[])
    array[...] = 5
    pack = store.get(storage.chunks[0,].name) or b""
    store.set(storage.chunks[0,].name, pack[:9])
    assert array[:4].tolist() == [5] * 4
    for selection in (slice(4, 8), 5, ...):
        with pytest.raises(DataError):
            array[selection]
    with pytest.raises(DataError):
        array[5] = 1
