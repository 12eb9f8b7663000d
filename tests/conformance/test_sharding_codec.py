"""The sharding codec, rule by rule, as docs/conformance/sharding-codec.md lists them; bytes are made by hand if a rule is about bytes."""

from __future__ import annotations

import gzip
import itertools
import json
import struct
from collections.abc import Sequence

import numpy as np
import pytest

import frazil
from frazil.errors import ChecksumError, FormatError, MetadataError, UnknownExtensionError
from frazil.stores import MemoryStore
from tests.conformance.shards import BIG, CRC32C, EMPTY, LITTLE, Codec, crc32c, document, index, sharding, stored

GZIP = {"name": "gzip", "configuration": {"level": 1}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}


def read(metadata: dict[str, object], **chunks: bytes) -> list[object]:
    return np.asarray(frazil.open_array(stored(metadata, **chunks))[...]).tolist()


def refused(metadata: dict[str, object]) -> MetadataError:
    with pytest.raises(MetadataError) as caught:
        frazil.open_array(stored(metadata))
    return caught.value


def with_member(name: str, value: object) -> dict[str, object]:
    """A document of an array with shards whose codec has one member changed; None removes it."""
    entry = sharding([2, 2])
    configuration = entry["configuration"]
    assert isinstance(configuration, dict)
    configuration[name] = value
    if value is None:
        del configuration[name]
    return document([4, 4], [4, 4], [entry])


# --- the entry in a document -------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("F1")
def test_the_name_of_the_codec_is_sharding_indexed() -> None:
    store = MemoryStore()
    frazil.create_array(store, shape=4, dtype="uint8", chunks=2, shards=4)
    assert json.loads(store.get("zarr.json") or b"")["codecs"][0]["name"] == "sharding_indexed"
    for name in ("sharding", "sharding-indexed", "Sharding_indexed"):
        with pytest.raises((UnknownExtensionError, MetadataError)) as caught:
            frazil.open_array(stored(document([4], [4], [{**sharding([2]), "name": name}])))
        assert str(caught.value.path).startswith("codecs[0]")


@pytest.mark.rule("F2")
@pytest.mark.parametrize(
    "codecs, place",
    [
        ([LITTLE, sharding([2])], "codecs[1]"),
        ([sharding([2]), LITTLE], "codecs[1]"),
        ([sharding([2]), sharding([2])], "codecs[1]"),
        ([GZIP, sharding([2])], "codecs[1]"),
        ([sharding([2]), {"name": "transpose", "configuration": {"order": [0]}}], "codecs[1]"),
    ],
)
def test_sharding_is_an_array_to_bytes_codec(codecs: Sequence[Codec], place: str) -> None:
    assert refused(document([4], [4], codecs)).path == place


@pytest.mark.rule("F2")
def test_other_codecs_may_stand_before_and_behind_it() -> None:
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    shard = bytes(range(1, 7)) + index([(0, 2), (2, 2), (4, 2)])
    metadata = document([2, 3], [2, 3], [transpose, sharding([1, 2]), CRC32C])
    assert read(metadata, c_0_0=shard + crc32c(shard)) == [[1, 3, 5], [2, 4, 6]]


@pytest.mark.rule("F3")
@pytest.mark.parametrize("shape", [[2], [2, 2, 2], [3, 2], [2, 8], [0, 2], [-2, 2], [2.0, 2], [True, 2], ["2", 2], 2])
def test_the_inner_shape_divides_the_shard(shape: object) -> None:
    assert refused(with_member("chunk_shape", shape)).path == "codecs[0].configuration.chunk_shape"


@pytest.mark.rule("F3")
def test_a_shard_within_a_shard_is_measured_by_the_inner_shape() -> None:
    assert read(document([4], [4], [sharding([2], [sharding([1])])])) == [0, 0, 0, 0]
    error = refused(document([12], [12], [sharding([4], [sharding([3])])]))
    assert error.path == "codecs[0].configuration.codecs[0].configuration.chunk_shape"


