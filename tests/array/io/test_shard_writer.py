"""Array.shard_writer: inner chunks in any order, from many threads, published as a whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from tests.faults.interrupted_lines import Interrupts

import frazil
from frazil.array.io import encoded_chunks, shard_writer
from frazil.errors import ConflictError, InvalidInputError, NotFoundError, ReadOnlyError, SelectionError, StoreError
from frazil.stores import LocalStore, MemoryStore

Create = Callable[..., frazil.Array]
SHAPE, CHUNKS, SHARDS = (70, 90), (8, 8), (32, 32)


@pytest.fixture(params=["local", "memory", "session"])
def create(request: pytest.FixtureRequest, tmp_path: Path) -> Create:
    def make(**more: object) -> frazil.Array:
        arguments = {"shape": SHAPE, "dtype": "int32", "chunks": CHUNKS, "shards": SHARDS, **more}
        if request.param == "session":
            repo = frazil.Repository.create(tmp_path / "repo")
            return repo.writable_session("main").root.create_array("a", **arguments)  # type: ignore[arg-type]
        store = LocalStore(tmp_path / "a") if request.param == "local" else MemoryStore()
        return frazil.create_array(store, **arguments)  # type: ignore[arg-type]

    return make


def values(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.random.default_rng(1).integers(1, 1000, shape).astype("int32")


def element_box(array: frazil.Array, shard: tuple[int, ...], at: tuple[int, ...]) -> tuple[slice, ...]:
    assert array.shards is not None
    return tuple(
        slice(s * extent + i * chunk, min(s * extent + (i + 1) * chunk, length))
        for s, extent, i, chunk, length in zip(shard, array.shards, at, array.chunks, array.shape, strict=True)
    )


def test_any_order_from_many_threads(create: Create) -> None:
    array, expected = create(), values()
    for shard in product(range(3), range(3)):
        with array.shard_writer(shard) as writer:
            places = list(product(*map(range, writer.shape)))
            np.random.default_rng(0).shuffle(places)

            def write(at: list[int], shard: tuple[int, ...] = shard, writer: object = writer) -> None:
                writer[tuple(at)] = expected[element_box(array, shard, tuple(at))]  # type: ignore[index]

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(write, places))
    assert (array[...] == expected).all()


def test_unwritten_inner_chunks_keep_their_values(create: Create) -> None:
    array, expected = create(), values()
    array[...] = expected
    with array.shard_writer((0, 1)) as writer:
        writer[1, 2] = 7
        writer[3] = np.arange(32)
        writer[0, 0] = 0
    expected[8:16, 48:56], expected[24:32, 32:64], expected[0:8, 32:40] = 7, np.arange(32), 0
    assert (array[...] == expected).all()
    assert array.nchunks_initialized == array.nchunks - 1


def test_concurrent_changes_are_kept(create: Create) -> None:
    array = create()
    with array.shard_writer((0, 0)) as writer:
        writer[0, 0] = 1
        array[8:16, 0:8] = 2
        array[0:8, 0:8] = 3
    expected = np.zeros(SHAPE, "int32")
    expected[8:16, 0:8], expected[0:8, 0:8] = 2, 1
    assert (array[...] == expected).all()


def test_a_shard_that_is_replaced_at_the_last_moment_is_merged_again(tmp_path: Path) -> None:
    class Meddling(LocalStore):
        """Another writer is faster, once."""

        meddle: Callable[[], None] | None = None

        def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
            meddle, Meddling.meddle = Meddling.meddle, None
            if meddle is not None:
                meddle()
            return super().put_many(names, pieces, expect)

    array = frazil.create_array(Meddling(tmp_path), shape=SHAPE, dtype="int32", chunks=CHUNKS, shards=SHARDS)
    array[0:8, 0:16] = 1
    other = frazil.open_array(tmp_path, mode="r+")
    with array.shard_writer((0, 0)) as writer:
        writer[0, 0] = 5
        Meddling.meddle = lambda: other.__setitem__((slice(0, 8), slice(8, 16)), 9)
    assert Meddling.meddle is None
    assert (array[0:8, 0:8] == 5).all()
    assert (array[0:8, 8:16] == 9).all()


@pytest.mark.parametrize("cut", [True, False])
def test_an_inner_chunk_at_the_arrays_end(create: Create, cut: bool) -> None:
    array = create()
    with array.shard_writer((2, 2)) as writer:
        assert writer.shape == (1, 4)
        writer[0, 3] = np.full((6, 2) if cut else (8, 8), 4)
    assert (array[64:, 88:] == 4).all()
    assert array[64:, :88].max() == 0
    array.resize((80, 100))
    assert array[70:, :].max() == array[:, 90:].max() == 0


def test_boxes_of_inner_chunks(create: Create) -> None:
    array, expected = create(), values()
    for shard in product(range(3), range(3)):
        with array.shard_writer(shard) as writer:
            writer[...] = expected[tuple(slice(32 * s, 32 * s + 32) for s in shard)]
    assert (array[...] == expected).all()
    with array.shard_writer((1, 1)) as writer:
        writer[1:3, -1] = np.ones((16, 8))
    expected[40:56, 56:64] = 1
    assert (array[...] == expected).all()


def test_inner_chunks_of_fill_value_are_not_stored(create: Create) -> None:
    array = create(fill_value=3)
    with array.shard_writer((0, 0)) as writer:
        writer[...] = 3
    assert array.nchunks_initialized == 0
    array[0:32, 0:32] = 1
    with array.shard_writer((0, 0)) as writer:
        writer[...] = 3
    assert array.nchunks_initialized == 0


def test_nothing_is_published_after_an_exception(create: Create) -> None:
    array = create()
    array[0:8, 0:8] = 1
    with pytest.raises(KeyError), array.shard_writer((0, 0)) as writer:
        writer[0, 0] = 2
        raise KeyError
    assert (array[0:8, 0:8] == 1).all()
    with array.shard_writer((0, 0)):
        pass
    assert array[0:32, 0:32].sum() == 64


def test_a_failed_assignment_that_nobody_heard_of(create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    array = create()

    def write(*_: object) -> None:
        raise StoreError("no space left", errno=28)

    def assign() -> None:
        with pytest.raises(StoreError):
            writer[0, 1] = 2

    monkeypatch.setattr(shard_writer, "_LITTLE", 0)
    monkeypatch.setattr(encoded_chunks, "_write", write)
    with pytest.raises(StoreError, match="nothing was published"), array.shard_writer((0, 0)) as writer:
        thread = threading.Thread(target=assign)
        thread.start()
        thread.join()
    assert array.nchunks_initialized == 0


def test_an_interrupt_at_any_line_of_an_assignment_ends_the_writer() -> None:
    """The end waits for assignments in progress, but not for interrupted ones."""

    ended: list[int] = []

    def interrupt_at(number: int) -> bool:
        array = frazil.create_array(MemoryStore(), shape=(4, 4), dtype="u1", chunks=(2, 2), shards=(4, 4))
        interrupts = Interrupts(number, modules={"shard_writer.py"})
        with suppress(KeyboardInterrupt), array.shard_writer((0, 0)) as writer:
            if interrupts.run(partial(writer.__setitem__, (0, 0), 1)):
                return False
            raise KeyboardInterrupt
        assert not array[...].any(), "nothing is published"
        return True

    def every_line() -> None:
        while interrupt_at(len(ended)):
            ended.append(len(ended))

    thread = threading.Thread(target=every_line, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), f"the interrupt at line {len(ended)} is waited for"
    assert len(ended) > 8


def test_nested_shards(tmp_path: Path) -> None:
    codecs = [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [4, 4],
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
                "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            },
        }
    ]
    array = frazil.create_array(
        tmp_path, shape=(64, 64), dtype="int32", chunks=(16, 16), shards=(32, 32), codecs=codecs
    )
    assert array.chunks == (4, 4)
    expected = values((64, 64))
    with array.shard_writer((0, 1)) as writer:
        assert writer.shape == (8, 8)
        for at in reversed(list(product(range(8), range(8)))):
            writer[at] = expected[element_box(array, (0, 1), at)]
    with array.shard_writer((0, 1)) as writer:
        writer[7, 7] = 5
    expected[28:32, 60:64] = 5
    assert (array[0:32, 32:64] == expected[0:32, 32:64]).all()
    assert array.nchunks_initialized == 64


def test_transposed_inner_chunks_and_a_codec_around_the_shard(tmp_path: Path) -> None:
    for number, codecs in enumerate(
        (
            [frazil.codecs.Transpose([1, 0]), frazil.codecs.Bytes()],
            [frazil.codecs.Bytes(), frazil.codecs.Zstd(level=1)],
        )
    ):
        array = frazil.create_array(
            tmp_path / str(number), shape=(64, 64), dtype="int32", chunks=(8, 16), shards=(32, 32), codecs=codecs
        )
        expected = values((64, 64))
        with array.shard_writer((1, 0)) as writer:
            for at in product(range(4), range(2)):
                writer[at] = expected[element_box(array, (1, 0), at)]
        assert (array[32:, :32] == expected[32:, :32]).all()


def test_inner_chunks_are_stored_in_the_order_of_writing(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path, shape=(32, 32), dtype="int32", chunks=(8, 8), shards=(32, 32), codecs=[])
    places = list(product(range(4), range(4)))[::-1]
    with array.shard_writer((0, 0)) as writer:
        for number, at in enumerate(places):
            writer[at] = number + 1
    stored = np.frombuffer((tmp_path / "c/0/0").read_bytes()[: 32 * 32 * 4], "<i4")[:: 8 * 8]
    assert stored.tolist() == list(range(1, 17))


def test_a_larger_shard_goes_through_a_file(create: Create) -> None:
    array = create(shape=(1024, 1024), chunks=(64, 64), shards=(1024, 1024), codecs=[])
    expected = values((1024, 1024))
    with array.shard_writer((0, 0)) as writer:
        for at in product(range(16), range(16)):
            writer[at] = expected[element_box(array, (0, 0), at)]
    assert (array[...] == expected).all()


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    array = frazil.create_array(
        tmp_path, shape=(1024, 512), dtype="int32", chunks=(64, 64), shards=(1024, 512), codecs=[]
    )
    with array.shard_writer((0, 0)) as writer:
        writer[...] = values((1024, 512))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["zarr.json"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["0", "0", "c", "zarr.json"]


def test_a_grown_array_is_a_conflict_where_the_end_was_written(create: Create) -> None:
    array = create()
    with array.shard_writer((0, 0)) as writer:
        writer[0, 0] = 1
        array.resize((75, 90))
    assert (array[:8, :8] == 1).all()
    for whole in (False, True):
        with pytest.raises(ConflictError, match="the array was resized"), array.shard_writer((2, 0)) as writer:
            writer[... if whole else (1, 0)] = 1
            array.resize((array.shape[0] + 1, 90))
            array[-1] = 5
    assert array[:75, :].max() == 1
    assert (array[75:, :] == 5).all()


def test_a_removed_array(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=SHAPE, dtype="int32", chunks=CHUNKS, shards=SHARDS)
    with pytest.raises(NotFoundError), array.shard_writer((0, 0)) as writer:
        writer[0, 0] = 1
        (tmp_path / "a/zarr.json").unlink()
    assert not (tmp_path / "a/c").exists()


def test_refusals(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=SHAPE, dtype="int32", chunks=CHUNKS, shards=SHARDS)
    plain = frazil.create_array(tmp_path / "b", shape=SHAPE, dtype="int32", chunks=CHUNKS)
    with pytest.raises(InvalidInputError, match="no shards"):
        plain.shard_writer((0, 0))
    for shard in [(3, 0), (0, -1), (0,), 0, (0, 1.0), (True, 0), "00"]:
        with pytest.raises(SelectionError):
            array.shard_writer(shard)  # type: ignore[arg-type]
    with pytest.raises(ReadOnlyError):
        frazil.open_array(tmp_path / "a").shard_writer((0, 0))
    writer = array.shard_writer((0, 0))
    with pytest.raises(InvalidInputError, match="not open"):
        writer[0, 0] = 1
    with writer:
        for where in [(4, 0), [0, 2], (slice(None, None, 2), 0), (slice(None, None, -1), 0), (0, 0, 0)]:
            with pytest.raises(SelectionError):
                writer[where] = 1
        with pytest.raises(SelectionError):
            writer[0, 0] = np.ones((9, 8))
        with pytest.raises(InvalidInputError):
            writer[0, 0] = "text"
        writer[0, 0] = 1
    assert array[0, 0] == 1  # the refused assignment raised, and changed nothing
    with pytest.raises(InvalidInputError, match="used already"), writer:
        pass
    with pytest.raises(InvalidInputError, match="not open"):
        writer[0, 0] = 1
