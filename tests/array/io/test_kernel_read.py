"""Reading by one call of the kernel for each batch: the result equals NumPy's and that of reading chunk by chunk through a store, for any files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from errno import ELOOP
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search
from tests.strategies import Layout, basic_selections, create, layouts, orthogonal_selections, same, values

import frazil
from frazil import Runtime, _kernel
from frazil.codecs import Bytes, Codec, Crc32c, ShardingIndexed, Transpose, Zstd
from frazil.errors import FrazilError, StoreError
from frazil.stores import LocalStore
from frazil.stores.wrappers import WrappedStore


def handles(folder: str | Path, **options: object) -> tuple[frazil.Array, frazil.Array]:
    """Of one array: the chunks that the kernel reads by itself, and those that are fetched through a store."""
    direct = frazil.open_array(LocalStore(folder), "r+", **options)  # type: ignore[arg-type]
    return direct, frazil.open_array(WrappedStore(LocalStore(folder)), "r+", **options)  # type: ignore[arg-type]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The chunks of the array that each call of the kernel reads."""
    counted: list[int] = []

    def count(of: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object) -> object:
            counted.append(len(given[-3]))  # type: ignore[arg-type] # states
            return of(*given)

        return call

    monkeypatch.setattr(_kernel, "read_shards", count(_kernel.read_shards))
    return counted


@search(slowness=2)
@given(layouts(), st.integers(0, 2**32), st.sampled_from([1, 300, 2**26]), st.data())
def test_reading_as_numpy_and_as_through_a_store(layout: Layout, seed: int, limit: int, data: st.DataObject) -> None:
    expected = values(seed, layout.shape, np.dtype("<u2"))
    with TemporaryDirectory() as folder:
        create(folder, layout, "u2")[...] = expected
        every = handles(folder, runtime=Runtime(bytes_in_flight=limit))
        for _ in range(3):
            chosen = data.draw(basic_selections(layout.shape))
            along = data.draw(orthogonal_selections(layout.shape))
            points = tuple(np.random.default_rng(seed).integers(0, max(n, 1), 7 * (n > 0)) for n in layout.shape)
            for array in every:
                same(array[chosen], expected[chosen])
                same(array.oindex[along], handles(folder)[1].oindex[along])
                if layout.shape and all(layout.shape):
                    same(array.vindex[points], expected[points])
            part = data.draw(basic_selections(layout.shape))
            if None not in part:
                expected[part] = seed % 999  # the next round reads replaced shards
                every[1][part] = seed % 999


def test_a_batch_is_one_call(tmp_path: Path, calls: list[int]) -> None:
    data = np.arange(64 * 64, dtype="i4").reshape(64, 64)
    nested = [ShardingIndexed([8, 8], [ShardingIndexed([4, 4], [Bytes(), Zstd(1)])])]
    for name, codecs, options in (
        ("shards", ["zstd"], {"chunks": (4, 4), "shards": (16, 16)}),
        ("chunks", ["zstd"], {"chunks": (16, 16)}),
        ("nested", nested, {"chunks": (16, 16)}),
    ):
        array = frazil.create_array(tmp_path / name, data=data, codecs=codecs, **options)  # type: ignore[arg-type]
        assert (array[...] == data).all()
        assert (array.oindex[[1, 60, 2], :] == data[[1, 60, 2]]).all()
        assert (array.vindex[[1, 60, 2], [5, 5, 40]] == data[[1, 60, 2], [5, 5, 40]]).all()
        assert calls == [16, 8, 3]
        calls.clear()
    assert (frazil.open_array(tmp_path / "shards", runtime=Runtime(bytes_in_flight=1024))[...] == data).all()
    assert len(calls) > 16, "a part of a shard at a time"