@pytest.mark.rule("F4")
@pytest.mark.parametrize("codecs", [None, [], [GZIP], [LITTLE, LITTLE], LITTLE, "bytes", [7], [[LITTLE]]])
def test_inner_codecs_have_one_array_to_bytes_codec(codecs: object) -> None:
    assert str(refused(with_member("codecs", codecs)).path).startswith("codecs[0].configuration.codecs")


@pytest.mark.rule("F5")
@pytest.mark.parametrize("codecs", [None, [], [CRC32C], [LITTLE, LITTLE], LITTLE, "bytes", [7]])
def test_index_codecs_have_one_array_to_bytes_codec(codecs: object) -> None:
    assert str(refused(with_member("index_codecs", codecs)).path).startswith("codecs[0].configuration.index_codecs")


@pytest.mark.rule("F6")
@pytest.mark.parametrize(
    "codec",
    [
        GZIP,
        ZSTD,
        {"name": "numcodecs.zlib", "configuration": {"level": 1}},
        {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 0, "shuffle": "noshuffle"}},
    ],
)
@pytest.mark.parametrize("at", [1, 2])
def test_an_index_is_never_compressed(codec: Codec, at: int) -> None:
    codecs = [LITTLE, CRC32C]
    codecs.insert(at, dict(codec))
    assert refused(with_member("index_codecs", codecs)).path == f"codecs[0].configuration.index_codecs[{at}]"


@pytest.mark.rule("F6")
def test_an_index_is_not_sharded_itself() -> None:
    codecs = [sharding([2, 2, 2])]
    assert refused(with_member("index_codecs", codecs)).path == "codecs[0].configuration.index_codecs[0]"


@pytest.mark.rule("F7")
def test_new_shards_have_a_little_endian_index_with_a_checksum() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=4, dtype="uint8", chunks=2, shards=4, codecs=[])
    configuration = json.loads(store.get("zarr.json") or b"")["codecs"][0]["configuration"]
    assert configuration["index_codecs"] == [LITTLE, CRC32C]
    array[:3] = [1, 2, 3]
    assert store.get("c/0") == bytes([1, 2, 3, 0]) + index([(0, 2), (2, 2)])


@pytest.mark.rule("F8")
def test_index_locations() -> None:
    for location in ("end", None):
        assert read(document([4], [4], [sharding([2], location=location)]), c_0=b"abcd" + index([(0, 2), (2, 2)])) == [
            *b"abcd"
        ]
    entries = [(36, 2), (38, 2)]
    assert read(document([4], [4], [sharding([2], location="start")]), c_0=index(entries) + b"abcd") == [*b"abcd"]
    for location in ("middle", "End", "", 0, False, ["end"]):
        error = refused(with_member("index_location", location))
        assert error.path == "codecs[0].configuration.index_location"


@pytest.mark.rule("F8")
@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_is_written_at_its_location(location: str) -> None:
    store = stored(document([4], [4], [sharding([2], location=location)]))
    frazil.open_array(store, mode="r+")[...] = [1, 2, 3, 4]
    data = bytes([1, 2, 3, 4])
    expected = {"end": data + index([(0, 2), (2, 2)]), "start": index([(36, 2), (38, 2)]) + data}
    assert store.get("c/0") == expected[location]


# --- the bytes of a shard ----------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("F9")
def test_a_shard_is_a_chunk_of_the_grid_and_one_object() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=(6, 5), dtype="uint8", chunks=(1, 2), shards=(3, 4), codecs=[])
    array[...] = 1
    assert store.list() == ["c/0/0", "c/0/1", "c/1/0", "c/1/1", "zarr.json"]
    grid = json.loads(store.get("zarr.json") or b"")["chunk_grid"]
    assert grid == {"name": "regular", "configuration": {"chunk_shape": [3, 4]}}
    assert (array.shards, array.chunks) == ((3, 4), (1, 2))


