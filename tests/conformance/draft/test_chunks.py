"""Chunks: where an element is, in what order, and the output of the codec chain; bytes by hand (docs/conformance/zarr-draft.md)."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

import frazil
from frazil.codecs import ArrayToArray, Blosc, ChunkSpec, Gzip
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import DataError, UnknownExtensionError
from frazil.stores import MemoryStore
from tests.conformance.draft.documents import (
    MISSING,
    array,
    changed,
    codec,
    document,
    encoded,
    extension_type,
    one,
    opened,
    refusal,
    refused,
)

BIG, LITTLE = codec("endian", endian="big"), codec("endian", endian="little")
GZIP = codec("gzip", level=1)
BLOSC = codec("blosc", cname="lz4", clevel=5, shuffle=1, blocksize=0)


def written(values: object, dtype: str, **arguments: object) -> MemoryStore:
    """The stored bytes of a new array of one chunk with these values."""
    store = MemoryStore()
    data = np.asarray(values, dtype)
    frazil.create_array(store, path="a", data=data, chunks=data.shape, zarr_format="draft", **arguments)
    return store


def one_chunk(document_: dict[str, object], chunk: bytes) -> np.ndarray:
    name = "/".join("0" * len(document_["shape"]))
    return opened(one(document_, {f"c{name}": chunk}))[...]


@pytest.mark.rule("D17", "D18")
def test_grids() -> None:
    """The document's example: element (7, 150, 900) is in chunk (1, 7, 2), at (2, 10, 100)."""
    store = one(array([10, 200, 3000], [5, 20, 400]))
    read = opened(store, mode="r+")
    assert read.nchunks == 2 * 10 * 8
    read[7, 150, 900] = 9
    keys = [key for key in store.list() if key.startswith("data/")]
    assert keys == ["data/a/c1/7/2"]
    chunk = np.frombuffer(store.get(keys[0]) or b"", "u1").reshape(5, 20, 400)
    assert np.argwhere(chunk).tolist() == [[2, 10, 100]]
    assert read[9, 199, 2999] == 0


@pytest.mark.rule("D19")
def test_lengths_of_chunks() -> None:
    assert str(refused(array([4], [0]))).startswith("chunk_grid.chunk_shape")
    assert opened(one(array([0, 4], [2, 2])))[...].shape == (0, 4)
    assert opened(one(array([0, 4], [0, 2])))[...].shape == (0, 4)


@pytest.mark.rule("D20", "D21", "X7")
@pytest.mark.parametrize(("separator", "name"), [("/", "c1/23/45"), (".", "c1.23.45")])
def test_names_of_chunks(separator: str, name: str) -> None:
    shape = [2, 24, 46]
    grid = {"type": "regular", "chunk_shape": [1, 1, 1], "separator": separator}
    read = opened(one(array(shape, [1, 1, 1], chunk_grid=grid), {name: b"\7"}))
    assert read[1, 23, 45] == 7
    store = MemoryStore()
    encoding = {"name": "default", "separator": separator}
    frazil.create_array(
        store,
        path="a",
        shape=shape,
        dtype="u1",
        chunks=(1, 1, 1),
        codecs=[],
        chunk_key_encoding=encoding,
        zarr_format="draft",
    )[1, 23, 45] = 7
    assert store.get(f"data/a/{name}") == b"\7"
    assert document(store)["chunk_grid"] == grid


@pytest.mark.rule("D22", "X25")
def test_both_keys_of_arrays_without_dimensions_are_read() -> None:
    assert opened(one(array([], []), {"c": b"\7"}))[()] == 7
    assert opened(one(array([], []), {"c0": b"\7"}))[()] == 7
    assert opened(one(array([], []), {"c": b"\6", "c0": b"\7"}))[()] == 6
    for before in ({}, {"c": b"\1"}):
        store = one(array([], []), before)
        opened(store, mode="r+")[()] = 5
        assert store.get("data/a/c") == b"\5"
        assert opened(store)[()] == 5
    store = one(array([], []), {"c0": b"\1"})
    opened(store, mode="r+")[()] = 5
    assert opened(store)[()] == 5


