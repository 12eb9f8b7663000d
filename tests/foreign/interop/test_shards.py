"""Shards made by hand, in a form that no current writer produces: all read them alike, and preserve them when they write into them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import frazil
from tests.conformance.shards import CHECKED, EMPTY, LITTLE, document, index, sharding
from tests.foreign.interop.peers import PEERS, TENSORSTORE, Peer
from tests.strategies import same

PEER = pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
DATA = b"abcdefgh"
INDEX = 16 * 4 + 4

SHARDS: dict[str, tuple[str, bytes]] = {
    "in order": ("end", DATA + index([(0, 2), (2, 2), (4, 2), (6, 2)])),
    "out of order": ("end", b"ghcdabef" + index([(4, 2), (2, 2), (6, 2), (0, 2)])),
    "garbage before": ("end", b"?????" + DATA + index([(5, 2), (7, 2), (9, 2), (11, 2)])),
    "garbage behind": ("end", DATA + b"?????" + index([(0, 2), (2, 2), (4, 2), (6, 2)])),
    "garbage between": ("end", b"ab??cd?ef???gh" + index([(0, 2), (4, 2), (7, 2), (12, 2)])),
    "garbage behind an index at the start": (
        "start",
        index([(INDEX + 3 + at, 2) for at in (0, 2, 4, 6)]) + b"???" + DATA + b"????",
    ),
    "an older index within": (
        "end",
        b"ab"
        + index([(0, 2), EMPTY, EMPTY, EMPTY])
        + b"cdefgh"
        + index([(0, 2), *[(2 + INDEX + at, 2) for at in (0, 2, 4)]]),
    ),
}
SHARED = b"abcefgh" + index([(0, 2), (1, 2), (3, 2), (5, 2)])  # the first two share a byte


def place(path: Path, location: str, shard: bytes, fill: int = 0) -> None:
    (path / "c").mkdir(parents=True)
    entry = sharding([2], [LITTLE], CHECKED, location)
    (path / "zarr.json").write_text(json.dumps(document([8], [8], [entry], fill=fill)))
    (path / "c/0").write_bytes(shard)


@PEER
@pytest.mark.parametrize("kind", SHARDS)
def test_unusual_shards_are_read_alike_by_all(peer: Peer, kind: str, tmp_path: Path) -> None:
    place(tmp_path / "a", *SHARDS[kind])
    for read in (frazil.open_array(tmp_path / "a").__getitem__, lambda part: peer.read(tmp_path / "a", (part,))):
        assert bytes(read(...)) == DATA
        assert bytes(read(slice(3, 7))) == DATA[3:7]


@PEER
def test_shared_bytes(peer: Peer, tmp_path: Path) -> None:
    place(tmp_path / "a", "end", SHARED)
    array = frazil.open_array(tmp_path / "a", mode="r+")
    assert bytes(array[...]) == bytes(peer.read(tmp_path / "a")) == b"abbcefgh"
    array[1:3] = [*b"BC"]  # in both inner chunks that shared a byte
    assert bytes(array[...]) == bytes(peer.read(tmp_path / "a")) == b"aBCcefgh"
    peer.write(tmp_path / "a", (slice(6, 7),), np.array([*b"G"], "u1"))
    assert bytes(array[...]) == b"aBCcefGh"


@PEER
@pytest.mark.parametrize("kind", SHARDS)
def test_writing_into_them_by_turns(peer: Peer, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    place(path, *SHARDS[kind])
    expected = bytearray(DATA)
    array = frazil.open_array(path, mode="r+")
    for turn, at in enumerate((3, 5, 0, 7)):
        expected[at] = turn + 1
        if turn % 2:
            peer.write(path, (slice(at, at + 1),), np.array([turn + 1], "u1"))
        else:
            array[at] = turn + 1
        assert bytes(array[...]) == bytes(peer.read(path)) == bytes(expected)


@PEER
@pytest.mark.parametrize("fill", [0, 9])
def test_an_index_that_is_all_empty(peer: Peer, fill: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    place(path, "end", index([EMPTY] * 4), fill)
    array = frazil.open_array(path, mode="r+")
    assert bytes(array[...]) == bytes(peer.read(path)) == bytes([fill] * 8)
    array[2] = 1
    assert bytes(peer.read(path)) == bytes([fill, fill, 1, *[fill] * 5])


@pytest.mark.rule("trap 9")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_transpositions_before_shards_with_tensorstore(order: tuple[int, ...], tmp_path: Path) -> None:
    extent = (35, 33, 26)
    inner = [{35: 7, 33: 11, 26: 13}[extent[axis]] for axis in order]
    codecs = [{"name": "transpose", "configuration": {"order": list(order)}}, sharding(inner)]
    values = np.random.default_rng(1).integers(0, 256, (50, 40, 30), np.uint8)
    for name in ("theirs", "ours"):
        path = tmp_path / name
        path.mkdir()
        (path / "zarr.json").write_text(json.dumps(document((50, 40, 30), extent, codecs)))
        array = frazil.open_array(path, mode="r+")
        if name == "ours":
            array[...] = values
        else:
            TENSORSTORE.write(path, (...,), values)
        assert same(TENSORSTORE.read(path), values)
        assert same(array[...], values)
        array[3:20, 5] = 1
        TENSORSTORE.write(path, (slice(10, 40), slice(None), slice(7, 8)), np.full((30, 40, 1), 2, "u1"))
        changed = values.copy()
        changed[3:20, 5], changed[10:40, :, 7] = 1, 2
        assert same(array[...], changed)
        assert same(TENSORSTORE.read(path), changed)