@pytest.mark.rule("F10")
def test_inner_chunks_of_a_shard() -> None:
    """The example of the specification: inner chunks [32, 2] in shards [64, 64] are 2 by 32 of them."""
    store = MemoryStore()
    array = frazil.create_array(store, shape=(64, 64), dtype="uint8", chunks=(32, 2), shards=(64, 64), codecs=[])
    array[33, 5] = 9
    shard = store.get("c/0/0") or b""
    assert len(shard) == 64 + 16 * 64 + 4
    number = 1 * 32 + 2
    assert struct.unpack("<QQ", shard[64 + 16 * number : 64 + 16 * (number + 1)]) == (0, 64)


@pytest.mark.rule("F11")
@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("gaps", [(5, 0, 0), (0, 7, 0), (0, 0, 9), (3, 2, 1)])
def test_unused_bytes_may_lie_anywhere(location: str, gaps: tuple[int, int, int]) -> None:
    first = gaps[0] + (36 if location == "start" else 0)
    entries = [(first, 2), (first + 2 + gaps[1], 2)]
    body = b"?" * gaps[0] + b"ab" + b"?" * gaps[1] + b"cd" + b"?" * gaps[2]
    shard = body + index(entries) if location == "end" else index(entries) + body
    assert read(document([4], [4], [sharding([2], location=location)]), c_0=shard) == [*b"abcd"]


@pytest.mark.rule("trap 37")
@pytest.mark.rule("F11")
def test_inner_chunks_may_share_bytes() -> None:
    """It is allowed, and need not be detected: the same bytes are two inner chunks."""
    assert read(document([6], [6], [sharding([2])]), c_0=b"xyz" + index([(0, 2), (1, 2), (0, 2)])) == [*b"xyyzxy"]


@pytest.mark.rule("F12")
@pytest.mark.parametrize("location", ["start", "end"])
def test_offsets_count_from_the_first_byte_of_the_shard(location: str) -> None:
    base = 36 if location == "start" else 0
    entries = [(base + 2, 2), (base, 2)]
    shard = index(entries) + b"cdab" if location == "start" else b"cdab" + index(entries)
    store = stored(document([4], [4], [sharding([2], location=location)]), c_0=shard)
    array = frazil.open_array(store, mode="r+")
    assert array[...].tolist() == [*b"abcd"]
    array[0] = ord("z")  # existing chunks are found where the index points, and written ones where the new index points
    assert frazil.open_array(store)[...].tolist() == [*b"zbcd"]


@pytest.mark.rule("F12")
def test_the_index_is_in_c_order() -> None:
    """In the dimensions that the codec sees: after a transposition, the transposed ones."""
    data, entries = b"abcdef", [(i, 1) for i in range(6)]
    assert read(document([2, 3], [2, 3], [sharding([1, 1])]), c_0_0=data + index(entries)) == [[*b"abc"], [*b"def"]]
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    metadata = document([2, 3], [2, 3], [transpose, sharding([1, 1])])
    assert read(metadata, c_0_0=data + index(entries)) == [[*b"ace"], [*b"bdf"]]


@pytest.mark.rule("F12")
@pytest.mark.parametrize("location", ["start", "end"])
def test_entries_that_reach_into_the_index_are_refused(location: str) -> None:
    metadata = document([2], [2], [sharding([1], index_codecs=[LITTLE], location=location)])
    begin = 32 if location == "start" else 0
    for lie in (31, 1) if location == "start" else (4, 1), (31, 2) if location == "start" else (3, 2):
        table = index([(begin, 1), lie], checksum=False)
        array = frazil.open_array(stored(metadata, c_0=table + b"abcd" if begin else b"abcd" + table))
        with pytest.raises(FormatError, match="into the index"):
            array[...]
    table = index([(begin, 1), (begin + 4 if begin else 4, 0)], checksum=False)
    array = frazil.open_array(stored(metadata, c_0=table + b"abcd" if begin else b"abcd" + table))
    assert array[0] == ord("a"), "nothing at the end of the data reaches nowhere"


