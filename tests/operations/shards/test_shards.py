"""frazil.shards: every byte of a shard is in a piece, and pieces match the store."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operations.pictures import decode_png

import frazil
from frazil.codecs import Bytes, Gzip, ShardingIndexed
from frazil.codecs.sharding.shard import encode_indexes
from frazil.errors import InvalidInputError, NotFoundError
from frazil.operations.shards.picture import draw_shard, shard_text
from frazil.operations.shards.shard_index import levels_of
from frazil.operations.shards.shards import Shard
from frazil.operations.view.canvas import INK
from frazil.operations.view.png import encode_png
from frazil.operations.view.text import line_height
from frazil.stores import MemoryStore
from frazil.testing import CountingStore

VALUES = np.arange(40 * 60, dtype="<i4").reshape(40, 60)


def sharded(**arguments: object) -> tuple[MemoryStore, frazil.Array]:
    store = MemoryStore()
    options = {"data": VALUES, "chunks": (5, 10), "shards": (20, 20), "codecs": [], **arguments}
    return store, frazil.create_array(store, **options)  # type: ignore[arg-type]


def crafted(entries: dict[int, tuple[int, int]], size: int, **arguments: object) -> tuple[MemoryStore, frazil.Array]:
    """The shard (1, 1) with these entries in its index."""
    store, array = sharded(**arguments)
    level = levels_of(array)[0]
    table = np.full((level.total, 2), -1, np.int64)
    for number, entry in entries.items():
        table[number] = entry
    index = encode_indexes(level, table[None]).tobytes()
    store.set("c/1/1", bytes(size) + index if level.at_end else index + bytes(size))
    return store, array


@pytest.mark.parametrize("location", ["start", "end"])
def test_whole_shards_are_described(location: str) -> None:
    store, array = sharded(index_location=location)
    found = frazil.shards(store)
    assert [shard.coords for shard in found.shards] == [(i, j) for i in range(2) for j in range(3)]
    for shard in found.shards:
        assert shard.nbytes == len(store.get(shard.key) or b"") == 20 * 20 * 4 + 8 * 16 + 4
        assert (shard.chunks, shard.total, shard.chunk_nbytes, shard.index_nbytes) == (8, 8, 1600, 132)
        assert (shard.unused, shard.gaps, shard.order, shard.pieces) == (0, 0, "C", ())
    (one,) = frazil.shards(array, shard=(1, 2)).shards
    assert one._replace(pieces=()) == found.shards[-1]
    assert [piece.start for piece in one.pieces] == np.cumsum(
        [0, *[piece.nbytes for piece in one.pieces[:-1]]]
    ).tolist()
    value = store.get("c/1/2") or b""
    for piece in one.pieces:
        if piece.chunk is not None:
            i, j = piece.chunk
            expected = VALUES[5 * i : 5 * i + 5, 10 * j : 10 * j + 10]
            assert value[piece.start : piece.start + piece.nbytes] == expected.tobytes()
    assert pickle.loads(pickle.dumps(found)) == found
    assert json.loads(json.dumps(found.to_json()))["shards"][0]["coords"] == [0, 0]


def test_gaps_order_and_missing_chunks() -> None:
    store, array = crafted({0: (400, 200), 1: (100, 200), 6: (650, 150)}, 900)
    (one,) = frazil.shards(store, shard=[1, 1]).shards
    assert [(piece.kind, piece.start, piece.nbytes, piece.chunk) for piece in one.pieces] == [
        ("unused", 0, 100, None),
        ("chunk", 100, 200, (4, 3)),
        ("unused", 300, 100, None),
        ("chunk", 400, 200, (4, 2)),
        ("unused", 600, 50, None),
        ("chunk", 650, 150, (7, 2)),
        ("unused", 800, 100, None),
        ("index", 900, 132, None),
    ]
    assert (one.chunks, one.unused, one.gaps, one.order) == (3, 350, 4, "written")
    assert "350 B" in str(frazil.shards(array))


@given(
    st.dictionaries(st.integers(0, 7), st.tuples(st.integers(0, 300), st.integers(0, 100)), max_size=8), st.booleans()
)
def test_every_byte_is_in_a_piece(entries: dict[int, tuple[int, int]], at_end: bool) -> None:
    first = 0 if at_end else 132
    moved = {number: (start + first, length) for number, (start, length) in entries.items()}
    store, _ = crafted(moved, 400, index_location="end" if at_end else "start")
    (one,) = frazil.shards(store, shard=(1, 1)).shards
    covered = np.zeros(532, np.int64)
    for piece in one.pieces:
        covered[piece.start : piece.start + piece.nbytes] += 1 if piece.kind != "unused" else 100
    assert ((covered % 100 == 0) == (covered == 100)).all()
    assert (covered > 0).all()
    assert one.unused == (covered == 100).sum()
    text = shard_text(one)
    assert ("." in text.splitlines()[0] + "".join(text.splitlines()[1:-1])) == (one.unused > 0)
    draw_shard(one)


def test_orders_of_other_writers() -> None:
    store, array = sharded()
    level = levels_of(array)[0]
    _, strides = level.counts, level.strides
    numbers = [i * strides[0] + j * strides[1] for j in range(2) for i in range(4)]
    store, _ = crafted({number: (200 * at, 200) for at, number in enumerate(numbers)}, 1600)
    assert frazil.shards(store, shard=(1, 1)).shards[0].order == "F"


def test_codecs_around_shards_and_shards_in_shards() -> None:
    inner = ShardingIndexed([5, 10], [Bytes("little")], None)
    store = MemoryStore()
    frazil.create_array(store, data=VALUES, chunks=(20, 20), codecs=[ShardingIndexed([10, 20], [inner], None), Gzip(1)])
    found = frazil.shards(store).shards
    assert len(found) == 6
    assert all((shard.chunks, shard.total, shard.unused) == (2, 2, 0) for shard in found)
    assert all(shard.nbytes == len(store.get(shard.key) or b"") for shard in found)


def test_only_indexes_are_read_and_damage_is_reported() -> None:
    store, array = sharded()
    counting = CountingStore(store)
    opened = frazil.open_array(counting)
    counting.clear()
    frazil.shards(opened)
    assert counting.bytes_read == 6 * 132
    store.set("c/0/1", b"short")
    store.erase("c/1/1")
    found = frazil.shards(array)
    assert [shard.coords for shard in found.shards] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)]
    assert "too short" in str(found.shards[1].error)
    assert "too short" in str(found)
    with pytest.raises(NotFoundError, match="not stored"):
        frazil.shards(array, shard=(1, 1))


def test_shards_of_a_repository_are_described(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    with repo.transaction(message="sea") as root:
        root.create_array("sea", data=VALUES, chunks=(5, 10), shards=(20, 20), codecs=[])
    found = frazil.shards(tmp_path / "sea.repo@main/sea")
    assert [(shard.chunks, shard.unused, shard.order) for shard in found.shards] == [(8, 0, "C")] * 6


def test_mistakes() -> None:
    _, array = sharded()
    with pytest.raises(InvalidInputError, match="has no shards"):
        frazil.shards(frazil.create_array(MemoryStore(), data=[1]))
    for shard in ((0,), (2, 0), (-1, 0), "ab", 3, (0, 1.5)):
        with pytest.raises(InvalidInputError, match="2 x 3 shards"):
            frazil.shards(array, shard=shard)  # type: ignore[arg-type]


def test_a_picture_tells_chunks_from_the_index_and_what_is_unused() -> None:
    _, array = crafted({0: (0, 400), 1: (800, 400)}, 1200)
    one: Shard = frazil.shards(array, shard=(1, 1)).shards[0]
    pixels = decode_png(encode_png(draw_shard(one)))
    top = 10 + line_height(10)  # of the picture, below its title
    map_ = pixels[top : top + 256, 10:522].reshape(-1, 3)
    colours = [tuple(map_[byte * len(map_) // 1332].tolist()) for byte in (200, 600, 1000, 1300)]
    assert len(set(colours)) == 4
    assert colours[1] == (190, 190, 190)
    assert colours[3] == INK
    text = shard_text(one).splitlines()
    assert text[0] == "#" * 64
    assert "." in text[2]
    assert text[-2].endswith("i")