@pytest.mark.rule("D23")
def test_chunks_at_the_edge_are_whole() -> None:
    """The document's example, 30 by 30 in chunks of 16 by 16: outside elements are the fill value."""
    store = one(array([30, 30], [16, 16], fill_value=9))
    opened(store, mode="r+")[...] = 1
    chunk = np.frombuffer(store.get("data/a/c0/1") or b"", "u1").reshape(16, 16)
    assert (chunk[:, :14] == 1).all()
    assert (chunk[:, 14:] == 9).all()
    assert isinstance(_short(), DataError)


def _short() -> Exception:
    with pytest.raises(DataError) as caught:
        opened(one(array([3], [2]), {"c1": b"\1"}))[...]
    return caught.value


@pytest.mark.rule("D24")
def test_missing_chunks_are_the_fill_value() -> None:
    assert (
        opened(one(array([4], [2], "float32", fill_value="NaN"), {"c0": struct.pack("<2f", 1, 2)}))[1:].tolist()[0] == 2
    )
    assert math.isnan(opened(one(array([4], [2], "float32", fill_value="NaN")))[3])


@pytest.mark.rule("D25", "D27", "D30", "D31", "D32")
def test_layouts() -> None:
    """C: the last dimension fastest, F: the first. The bytes are those of the reversed dimensions."""
    for layout, stored in (("C", bytes([1, 2, 3, 4, 5, 6])), ("F", bytes([1, 4, 2, 5, 3, 6]))):
        store = one(array([2, 3], [2, 3], chunk_memory_layout=layout), {"c0/0": stored})
        assert opened(store)[...].tolist() == [[1, 2, 3], [4, 5, 6]]
        opened(store, mode="r+")[...] = [[6, 5, 4], [3, 2, 1]]
        again = {"C": bytes([6, 5, 4, 3, 2, 1]), "F": bytes([6, 3, 5, 2, 4, 1])}[layout]
        assert store.get("data/a/c0/0") == again
    values = np.arange(24, dtype="<u2").reshape(2, 3, 4)
    document_ = array([2, 3, 4], [2, 3, 4], "uint16", chunk_memory_layout="F", codecs=[BIG, GZIP])
    chunk = gzip.compress(values.T.astype(">u2").tobytes())
    assert one_chunk(document_, chunk).tolist() == values.tolist()


