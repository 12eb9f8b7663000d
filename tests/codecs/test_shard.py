"""The bytes of a shard: its index there and back, what is refused of one, and how inner chunks are laid out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import index_chains

from frazil import _kernel
from frazil.codecs import Bytes, Codec, Crc32c, ShardingIndexed
from frazil.codecs.chain import compile_chain
from frazil.codecs.shard import Columns, Level, encode_indexes, index_error, lay_out, merge, read_index, read_indexes
from frazil.errors import ChecksumError, FormatError
from frazil.testing import chunk_spec

EMPTY = 2**64 - 1


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
def test_entries_that_cannot_be(entries: list[int], text: str) -> None:
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
    level = level_of(6, [Bytes("little"), Crc32c()], "end" if end else "start")
    lengths = [data.draw(st.integers(-1, 50)) for _ in places]
    keys = [data.draw(st.integers(0, 3)) for _ in places] if data.draw(st.booleans()) else None
    rows = np.array([(-1 - i, 7, length) for i, length in enumerate(lengths)], np.int64).reshape(-1, 3)
    group, numbers = np.array(places, np.int64).reshape(-1, 2).T
    layout = lay_out(level, 3, group, numbers, rows, None if keys is None else np.array(keys, np.int64))
    kept = [i for i in range(len(places)) if lengths[i] >= 0]
    kept.sort(key=lambda i: (places[i][0], 0 if keys is None else keys[i]))
    assert layout.rows[:, 0].tolist() == [-1 - i for i in kept]
    assert layout.group.tolist() == [places[i][0] for i in kept]
    expected, first = np.full((3, 6, 2), -1), [0 if end else level.index_codecs.nbytes] * 3
    for i in kept:
        expected[places[i]] = first[places[i][0]], lengths[i]
        first[places[i][0]] += lengths[i]
    assert layout.tables.tolist() == expected.tolist()


@given(
    st.lists(st.tuples(st.integers(-2, -1), st.integers(0, 3), st.integers(0, 3)), max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
)
def test_merged_rows_name_the_same_bytes(rows: list[tuple[int, int, int]], cuts: list[int]) -> None:
    table: Columns = np.array(rows, np.int64).reshape(-1, 3)
    offsets = np.array([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)], np.int64)
    merged, bounds = merge(table, offsets)

    def named(of: Columns) -> list[tuple[int, int]]:
        return [(blob, at) for blob, start, length in of.tolist() for at in range(start, start + length)]

    assert len(merged) <= len(table)
    assert len(bounds) == len(offsets)
    for i in range(len(offsets) - 1):
        assert named(merged[bounds[i] : bounds[i + 1]]) == named(table[offsets[i] : offsets[i + 1]])


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
