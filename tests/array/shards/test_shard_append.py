"""shard_writes: the files after "append" and "in_place", when a shard is rewritten instead, and when they are refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil import _kernel
from frazil.codecs import Bytes, Crc32c, ShardingIndexed, Zstd
from frazil.errors import ChecksumError, InvalidInputError
from frazil.stores import LocalStore, MemoryStore

LAYOUT = {"shape": (40, 50), "dtype": "int32", "chunks": (4, 5), "shards": (16, 20)}
CODECS = {
    "append": {"default": "auto", "raw": [], "nested": [ShardingIndexed([2, 5], [Bytes(), Zstd(level=1)])]},
    "in_place": {"raw": [], "checksums": [Bytes(), Crc32c()]},
}


@pytest.mark.parametrize("location", ["end", "start"])
@pytest.mark.parametrize(("mode", "codecs"), [(mode, name) for mode, named in CODECS.items() for name in named])
@pytest.mark.parametrize("sync", [False, True])
def test_writes_of_all_kinds(tmp_path: Path, mode: str, codecs: str, location: str, sync: bool) -> None:
    array = frazil.create_array(
        LocalStore(tmp_path, sync=sync),
        codecs=CODECS[mode][codecs],
        index_location=location,
        shard_writes=mode,
        **LAYOUT,
    )  # type: ignore[arg-type]
    expected, numbers = np.zeros((40, 50), "int32"), np.random.default_rng(3)
    reader = frazil.open_array(tmp_path)
    for k in range(1, 40):
        y, x = int(numbers.integers(0, 40)), int(numbers.integers(0, 50))
        height, width = numbers.integers(1, 20, 2).tolist()
        expected[y : y + height, x : x + width] = array[y : y + height, x : x + width] = k % 5
        assert (reader[...] == expected).all()
    array.vindex[[0, 17, 39], [0, 21, 49]] = expected[[0, 17, 39], [0, 21, 49]] = 9
    with array.shard_writer((0, 0)) as writer:
        writer[1, 1] = 8
    height, width = array.chunks
    expected[height : 2 * height, width : 2 * width] = 8
    assert (array[...] == expected).all()
    assert (frazil.open_array(tmp_path)[...] == expected).all()
    assert frazil.validate(tmp_path, decode=True).ok
    assert list(tmp_path.rglob("*.__lock")) == []


@pytest.mark.parametrize("mode", ["append", "in_place"])
@pytest.mark.parametrize("shift", [0, 4])
def test_inner_chunks_that_have_bytes_in_common_stay_apart(tmp_path: Path, mode: str, shift: int) -> None:
    """Another writer may store equal inner chunks once, with two index entries for them."""
    array = frazil.create_array(
        tmp_path, shape=(8,), dtype="int32", chunks=(2,), shards=(8,), codecs=[], shard_writes=mode
    )
    array[...] = expected = np.array([1, 1, 1, 1, 5, 6, 7, 8])
    shard = tmp_path / "c/0"
    body = shard.read_bytes()[: -4 * 16 - 4]
    entries = np.frombuffer(shard.read_bytes()[len(body) : -4], "<u8").reshape(4, 2).copy()
    entries[1, 0] = entries[0, 0] + shift
    index = entries.tobytes()
    shard.write_bytes(body + index + _kernel.crc32c(index).to_bytes(4, "little"))
    assert (array[...] == expected).all()
    for first in (0, 4, 2):
        array[first : first + 2] = expected[first : first + 2] = [first, 9]
        assert (array[...] == expected).all()
        assert (frazil.open_array(tmp_path)[...] == expected).all()


@pytest.mark.parametrize("mode", ["append", "in_place"])
def test_the_file_stays_and_old_inner_chunks_too(tmp_path: Path, mode: str) -> None:
    array = frazil.create_array(tmp_path, codecs=[], shard_writes=mode, **LAYOUT)  # type: ignore[arg-type]
    array[...] = 1
    shard = tmp_path / "c/0/0"
    before, inode = shard.read_bytes(), shard.stat().st_ino
    array[0, 0] = 2
    after = shard.read_bytes()
    assert shard.stat().st_ino == inode
    index = 16 * 16 + 4
    if mode == "append":
        assert after[: len(before)] == before
        assert len(after) == len(before) + 4 * 5 * 4 + index
    else:
        assert len(after) == len(before)
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_too_much_waste_is_compacted(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path, codecs=[], shard_writes="append", **LAYOUT)  # type: ignore[arg-type]
    array[...] = 1
    shard = tmp_path / "c/0/0"
    size, inodes = shard.stat().st_size, set()
    for k in range(40):
        array[k % 16, 0] = k
        inodes.add(shard.stat().st_ino)
        assert shard.stat().st_size <= 2.5 * size
    assert len(inodes) > 1


@pytest.mark.parametrize(
    ("location", "expected"), [("end", [868, 1136, 1404, 868]), ("start", [868, 1068, 1268, 1468, 868])]
)
def test_inner_chunks_that_are_replaced_count_as_waste(tmp_path: Path, location: str, expected: list[int]) -> None:
    codec = ShardingIndexed([50], [Bytes()], index_location=location)  # type: ignore[arg-type]
    array = frazil.create_array(tmp_path, shape=200, dtype="int32", chunks=200, codecs=[codec], shard_writes="append")
    array[...] = 1
    for k, nbytes in enumerate(expected):
        if k:
            array[:50] = k
        assert (tmp_path / "c/0").stat().st_size == nbytes, "rewritten where more than half would be unused"


def test_a_shard_that_becomes_empty_goes(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path, shard_writes="append", **LAYOUT)  # type: ignore[arg-type]
    array[0:4, 0:5] = 1
    array[3:4, 0:5] = 0
    assert (tmp_path / "c/0/0").exists()
    array[0:3, 0:5] = 0
    assert not (tmp_path / "c/0/0").exists()


def test_a_file_with_two_names_is_rewritten(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shard_writes="append", **LAYOUT)  # type: ignore[arg-type]
    array[...] = 1
    os.link(tmp_path / "a/c/0/0", tmp_path / "other")
    before = (tmp_path / "other").read_bytes()
    array[0, 0] = 2
    assert (tmp_path / "other").read_bytes() == before
    assert array[0, 0] == 2


def test_two_handles_append_in_turns(tmp_path: Path) -> None:
    options = {**LAYOUT, "shape": (0, 50)}
    first = frazil.create_array(tmp_path, shard_writes="append", **options)  # type: ignore[arg-type]
    second = frazil.open_array(tmp_path, mode="r+", shard_writes="append")
    values = np.arange(1, 40 * 50 + 1, dtype="int32").reshape(40, 50)
    for k in range(0, 40, 2):
        (first if k // 4 % 2 else second).append(values[k : k + 2])  # each finds that the other changed the shard
    assert (frazil.open_array(tmp_path)[...] == values).all()
    assert (first.refresh()[...] == values).all()
    assert frazil.validate(tmp_path, decode=True).ok


def test_an_append_reads_no_index_that_it_wrote(tmp_path: Path) -> None:
    layout = {"shape": (64, 80), "dtype": "int32", "chunks": (16, 20), "shards": (64, 80)}
    array = frazil.create_array(tmp_path, codecs=[], shard_writes="append", **layout)  # type: ignore[arg-type]
    array[0:32] = 1
    array[32:48, 0:20] = 2
    shard = tmp_path / "c/0/0"
    stat, data = shard.stat(), bytearray(shard.read_bytes())
    data[-8:] = b"damaged!"  # goes unnoticed, as the version stays the same
    shard.write_bytes(data)
    os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    array[32:48, 20:40] = 3
    assert (frazil.open_array(tmp_path)[32:48, 0:40] == np.repeat([2, 3], 20)).all()


def test_damage_is_still_an_error(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path, shard_writes="append", **LAYOUT)  # type: ignore[arg-type]
    array[...] = 1
    with (tmp_path / "c/0/0").open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(b"xxxx")
    (tmp_path / "c/0/0.__lock").write_bytes(b"")  # what a crash may leave
    with pytest.raises(ChecksumError):
        frazil.open_array(tmp_path)[0, 0]
    with pytest.raises(ChecksumError):
        array[0, 0] = 2


def test_refusals(tmp_path: Path) -> None:
    for mode in ("append", "in_place"):
        with pytest.raises(InvalidInputError, match="local disk"):
            frazil.create_array(MemoryStore(), codecs=[], shard_writes=mode, **LAYOUT)  # type: ignore[arg-type]
        session = frazil.Repository.create(MemoryStore()).writable_session("main")
        with pytest.raises(InvalidInputError, match="local disk"):
            session.root.create_array("a", codecs=[], shard_writes=mode, **LAYOUT)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="shards"):
            frazil.create_array(tmp_path / "a", codecs=[], shard_writes=mode, **{**LAYOUT, "shards": None})  # type: ignore[arg-type]
    sharding = ShardingIndexed([4, 5], [Bytes()], [Bytes()])
    with pytest.raises(InvalidInputError, match="checksum"):
        frazil.create_array(
            tmp_path / "a", shape=(16, 20), dtype="i4", chunks=(16, 20), codecs=[sharding], shard_writes="append"
        )
    with pytest.raises(InvalidInputError, match="one size"):
        frazil.create_array(tmp_path / "a", shard_writes="in_place", **LAYOUT)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="shard_writes"):
        frazil.create_array(tmp_path / "a", shard_writes="always", **LAYOUT)  # type: ignore[arg-type]
    assert not (tmp_path / "a").exists()


def test_shard_writes_is_not_in_documents(tmp_path: Path) -> None:
    frazil.create_array(tmp_path / "a", shard_writes="append", **LAYOUT)  # type: ignore[arg-type]
    frazil.create_array(tmp_path / "b", **LAYOUT)  # type: ignore[arg-type]
    assert (tmp_path / "a/zarr.json").read_bytes() == (tmp_path / "b/zarr.json").read_bytes()
