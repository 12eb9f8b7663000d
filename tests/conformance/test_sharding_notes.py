"""The implementation notes of the sharding codec (IN1 to IN8 of docs/conformance/sharding-codec.md): none is binding, all are followed."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import frazil
from frazil.stores import LocalStore, MemoryStore
from frazil.testing import CountingStore
from frazil.testing.checks import run_threads
from tests.conformance.shards import CRC32C, EMPTY, LITTLE, crc32c, document, index, sharding, stored
from tests.faults.concurrent_calls import fork


def simple_decode(shard: bytes, count: int, location: str) -> list[bytes | None]:
    """A simple implementation in the sense of the notes, for a little-endian index with a checksum."""
    nbytes = 16 * count + 4
    table = shard[-nbytes:] if location == "end" else shard[:nbytes]
    assert crc32c(table[:-4]) == table[-4:]
    entries = [struct.unpack_from("<QQ", table, 16 * i) for i in range(count)]
    return [None if entry == EMPTY else shard[entry[0] : sum(entry)] for entry in entries]


@pytest.mark.rule("IN1")
@pytest.mark.parametrize("location", ["start", "end"])
def test_a_simple_reader_understands_our_shards(location: str) -> None:
    store = stored(document([8], [8], [sharding([2], location=location)]))
    array = frazil.open_array(store, mode="r+")
    for at in ([6, 7], [0], [3], [7]):
        array.oindex[at] = [10 + i for i in at]
    expected = [bytes([10, 0]), bytes([0, 13]), None, bytes([16, 17])]
    assert simple_decode(store.get("c/0") or b"", 4, location) == expected


@pytest.mark.rule("IN2")
@pytest.mark.parametrize("checksums", [0, 1, 2, 3])
def test_the_index_is_found_by_adding_up_its_codecs(checksums: int) -> None:
    codecs = [LITTLE, *[CRC32C] * checksums]
    store = CountingStore(stored(document([8], [8], [sharding([2], index_codecs=codecs)])))
    array = frazil.open_array(store, mode="r+")
    array[...] = 3
    store.clear()
    array[0]
    nbytes = 16 * 4 + 4 * checksums
    assert (store.requests[0].start, store.requests[0].length) == (-nbytes, nbytes)


@pytest.mark.rule("IN3")
def test_reading_a_whole_shard_fetches_its_chunks_at_once() -> None:
    store = CountingStore(stored(document([64], [64], [sharding([1])])))
    array = frazil.open_array(store, mode="r+")
    array[...] = np.arange(1, 65)
    store.clear()
    assert array[...].tolist() == list(range(1, 65))
    assert [(done.start, done.length) for done in store.requests] == [(-1028, 1028), (0, 64)]


@pytest.mark.rule("IN4")
@pytest.mark.parametrize("location", ["start", "end"])
def test_reading_a_part_fetches_the_index_once_and_the_spans(location: str) -> None:
    far = 2**18  # bytes of an inner chunk: so long that reading the bytes between two requested chunks is not worth it
    store = CountingStore(stored(document([8 * far], [8 * far], [sharding([far], location=location)])))
    array = frazil.open_array(store, mode="r+")
    array[...] = 1
    store.clear()
    first = 132 if location == "start" else 0
    array[:: 2 * far]
    spans = [(first + i * far, far) for i in (0, 2, 4, 6)]
    assert [(done.start, done.length) for done in store.requests] == [(0 if first else -132, 132), *spans]
    store.clear()
    array[far : 3 * far]
    assert [(done.start, done.length) for done in store.requests] == [(first + far, 2 * far)]


@pytest.mark.rule("IN5")
def test_a_shard_is_read_before_it_is_written_unless_it_is_written_whole() -> None:
    store = CountingStore(stored(document([4], [4], [sharding([2])])))
    array = frazil.open_array(store, mode="r+")
    store.clear()
    array[...] = [1, 2, 3, 4]
    assert [done.operation for done in store.requests if done.key == "c/0"] == ["put"]
    store.clear()
    array[:2] = [5, 6]
    assert [done.operation for done in store.requests if done.key == "c/0"] == ["fetch", "fetch", "put"]
    assert array[...].tolist() == [5, 6, 3, 4]
    store.inner.erase("c/0")
    array[3] = 9
    assert array[...].tolist() == [0, 0, 0, 9], "where there is no shard, it was empty"


@pytest.mark.rule("IN6")
def test_inner_chunks_of_one_size_keep_their_places() -> None:
    """Objects are replaced whole, so that readers never see a partial one; if sizes stay the same, so do offsets."""
    store = stored(document([8], [8], [sharding([2])]), c_0=b"ghefcdab" + index([(6, 2), (4, 2), (2, 2), (0, 2)]))
    array = frazil.open_array(store, mode="r+")
    array[2:4] = [1, 2]
    assert store.get("c/0") == b"ghef\1\2ab" + index([(6, 2), (4, 2), (2, 2), (0, 2)])


@pytest.mark.rule("IN6")
def test_a_shard_on_disk_is_replaced_and_never_overwritten(tmp_path: Path) -> None:
    """A reader with the old file open reads the old shard to its end, whatever is written."""
    store = LocalStore(tmp_path)
    array = frazil.create_array(store, shape=8, dtype="u1", chunks=2, shards=8, codecs=[])
    array[...] = np.arange(8)
    file = tmp_path / "c" / "0"
    old, inode = file.read_bytes(), file.stat().st_ino
    with file.open("rb") as held:
        array[2:4] = [50, 60]
        assert held.read() == old
        assert file.stat().st_ino != inode
    assert len(file.read_bytes()) == len(old)
    counting = CountingStore(MemoryStore())
    array = frazil.create_array(counting, shape=8, dtype="u1", chunks=2, shards=8, codecs=[])
    array[...] = np.arange(8)
    counting.clear()
    array[2:4] = [50, 60]
    puts = [(done.key, done.nbytes) for done in counting.requests if done.operation == "put"]
    assert puts == [("c/0", len(old))], "one put of the whole shard"


@pytest.mark.rule("IN7")
@pytest.mark.parametrize("location", ["start", "end"])
def test_parallel_writers_of_one_shard_lose_nothing(location: str) -> None:
    store = stored(document([64], [64], [sharding([2], location=location)]))

    def write(n: int) -> None:
        array = frazil.open_array(store, mode="r+")
        for at in range(n, 64, 8):
            array[at] = at + 1

    run_threads([lambda n=n: write(n) for n in range(8)])
    assert frazil.open_array(store)[...].tolist() == list(range(1, 65))


@pytest.mark.rule("IN7")
@pytest.mark.parametrize("location", ["start", "end"])
def test_parallel_processes_that_write_one_shard_lose_nothing(
    location: Literal["start", "end"], tmp_path: Path
) -> None:
    frazil.create_array(tmp_path / "a", shape=64, dtype="u1", chunks=2, shards=64, index_location=location)

    def write(n: int) -> None:
        array = frazil.open_array(tmp_path / "a", mode="r+")
        for at in range(n, 64, 4):
            array[at] = at + 1

    writers = [fork(lambda n=n: write(n)) for n in range(4)]  # type: ignore[misc]
    assert [os.waitpid(writer, 0)[1] for writer in writers] == [0] * 4
    assert frazil.open_array(tmp_path / "a")[...].tolist() == list(range(1, 65))


@pytest.mark.rule("IN7")
def test_inner_chunks_may_lie_in_any_order_behind_an_index_at_the_start() -> None:
    """Others write them in their own order, Frazil at their previous places."""
    entries = [(68 + 4, 2), (68 + 0, 2), (68 + 6, 2), (68 + 2, 2)]
    shard = index(entries) + b"cdghabef"
    store = stored(document([8], [8], [sharding([2], location="start")]), c_0=shard)
    array = frazil.open_array(store, mode="r+")
    assert bytes(array[...].tolist()) == b"abcdefgh"
    array[4:6] = list(b"EF")
    assert store.get("c/0") == index(entries) + b"cdghabEF"
    assert bytes(frazil.open_array(store)[...].tolist()) == b"abcdEFgh"


@pytest.mark.rule("IN7")
def test_inner_chunks_may_be_written_in_any_order() -> None:
    store = stored(document([8], [8], [sharding([2], location="start")]))
    array = frazil.open_array(store, mode="r+")
    for at in (6, 0, 4, 2):
        array[at : at + 2] = [at, at + 1]
    assert array[...].tolist() == list(range(8))
    assert len(store.get("c/0") or b"") == 8 + 68


@pytest.mark.rule("IN8")
def test_superseded_inner_chunks_are_compacted() -> None:
    """A shard that others appended to is read; the next write drops bytes that its index does not name."""
    body = b"ab" + index([(0, 2), EMPTY]) + b"cd"
    store = stored(document([4], [4], [sharding([2])]), c_0=body + index([(0, 2), (len(body) - 2, 2)]))
    array = frazil.open_array(store, mode="r+")
    assert array[...].tolist() == [*b"abcd"]
    array[0] = ord("A")
    assert store.get("c/0") == b"Abcd" + index([(0, 2), (2, 2)])