@pytest.mark.rule("D25", "D27")
def test_arrays_in_layout_f_are_written() -> None:
    values = np.arange(6, dtype="<u2").reshape(2, 3)
    store = written(values, "<u2", codecs=[{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes"])
    assert document(store)["chunk_memory_layout"] == "F"
    assert document(store).get("codecs", []) == []
    assert store.get("data/a/c0/0") == values.tobytes(order="F")


@pytest.mark.rule("D29", "D30", "D31", "D32")
def test_arrays_and_bytes_are_converted() -> None:
    values = np.array([1, 2, 259], "<i4")
    for codecs, chunk in (
        (MISSING, values.tobytes()),
        ([], values.tobytes()),
        ([GZIP], gzip.compress(values.tobytes())),
        ([LITTLE], values.tobytes()),
        ([LITTLE, GZIP], gzip.compress(values.tobytes())),
        ([BIG], values.astype(">i4").tobytes()),
        ([BIG, GZIP, GZIP], gzip.compress(gzip.compress(values.astype(">i4").tobytes()))),
    ):
        assert one_chunk(array([3], [3], "int32", codecs=codecs), chunk).tolist() == values.tolist(), codecs


class Reversed(ArrayToArray):
    """A codec of arrays, which uses the attributes of its input: the elements in reverse order, along the first dimension."""

    name: ClassVar[str] = "https://example.org/reversed/1.0"
    given: ClassVar[list[tuple[tuple[int, ...], str]]] = []

    def configuration(self) -> dict[str, object] | None:
        return None

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return spec

    def encode(self, array: NDArray[np.generic], spec: ChunkSpec) -> NDArray[np.generic]:
        self.given.append((array.shape, array.dtype.str))
        return array[::-1]

    def decode(self, array: NDArray[np.generic], spec: ChunkSpec) -> NDArray[np.generic]:
        return array[::-1]


@pytest.mark.rule("D29")
def test_a_codec_of_bytes_gets_the_elements_in_c_order_and_little_endian() -> None:
    values = np.arange(1, 25).reshape(2, 3, 4)
    for data_type, stored in (("int16", "<i2"), ("float64", "<f8"), ("complex64", "<c8"), ("uint8", "u1")):
        chunk = gzip.compress(values.astype(stored).tobytes(order="C"))
        made = array(
            [2, 3, 4], [2, 3, 4], data_type, codecs=[GZIP], fill_value=[0, 0] if data_type == "complex64" else 0
        )
        store = one(made, {"c0/0/0": chunk})
        read = opened(store, mode="r+")
        assert (read[...] == values).all()
        read[...] = np.asfortranarray(values[::-1])
        assert gzip.decompress(store.get("data/a/c0/0/0") or b"") == values[::-1].astype(stored).tobytes(order="C")
        in_f = changed(made, {"chunk_memory_layout": "F"})
        assert (
            opened(one(in_f, {"c0/0/0": gzip.compress(values.astype(stored).tobytes(order="F"))}))[...] == values
        ).all()


@pytest.mark.rule("D29")
def test_a_codec_of_arrays_gets_bytes_as_elements_of_one_byte() -> None:
    """The document allows it to decode the elements of the byte string, which are those of an array of uint8 of one dimension."""
    registry = DEFAULT_REGISTRY.with_codec(Reversed)
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    for codecs, expected, given in (
        ([{"type": Reversed.name}], values[::-1].tobytes(), ((2, 3), "<i4")),
        ([LITTLE, {"type": Reversed.name}], values.tobytes()[::-1], ((24,), "|u1")),
        ([BIG, {"type": Reversed.name}], values.astype(">i4").tobytes()[::-1], ((24,), "|u1")),
    ):
        store = one(array([2, 3], [2, 3], "int32", codecs=codecs))
        made = opened(store, mode="r+", registry=registry)
        Reversed.given.clear()
        made[...] = values
        assert Reversed.given[-1] == given
        assert store.get("data/a/c0/0") == expected
        assert opened(store, registry=registry)[...].tolist() == values.tolist()


@pytest.mark.rule("D28", "X28")
def test_codecs_that_cannot_take_what_they_are_given() -> None:
    for codecs in ([GZIP, BIG], [BLOSC, LITTLE], [GZIP, GZIP, BIG]):
        assert str(refused(array(codecs=codecs))).startswith(f"codecs[{len(codecs) - 1}]"), codecs
    assert str(refused(array(codecs=[BIG, BIG]))).startswith("codecs[1]")


@pytest.mark.rule("D28")
def test_bytes_that_are_no_chunk() -> None:
    for codecs, chunk in (
        ([], b"\1"),
        ([], b"\1\2\3"),
        ([GZIP], b"\1\2"),
        ([GZIP], gzip.compress(b"\1")),
        ([BLOSC], b"\1\2"),
        ([], b""),
    ):
        with pytest.raises(DataError) as caught:
            one_chunk(array([2], [2], codecs=codecs), chunk)
        assert caught.value.key == "data/a/c0", codecs


@pytest.mark.rule("D33", "X4a")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("folder", ["codec", "codecs"])
@pytest.mark.parametrize("version", ["", "/1.0", "/1.1"])
def test_uris_of_codecs(scheme: str, folder: str, version: str) -> None:
    uri = f"{scheme}://purl.org/zarr/spec/{folder}/gzip{version}"
    document_ = array([2], [2], codecs=[{"type": uri, "configuration": {"level": 1}}])
    assert one_chunk(document_, gzip.compress(b"\1\2")).tolist() == [1, 2]


@pytest.mark.rule("X4a")
def test_the_uri_that_is_written() -> None:
    for codecs, name in (
        ([Gzip(level=1)], "gzip"),
        ([Blosc()], "blosc"),
        ([{"name": "bytes", "configuration": {"endian": "big"}}], "endian"),
    ):
        store = written([1, 2], "<u2", codecs=codecs)
        assert [entry["type"] for entry in document(store)["codecs"]] == [
            f"https://purl.org/zarr/spec/codecs/{name}/1.0"
        ]


@pytest.mark.rule("D99", "X11")
@pytest.mark.parametrize("cname", ["lz4", "lz4hc", "blosclz", "zstd", "zlib", "snappy"])
def test_blosc(cname: str) -> None:
    """The item size of the header is that of the data type; -1 shuffles bits of single bytes, and bytes of longer items."""
    for dtype, size in (("uint8", 1), ("int32", 4), ("complex128", 16)):
        for shuffle in (0, 1, 2, -1):
            document_ = array([512], [512], dtype, fill_value=[0, 0] if size == 16 else 0)
            document_["codecs"] = [codec("blosc", cname=cname, clevel=5, shuffle=shuffle, blocksize=0)]
            store = one(document_)
            values = (np.arange(512) % 100).astype(dtype)
            opened(store, mode="r+")[...] = values
            chunk = store.get("data/a/c0") or b""
            flags = {0: 0, 1: 1, 2: 4, -1: 4 if size == 1 else 1}[shuffle]
            assert chunk[3] == size
            assert chunk[2] & 5 == (flags if size > 1 or shuffle != 1 else chunk[2] & 5), (dtype, shuffle)
            assert opened(store)[...].tolist() == values.tolist()


@pytest.mark.rule("D99")
def test_the_configuration_of_blosc() -> None:
    good: dict[str, object] = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    for member, values in {
        "cname": ["lz5", "", None, 1],
        "clevel": [-1, 10, 5.0, "5", None, True],
        "shuffle": [3, -2, "shuffle", 1.0, None, True],
        "blocksize": [-1, 1.5, "0", None],
    }.items():
        for value in values:
            path = f"codecs[0].configuration.{member}"
            assert refused(array(codecs=[codec("blosc", **{**good, member: value})])) == path, (member, value)
    assert refused(array(codecs=[codec("blosc", **good, more=1)])) == "codecs[0].configuration.more"


@pytest.mark.rule("D100")
def test_endian() -> None:
    for name, values in (("int32", [1, 258]), ("float64", [1.5, -2.0]), ("complex128", [1 + 2j, 3.5j])):
        data = np.array(values, name)
        fill = [0, 0] if data.dtype.kind == "c" else 0
        for endian, stored in (("big", data.astype(data.dtype.newbyteorder(">"))), ("little", data)):
            document_ = array([2], [2], name, fill_value=fill, codecs=[codec("endian", endian=endian)])
            assert one_chunk(document_, stored.tobytes()).tolist() == data.tolist()
    for endian in ("Big", "", None, 1, "native", ">"):
        assert refused(array(codecs=[codec("endian", endian=endian)])) == "codecs[0].configuration.endian", endian
    assert refused(array(codecs=[codec("endian")])) == "codecs[0].configuration.endian"


@pytest.mark.rule("D101")
@pytest.mark.parametrize("level", range(10))
def test_gzip(level: int) -> None:
    store = one(array([64], [64], codecs=[codec("gzip", level=level)]))
    opened(store, mode="r+")[...] = 7
    chunk = store.get("data/a/c0") or b""
    assert chunk[:3] == b"\x1f\x8b\x08"
    assert zlib.decompress(chunk, 31) == b"\7" * 64
    assert opened(store)[...].tolist() == [7] * 64
    for value in (-1, 10, 1.0, "1", None, True):
        assert refused(array(codecs=[codec("gzip", level=value)])) == "codecs[0].configuration.level"


@pytest.mark.rule("X2")
def test_both_spellings_of_types() -> None:
    for spelling, name in (
        ("<f8", "float64"),
        ("f8", "float64"),
        ("|u1", "uint8"),
        ("u1", "uint8"),
        ("i1", "int8"),
        ("<i4", "int32"),
        ("|b1", "bool"),
    ):
        fill_value = False if name == "bool" else 0
        assert opened(one(array(data_type=spelling, fill_value=fill_value))).dtype == np.dtype(name), spelling
    values = np.array([1, 258], ">i4")
    store = one(array([2], [2], ">i4"), {"c0": values.tobytes()})
    assert opened(store)[...].tolist() == [1, 258]
    opened(store, mode="r+")[0] = 259
    assert store.get("data/a/c0") == np.array([259, 258], ">i4").tobytes()
    assert refused(array(data_type=">i4", codecs=[BIG])) is not None
    assert refused(array(data_type=">i4", codecs=[LITTLE])) is not None
    store = written([1, 258], "int32", codecs=[{"name": "bytes", "configuration": {"endian": "big"}}])
    assert (document(store)["data_type"], document(store)["codecs"]) == ("int32", [BIG])
    assert store.get("data/a/c0") == values.tobytes()


@pytest.mark.rule("X3")
def test_the_types_that_the_table_forgets() -> None:
    for name in ("int64", "uint64"):
        assert one_chunk(array([1], [1], name), b"\5" + bytes(7)).tolist() == [5]
        assert document(written([5], name))["data_type"] == name


@pytest.mark.rule("X9", "D102")
def test_complex_numbers_in_both_forms() -> None:
    values = np.array([1 + 2j, -3.5j], "<c8")
    uri = "https://zarr-specs.readthedocs.io/en/core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html"
    for described in (
        "complex64",
        "<c8",
        extension_type("complex", "<c8"),
        extension_type("complex", "complex64"),
        {"extension": uri, "type": "<c8", "fallback": None},
    ):
        assert one_chunk(array([2], [2], described, fill_value=[0, 0]), values.tobytes()).tolist() == values.tolist()
    assert document(written(values, "<c8"))["data_type"] == "complex64"


@pytest.mark.rule("X10")
def test_byte_orders_of_extension_types() -> None:
    for prefix in "<>":
        values = np.array([1, 258], f"{prefix}M8[s]")
        described = extension_type("datetime", f"{prefix}M8[s]")
        assert one_chunk(array([2], [2], described), values.tobytes()).tolist() == values.tolist()
        assert refused(array(data_type=described, codecs=[BIG])) is not None
        assert refused(array(data_type=described, codecs=[LITTLE])) is not None
    stored = document(written(values, ">M8[s]"))
    assert stored["data_type"]["type"] == "<M8[s]"
    assert not any("endian" in entry["type"] for entry in stored.get("codecs", []))


@pytest.mark.rule("D33")
def test_a_codec_under_a_uri() -> None:
    uri = "https://example.org/codecs/deflate"
    registry = DEFAULT_REGISTRY.with_codec(frazil.codecs.Zlib, uri)
    described = array(codecs=[{"type": uri, "configuration": {"level": 1}}])
    store = one(described)
    opened(store, mode="r+", registry=registry)[...] = [1, 2, 3, 4]
    assert opened(store, registry=registry)[...].tolist() == [1, 2, 3, 4]
    assert isinstance(refusal(store), UnknownExtensionError)
    assert encoded(document(store)) == encoded(described)


@pytest.mark.rule("D15", "D103", "D104", "D105", "X30", "X31")
@pytest.mark.parametrize(
    ("dtype", "extension", "of"),
    [
        ("M8[ns]", "datetime", "<M8[ns]"),
        ("m8[D]", "datetime", "<m8[D]"),
        ("S4", "string", "S4"),
        ("U4", "string", "<U4"),
        ([("a", "i4"), ("b", "U2")], "struct", [["a", "<i4"], ["b", "<U2"]]),
        (
            [("p", [("x", "f8"), ("y", "f8")]), ("n", "u1")],
            "struct",
            [["p", [["x", "<f8"], ["y", "<f8"]]], ["n", "|u1"]],
        ),
    ],
    ids=str,
)
def test_extension_types_are_written_with_a_fallback(dtype: object, extension: str, of: object) -> None:
    """Bytes of this size are one, so that readers that do not know the extension can read them; structs as NumPy describes them."""
    values = np.zeros(3, dtype)
    values.view("u1")[0] = 65
    store = written(values, values.dtype, codecs=[])
    stored = document(store)["data_type"]
    assert stored["extension"] == f"https://purl.org/zarr/spec/extensions/data-types/{extension}/1.0"
    assert stored["type"] == of
    fallbacks = stored["fallback"] if isinstance(stored["fallback"], list) else [stored["fallback"]]
    assert f"r{8 * values.dtype.itemsize}" in fallbacks or "int64" in fallbacks
    assert store.get("data/a/c0") == values.tobytes()
    read = opened(store)
    assert read.dtype == values.dtype
    assert read[...].tobytes() == values.tobytes()
