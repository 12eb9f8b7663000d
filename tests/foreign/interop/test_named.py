"""Arrays of every kind, exchanged with zarr-python, zarrs and tensorstore, bit for bit: we read theirs, they read ours, and both write into one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

import frazil
from tests.conformance.shards import BIG, CRC32C, LITTLE, sharding
from tests.foreign.interop.cases import DEFAULT_KEYS, Case
from tests.foreign.interop.peers import PEERS, Peer, version
from tests.foreign.interop.refusals import Doing, refusal
from tests.strategies import same, values

T = TypeVar("T")
PEER = pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])


def gzip(level: int) -> dict[str, object]:
    return {"name": "gzip", "configuration": {"level": level}}


def zstd(level: int, checksum: bool = False) -> dict[str, object]:
    return {"name": "zstd", "configuration": {"level": level, "checksum": checksum}}


def blosc(cname: str, shuffle: str, typesize: int = 2, clevel: int = 5) -> dict[str, object]:
    configuration = {"cname": cname, "clevel": clevel, "shuffle": shuffle, "typesize": typesize, "blocksize": 0}
    return {"name": "blosc", "configuration": configuration}


def transpose(*order: int) -> dict[str, object]:
    return {"name": "transpose", "configuration": {"order": list(order)}}


def keys(name: str, separator: str) -> dict[str, object]:
    return {"name": name, "configuration": {"separator": separator}}


CASES = [
    Case("plain", (10, 12), (5, 4), [LITTLE]),
    Case("edges", (11, 13), (5, 4), [LITTLE, zstd(1)]),
    Case("edges of shards", (11, 13), (6, 8), [sharding([3, 2])]),
    Case("larger chunks than the array", (3, 2), (50, 40), [sharding([5, 10], [LITTLE, zstd(0)])]),
    Case("length zero", (0, 5), (2, 2), [LITTLE]),
    Case("length zero in shards", (5, 0), (4, 4), [sharding([2, 2])]),
    Case("no dimensions", (), (), [LITTLE]),
    Case("no dimensions in shards", (), (), [sharding([], [LITTLE, zstd(1)])]),
    Case("four dimensions", (5, 4, 3, 6), (4, 2, 2, 6), [sharding([2, 1, 2, 3], [transpose(3, 1, 0, 2), LITTLE])]),
    Case("index at the start", (11, 13), (6, 8), [sharding([3, 2], location="start")]),
    Case("index without checksum", (11, 13), (6, 8), [sharding([3, 2], index_codecs=[LITTLE])]),
    Case("big-endian index", (11, 13), (6, 8), [sharding([3, 2], index_codecs=[BIG, CRC32C])]),
    Case("bare big-endian index at the start", (11,), (6,), [sharding([3], index_codecs=[BIG], location="start")]),
    Case("index with two checksums", (11, 13), (6, 8), [sharding([3, 2], index_codecs=[LITTLE, CRC32C, CRC32C])]),
    Case("transposed index", (11, 13), (6, 8), [sharding([3, 2], index_codecs=[transpose(2, 0, 1), LITTLE])]),
    Case("shards in shards", (17, 13), (8, 8), [sharding([4, 4], [sharding([2, 1], [LITTLE, zstd(1)])])]),
    Case(
        "three levels of shards",
        (17, 13),
        (16, 8),
        [sharding([8, 4], [sharding([4, 2], [sharding([2, 1], location="start")], [BIG])], location="start")],
    ),
    Case("transposition and zstd in shards", (11, 13), (6, 8), [sharding([3, 2], [transpose(1, 0), LITTLE, zstd(1)])]),
    Case("transposition before square shards", (11, 13), (6, 6), [transpose(1, 0), sharding([3, 3])]),
    Case("transposition before other shards", (11, 13), (6, 4), [transpose(1, 0), sharding([4, 3], [LITTLE, zstd(1)])]),
    Case("transposition without shards", (5, 6, 7), (2, 3, 4), [transpose(2, 0, 1), LITTLE]),
    Case("gzip behind shards", (11, 13), (6, 8), [sharding([3, 2]), gzip(1)]),
    Case("checksum behind shards", (11, 13), (6, 8), [sharding([3, 2]), CRC32C]),
    Case("checksum, then gzip", (11, 13), (5, 4), [LITTLE, CRC32C, gzip(5)]),
    Case("checksum, then gzip, in shards", (11, 13), (6, 8), [sharding([3, 2], [LITTLE, CRC32C, gzip(5)])]),
    Case("gzip 0", (11, 13), (5, 4), [LITTLE, gzip(0)]),
    Case("gzip 9", (11, 13), (5, 4), [LITTLE, gzip(9)]),
    Case("zstd -5 with checksum", (11, 13), (5, 4), [LITTLE, zstd(-5, True)]),
    Case("zstd 22", (11, 13), (5, 4), [LITTLE, zstd(22)]),
    Case("zlib", (11, 13), (5, 4), [LITTLE, {"name": "numcodecs.zlib", "configuration": {"level": 3}}]),
    *[
        Case(f"blosc {cname} {shuffle}", (20, 13), (15, 4), [LITTLE, blosc(cname, shuffle)])
        for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
        for shuffle in ("noshuffle", "shuffle", "bitshuffle")
    ],
    Case("blosc in shards", (40, 30), (20, 16), [sharding([10, 8], [LITTLE, blosc("zstd", "bitshuffle", 4)])], "int32"),
    Case("blosc 0", (20, 13), (15, 4), [LITTLE, blosc("lz4", "shuffle", clevel=0)]),
    *[
        Case(f"big-endian {dtype}", (11, 13), (6, 8), [sharding([3, 2], [BIG, zstd(1)])], dtype, fill)
        for dtype, fill in (("uint16", 258), ("float32", "NaN"), ("int64", -2), ("complex64", [1.5, "-Infinity"]))
    ],
    *[
        Case(f"keys {name} {separator}", (11, 13), (4, 4), [LITTLE], keys=keys(name, separator))
        for name, separator in itertools.product(("default", "v2"), "/.")
    ],
    Case("keys without dimensions", (), (), [LITTLE], keys=keys("v2", ".")),
    Case("names of dimensions", (4, 5, 6), (4, 5, 6), [LITTLE], dimension_names=("höhe", None, "")),
    Case(
        "attributes", (3,), (3,), [LITTLE], attributes={"a": {"b": [1, 2.5, None, "ü"]}, "units": "m s⁻¹", "f": False}
    ),
]
FILLS: list[tuple[str, object]] = [
    ("bool", True),
    ("int8", -128),
    ("uint8", 255),
    ("int16", -32768),
    ("uint16", 65535),
    ("int32", -(2**31)),
    ("uint32", 2**32 - 1),
    ("int64", -(2**63)),
    ("int64", 2**53 + 1),
    ("uint64", 2**64 - 1),
    ("float16", 1.5),
    ("float16", "NaN"),
    ("float32", 0.1),
    ("float32", "-Infinity"),
    ("float32", -0.0),
    ("float64", 0.1),
    ("float64", "Infinity"),
    ("float64", 5e-324),
    ("float64", "NaN"),
    ("complex64", [0.5, "NaN"]),
    ("complex128", [-0.0, "Infinity"]),
    ("r8", [7]),
    ("r24", [1, 2, 3]),
]
CASES += [
    Case(f"{dtype} filled with {fill}", (9, 4), (4, 4), [sharding([2, 2], [LITTLE, zstd(1)])], dtype, fill)
    for dtype, fill in FILLS
]
CASE = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def attempt(peer: Peer, case: Case, doing: Doing, action: Callable[[], T]) -> T:
    """The result of the action. Skips the test if refusals.py lists it for the peer, and fails if that is outdated."""
    row = refusal(peer.name, version(peer), case, doing)
    if row is None:
        return action()
    if row.wrong:
        pytest.skip(row.reason)
    try:
        action()
    except KeyboardInterrupt:
        raise
    except BaseException:  # extensions in other languages raise their own panics
        pytest.skip(row.reason)
    pytest.fail(f"{peer.name} can do this now; refusals.py says: {row.reason}")


def random_values(case: Case, seed: int = 0) -> np.ndarray:
    return values(seed, case.shape, case.numpy_dtype)


def parts(case: Case) -> list[tuple[slice, ...]]:
    """Boxes that cut chunks and shards and overlap each other."""
    return [
        tuple(slice(n // 5, n - n // 4) for n in case.shape),
        tuple(slice(n // 2, n) for n in case.shape),
        tuple(slice(0, min(n // 3 + 1, n)) for n in case.shape),
        tuple(slice(n // 3, min(n // 3 + 1, n)) for n in case.shape),
    ]


@PEER
@CASE
def test_arrays_of_other_libraries_are_read(peer: Peer, case: Case, tmp_path: Path) -> None:
    expected = random_values(case)
    attempt(peer, case, "create", lambda: peer.create(tmp_path / "a", case))
    array = frazil.open_array(tmp_path / "a")
    assert (array.shape, array.dtype) == (case.shape, case.numpy_dtype)
    assert same(array.fill_value, case.fill_scalar)
    assert same(array[...], np.full(case.shape, case.fill_scalar)), "nothing is stored yet"
    assert array.dimension_names == case.dimension_names
    assert array.attrs.asdict() == case.attributes
    attempt(peer, case, "write", lambda: peer.write(tmp_path / "a", (...,), expected))
    assert same(array[...], expected)
    for part in parts(case):
        assert same(array[part], expected[part])
    for place in list(np.ndindex(*case.shape))[:: max(expected.size // 7, 1)]:
        assert same(array[place], expected[place])


@PEER
@CASE
def test_our_arrays_are_read_by_other_libraries(peer: Peer, case: Case, tmp_path: Path) -> None:
    expected = random_values(case)
    frazil.create_array(tmp_path / "a", **case.arguments())[...] = expected
    assert same(attempt(peer, case, "read", lambda: peer.read(tmp_path / "a")), expected)
    for part in parts(case):
        assert same(peer.read(tmp_path / "a", part), expected[part])


@PEER
@CASE
def test_writes_into_one_array_in_turns_are_read_by_both(peer: Peer, case: Case, tmp_path: Path) -> None:
    """In turns, parts of chunks and shards, first into theirs and then into ours; each then sees the writes of both."""
    path = tmp_path / "a"
    for maker in ("theirs", "ours"):
        path = tmp_path / maker
        if maker == "theirs":
            attempt(peer, case, "create", lambda: peer.create(tmp_path / "theirs", case))
            array = frazil.open_array(path, mode="r+")
        else:
            array = frazil.create_array(path, **case.arguments())
        expected = np.full(case.shape, case.fill_scalar)
        for turn, part in enumerate(parts(case)):
            new = values(turn, expected[part].shape, expected.dtype)
            expected[part] = new
            if turn % 2:
                array[part] = new
            else:
                attempt(peer, case, "write", lambda path=path, part=part, new=new: peer.write(path, part, new))
        assert same(array[...], expected)
        assert same(attempt(peer, case, "read", lambda path=path: peer.read(path)), expected)


@PEER
@pytest.mark.parametrize(
    "codecs", [[LITTLE], [sharding([2])], [sharding([4], [sharding([2])])]], ids=["plain", "sharded", "nested"]
)
@pytest.mark.parametrize("dtype, fill", [("uint16", 7), ("bool", True), ("int64", 0)])
def test_chunks_of_fill_values_are_removed(
    peer: Peer, codecs: list[object], dtype: str, fill: object, tmp_path: Path
) -> None:
    """By us from theirs, and by them from ours."""
    case = Case("emptied", (12,), (4,), codecs, dtype, fill, DEFAULT_KEYS)
    path = tmp_path / "a"
    peer.create(path, case)
    other = np.full(12, case.fill_scalar)
    other[[0, 5, 6, 11]] = 0 if fill else 1
    peer.write(path, (...,), other)
    array = frazil.open_array(path, mode="r+")
    array[4:8] = case.fill_scalar
    other[4:8] = case.fill_scalar
    assert not (path / "c/1").exists()
    assert same(peer.read(path), other)
    writer = peer._replace(keep_fill=False)
    writer.write(path, (slice(0, 4),), np.full(4, case.fill_scalar))
    other[:4] = case.fill_scalar
    assert not (path / "c/0").exists()
    assert same(array[...], other)
