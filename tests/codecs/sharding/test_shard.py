"""The bytes of a shard: encoding and decoding of its index, refused indexes, and how shards are assembled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import index_chains

from frazil import _kernel
from frazil.codecs import Bytes, Codec, ShardingIndexed
from frazil.codecs.chain.compilation import compile_chain
from frazil.codecs.sharding.shard import (
    Columns,
    InnerChunks,
    Level,
    StackedIndex,
    assemble,
    encode_indexes,
    index_error,
    read_index,
    read_indexes,
)
from frazil.errors import ChecksumError, FormatError
from frazil.testing import chunk_spec

EMPTY = 2**64 - 1
PIECES = st.tuples(st.integers(0, 200), st.integers(-1, 50))  # (start, length) in a buffer


def level_of(total: int, index_codecs: list[Codec] | None = None, location: str = "end") -> Level:
    codec = ShardingIndexed([1], [Bytes()], index_codecs, location)
    return compile_chain([codec], chunk_spec("uint8", (total,))).levels[0]


def build_index(level: Level, table: Columns) -> bytes:
    return encode_indexes(level, table[None]).tobytes()


@given(st.lists(st.none() | st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=9), st.data())
def test_an_index_survives(entries: list[tuple[int, int] | None], data: st.DataObject) -> None:
    level = level_of(len(entries), list(data.draw(index_chains(1))))
    table = np.array([(-1, -1) if entry is None else entry for entry in entries], np.int64)
    encoded = build_index(level, table)
    assert len(encoded) == level.index_codecs.nbytes
    assert (read_index(level, encoded, 2000 + len(encoded)) == table).all()


@pytest.mark.parametrize(
    "entries, text",
    [
        ([EMPTY, 0], "entry 0 of the shard index is half empty"),
        ([3, EMPTY], "half empty"),
        ([EMPTY, EMPTY, EMPTY, 3], "entry 1"),
        ([100, 1], "reaches outside the shard of 100 bytes"),
        ([99, 2], "outside"),
        ([101, 0], "outside"),
        ([0, 2**63], "outside"),
        ([2**63, 0], "outside"),
        ([1, EMPTY - 1], "outside"),
        ([EMPTY - 1, 2], "outside"),
        ([2**63, 2**63], "outside"),
    ],
)
def test_impossible_entries_are_refused(entries: list[int], text: str) -> None:
    level = level_of(len(entries) // 2, [Bytes("little")])
    with pytest.raises(FormatError, match=text):
        read_index(level, np.array(entries, "<u8").tobytes(), 100)


def test_entries_at_the_edge_of_what_can_be() -> None:
    level = level_of(3, [Bytes("big")])
    table = np.array([[100, 0], [0, 100], [EMPTY, EMPTY]], ">u8")
    assert read_index(level, table.tobytes(), 148).tolist() == [[100, 0], [0, 100], [-1, -1]]
    with pytest.raises(FormatError, match="into the index"):
        read_index(level, table.tobytes(), 147)


def test_an_index_of_another_size_or_checksum() -> None:
    level = level_of(2)
    good = build_index(level, np.array([[0, 5], [-1, -1]]))
    with pytest.raises(FormatError, match="too short"):
        read_index(level, good[:-1], 35)
    with pytest.raises(ChecksumError):
        read_index(level, good[:3] + b"\1" + good[4:], 41)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), unique=True, max_size=12), st.booleans(), st.data())
def test_inner_chunks_lie_one_after_the_other(places: list[tuple[int, int]], end: bool, data: st.DataObject) -> None:
    level = level_of(6, list(data.draw(index_chains(1))), "end" if end else "start")
    nbytes, rng = level.index_codecs.nbytes, np.random.default_rng(data.draw(st.integers(0, 9)))
    buffer = rng.integers(0, 256, 300, np.uint8)
    pieces = [data.draw(st.lists(PIECES, min_size=1, max_size=3)) for _ in places]
    alone = all(len(piece) == 1 for piece in pieces) and data.draw(st.booleans())
    keys = [data.draw(st.integers(-1, 3)) for _ in places] if data.draw(st.booleans()) else None
    starts = [data.draw(st.integers(0, 9)) for _ in range(3)] if data.draw(st.booleans()) else None
    empty = data.draw(st.booleans())
    shard, number = np.array(places, np.int64).reshape(-1, 2).T
    chunks = InnerChunks(
        shard,
        number,
        np.array([(-1, *piece) for of_chunk in pieces for piece in of_chunk], np.int64).reshape(-1, 3),
        None if alone else np.cumsum([0, *map(len, pieces)]),
        None if keys is None else np.array(keys, np.int64),
    )
    tables: Columns = np.full((3, 6, 2), -1, np.int64)
    made = assemble(
        level, chunks, tables, -2, starts=None if starts is None else np.array(starts, np.int64), empty=empty
    )

    kept = [i for i in range(len(places)) if all(length >= 0 for _, length in pieces[i])]
    kept.sort(key=lambda i: (places[i][0], 0 if keys is None else keys[i] % 2**64))
    expected, bodies = np.full((3, 6, 2), -1), [b""] * 3
    for i in kept:
        of, value = places[i][0], b"".join(buffer[at : at + length].tobytes() for at, length in pieces[i])
        first = starts[of] if starts is not None else 0 if end else nbytes
        expected[places[i]] = first + len(bodies[of]), len(value)
        bodies[of] += value
    assert tables.tolist() == expected.tolist()
    sources = (buffer, made.indexes)
    present = [empty or any(places[i][0] == of for i in kept) for of in range(3)]
    for of in range(3):
        rows = made.rows[made.offsets[of] : made.offsets[of + 1]].tolist()
        found = b"".join(sources[-1 - blob][at : at + length].tobytes() for blob, at, length in rows)
        index = build_index(level, tables[of])
        assert found == ((bodies[of] + index if end else index + bodies[of]) if present[of] else b"")
        ends = [(blob, at + length) for blob, at, length in rows]
        assert not any(before == (blob, at) for before, (blob, at, _) in zip(ends, rows[1:], strict=False))


def test_bytes_that_no_entry_names_are_laid_out_too() -> None:
    level = level_of(2)
    tables: Columns = np.array([[[3, 4], [-1, -1]]], np.int64)
    whole = InnerChunks(np.zeros(1, np.int64), np.full(1, -1), np.array([(5, 0, 60)]))
    made = assemble(level, whole, tables, -1)
    assert tables.tolist() == [[[3, 4], [-1, -1]]]
    assert made.rows.tolist() == [[5, 0, 60], [-1, 0, 36]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), unique=True), st.integers(0, 2**32))
def test_assembled_inner_chunks_are_found(touched: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    slot = rng.permutation(6)[:4] - 2  # of four shards; two tables belong to no shard
    tables = rng.integers(0, 9, (4, 5, 2))
    tables[rng.random((4, 5)) < 0.4] = -1
    indexes = StackedIndex(tables.copy(), np.where(slot < 0, -1, slot))
    shard, number = np.array(touched, np.int64).reshape(-1, 2).T
    found = np.stack(indexes.others(shard, number), axis=1).tolist()
    entries = indexes.entries(np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4)).reshape(4, 5, 2)
    for i in range(4):
        assert entries[i].tolist() == (tables[slot[i]].tolist() if slot[i] >= 0 else [[-1, -1]] * 5)
    assert sorted(map(tuple, found)) == [
        (i, k) for i in range(4) for k in range(5) if entries[i, k, 0] >= 0 and (i, k) not in touched
    ]
    assert (indexes.tables == tables).all()


@given(st.integers(0, 5), st.integers(0, 2**32), st.data())
def test_many_indexes_are_read_as_each_is_alone(count: int, seed: int, data: st.DataObject) -> None:
    level = level_of(3, list(data.draw(index_chains(1))))
    rng, sizes = np.random.default_rng(seed), data.draw(st.lists(st.integers(1, 200), min_size=count, max_size=count))
    tables = rng.integers(0, 60, (count, 3, 2))
    tables[rng.random((count, 3)) < 0.3] = -1
    encoded = np.array([list(build_index(level, table)) for table in tables], np.uint8)
    encoded = encoded.reshape(count, level.index_codecs.nbytes)
    assert (encode_indexes(level, tables) == encoded).all()
    if count and data.draw(st.booleans()):
        encoded[rng.integers(count), rng.integers(encoded.shape[1])] ^= 1
    nbytes = encoded.shape[1]
    rows = np.stack((np.full(count, -1), np.arange(count) * nbytes, np.full(count, nbytes)), axis=1)
    absent = rng.random(count) < 0.2
    rows[absent] = (_kernel.MISSING, 0, 0)
    found, refused = read_indexes(level, None, [encoded.reshape(-1)], rows, np.array(sizes, np.int64), 2)
    wrong = refused[0][0] if refused else count
    for i, size in enumerate(sizes):
        if absent[i]:
            assert i != wrong
            assert refused or (found[i] == -1).all()
            continue
        if i == wrong:
            with pytest.raises(type(index_error(*refused[0][1:]))) as caught:
                read_index(level, encoded[i].tobytes(), size)
            assert str(caught.value) == str(index_error(*refused[0][1:]))
            return
        if not refused:
            assert (read_index(level, encoded[i].tobytes(), size) == found[i]).all()
    assert not refused
