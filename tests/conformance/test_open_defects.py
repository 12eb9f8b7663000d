"""Errors that other implementations still make, as tests (docs/conformance/traps.md)."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Sequence

import numpy as np
import pytest

import frazil
from frazil.errors import DataError, FormatError, MetadataError
from frazil.stores import MemoryStore
from frazil.testing.checks import run_threads
from tests.conformance.shards import LITTLE, document, index, sharding, stored
from tests.strategies import same

LAYOUTS = pytest.mark.parametrize("shards", [None, 4], ids=["plain", "sharded"])


def bits(*items: str) -> bytes:
    return b"".join(bytes.fromhex(item)[::-1] for item in items)


def kept(dtype: str, value: bytes, fill: object, shards: int | None) -> None:
    """One element with these bits, equal to the fill value but with other bits, is stored and read back."""
    store = MemoryStore()
    array = frazil.create_array(store, shape=4, dtype=dtype, chunks=2, shards=shards, fill_value=fill)
    element = np.frombuffer(value, array.dtype)
    array[:2] = np.repeat(element, 2)
    again = frazil.open_array(store)
    assert same(again[:2], np.repeat(element, 2))
    assert again.nchunks_initialized == 1
    assert same(again[2:], np.full(2, again.fill_value))
    array[:2] = again.fill_value
    assert again.nchunks_initialized == 0


@pytest.mark.rule("trap 1")
@LAYOUTS
@pytest.mark.parametrize("value", [complex(np.nan, 1), complex(1, np.nan)])
def test_a_complex_number_that_is_nan_in_part_is_not_the_fill_value(value: complex, shards: int | None) -> None:
    kept("complex64", np.complex64(value).tobytes(), ["NaN", "NaN"], shards)
    kept("complex128", np.complex128(value).tobytes(), ["NaN", "NaN"], shards)


@pytest.mark.rule("trap 2")
@LAYOUTS
@pytest.mark.parametrize("value", [complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)])
def test_a_negative_zero_in_a_complex_number_is_kept(value: complex, shards: int | None) -> None:
    kept("complex64", np.complex64(value).tobytes(), 0, shards)
    kept("complex128", np.complex128(value).tobytes(), [0.0, 0.0], shards)


@pytest.mark.rule("trap 3")
@LAYOUTS
@pytest.mark.parametrize(
    "dtype, value",
    [
        ("float16", "7e01"),
        ("float16", "fe00"),
        ("float32", "7fc00001"),
        ("float32", "ffc00000"),
        ("float32", "7f800001"),
        ("float64", "7ff8000000000001"),
        ("float64", "fff8000000000000"),
    ],
)
def test_a_nan_of_other_bits_is_not_the_fill_value(dtype: str, value: str, shards: int | None) -> None:
    kept(dtype, bits(value), "NaN", shards)


@pytest.mark.rule("trap 4")
def test_fill_values_keep_the_bits_of_a_nan() -> None:
    """Every NaN of float16; of the other types, those that differ from the usual one in one bit."""
    cases = [("float16", f"{n:04x}") for n in range(2**16) if n & 0x7C00 == 0x7C00 and n & 0x3FF]
    cases += [("float32", f"{0x7FC00000 ^ 1 << bit:08x}") for bit in (*range(22), 31)]
    cases += [("float64", f"{0x7FF8000000000000 ^ 1 << bit:016x}") for bit in (*range(51), 63)]
    for dtype, value in cases:
        metadata = document([1], [1], [LITTLE], dtype, f"0x{value}")
        array = frazil.open_array(stored(metadata))
        assert array.fill_value.tobytes() == bits(value)
    for dtype, value in cases[::97]:
        array = frazil.open_array(stored(document([1], [1], [LITTLE], dtype, f"0x{value}")))
        assert np.asarray(array[...]).tobytes() == bits(value)
    complex_fill = frazil.open_array(
        stored(document([1], [1], [LITTLE], "complex64", ["0x7fc00001", "0x80000000"]))
    ).fill_value
    assert complex_fill.tobytes() == bits("7fc00001", "80000000")


@pytest.mark.rule("trap 6")
@pytest.mark.parametrize(
    "codecs", [[sharding([2])], [sharding([2], location="start")], [sharding([2], [sharding([1])])], [LITTLE]]
)
def test_an_empty_object_is_an_error_and_not_the_fill_value(codecs: Sequence[dict[str, object]]) -> None:
    store = stored(document([4], [4], codecs), c_0=b"")
    array = frazil.open_array(store, mode="r+")
    for read in (lambda: array[...], lambda: array[0], lambda: array.vindex[[0, 3]]):
        with pytest.raises(DataError) as caught:
            read()
        assert caught.value.key == "c/0"
    with pytest.raises(DataError):
        array[0] = 1
    assert store.get("c/0") == b"", "nothing is made of it"


@pytest.mark.rule("trap 7")
@pytest.mark.parametrize("entry", [(2**64 - 1, 0), (0, 2**64 - 1)])
@pytest.mark.parametrize("nested", [False, True])
def test_half_a_sentinel_is_an_error(entry: tuple[int, int], nested: bool) -> None:
    shard = b"abcd" + index([(0, 2), entry])
    metadata = document([4], [4], [sharding([2])])
    if nested:
        metadata = document([4], [4], [sharding([4], [sharding([2])])])
        shard += index([(0, len(shard))])
    array = frazil.open_array(stored(metadata, c_0=shard))
    for read in (lambda: array[...], lambda: array[3], lambda: array.vindex[[0, 3]]):
        with pytest.raises(FormatError, match="half empty"):
            read()


@pytest.mark.rule("trap 8")
@pytest.mark.parametrize("nbytes", [5, 37, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 2])
@pytest.mark.parametrize("offset", [0, 3, 2**63, 2**64 - 2])
def test_an_inner_chunk_beyond_its_shard_is_an_error(offset: int, nbytes: int) -> None:
    shard = b"abcd" + index([(0, 2), (offset, nbytes)], checksum=False)
    if offset + nbytes <= len(shard):  # it overlaps the index: odd, but the bytes exist
        assert len(shard) == 36
        nbytes = 40
    shard = b"abcd" + index([(0, 2), (offset, nbytes)], checksum=False)
    array = frazil.open_array(stored(document([4], [4], [sharding([2], index_codecs=[LITTLE])]), c_0=shard))
    with pytest.raises(FormatError, match="outside the shard"):
        array[2:]


@pytest.mark.rule("trap 9")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_any_transposition_before_shards(order: tuple[int, ...]) -> None:
    """Inner chunks that fit the shard as the codec sees it, with a shape that does not fit before the transposition."""
    extent = (35, 33, 26)
    inner = tuple({35: 7, 33: 11, 26: 13}[extent[axis]] for axis in order)
    codecs = [{"name": "transpose", "configuration": {"order": list(order)}}, sharding(inner)]
    store = stored(document((50, 40, 30), extent, codecs))
    array = frazil.open_array(store, mode="r+")
    values = np.random.default_rng(0).integers(0, 256, (50, 40, 30), np.uint8)
    array[...] = values
    assert same(array[...], values)
    array[3:20, 5, ::2] = 1
    values[3:20, 5, ::2] = 1
    again = frazil.open_array(store)
    assert same(again[...], values)
    assert same(again[::3, 30:2:-4, 7], values[::3, 30:2:-4, 7])
    assert again.shards == extent


@pytest.mark.rule("trap 10")
def test_short_names() -> None:
    metadata = document([4], [4], ["bytes", "crc32c"])
    metadata["data_type"] = {"name": "uint8"}
    metadata["chunk_key_encoding"] = "default"
    frazil.open_array(store := stored(metadata), mode="r+")[...] = [1, 2, 3, 4]
    assert len(store.get("c/0") or b"") == 8
    inner = sharding([2], ["bytes"], ["bytes", "crc32c"])
    with pytest.raises(MetadataError, match="endian"):
        frazil.open_array(stored(document([4], [4], [inner])))
    assert frazil.open_array(stored(document([4], [4], [sharding([2], ["bytes"])])))[...].tolist() == [0] * 4
    written = json.loads(store.get("zarr.json") or b"")
    assert written["codecs"] == ["bytes", "crc32c"], "what is only read stays as it is"


@pytest.mark.rule("trap 11")
@pytest.mark.parametrize("understand", [True, False])
def test_must_understand_in_a_known_codec(understand: bool) -> None:
    codecs = [{**codec, "must_understand": understand} for codec in (LITTLE, {"name": "crc32c"})]
    assert frazil.open_array(stored(document([4], [4], codecs)))[...].tolist() == [0] * 4
    inner = {**sharding([2], codecs, codecs), "must_understand": understand}
    assert frazil.open_array(stored(document([4], [4], [inner])))[...].tolist() == [0] * 4


@pytest.mark.rule("trap 12")
@pytest.mark.parametrize(
    "dtype, fill", [("int32", "1.0"), ("int32", "1e0"), ("float32", '"nan"'), ("float64", "1e400"), ("float32", "1e39")]
)
def test_fill_values_in_forms_that_are_not_allowed(dtype: str, fill: str) -> None:
    text = json.dumps(document([1], [1], [LITTLE], dtype, "FILL")).replace('"FILL"', fill)
    store = MemoryStore()
    store.set("zarr.json", text.encode())
    with pytest.raises(MetadataError) as caught:
        frazil.open_array(store)
    assert (caught.value.path, caught.value.key) == ("fill_value", "zarr.json")


@pytest.mark.rule("trap 13")
@pytest.mark.parametrize("codec", ["numcodecs.zlib", "zstd", "crc32c"])
def test_a_configuration_may_be_missing_where_nothing_in_it_is_required(codec: str) -> None:
    for entry in ({"name": codec}, {"name": codec, "configuration": {}}, codec):
        array = frazil.open_array(stored(document([4], [4], [{"name": "bytes"}, entry])), mode="r+")
        array[...] = [1, 2, 3, 4]
        assert array[...].tolist() == [1, 2, 3, 4]


@pytest.mark.rule("trap 14")
def test_a_codec_around_shards() -> None:
    """It is never skipped: to read a part of such a shard, the shard is decoded whole."""
    codecs = [sharding([2]), {"name": "gzip", "configuration": {"level": 1}}]
    store = stored(document([8], [8], codecs))
    array = frazil.open_array(store, mode="r+")
    array[...] = range(1, 9)
    assert (store.get("c/0") or b"")[:2] == b"\x1f\x8b"
    array[3] = 99
    assert frazil.open_array(store)[2:5].tolist() == [3, 99, 5]


@pytest.mark.rule("trap 15")
@LAYOUTS
def test_shrinking_and_growing_shows_no_old_values(shards: int | None) -> None:
    array = frazil.create_array(MemoryStore(), shape=12, dtype="int16", chunks=2, shards=shards, fill_value=-1)
    array[...] = range(12)
    array.resize(3)
    array.resize(12)
    assert array[...].tolist() == [0, 1, 2] + [-1] * 9


@pytest.mark.rule("trap 16")
@pytest.mark.parametrize("codecs", [[LITTLE], [sharding([2])]], ids=["plain", "sharded"])
def test_elements_beyond_the_edge_do_not_appear_after_writing_the_chunk(codecs: Sequence[dict[str, object]]) -> None:
    data = b"ab\xee\xee"
    store = stored(document([2], [4], codecs), c_0=data if codecs == [LITTLE] else data + index([(0, 2), (2, 2)]))
    array = frazil.open_array(store, mode="r+")
    assert array[...].tolist() == [*b"ab"]
    array[...] = 0
    assert store.get("c/0") is None
    array.resize(4)
    assert array[...].tolist() == [0] * 4


@pytest.mark.rule("trap 17")
def test_sixteen_writers_of_one_shard() -> None:
    store = MemoryStore()
    frazil.create_array(store, shape=(16, 32), dtype="int32", chunks=(1, 4), shards=(16, 32))
    expected = np.arange(1, 513, dtype="i4").reshape(16, 32)

    def write(row: int) -> None:
        array = frazil.open_array(store, mode="r+")
        for column in range(0, 32, 4):
            array[row, column : column + 4] = expected[row, column : column + 4]

    run_threads([lambda row=row: write(row) for row in range(16)])
    assert same(frazil.open_array(store)[...], expected)


@pytest.mark.rule("trap 18")
def test_a_part_of_a_damaged_shard_cannot_be_written_but_the_whole_can() -> None:
    shard = bytearray(b"abcd" + index([(0, 2), (2, 2)]))
    shard[10] ^= 1
    store = stored(document([4], [4], [sharding([2])]), c_0=bytes(shard))
    array = frazil.open_array(store, mode="r+")
    with pytest.raises(DataError):
        array[1:3] = 7
    assert store.get("c/0") == bytes(shard)
    array[...] = [1, 2, 3, 4]
    assert array[...].tolist() == [1, 2, 3, 4]


@pytest.mark.rule("trap 20")
@pytest.mark.parametrize("fill", [[1, 2, 3], "AQID"])
def test_raw_fill_values_in_both_forms(fill: object) -> None:
    array = frazil.open_array(stored(document([2], [2], [{"name": "bytes"}], "r24", fill)))
    assert np.asarray(array[...]).tobytes() == struct.pack("3B", 1, 2, 3) * 2