@pytest.mark.rule("F12")
@pytest.mark.parametrize(
    "entry", [(4, 1), (0, 5), (5, 0), (2**63, 1), (1, 2**63), (2**64 - 2, 3), (1, 2**64 - 2), (2**64 - 2, 2**64 - 2)]
)
@pytest.mark.parametrize("location", ["start", "end"])
def test_entries_that_reach_outside_are_refused(entry: tuple[int, int], location: str) -> None:
    metadata = document([2], [2], [sharding([1], index_codecs=[LITTLE], location=location)])
    size = 4 + 32
    entry = tuple(size + n - 4 if 4 <= n < 2**32 else n for n in entry)
    first = (32 if location == "start" else 0, 1)
    body, table = b"abcd", index([first, entry], checksum=False)
    store = stored(metadata, c_0=table + body if location == "start" else body + table)
    array = frazil.open_array(store, mode="r+")
    with pytest.raises(FormatError, match="entry 1") as caught:
        array[...]
    assert (caught.value.key, caught.value.path) == ("c/0", "/")
    with pytest.raises(FormatError):
        array[0] = 1
    before = store.get("c/0")
    array[:] = [8, 9]  # but a write of the whole shard need not read it
    assert array[...].tolist() == [8, 9]
    assert store.get("c/0") != before


@pytest.mark.rule("F13")
def test_empty_inner_chunks_are_the_fill_value() -> None:
    metadata = document([6], [6], [sharding([2])], fill=7)
    assert read(metadata, c_0=b"ab" + index([EMPTY, (0, 2), EMPTY])) == [7, 7, *b"ab", 7, 7]
    assert read(metadata, c_0=index([EMPTY] * 3)) == [7] * 6
    assert read(metadata) == [7] * 6


@pytest.mark.rule("F13")
def test_inner_chunks_of_fill_values_are_written_as_empty() -> None:
    store = stored(document([6], [6], [sharding([2])], fill=7))
    array = frazil.open_array(store, mode="r+")
    array[2:4] = [8, 9]
    assert store.get("c/0") == bytes([8, 9]) + index([EMPTY, (0, 2), EMPTY])
    array[2:4] = 7
    assert store.get("c/0") is None, "a shard without any inner chunk is not an object"


@pytest.mark.rule("F13")
@pytest.mark.parametrize("entry", [(2**64 - 1, 0), (0, 2**64 - 1), (2**64 - 1, 2), (2, 2**64 - 1)])
def test_half_an_empty_entry_is_refused(entry: tuple[int, int]) -> None:
    shard = b"abcd" + index([(0, 2), entry])
    array = frazil.open_array(stored(document([4], [4], [sharding([2])]), c_0=shard))
    with pytest.raises(FormatError, match="half empty") as caught:
        array[0]
    assert caught.value.key == "c/0"


@pytest.mark.rule("F14")
def test_the_index_has_all_positions_also_beyond_the_array() -> None:
    store = MemoryStore()
    array = frazil.create_array(store, shape=(3, 1), dtype="uint8", chunks=(2, 2), shards=(4, 4), codecs=[])
    array[...] = 5
    inside = bytes([5, 0, 5, 0]) + bytes([5, 0, 0, 0])
    assert store.get("c/0/0") == inside + index([(0, 4), EMPTY, (4, 4), EMPTY])
    beyond = index([(0, 4), (0, 4), EMPTY, (0, 4)])
    assert read(document([1, 1], [4, 4], [sharding([2, 2])]), c_0_0=b"abcd" + beyond) == [[97]], (
        "and what is there is passed over"
    )


@pytest.mark.rule("F15")
def test_the_size_of_an_index_follows_from_its_codecs() -> None:
    """The example of the specification: 64 x 64 in 32 x 32, bytes and crc32c: 16 * 4 + 4 = 68 bytes."""
    store = MemoryStore()
    array = frazil.create_array(store, shape=(64, 64), dtype="uint8", chunks=(32, 32), shards=(64, 64), codecs=[])
    array[...] = 1
    assert len(store.get("c/0/0") or b"") == 4096 + 68