def test_the_kernel_reads_chunk_files_packs_and_pending_chunks_of_a_repository(
    tmp_path: Path, calls: list[int]
) -> None:
    """Chunks in chunk files, in packs, in memory, and missing ones."""
    data = np.random.default_rng(1).integers(0, 2**16, (64, 64), np.uint16)
    data[16:32] = 0
    repo = frazil.Repository.create(tmp_path)
    with repo.transaction(message="data") as root:
        root.create_array("shards", data=data, chunks=(4, 4), shards=(16, 16), codecs=["zstd"], fill_value=0)
        root.create_array("chunks", data=data, chunks=(4, 4), codecs=["zstd"], fill_value=0)
    session = repo.writable_session("main")
    for name in ("shards", "chunks"):
        calls.clear()
        array = session.root[name]
        assert isinstance(array, frazil.Array)
        for _ in range(2):
            assert (array[...] == data).all()
            assert (array.vindex[[1, 60], [5, 40]] == data[[1, 60], [5, 40]]).all()
        array[:5, :5] = 7
        expected = data.copy()
        expected[:5, :5] = 7
        assert (array[:9, :9] == expected[:9, :9]).all()
        assert len(calls) >= 5
    number = repo.readonly_session("main").root["shards"]
    assert (number[...] == data).all(), "and what another session changed is not what the snapshot has"  # type: ignore[index]


def damage(value: bytes, kind: str) -> bytes:
    """The bytes of a shard of four inner chunks and an index with a checksum, at the end."""
    table = np.frombuffer(value[-68:-4], "<u8").copy()
    if kind == "cut":
        return value[:-1]
    if kind == "short":
        return value[:67]
    if kind == "empty":
        return b""
    if kind == "checksum":
        return value[:-1] + bytes([value[-1] ^ 1])
    if kind == "chunk":
        return bytes([value[0] ^ 0xFF]) * 3 + value[3:]
    if kind == "outside":
        table[1] = len(value)
    if kind == "half":
        table[2] = 2**64 - 1
    if kind == "overflow":
        table[6:8] = 2**64 - 2, 5
    index = table.tobytes()
    return value[:-68] + index + _kernel.crc32c(index).to_bytes(4, "little")


@pytest.mark.parametrize("kind", ["cut", "short", "empty", "checksum", "chunk", "outside", "half", "overflow", "folder", "link"])  # fmt: skip
@pytest.mark.parametrize("shards", [(8, 8), None])
def test_errors_are_those_of_reading_through_a_store(tmp_path: Path, kind: str, shards: tuple[int, int] | None) -> None:
    data = np.arange(1, 1025, dtype="u4").reshape(32, 32)
    chunks = (4, 4) if shards else (8, 8)
    frazil.create_array(tmp_path, data=data, chunks=chunks, shards=shards, codecs=["zstd", "crc32c"])
    file = tmp_path / "c" / "2" / "1"
    value = file.read_bytes()
    if kind == "folder":
        file.unlink()
        file.mkdir()
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(value)
        file.unlink()
        file.symlink_to(tmp_path / "elsewhere")
    elif shards or kind in ("cut", "empty", "chunk"):
        file.write_bytes(damage(value, kind))
    else:
        pytest.skip("there is no index")

    def problem_of(act: Callable[[frazil.Array], object], array: frazil.Array) -> tuple[object, ...]:
        with pytest.raises(FrazilError) as caught:
            act(array)
        error = caught.value
        return type(error), error.key, error.path, error.chunk, getattr(error, "errno", None)

    whole, point = np.zeros_like(data), ([17, 17, 30], [13, 9, 2])
    for act in (
        lambda array: array.read(out=whole),
        lambda array: array[16:18, 8:16],
        lambda array: array.vindex[point],
    ):
        direct, fetched = (problem_of(act, array) for array in handles(tmp_path))
        assert direct == fetched
        assert direct[1:3] == ("c/2/1", "/")
    for array in handles(tmp_path):
        assert (array[:16] == data[:16]).all(), "the others are as they were"


