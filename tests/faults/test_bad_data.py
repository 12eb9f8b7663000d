"""Wrong bytes under right keys: an error that names the place, or (without a checksum) other values in that one chunk; never the fill value, never anything
else. Stored objects are untouched, and writing the whole chunk repairs it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.concurrent_calls import run
from tests.pairs import pairs

import frazil
from frazil import _kernel
from frazil.codecs import Blosc, Bytes, Codec, Crc32c, Gzip, ShardingIndexed, Transpose, Zlib, Zstd
from frazil.errors import ChecksumError, ChunkDecodeError, DataError, FormatError
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store

SHARDED: dict[str, list[Codec]] = {
    "end": [ShardingIndexed((4, 4), [Bytes(), Crc32c()])],
    "start": [ShardingIndexed((4, 4), [Bytes(), Zstd(1, checksum=True)], index_location="start")],
    "nested": [ShardingIndexed((8, 4), [ShardingIndexed((4, 4), [Bytes(), Crc32c()], index_location="start")])],
    "around": [ShardingIndexed((4, 4), [Bytes()]), Gzip(1)],
    "nested around": [ShardingIndexed((8, 4), [ShardingIndexed((4, 4), [Bytes()]), Zstd(1), Crc32c()])],
    "turned": [Transpose((1, 0)), ShardingIndexed((4, 4), [Bytes("big"), Gzip(1)])],
}
PLAIN: dict[str, list[Codec]] = {
    "raw": [Bytes()],
    "crc32c": [Bytes(), Crc32c()],
    "gzip": [Bytes(), Gzip(1)],
    "zlib": [Bytes(), Zlib(1)],
    "zstd": [Bytes(), Zstd(1, checksum=True)],
    "blosc": [Bytes(), Blosc("lz4", 5, "shuffle")],
    "two": [Bytes(), Zstd(1), Crc32c()],
}
UNCHECKED: dict[str, list[Codec]] = {
    "end, raw": [ShardingIndexed((4, 4), [Bytes()], [Bytes()])],
    "start, raw": [ShardingIndexed((4, 4), [Bytes()], [Bytes("big")], index_location="start")],
    "start, zstd": [ShardingIndexed((4, 4), [Bytes(), Zstd(1)], [Bytes()], index_location="start")],
}
ALL = {**SHARDED, **PLAIN, **UNCHECKED}
GUARDED = ("end", "nested", "crc32c", "two")  # a checksum covers every byte
VALUES = np.random.default_rng(7).integers(0, 9, (16, 16)).astype("u2")
KEY = "sea/c/0/1"  # the damaged object: rows 0 to 8, columns 8 to 16
PART = (slice(0, 8), slice(8, 16))


def make(store: Store, layout: str) -> frazil.Array:
    codecs = ALL[layout]
    array = frazil.create_array(
        store, path="sea", shape=(16, 16), dtype="u2", chunks=(8, 8), codecs=codecs, fill_value=77
    )
    array[...] = VALUES
    return frazil.open_array(store, "r+", path="sea")


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "root")


def content(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


def reads(array: frazil.Array) -> Iterator[Callable[[], object]]:
    """Every way to read from the damaged object together with others."""
    yield lambda: array[...]
    yield lambda: array[1:10, 9:13]
    yield lambda: array.oindex[[0, 7, 12], ::3]
    yield lambda: array.vindex[[0, 5, 12], [8, 13, 2]]
    yield lambda: array.blocks[0, 1]
    yield lambda: array.read((slice(None), slice(None)), out=np.empty((16, 16), "u2"))


def checked(call: Callable[[], object]) -> DataError:
    """The error that a call raises, with all of its notes."""
    with pytest.raises(DataError) as caught:
        call()
    error = caught.value
    assert error.key == KEY
    assert error.path == "sea"
    assert error.chunk is not None
    assert len(error.chunk) == 2
    assert KEY in str(error)
    return error


def check_refused(store: Store, layout: str, *, counts: bool = True) -> None:
    """The object is damaged so that no part of it can be read."""
    array = frazil.open_array(store, "r+", path="sea")
    before = content(store)
    for call in reads(array):
        checked(call)
    for at in ((0, 8), (7, 15)):
        checked(lambda at=at: array[at])
    assert (array[:, :8] == VALUES[:, :8]).all(), "what is elsewhere can be read"
    for write in (
        lambda: array.__setitem__((0, 8), 5),
        lambda: array.__setitem__((slice(0, 7), slice(8, 16)), 5),
        lambda: array.vindex.__setitem__(([0], [8]), 5),
        lambda: array.resize((16, 12)),
    ):
        checked(write)
        after = content(store)
        assert after.pop("sea/zarr.json") is not None
        assert after == {key: value for key, value in before.items() if key != "sea/zarr.json"}
    if counts and layout not in PLAIN:
        checked(lambda: array.nchunks_initialized)


def check_mended(store: Store) -> None:
    array = frazil.open_array(store, "r+", path="sea")
    array.resize((16, 16))
    array[PART] = VALUES[PART]
    assert (array[:, :12] == VALUES[:, :12]).all()
    assert (frazil.open_array(store, path="sea")[PART] == VALUES[PART]).all()


# --- objects cut short -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ALL)
def test_an_empty_object_is_not_the_fill_value(store: Store, layout: str) -> None:
    make(store, layout)
    store.set(KEY, b"")
    check_refused(store, layout)
    check_mended(store)


@pytest.mark.parametrize("layout", ALL)
def test_objects_cut_short(layout: str) -> None:
    """At every byte. If the index comes first, its entries point beyond the end of the object."""
    store = MemoryStore()
    make(store, layout)
    whole = store.get(KEY) or b""
    for length in range(len(whole)):
        store.set(KEY, whole[:length])
        array = frazil.open_array(store, path="sea")
        checked(lambda array=array: array[...])
        checked(lambda array=array: array[PART])
    store.set(KEY, whole[: len(whole) // 2])
    check_refused(store, layout)
    check_mended(store)


@pytest.mark.parametrize("layout", [*GUARDED, *UNCHECKED, "raw"])
def test_objects_with_more_at_the_end(store: Store, layout: str) -> None:
    make(store, layout)
    store.set(KEY, (store.get(KEY) or b"") + b"\0more")
    array = frazil.open_array(store, path="sea")
    if layout.startswith("start"):
        assert (array[...] == VALUES).all(), "bytes that no entry points to are allowed"
    else:
        checked(lambda: array[...])


# --- bits that flipped -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ALL)
def test_any_bit_that_flips(layout: str) -> None:
    """One bit of every third byte, a different one each time: of all bytes of numbers of 8 bytes."""
    store = MemoryStore()
    make(store, layout)
    whole = store.get(KEY) or b""
    for at in range(0, len(whole), 3):
        check_damage(store, layout, whole[:at] + bytes([whole[at] ^ 1 << (at * 5 + 3) % 8]) + whole[at + 1 :])


@given(st.sampled_from([*ALL]), st.data())
def test_any_replaced_bytes_of_an_object_are_an_error_or_its_values(layout: str, data: st.DataObject) -> None:
    store = MemoryStore()
    make(store, layout)
    whole = bytearray(store.get(KEY) or b"")
    for _ in range(data.draw(st.integers(1, 3))):
        low = data.draw(st.integers(0, len(whole)))
        high = data.draw(st.integers(low, min(low + 20, len(whole))))
        whole[low:high] = data.draw(st.binary(max_size=20))
    check_damage(store, layout, bytes(whole))


def check_damage(store: MemoryStore, layout: str, damaged: bytes) -> None:
    """Reading raises an error that names the right place, or changes only elements of the damaged object."""
    before = store.get(KEY) or b""
    store.set(KEY, damaged)
    array = frazil.open_array(store, path="sea")
    elsewhere = np.ones((16, 16), bool)
    elsewhere[PART] = False
    for select in (..., PART, (3, slice(6, 14)), (7, 15)):
        error = None
        try:
            values = array[select]
        except DataError as raised:
            error = raised
        if error is not None:
            assert (error.key, error.path) == (KEY, "sea")
            assert error.chunk is not None
            continue
        assert ((values == VALUES[select]) | ~elsewhere[select]).all()
        if layout in GUARDED and len(damaged) == len(before) and select is ...:
            assert damaged == before
    assert store.get(KEY) == damaged


# --- wrong shard indexes ---------------------------------------------------------------------------------------------------------------

NOTHING = 2**64 - 1
ENTRIES = {
    "half empty, offset": (NOTHING, 0),
    "half empty, offset, with a length": (NOTHING, 32),
    "half empty, length": (0, NOTHING),
    "past the end": (10**6, 32),
    "one past the end": (161, 32),
    "length past the end": (0, 10**6),
    "just not empty": (NOTHING - 1, NOTHING - 1),
    "sum overflows to a small one": (2**64 - 32, 64),
    "sum overflows to the same": (32, 2**64 - 32),
    "negative if signed": (2**63, 32),
    "length negative if signed": (0, 2**63),
    "both": (2**63, 2**63),
    "into the index": (0, 1),
    "too short": (64, 31),
    "too long": (64, 33),
    "without bytes": (64, 0),
}


@pytest.mark.parametrize(
    ("store", "entry", "location", "depth"),
    pairs(["memory", "local"], ENTRIES, ["start", "end"], ["outer", "inner"]),
    indirect=["store"],
)
def test_entries_that_lie(store: Store, entry: str, location: str, depth: str) -> None:
    sharding = ShardingIndexed((4, 4), [Bytes()], [Bytes()], location)
    codecs: list[Codec] = [sharding] if depth == "outer" else [ShardingIndexed((8, 8), [sharding])]
    array = frazil.create_array(store, path="sea", shape=(16, 16), dtype="u2", chunks=(8, 8), codecs=codecs)
    array[...] = VALUES
    whole = bytearray(store.get(KEY) or b"")
    at = (
        0 if location == "start" else 128
    ) + 16 * 2  # entry 2 of 4: rows 4 to 8, columns 8 to 12; four chunks have 128 bytes
    lie = ENTRIES[entry]
    if lie == (0, 1) and location == "end":
        lie = (128, 1)
    struct.pack_into("<2Q", whole, at, *lie)
    store.set(KEY, bytes(whole))
    before = content(store)
    array = frazil.open_array(store, "r+", path="sea")
    kind = ChunkDecodeError if lie[0] == 64 else FormatError
    for call in (
        lambda: array[5, 9],
        lambda: array[...],
        lambda: array.vindex[[5], [9]],
        lambda: array.__setitem__((5, 9), 1),
    ):
        error = checked(call)
        assert type(error) is kind
        if kind is ChunkDecodeError:
            assert error.chunk == (1, 2), "the inner chunk itself"
    assert content(store) == before
    array[PART] = 1
    assert (array[PART] == 1).all()


@pytest.mark.parametrize("location", ["start", "end"])
def test_a_wrong_checksum_of_the_index(store: Store, location: str) -> None:
    codecs = [ShardingIndexed((4, 4), [Bytes()], index_location=location)]
    array = frazil.create_array(store, path="sea", shape=(16, 16), dtype="u2", chunks=(8, 8), codecs=codecs)
    array[...] = VALUES
    whole = bytearray(store.get(KEY) or b"")
    whole[67 if location == "start" else -1] ^= 1
    store.set(KEY, bytes(whole))
    for call in reads(frazil.open_array(store, path="sea")):
        assert type(checked(call)) is ChecksumError


def test_a_wrong_checksum_of_an_inner_chunk(store: Store) -> None:
    array = make(store, "end")
    whole = bytearray(store.get(KEY) or b"")
    whole[40] ^= 1  # of the second inner chunk, rows 0 to 4, columns 12 to 16
    store.set(KEY, bytes(whole))
    array = frazil.open_array(store, "r+", path="sea")
    error = checked(lambda: array[...])
    assert type(error) is ChecksumError
    assert error.chunk == (0, 3)
    assert (array[:, :12] == VALUES[:, :12]).all()
    array[5, 9] = 5
    assert array[5, 9] == 5, "a damaged inner chunk is carried over as it is when another one is written"
    assert type(checked(lambda: array[0, 12])) is ChecksumError
    checked(lambda: array.__setitem__((0, 12), 1))
    array[0:4, 12:16] = 3
    assert (array[0:4, 12:16] == 3).all()


def test_a_damaged_object_can_be_erased(store: Store) -> None:
    for layout in ("end", "raw", "around"):
        make(store, layout)
        store.set(KEY, b"damaged")
        array = frazil.open_array(store, "r+", path="sea")
        array[PART] = 77
        assert store.get(KEY) is None
        assert (array[PART] == 77).all()
        store.set(KEY, b"damaged")
        array.resize((16, 8))
        assert store.get(KEY) is None, "shrinking removes what is outside without looking at it"
        store.erase_prefix("")


# --- bombs -----------------------------------------------------------------------------------------------------------------------------

ZEROS = bytes(2**24)


def encoded(*codec: object) -> bytes:
    return bytes(_kernel.encode_bytes([codec], [ZEROS], 1)[0])


def bombs() -> dict[str, tuple[list[Codec], bytes]]:
    """1 GiB of zeros each, or data that claim to be that large, for a chunk of 128 bytes."""
    blosc = bytearray(encoded("blosc", "zstd", 5, 1, 2, 0))
    struct.pack_into("<I", blosc, 4, 2**31 - 100)
    shard = [ShardingIndexed((4, 4), [Bytes()])]
    return {
        "gzip": ([Bytes(), Gzip(1)], encoded("gzip", 9) * 64),
        "zlib": ([Bytes(), Zlib(1)], encoded("zlib", 9)),
        "zstd": ([Bytes(), Zstd(1)], encoded("zstd", 3, False) * 64),
        "blosc": ([Bytes(), Blosc("zstd", 5, "shuffle")], encoded("blosc", "zstd", 5, 1, 2, 0)),
        "blosc that lies": ([Bytes(), Blosc("zstd", 5, "shuffle")], bytes(blosc)),
        "two": ([Bytes(), Gzip(1), Zstd(1)], encoded("zstd", 3, False) * 64),
        "around shards": ([*shard, Gzip(1)], encoded("gzip", 9) * 64),
        "twice around shards": ([*shard, Gzip(1), Zstd(1)], encoded("zstd", 3, False) * 64),
    }


DEFUSE = """
import resource, sys
import frazil
from frazil.errors import DataError
array = frazil.open_array(sys.argv[1], "r+", path="sea")
array[:, :8], array[0, 0]