@pytest.mark.rule("F15")
@pytest.mark.parametrize(
    "codecs, encoded",
    [
        ([LITTLE], index([(0, 1), (1, 1)], checksum=False)),
        ([BIG], index([(0, 1), (1, 1)], endian=">", checksum=False)),
        ([BIG, CRC32C], index([(0, 1), (1, 1)], endian=">")),
        ([LITTLE, CRC32C, CRC32C], index([(0, 1), (1, 1)]) + crc32c(index([(0, 1), (1, 1)]))),
        ([{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE], struct.pack("<4Q", 0, 1, 1, 1)),
        ([LITTLE, "crc32c"], index([(0, 1), (1, 1)])),
    ],
)
def test_an_index_is_encoded_by_its_codecs(codecs: list[Codec], encoded: bytes) -> None:
    store = stored(document([2], [2], [sharding([1], index_codecs=codecs)]), c_0=b"ab" + encoded)
    array = frazil.open_array(store, mode="r+")
    assert array[...].tolist() == [*b"ab"]
    array[...] = [*b"ab"]
    assert store.get("c/0") == b"ab" + encoded


@pytest.mark.rule("F15")
@pytest.mark.parametrize("shard", [b"", b"a", index([(0, 1), (1, 1)])[1:], b"ab"])
def test_a_shard_shorter_than_its_index_is_refused(shard: bytes) -> None:
    array = frazil.open_array(stored(document([2], [2], [sharding([1])]), c_0=shard))
    with pytest.raises(FormatError, match="too short"):
        array[...]


@pytest.mark.rule("F15")
def test_a_wrong_checksum_is_refused() -> None:
    table = bytearray(index([(0, 1), (1, 1)]))
    table[9] ^= 4
    array = frazil.open_array(stored(document([2], [2], [sharding([1])]), c_0=b"ab" + bytes(table)))
    with pytest.raises(ChecksumError):
        array[...]


@pytest.mark.rule("trap 37")
@pytest.mark.rule("F16")
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_every_order_of_inner_chunks_is_read_and_kept(order: tuple[int, ...]) -> None:
    expected = [*b"aaaa", *b"abab", *b"abca", *b"abcd"]
    values = [gzip.compress(bytes(expected[at : at + 4]), mtime=0) for at in range(0, 16, 4)]
    body, entries = b"", [EMPTY] * 4
    for number in order:
        entries[number] = (len(body), len(values[number]))
        body += values[number]
    store = stored(document([16], [16], [sharding([4], [LITTLE, GZIP])]), c_0=body + index(entries))
    array = frazil.open_array(store, mode="r+")
    assert array[...].tolist() == expected
    array[8] = expected[8] = 1
    assert frazil.open_array(store)[...].tolist() == expected
    kept = store.get("c/0") or b""
    assert all(values[number] in kept for number in (0, 1, 3)), "what is not touched is carried over as bytes"


@pytest.mark.rule("F17")
def test_shards_of_every_strategy_are_read() -> None:
    metadata = document([4], [4], [sharding([2])])
    grown = (
        b"ab" + index([(0, 2), EMPTY]) + b"cd" + b"AB"
    )  # appended to: the old index and the old chunk are unused space
    appended = grown + index([(len(grown) - 2, 2), (len(grown) - 4, 2)])
    assert read(metadata, c_0=appended) == [*b"ABcd"]
    fixed = b"ab??????cd??????" + index([(0, 2), (8, 2)])  # slots with room to grow
    assert read(metadata, c_0=fixed) == [*b"abcd"]
    foreign = b"\x89HDF\r\n\x1a\n" + b"..cd..ab...." + index([(14, 2), (10, 2)])  # another format followed by an index
    assert read(metadata, c_0=foreign) == [*b"abcd"]


@pytest.mark.rule("F18")
def test_shard_options_are_not_in_documents() -> None:
    store = MemoryStore()
    frazil.create_array(store, shape=4, dtype="uint8", chunks=2, shards=4, codecs=[])
    (entry,) = json.loads(store.get("zarr.json") or b"")["codecs"]
    assert set(entry) == {"name", "configuration"}
    assert set(entry["configuration"]) == {"chunk_shape", "codecs", "index_codecs", "index_location"}
    for member in ("subchunk_write_order", "write_strategy", "order", "padding"):
        assert refused(with_member(member, "morton")).path == f"codecs[0].configuration.{member}"