def test_shards_that_vanish_or_come_are_seen(tmp_path: Path) -> None:
    """A shard index is cached with the version of its file, which is compared at every read."""
    data = np.arange(1, 65, dtype="u1")
    frazil.create_array(tmp_path, data=data, chunks=2, shards=8, codecs=[Crc32c()])
    os.utime(tmp_path / "c" / "1", ns=(10**18, 10**18))
    array = frazil.open_array(tmp_path)
    assert (array[...] == data).all()
    moved = (tmp_path / "c" / "1").read_bytes()
    (tmp_path / "c" / "1").unlink()
    data[8:16] = 0
    assert (array[...] == data).all()
    (tmp_path / "c" / "1").write_bytes(moved)
    data[8:16] = np.arange(9, 17)
    assert (array[...] == data).all()


@pytest.mark.parametrize("count", [1, 2])
def test_indexes_of_files_that_were_just_written_are_not_remembered(count: int, tmp_path: Path) -> None:
    """Another state of the file may have the same time stamp and the same size."""
    data = np.arange(1, 8 * count + 1, dtype="u1")
    frazil.create_array(tmp_path, data=data, chunks=2, shards=8, codecs=[Crc32c()])
    moments = (10**18, time.time_ns() + 10**12)  # files from the future count as written now
    for moment in moments:
        for file in (tmp_path / "c").iterdir():
            os.utime(file, ns=(moment, moment))
        array = frazil.open_array(tmp_path)
        assert (array[...] == data).all()
        indexes = array._access.indexes
        assert indexes is not None
        names = [(i,) for i in range(count)]
        assert (indexes.find(names) is not None) == (moment == moments[0])


def test_codecs_of_users_and_odd_keys_are_read_through_the_store(tmp_path: Path, calls: list[int]) -> None:
    class Reversed(Crc32c):
        name = "my.reversed"  # type: ignore[misc]

        def native(self) -> None:
            return None

        def encode(self, data: bytes) -> bytes:
            return data[::-1]

        def decode(self, data: bytes, limit: int) -> bytes:
            return data[::-1]

        def encoded_size(self, nbytes: int) -> int:
            return nbytes

    registry = frazil.codecs.DEFAULT_REGISTRY.with_codec(Reversed)
    codecs: list[Codec] = [Reversed()]
    data = np.arange(64, dtype="u1")
    array = frazil.create_array(tmp_path, data=data, chunks=4, shards=16, codecs=codecs, registry=registry)
    assert (array[...] == data).all()
    assert calls == []


def test_an_index_with_other_codecs_is_read_without_the_kernel(tmp_path: Path) -> None:
    """The kernel decodes indexes of `bytes` and checksums. A remembered index with others serves reads of single chunks all the same."""
    index = [Transpose([1, 0]), Bytes("little")]
    codecs = [ShardingIndexed([3], [Bytes("little")], index, "start")]
    array = frazil.create_array(tmp_path, shape=(5,), dtype="u2", chunks=(3,), codecs=codecs)
    array[...] = np.arange(5)
    for path in tmp_path.rglob("*"):
        os.utime(path, (1e9, 1e9))  # indexes of files that were just written are not remembered
    array = frazil.open_array(tmp_path)
    for _ in range(2):
        assert array[...].tolist() == list(range(5))
        assert [int(array[at]) for at in range(5)] == list(range(5))
        assert array[3:5].tolist() == [3, 4]


@pytest.mark.parametrize("shards", [None, 4])
@pytest.mark.parametrize("selection", [slice(None), 0, [0, 5]], ids=repr)
def test_an_error_of_the_system_has_our_reason_and_a_hint(
    tmp_path: Path, shards: int | None, selection: slice | int | list[int]
) -> None:
    array = frazil.create_array(tmp_path, data=np.arange(1, 9), chunks=2, shards=shards)
    (tmp_path / "c/0").rename(tmp_path / "c/other")
    (tmp_path / "c/0").symlink_to("other")
    with pytest.raises(StoreError, match="a chunk could not be read: a symbolic link is at the key") as caught:
        array.oindex[selection]
    assert caught.value.hint is not None
    assert caught.value.errno == ELOOP
    assert caught.value.key == "c/0"
