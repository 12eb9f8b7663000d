"""The codec pipeline: zarr-python's arrays read and written by our kernel, compared with zarr-python's own pipeline."""

from __future__ import annotations

import asyncio
import pickle
import threading
import tracemalloc
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("zarr", minversion="3.0")

import zarr
from zarr.codecs import BytesCodec, ShardingCodec, ZstdCodec
from zarr.core.array_spec import ArrayConfig
from zarr.core.buffer import BufferPrototype, cpu
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import frazil
import frazil.zarr
from frazil.errors import ChunkDecodeError, FallbackWarning
from frazil.integrations.zarr.chunk_keys import array_keys
from frazil.metadata.grids.chunk_keys import DefaultKeys, V2Keys

THEIRS = {"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}
OURS = {"codec_pipeline.path": "frazil.zarr.CodecPipeline"}
OLDEST = zarr.__version__.startswith("3.0.")
WRAPPED = pytest.mark.skipif(OLDEST, reason="stores over stores of zarr-python 3.0 cannot be opened for reading")
STORES = (
    "memory",
    "folder",
    "as_store of memory",
    "as_store of a folder",
    "session",
    pytest.param("wrapped", marks=WRAPPED),
)


@pytest.fixture(autouse=True)
def ours() -> Iterator[None]:
    with zarr.config.set(OURS):
        yield


def new_store(kind: str, folder: Path) -> Any:
    match kind:
        case "memory":
            return MemoryStore()
        case "folder":
            return LocalStore(folder / "theirs.zarr")
        case "as_store of memory":
            return frazil.zarr.as_store(frazil.stores.MemoryStore())
        case "as_store of a folder":
            return frazil.zarr.as_store(folder / "ours.zarr")
        case "session":
            return frazil.zarr.as_store(frazil.Repository.create(frazil.stores.MemoryStore()).writable_session("main"))
        case _:
            return WrapperStore(MemoryStore())


def same(one: Any, other: Any) -> None:
    assert np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind in "fc")


@pytest.mark.parametrize("shards", [None, (4, 6)])
@pytest.mark.parametrize("kind", STORES)
def test_every_selection_reads_and_writes_as_numpy(kind: str, shards: tuple[int, int] | None, tmp_path: Path) -> None:
    store = new_store(kind, tmp_path)
    values = np.arange(9 * 11, dtype="f4").reshape(9, 11)
    a = zarr.create_array(store, name="g/t", shape=values.shape, chunks=(2, 3), shards=shards, dtype="f4", fill_value=5)
    assert type(a._async_array.codec_pipeline) is frazil.zarr.CodecPipeline
    a[:] = values

    def check() -> None:
        same(a[:], values)
        with zarr.config.set(THEIRS):
            same(zarr.open_array(store, path="g/t", mode="r")[:], values)

    check()
    for selection in ((slice(1, 6, 2), 3), (4, 4), (slice(0), 1), (slice(None), slice(3, 4)), ...):
        same(a[selection], values[selection])
    rows, columns = [7, 0, 3], [10, 2, 2]
    same(a.oindex[rows, columns], values[np.ix_(rows, columns)])
    same(a.oindex[rows, 2], values[rows, 2])
    same(a.vindex[rows, columns], values[rows, columns])
    same(a.get_mask_selection(values > 50), values[values > 50])
    a[2:7, 1] = values[2:7, 1] = 5
    a[8] = values[8] = np.arange(11)
    check()
    a.oindex[rows, 3:5] = values[rows, 3:5] = np.ones((3, 2))
    a.vindex[rows, [1, 2, 3]] = values[rows, [1, 2, 3]] = [-1, -2, -3]
    a.set_mask_selection(values > 80, 0)
    values[values > 80] = 0
    check()
    a.resize((12, 11))
    a.append(np.full((1, 11), 8, "f4"))
    assert (a[9:12] == 5).all()
    assert (a[12] == 8).all()


