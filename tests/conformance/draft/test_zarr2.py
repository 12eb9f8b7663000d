"""zarr-python 2.18 reads every kind of array that Frazil writes in the older dialect, and Frazil reads those of zarr-python. These tests are skipped if that
zarr-python is not installed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.codecs import Blosc, Bytes, Gzip, Transpose, Zlib, Zstd
from tests.conformance.draft.zarr2 import Zarr2
from tests.strategies import same

PLAIN = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
OTHERS = ["M8[ns]", "M8[D]", "m8[s]", "m8[us]", "S1", "S7", "U1", "U5", "V3"]
STRUCT = [("name", "U10"), ("age", "i4"), ("weight", "f4"), ("raw", "S3")]
NESTED = [("point", [("x", "f8"), ("y", "f8")]), ("id", "u2")]


def filled(shape: Sequence[int], dtype: object, seed: int = 0) -> np.ndarray:
    """Values of any type, in this type."""
    native = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if native.names is not None:
        made = np.zeros(shape, native)
        for at, name in enumerate(native.names):
            made[name] = filled(shape, native[name], seed + at)
        return made
    if native.kind == "U":
        letters = np.array(["", "a", "äöü", "日本", "\U0001f600x"])
        return np.array(letters[rng.integers(0, 5, shape)], native)
    if native.kind == "b":
        return np.array(rng.integers(0, 2, shape), native)
    if native.kind in "fc":
        return np.array(rng.choice([0, 1.5, -2.25, np.nan, np.inf, -np.inf], shape), native)
    raw = rng.integers(0, 256, (*shape, native.itemsize), np.uint8)
    return np.ascontiguousarray(raw).view(native).reshape(shape)


def agree(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal bit for bit, in any byte order in memory; zarr-python reads raw bytes as structs of one field."""
    left, right = (np.asarray(side).view(f"V{side.dtype.itemsize}") if plain(side) else side for side in (left, right))
    native = left.astype(left.dtype.newbyteorder("="))
    return same(native, right.astype(right.dtype.newbyteorder("=")))


def plain(values: np.ndarray) -> bool:
    """Whether the elements are raw bytes."""
    return values.dtype.kind == "V" and values.dtype.names in (None, ("f0",))


class Case(NamedTuple):
    """arguments: of create_array, besides its data"""

    name: str
    values: np.ndarray
    arguments: Mapping[str, object] = {}

    def __str__(self) -> str:
        return self.name