def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024

resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + 2**27,) * 2)
before = status("VmHWM")
for call in (lambda: array[...], lambda: array[0, 8], lambda: array.__setitem__((0, 8), 1), lambda: array.vindex[[0], [8]]):
    try:
        call()
    except DataError as error:
        print(error.key)
assert status("VmHWM") - before < 2**24, status("VmHWM") - before
"""


@pytest.mark.parametrize("number", range(8))
def test_compression_bombs_allocate_no_memory(tmp_path: Path, number: int) -> None:
    """The decoded size of a chunk is known before; no memory is allocated because data claim to be larger."""
    codecs, bomb = [*bombs().values()][number]
    store = LocalStore(tmp_path)
    array = frazil.create_array(store, path="sea", shape=(16, 16), dtype="u2", chunks=(8, 8), codecs=codecs)
    array[...] = VALUES
    store.set(KEY, bomb)
    assert run(DEFUSE, tmp_path).split() == [KEY] * 4


def test_an_object_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    """8 GiB that take no room on the disk, where 128 bytes are expected."""
    for layout in ("gzip", "zstd", "raw", "around", "nested", "start"):
        store = LocalStore(tmp_path / layout.replace(" ", ""))
        make(store, layout)
        with (Path(store.path) / KEY).open("r+b") as file:
            file.truncate(2**33)
        outcome = run(DEFUSE, store.path).split()
        assert outcome == [KEY] * 4 or layout == "start"