@pytest.mark.parametrize("chosen", [range(9), range(3, 9), range(3), (0, 5, 8), (4,), ()])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_masks_of_axes(axes: tuple[int, ...], chosen: Iterable[int]) -> None:
    """If one axis has a mask, it comes as bools, which were read as indices: a mask of whole chunks selected element 1 again and again."""
    values = np.arange(81, dtype="f4").reshape(9, 9)
    a = zarr.create_array(MemoryStore(), data=values, chunks=(3, 3))
    mask = np.isin(np.arange(9), [*chosen])
    selection: tuple[Any, ...] = tuple(mask if axis in axes else slice(1, 7) for axis in range(2))
    in_numpy = np.ix_(*(mask if axis in axes else range(1, 7) for axis in range(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(a.oindex[selection], values[in_numpy])
        values[in_numpy] = new = -np.arange(values[in_numpy].size).reshape(values[in_numpy].shape)
        a.oindex[selection] = new
        same(a[:], values)
        line = zarr.create_array(MemoryStore(), data=np.arange(9), chunks=3)
        same(line.oindex[mask], np.arange(9)[mask])


@pytest.mark.skipif(zarr.__version__.startswith(("3.0.", "3.1.")), reason="times without a unit of zarr-python 3.2")
@pytest.mark.filterwarnings("ignore:.*generic")
@pytest.mark.parametrize("dtype", ["<M8", ">M8", ">m8", ">M8[s]", ">m8[10us]", [("time", "<M8")]])
def test_times_in_both_byte_orders(dtype: Any) -> None:
    """Without a unit, NumPy's astype leaves them in their byte order: other numbers were stored. Structs of them have no repr."""
    order = ">" if dtype[0] == ">" else "<"
    store = MemoryStore()
    a = zarr.create_array(store, data=np.array([0, 1, -2, 300], f"{order}i8").view(dtype), chunks=2)
    with zarr.config.set(THEIRS):
        in_theirs = zarr.open_array(store, mode="r")[:]
    for found in map(np.asarray, (a[:], in_theirs)):
        times = found["time"] if found.dtype.names else found
        same(times.astype("i8"), [0, 1, -2, 300])


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_elements_behind_the_end_stay_in_shards(chunks: int) -> None:
    """A shard that a smaller shape leaves keeps what is behind the new end, also through writes, as with zarr-python's pipeline."""
    a = zarr.create_array(MemoryStore(), shape=4, chunks=(chunks,), shards=(4,), dtype="i2", fill_value=0)
    a[:] = [1, 2, 3, 4]
    a.resize((2,))
    a[:] = [9, 8]
    a.resize((4,))
    same(a[:], [9, 8, 3, 4])


@pytest.mark.skipif("subchunk_write_order" not in ShardingCodec.__dataclass_fields__, reason="of zarr-python 3.3")
@pytest.mark.parametrize("order", ["morton", "lexicographic", "colexicographic"])
def test_shards_have_the_order_of_the_codec(order: Any) -> None:
    values = np.arange(30, dtype="u1").reshape(6, 5)
    shards = []
    for config in (OURS, THEIRS):
        with zarr.config.set(config):
            codec = ShardingCodec(chunk_shape=(1, 1), codecs=[BytesCodec()], subchunk_write_order=order)  # type: ignore[call-arg]
            a = zarr.create_array(
                store := MemoryStore(), shape=(6, 5), chunks=(6, 5), dtype="u1", serializer=codec, compressors=None,
                fill_value=99,
            )  # fmt: skip
            a[:] = values
            a[2, 3] = 77
        shards.append(store._store_dict["c/0/0"].to_bytes())
    assert shards[0] == shards[1]


SCALARS = {
    "i2": -7,
    ">i4": 70000,
    "u8": 2**63,
    "f2": np.nan,
    "f8": -0.0,
    "c8": 1j,
    "bool": True,
    "S3": b"ab",
    "U2": "é",
}


@given(data=st.data(), dtype=st.sampled_from(sorted(SCALARS)), write_empty=st.booleans())
def test_stored_bytes_equal_those_of_zarr_python(data: Any, dtype: str, write_empty: bool) -> None:
    """Both write the same: each reads the other's chunks, and both store the same chunks."""
    if OLDEST:
        dtype = "f8" if dtype in {">i4", "S3", "U2"} else dtype
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=0, max_size=3))
    chunks = tuple(data.draw(st.integers(1, length)) for length in lengths)
    shards = (
        tuple(chunk * data.draw(st.integers(1, 3)) for chunk in chunks)
        if lengths and data.draw(st.booleans())
        else None
    )
    fill = np.zeros((), dtype)[()] if data.draw(st.booleans()) else np.array(SCALARS[dtype], dtype)[()]
    options = {"shape": tuple(lengths), "chunks": chunks, "shards": shards, "dtype": dtype, "fill_value": fill}
    made, stores = [], [MemoryStore(), MemoryStore()]
    for config, store in zip((OURS, THEIRS), stores, strict=True):
        with zarr.config.set(config):
            made.append(zarr.create_array(store, config={"write_empty_chunks": write_empty}, **options))
    expected = np.full(lengths, fill, dtype)
    for _ in range(data.draw(st.integers(1, 3))):
        where = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in lengths)
        pick = data.draw(st.sampled_from([np.array(SCALARS[dtype], dtype)[()], fill]))
        for a in made:
            a[where] = pick
        expected[where] = pick
    for store in stores:
        for config in (OURS, THEIRS):
            with zarr.config.set(config):
                same(zarr.open_array(store, mode="r")[...], expected)
    if dtype != "f8" and shards is None:  # zarr-python takes -0.0 for 0.0, so it leaves out chunks that Frazil stores
        assert sorted(stores[0]._store_dict) == sorted(stores[1]._store_dict)