def cases() -> Iterator[Case]:
    for dtype in (*PLAIN, *OTHERS):
        values = filled((7, 5), dtype)
        yield Case(dtype, values)
        yield Case(f"{dtype}, sharded", values, {"chunks": (2, 2), "shards": (4, 4), "codecs": []})
        if values.dtype.itemsize > 1 and values.dtype.kind not in "SV":
            yield Case(f"{dtype}, big-endian", values, {"chunks": (3, 3), "codecs": [Bytes("big"), Gzip(level=1)]})
    for name, dtype in (("struct", STRUCT), ("nested struct", NESTED)):
        yield Case(name, filled((5,), dtype), {"chunks": (2,)})
        yield Case(f"{name}, sharded", filled((5,), dtype), {"chunks": (1,), "shards": (2,)})
    for name, codecs in {
        "raw": [],
        "gzip": [Gzip(level=9)],
        "gzip of level 0": [Gzip(level=0)],
        "zlib": [Zlib(level=3)],
        "zstd": [Zstd(level=3)],
        "zstd with a checksum": [Zstd(level=1, checksum=True)],
        **{f"blosc {cname}": [Blosc(cname, 5, "shuffle")] for cname in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")},
        "blosc by bits": [Blosc("zstd", 3, "bitshuffle")],
        "blosc plain": [Blosc("lz4", 3, "noshuffle", blocksize=256)],
        "blosc of level 0": [Blosc("lz4", 0, "shuffle")],
        "two": [Zlib(level=1), Blosc("lz4", 5, "noshuffle")],
    }.items():
        yield Case(name, filled((40, 50), "i4"), {"chunks": (32, 32), "codecs": codecs})
        yield Case(f"{name}, sharded", filled((40, 50), "i4"), {"chunks": (8, 8), "shards": (32, 16), "codecs": codecs})
    for separator in "./":
        for order in "CF":
            layout = [Transpose((2, 1, 0))] if order == "F" else []
            keys = {"name": "default", "configuration": {"separator": separator}}
            arguments = {"codecs": [*layout, Gzip(level=1)], "chunk_key_encoding": keys}
            values = filled((5, 6, 7), "u2")
            yield Case(f"{order} {separator}", values, {"chunks": (2, 3, 4), **arguments})
            yield Case(f"{order} {separator} sharded", values, {"chunks": (2, 3, 2), "shards": (4, 3, 6), **arguments})
    for shape in ((), (1,), (0,), (0, 4), (4, 0, 2)):
        yield Case(f"shape {shape}", filled(shape, "i4"), {"chunks": tuple(max(n, 1) for n in shape), "codecs": []})
    yield Case("without dimensions, sharded", filled((), "f8"), {"chunks": (), "shards": (), "codecs": []})
    yield Case("without dimensions, gzip", filled((), "f8"), {"chunks": (), "codecs": [Gzip(level=1)]})
    yield Case("chunks longer than the array", filled((3,), "u1"), {"chunks": (10,)})


CASES = list(cases())


@pytest.mark.rule("Z16")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_zarr2_reads_arrays_of_frazil(zarr2: Zarr2, case: Case, tmp_path: Path) -> None:
    store = tmp_path / "h.zr3"
    attributes = {"a": [1, 2.5, None, {"b": "ü"}]}
    made = frazil.create_array(
        store, path="g/a", data=case.values, attributes=attributes, zarr_format="draft-2021", **case.arguments
    )
    read, about = zarr2.look(store, "g/a")
    assert agree(read, case.values)
    assert {name: value for name, value in about["attributes"].items() if name != "filters"} == attributes
    assert tuple(about["chunks"]) == made.chunks
    assert agree(frazil.open_array(store, path="g/a")[...], case.values)


@pytest.mark.rule("Z16", "Z19")
@pytest.mark.parametrize("case", [case for case in CASES if case.values.size > 1], ids=str)
def test_both_write_into_one_array(zarr2: Zarr2, case: Case, tmp_path: Path) -> None:
    store, ndim = tmp_path / "h.zr3", case.values.ndim
    made = frazil.create_array(store, path="a", data=case.values, zarr_format="draft-2021", **case.arguments)
    expected = case.values.copy()
    theirs, ours = [(0, 1)] * ndim, (slice(1, 2),) * ndim
    zarr2.write(store, "a", case.values[(slice(-1, None),) * ndim], theirs)
    expected[(slice(0, 1),) * ndim] = case.values[(-1,) * ndim]
    made[ours] = case.values[(0,) * ndim]
    expected[ours] = case.values[(0,) * ndim]
    assert agree(zarr2.read(store, "a"), expected)
    assert agree(frazil.open_array(store, path="a")[...], expected)


@pytest.mark.rule("Z8", "Z16")
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("bool", True), ("i4", -7), ("u8", 2**64 - 1), ("i8", -(2**63)), ("f2", 1.5), ("f4", 1 / 3), ("f8", 1 / 3), ("f8", np.nan),
        ("f4", np.inf), ("f8", -np.inf), ("c8", 1 + 2j), ("c16", complex(np.nan, -np.inf)), ("M8[s]", np.datetime64(5, "s")),
        ("m8[ns]", np.timedelta64("NaT", "ns")), ("S4", b"ab"), ("U4", "äb"), (STRUCT, ("x", 1, 2.5, b"y")), ("V3", [1, 2, 255]),
    ],
    ids=str,
)  # fmt: skip
def test_zarr2_reads_fill_values(zarr2: Zarr2, dtype: object, fill: object, tmp_path: Path) -> None:
    store = tmp_path / "h.zr3"
    expected = np.array(fill, dtype) if dtype != "V3" else np.array(bytes(fill), "V3")
    given = fill if dtype == "V3" else expected[()]
    frazil.create_array(
        store,
        path="a",
        shape=3,
        dtype="r24" if dtype == "V3" else np.dtype(dtype),
        fill_value=given,
        zarr_format="draft-2021",
    )
    read, about = zarr2.look(store, "a")
    assert agree(read, np.full(3, expected))
    assert about["fill"] == expected.tobytes().hex()


@pytest.mark.rule("Z2", "Z10", "Z15", "Z16")
def test_zarr2_lists_nodes_of_frazil(zarr2: Zarr2, tmp_path: Path) -> None:
    store = tmp_path / "h.zr3"
    root = frazil.create_group(store, attributes={"title": "root"}, zarr_format="draft-2021")
    root.create_group("g", attributes={"a": 1}).create_array("x.array", data=np.arange(3), attributes={"b": [2]})
    root.create_array("implied/below/a-b_c.d", data=np.arange(4))
    assert zarr2.nodes(store) == {
        "": ["group", {"title": "root"}],
        "g": ["group", {"a": 1}],
        "g/x.array": ["array", {"b": [2]}],
        "implied": ["group", {}],
        "implied/below": ["group", {}],
        "implied/below/a-b_c.d": ["array", {}],
    }
    del root["g/x.array"]
    assert "g/x.array" not in zarr2.nodes(store)


@pytest.mark.rule("Z2", "Z16")
def test_zarr2_reads_an_array_at_the_root(zarr2: Zarr2, tmp_path: Path) -> None:
    values = filled((7, 5), "f4")
    frazil.create_array(tmp_path / "h", data=values, chunks=(2, 2), shards=(4, 4), zarr_format="draft-2021")
    assert agree(zarr2.read(tmp_path / "h", ""), values)


# --- what it writes -------------------------------------------------------------------------------------------------------------------

COMPRESSORS: tuple[Mapping[str, object] | None, ...] = (
    None,
    {"id": "gzip", "level": 1},
    {"id": "zlib", "level": 9},
    {"id": "bz2", "level": 1},
    {"id": "lzma", "preset": 1},
    {"id": "lz4", "acceleration": 1},
    {"id": "zstd", "level": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": -1},
    {"id": "blosc", "cname": "zlib", "clevel": 1, "shuffle": 0, "blocksize": 256},
    {"id": "blosc", "cname": "lz4hc", "clevel": 9, "shuffle": 2},
)
# in the meaningful order: codecs of arrays, then codecs of bytes
FILTERS: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "i4": (
        {"id": "delta", "dtype": "<i4"},
        {"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<i4"},
        {"id": "shuffle", "elementsize": 4},
    ),
    "u2": ({"id": "delta", "dtype": "<u2"}, {"id": "shuffle", "elementsize": 2}, {"id": "crc32"}, {"id": "adler32"}),
    "f8": ({"id": "bitround", "keepbits": 52}, {"id": "shuffle", "elementsize": 8}, {"id": "fletcher32"}),
    "bool": ({"id": "packbits"},),
}


class Drawn(NamedTuple):
    """values: all of the array; arguments: of zarr.create; writes: later writes, boxes with values"""

    values: np.ndarray
    arguments: Mapping[str, object]
    writes: Sequence[tuple[Sequence[tuple[int, int]], np.ndarray]]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    """An array that zarr-python can write: any type, compressor, filters, order, separator, shards, and a few writes into it."""
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 9)) for _ in range(rank))
    dtype = draw(st.sampled_from([*PLAIN, *OTHERS, ">i4", ">f8", ">u2", ">c8", ">M8[s]", ">U3"]))
    seed = draw(st.integers(0, 2**32 - 1))
    values = filled(shape, dtype, seed).astype(dtype)
    arguments: dict[str, object] = {
        "chunks": [draw(st.integers(1, 4)) for _ in range(rank)],
        "order": draw(st.sampled_from("CF")),
        "dimension_separator": draw(st.sampled_from("./")),
        "compressor": draw(st.sampled_from(COMPRESSORS)) if rank else None,
        "write_empty_chunks": draw(st.booleans()),
        "attributes": {"seed": seed},
    }
    if draw(st.booleans()):
        arguments["chunks_per_shard"] = [draw(st.integers(1, 3)) for _ in range(rank)]
    if rank and dtype in FILTERS and draw(st.booleans()):
        arguments["filters"] = [entry for entry in FILTERS[dtype] if draw(st.booleans())]
    writes = []
    for turn in range(draw(st.integers(0, 3)) if rank and values.size else 0):
        box = [tuple(sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))) for n in shape]
        part = filled([stop - start for start, stop in box], dtype, seed + turn + 1).astype(dtype)
        if part.size:
            writes.append((box, part))
    return Drawn(values, arguments, writes)


@pytest.mark.rule("Z3", "Z5", "Z6", "Z9", "Z11", "Z12", "Z19")
@given(drawn())
def test_frazil_reads_arrays_of_zarr2(zarr2: Zarr2, case: Drawn) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, expected = Path(folder) / "h.zr3", case.values.copy()
        zarr2.create(store, "g/a", case.values, **case.arguments)
        for box, part in case.writes:
            zarr2.write(store, "g/a", part, box)
            expected[tuple(slice(*ends) for ends in box)] = part
        array = frazil.open_array(store, path="g/a", mode="r+")
        read = np.asarray(array[...], array.dtype)  # a scalar of text has its own dtype
        assert agree(read, zarr2.read(store, "g/a"))
        assert agree(read, expected)
        assert dict(array.attrs) == case.arguments["attributes"]
        assert array.chunks == tuple(case.arguments["chunks"])
        array[...] = case.values
        assert agree(zarr2.read(store, "g/a"), case.values)


@pytest.mark.rule("Z13", "Z14")
def test_consolidated_and_deleted(zarr2: Zarr2, tmp_path: Path) -> None:
    store = tmp_path / "h.zr3"
    zarr2.group(store, "", {})
    zarr2.group(store, "g", {"k": "v"})
    for name in ("x", "y"):
        zarr2.create(store, f"g/{name}", np.arange(4, dtype="i4"), chunks=[2])
    zarr2.delete(store, "g/x")
    group = frazil.open_group(store, "r+", path="g")
    assert (list(group), dict(group.attrs)) == (["y"], {"k": "v"})
    new = group.create_array("x", shape=4, dtype="i4", chunks=2)
    assert new[...].tolist() == [0, 0, 0, 0]
    assert zarr2.read(store, "g/x").tolist() == [0, 0, 0, 0]