def test_empty_chunks(tmp_path: Path) -> None:
    for write_empty, count in ((False, 0), (True, 3)):
        for shards in (None, (2,)):
            store = MemoryStore()
            a = zarr.create_array(
                store, shape=5, chunks=(2 if shards is None else 1,), shards=shards, dtype="f8", fill_value=np.nan,
                config={"write_empty_chunks": write_empty},
            )  # fmt: skip
            a[:] = np.nan
            assert len([key for key in store._store_dict if key.startswith("c/")]) == count


class Counting(WrapperStore[MemoryStore]):
    """Counts the fetched bytes."""

    fetched = 0

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        value = await super().get(key, prototype, byte_range)
        if value is not None and not key.endswith("zarr.json"):
            self.fetched += len(value)
        return value


def test_slices_take_no_memory_for_each_index() -> None:
    size = 1 << 22
    array = zarr.create_array(
        MemoryStore(), shape=(size,), chunks=(size // 8,), dtype="uint8", compressors=None, fill_value=1
    )
    array[:8] = 2
    tracemalloc.start()
    try:
        values = array[3:-3]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert values[4:6].tolist() == [2, 1]
    assert peak < 3 * size


@WRAPPED
def test_parts_of_shards_are_fetched_as_ranges() -> None:
    store = Counting(MemoryStore())
    values = np.random.default_rng(0).integers(0, 2**60, (64, 64))
    a = zarr.create_array(store, data=values, chunks=(8, 8), shards=(64, 64))
    store.fetched = 0
    same(a[8:16, 8:16], values[8:16, 8:16])
    assert 8 * 8 * 8 < store.fetched < 8 * 8 * 8 + 64 * 16 + 100  # an inner chunk and the index


def test_two_writers_of_one_shard_in_a_folder(tmp_path: Path) -> None:
    """Data that zarr-python loses is kept: shards in folders are replaced only if they still have the version that was read."""
    store = LocalStore(tmp_path / "a.zarr")
    zarr.create_array(store, shape=(16, 4), chunks=(1, 4), shards=(16, 4), dtype="i4")

    def fill(row: int) -> None:
        zarr.open_array(store, mode="r+")[row] = row + 1

    threads = [threading.Thread(target=fill, args=(row,)) for row in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(zarr.open_array(store, mode="r")[:, 0], np.arange(1, 17))


@pytest.mark.parametrize("wrapped", [False, pytest.param(True, marks=WRAPPED)])
def test_writers_of_one_shard_at_once_without_versions(wrapped: bool) -> None:
    """An update may be lost, as with zarr-python's pipeline. The index of one writer and the inner chunks of another one made shards that nobody can read."""

    async def fill(a: Any, row: int) -> None:
        await a.setitem((slice(row, row + 1), slice(None)), np.random.default_rng(row).integers(0, 2**row, (1, 64)))

    async def repeat() -> None:
        for _ in range(20):
            a = await zarr.api.asynchronous.create_array(
                WrapperStore(MemoryStore()) if wrapped else MemoryStore(),
                shape=(16, 64), chunks=(1, 64), shards=(16, 64), dtype="i8", compressors=ZstdCodec(), fill_value=-1,
            )  # fmt: skip
            await a.setitem(slice(None), 3)
            await asyncio.gather(*[fill(a, row) for row in range(16)])
            found = np.asarray(await a.getitem(slice(None)))
            for row in range(16):
                new = np.random.default_rng(row).integers(0, 2**row, 64)
                assert (found[row] == 3).all() or (found[row] == new).all()

    asyncio.run(repeat())


@WRAPPED
@pytest.mark.parametrize("shards", [None, (4,)])
@pytest.mark.parametrize("error", [KeyError, FileNotFoundError, PermissionError])
def test_an_error_of_a_store_is_no_missing_chunk(error: type[Exception], shards: tuple[int] | None) -> None:
    class Failing(WrapperStore[MemoryStore]):
        async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
            if key.startswith("c/"):
                raise error(key)
            return await self._store.get(key, *arguments, **options)

    inner = MemoryStore()
    zarr.create_array(inner, shape=8, chunks=(2,), shards=shards, dtype="i4")[:] = np.arange(8)
    a = zarr.open_array(Failing(inner), mode="r+")
    with pytest.raises(error):
        a[:]
    with pytest.raises(error):
        a[1] = 5
    same(zarr.open_array(inner, mode="r")[:], np.arange(8))


def test_read_only_stores_and_damage(tmp_path: Path) -> None:
    a = zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(8), chunks=(4,))
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_array(str(tmp_path / "a.zarr"), mode="r")[0] = 3
    (tmp_path / "a.zarr" / "c" / "1").write_bytes(b"no zstd frame")
    assert a[3] == 3
    with pytest.raises(ChunkDecodeError, match="c/1"):
        a[4]


def test_arrays_pickle(tmp_path: Path) -> None:
    a = zarr.create_array(str(tmp_path / "a.zarr"), data=np.arange(8), chunks=(2,), shards=(4,))
    same(a[:], np.arange(8))
    copy = pickle.loads(pickle.dumps(a))
    assert type(copy._async_array.codec_pipeline) is frazil.zarr.CodecPipeline
    copy[3] = 9
    assert a[3] == 9


@pytest.mark.skipif(
    not hasattr(ArrayConfig, "read_missing_chunks") and "read_missing_chunks" not in ArrayConfig.__annotations__,
    reason="of zarr-python 3.2",
)
def test_missing_chunks_are_counted_in_the_error() -> None:
    a = zarr.create_array(MemoryStore(), shape=8, chunks=(2,), dtype="i4", config={"read_missing_chunks": False})
    a[:4] = 1
    same(a[:4], [1, 1, 1, 1])
    with pytest.raises(Exception, match="2 chunk"):
        a[:]


@given(
    st.sampled_from([DefaultKeys("/"), DefaultKeys("."), V2Keys("."), V2Keys("/")]),
    st.sampled_from(["", "a/", "c/", "c/0/", "0/1/"]),
    st.integers(0, 3).flatmap(lambda n: st.lists(st.tuples(*[st.integers(0, 20)] * n), min_size=1, max_size=5)),
)
def test_keys_of_chunks(encoding: Any, prefix: str, coordinates: list[tuple[int, ...]]) -> None:
    """The detected prefix and encoding give the same keys."""
    keys = [encoding.encode_one(row, prefix) for row in coordinates]
    found = array_keys(keys, len(coordinates[0]))
    assert found is not None
    assert [found.encoding.encode_one(row, found.prefix) for row in found.coordinates] == keys
    assert array_keys([*keys, "elsewhere"], len(coordinates[0])) is None


def test_fallbacks_to_zarr_python_are_reported_once() -> None:
    def use() -> None:
        for _ in range(2):
            a = zarr.create_array(MemoryStore(), data=np.arange(8, dtype="i4"), chunks=(2,), zarr_format=2)
            same(a[:], np.arange(8))

    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("default")
        use()
    found = [str(one.message) for one in recorded if one.category is FallbackWarning]
    assert len(found) == 1 and "a codec of Zarr v2" in found[0]


@WRAPPED
def test_reads_that_the_loop_of_the_user_cancels_keep_no_thread() -> None:
    inner = MemoryStore()
    zarr.create_array(inner, shape=(4,), chunks=(2,), dtype="i4")[:] = np.arange(4)
    asked: list[asyncio.Event] = []

    class Silent(WrapperStore[MemoryStore]):
        """Never answers a request for a chunk."""

        async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
            if key.startswith("c/"):
                asked[-1].set()
                await asyncio.Event().wait()
            return await self._store.get(key, *arguments, **options)

    async def cancelled() -> None:
        asked.append(asyncio.Event())
        opened = await zarr.api.asynchronous.open_array(store=Silent(inner), mode="r")
        read = asyncio.create_task(opened.getitem(slice(None)))
        await asked[-1].wait()
        read.cancel()

    for _ in range(40):  # more than there are threads
        asyncio.run(cancelled())
    same(zarr.open_array(WrapperStore(inner), mode="r")[:], np.arange(4))


@WRAPPED
def test_a_store_without_a_limit_of_requests() -> None:
    inner = MemoryStore()
    with zarr.config.set({"async.concurrency": None}):
        zarr.create_array(WrapperStore(inner), shape=(4,), chunks=(2,), dtype="i4")[:] = np.arange(4)
        same(zarr.open_array(WrapperStore(inner), mode="r")[:], np.arange(4))


@pytest.mark.skipif(OLDEST, reason="structs of zarr-python 3.1")
def test_why_zarr_python_takes_over() -> None:
    class Own(cpu.Buffer):
        pass

    def warned(call: Any) -> str:
        with warnings.catch_warnings(record=True) as recorded:
            warnings.simplefilter("always")
            call()
        return "".join(str(one.message) for one in recorded if one.category is FallbackWarning)

    a = zarr.create_array(MemoryStore(), data=np.arange(4), chunks=2)
    prototype = BufferPrototype(Own, cpu.NDBuffer)
    assert "buffers of the class Own" in warned(lambda: a.get_basic_selection(slice(3), prototype=prototype))
    data = np.ones(4, [("x", ">i4"), ("y", "i4")])
    assert "structs in another byte order" in warned(lambda: zarr.create_array(MemoryStore(), data=data, chunks=2))
