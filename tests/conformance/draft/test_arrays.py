"""The document of an array, member by member: valid forms are read, and every other form is refused by its name (docs/conformance/zarr-draft.md)."""

from __future__ import annotations

import base64
import math
import struct

import numpy as np
import pytest

import frazil
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import MetadataError, UnknownExtensionError
from frazil.stores import MemoryStore
from tests.conformance.draft.documents import (
    DATETIME_EXAMPLE,
    EXAMPLE,
    MISSING,
    array,
    changed,
    codec,
    document,
    extension_type,
    old,
    one,
    opened,
    refusal,
    refused,
    refused_old,
    sharding,
)

NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def fill(data_type: object, value: object, **change: object) -> np.ndarray:
    """The fill value, read from an array of one element that was never written."""
    return opened(one(array([1], [1], data_type, fill_value=value, **change)))[...]


@pytest.mark.rule("D41", "D43", "D44", "D47")
def test_the_example_of_the_document() -> None:
    read = opened(one(EXAMPLE))
    assert (read.shape, read.chunks, read.dtype) == ((10000, 1000), (1000, 100), np.dtype("f8"))
    assert dict(read.attrs) == {"foo": 42, "bar": "apples", "baz": [1, 2, 3, 4]}
    assert np.isnan(read[9999, 999])


@pytest.mark.rule("X6", "D103")
def test_the_example_with_datetimes() -> None:
    read = opened(one(DATETIME_EXAMPLE))
    assert read.dtype == np.dtype("M8[ns]")
    assert read[0, 0] == np.datetime64(0, "ns")


@pytest.mark.rule("D11", "D12", "D14")
@pytest.mark.parametrize("name", NAMES)
def test_core_types_are_little_endian(name: str) -> None:
    dtype = np.dtype(name)
    values = np.array([1, 0], dtype)
    fill_value = False if name == "bool" else [0.0, 0.0] if dtype.kind == "c" else 0
    store = one(array([2], [2], name, fill_value=fill_value), {"c0": values.astype(dtype.newbyteorder("<")).tobytes()})
    read = opened(store, mode="r+")
    assert read.dtype == dtype
    assert read[...].tolist() == values.tolist()
    read[1] = 1
    assert store.get("data/a/c0") == np.array([1, 1], dtype.newbyteorder("<")).tobytes()
    made = MemoryStore()
    frazil.create_array(made, path="a", shape=1, dtype=name, zarr_format="draft")
    assert document(made)["data_type"] == name


@pytest.mark.rule("D13")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_raw_bytes(size: int) -> None:
    name, value = f"r{8 * size}", bytes(range(1, size + 1))
    store = one(array([2], [2], name, fill_value="0x" + "00" * size), {"c0": bytes(size) + value})
    read = opened(store)
    assert read.dtype == np.dtype(f"V{size}")
    assert read[1].tobytes() == value
    made = MemoryStore()
    frazil.create_array(made, path="a", shape=1, dtype=name, fill_value=list(value), zarr_format="draft")
    assert document(made)["fill_value"] == f"0x{value.hex()}"
    assert document(made)["data_type"] == name
    assert opened(made)[0].tobytes() == value


@pytest.mark.rule("D14", "D43")
@pytest.mark.parametrize(
    "name", ["", "float", "int7", "r12", "r0", "r", "Float64", "f8 ", "<<f8", "<i3", "S4", None, 8, ["int8"], True]
)
def test_invalid_types_are_refused(name: object) -> None:
    assert str(refused(array(data_type=name))).startswith("data_type")


@pytest.mark.rule("D15")
def test_an_extension_type_has_a_uri_and_a_type() -> None:
    uri = "https://example.org/types/fancy"
    for value, member in (
        ({"type": "x"}, "data_type.extension"),
        ({"extension": uri}, "data_type.type"),
        ({"extension": 3, "type": "x"}, "data_type.extension"),
        ({"extension": uri, "type": "x", "fallback": 3}, "data_type.fallback"),
        ({}, "data_type.extension"),
    ):
        assert str(refused(array(data_type=value))).startswith(member), value


@pytest.mark.rule("D15", "D16")
def test_fallbacks() -> None:
    unknown = {"extension": "https://example.org/types/fancy", "type": {"bits": 16}}
    chunks = {"c0": b"\1\0\2\0"}
    for fallback, values in (
        ("uint16", [1, 2]),
        (["nothing", {"extension": "https://example.org/other", "type": "x"}, "int16", "r16"], [1, 2]),
        (["<u2"], [1, 2]),
        ("r16", [b"\1\0", b"\2\0"]),
    ):
        described = {**unknown, "fallback": fallback}
        fill_value = "0x0000" if fallback == "r16" else 0
        with pytest.warns(UserWarning, match="example.org/types/fancy") as warned:
            read = opened(one(array([2], [2], described, fill_value=fill_value), chunks))
        assert len(warned) == 1
        assert read[...].tolist() == values
    with pytest.warns(UserWarning, match="fancy"):
        read = opened(
            one(
                array([1], [1], {**unknown, "fallback": extension_type("datetime", "<M8[s]")}), {"c0": b"\5" + bytes(7)}
            )
        )
    assert read[0] == np.datetime64(5, "s")
    for none in (MISSING, None, [], "nothing", ["nothing", "int7"]):
        described = {**unknown} if none is MISSING else {**unknown, "fallback": none}
        error = refusal(one(array([2], [2], described)))
        assert isinstance(error, UnknownExtensionError), none
        assert str(error.path).startswith("data_type")


@pytest.mark.rule("D15")
def test_fallbacks_can_be_refused() -> None:
    unknown = {"extension": "https://example.org/types/fancy", "type": "x", "fallback": "uint8"}
    error = refusal(one(array(data_type=unknown)), registry=DEFAULT_REGISTRY.without_fallbacks())
    assert isinstance(error, UnknownExtensionError)
    assert str(error.path).startswith("data_type")


@pytest.mark.rule("D41")
@pytest.mark.parametrize("member", ["shape", "data_type", "chunk_grid", "chunk_memory_layout", "fill_value"])
def test_mandatory_members(member: str) -> None:
    assert refused(changed(array(), {member: MISSING})) == member


@pytest.mark.rule("X14")
def test_extensions_and_attributes_may_be_absent_and_are_written() -> None:
    store = one(array(extensions=MISSING, attributes=MISSING), {"c0": b"\1\2"})
    assert opened(store)[...].tolist() == [1, 2, 0, 0]
    made = MemoryStore()
    frazil.create_array(made, path="a", shape=1, dtype="u1", codecs=[], zarr_format="draft")
    assert set(document(made)) - {"codecs"} == {
        "shape", "data_type", "chunk_grid", "chunk_memory_layout", "fill_value", "extensions", "attributes",
    }  # fmt: skip


@pytest.mark.rule("D42")
@pytest.mark.parametrize("shape", [3, "3", None, {}, [3.0], ["3"], [None], [-1], [True], [[3]], [2**63]])
def test_shapes(shape: object) -> None:
    assert str(refused(changed(array(), {"shape": shape}))).startswith("shape")


@pytest.mark.rule("D44", "X7")
def test_chunk_grids() -> None:
    grid = {"type": "regular", "chunk_shape": [2], "separator": "/"}
    for value, member in (
        (None, "chunk_grid"),
        ([2], "chunk_grid"),
        ({"chunk_shape": [2], "separator": "/"}, "chunk_grid.type"),
        ({"type": "regular", "separator": "/"}, "chunk_grid.chunk_shape"),
        ({**grid, "type": "rectangular"}, "chunk_grid"),
        ({**grid, "chunk_shape": [2, 2]}, "chunk_grid.chunk_shape"),
        ({**grid, "chunk_shape": []}, "chunk_grid.chunk_shape"),
        ({**grid, "chunk_shape": [0]}, "chunk_grid.chunk_shape"),
        ({**grid, "chunk_shape": [-2]}, "chunk_grid.chunk_shape"),
        ({**grid, "chunk_shape": [2.0]}, "chunk_grid.chunk_shape"),
        ({**grid, "chunk_shape": 2}, "chunk_grid.chunk_shape"),
        ({**grid, "more": 1}, "chunk_grid.more"),
        ({"name": "regular", "configuration": {"chunk_shape": [2]}}, "chunk_grid"),
    ):
        assert str(refused(array(chunk_grid=value))).startswith(member), value
    store = one(array(chunk_grid={"type": "regular", "chunk_shape": [2]}), {"c1": b"\1\2"})
    assert opened(store)[...].tolist() == [0, 0, 1, 2]
    unknown = {"extension": "https://example.org/grids/rectilinear", "type": "rectilinear", "lengths": [1, 3]}
    assert isinstance(refusal(one(array(chunk_grid=unknown))), UnknownExtensionError)


@pytest.mark.rule("D21")
@pytest.mark.parametrize("separator", ["", "-", "//", "./", "_", 1, None, ["/"]])
def test_separators(separator: object) -> None:
    grid = {"type": "regular", "chunk_shape": [2], "separator": separator}
    assert refused(array(chunk_grid=grid)) == "chunk_grid.separator"
    assert refused_old(array(chunk_grid=grid)) == "chunk_grid.separator"


@pytest.mark.rule("D26")
def test_memory_layouts() -> None:
    for value in ("c", "A", "", None, 1, ["C"], {}, {"extension": "https://example.org/z"}, {"type": "Z"}):
        assert str(refused(array(chunk_memory_layout=value))).startswith("chunk_memory_layout"), value
    error = refusal(one(array(chunk_memory_layout={"extension": "https://example.org/z-order", "type": "Z"})))
    assert isinstance(error, UnknownExtensionError)
    assert str(error.path).startswith("chunk_memory_layout")


@pytest.mark.rule("D45", "D38")
def test_extensions_of_an_array() -> None:
    harmless = {"extension": "https://example.org/units", "must_understand": False, "configuration": {"unit": "m"}}
    store = one(array(extensions=[harmless]), {"c0": b"\1\2"})
    assert opened(store)[...].tolist() == [1, 2, 0, 0]
    error = refusal(one(array(extensions=[{**harmless, "must_understand": True}])))
    assert isinstance(error, UnknownExtensionError)
    assert str(error.path).startswith("extensions[0]")
    for value, member in (
        ({}, "extensions"),
        (["x"], "extensions[0]"),
        ([{"must_understand": True}], "extensions[0].extension"),
        ([{"extension": "https://example.org/x"}], "extensions[0].must_understand"),
        ([{**harmless, "must_understand": None}], "extensions[0].must_understand"),
    ):
        assert refused(array(extensions=value)) == member, value
    opened(store, mode="r+").attrs["a"] = 1
    assert document(store)["extensions"] == [harmless]


@pytest.mark.rule("D46")
def test_attributes() -> None:
    attributes = {"a": [1, 2.5, None, True, {"b": {}}], "": "", "ü": "ß", "filters": "mine"}
    assert dict(opened(one(array(attributes=attributes))).attrs) == attributes
    for value in (None, [], "x", 1):
        assert refused(array(attributes=value)) == "attributes"


@pytest.mark.rule("D47", "D33")
def test_codecs_are_objects_with_uris() -> None:
    gzip = codec("gzip", level=1)
    for value, member in (
        ({}, "codecs"),
        (None, "codecs"),
        (["gzip"], "codecs[0]"),
        ([{"configuration": {}}], "codecs[0].type"),
        ([{"type": 1}], "codecs[0].type"),
        ([gzip, {**gzip, "configuration": []}], "codecs[1].configuration"),
        ([{**gzip, "more": 1}], "codecs[0].more"),
        ([{"name": "gzip", "configuration": {"level": 1}}], "codecs[0]"),
    ):
        assert str(refused(array(codecs=value))).startswith(member), value
    for uri in ("https://example.org/codecs/fancy/1.0", "https://purl.org/zarr/spec/codecs/fancy/1.0", "gzip"):
        error = refusal(one(array(codecs=[gzip, {"type": uri}])))
        assert isinstance(error, UnknownExtensionError)
        assert str(error.path).startswith("codecs[1]")
        assert uri in error.message


@pytest.mark.rule("D48", "D81", "D82")
def test_storage_transformers_are_objects_with_uris() -> None:
    good = sharding([2])
    for value, member in (
        ({}, "storage_transformers"),
        (None, "storage_transformers"),
        (["x"], "storage_transformers[0]"),
        ([{"type": "indexed"}], "storage_transformers[0].extension"),
        (
            [{"extension": good["extension"], "configuration": {"chunks_per_shard": [2]}}],
            "storage_transformers[0].type",
        ),
        ([sharding([2], type="packed")], "storage_transformers[0].type"),
        ([sharding([2], type=1)], "storage_transformers[0].type"),
        ([sharding([2], configuration=MISSING)], "storage_transformers[0].configuration"),
        ([sharding([2], configuration={})], "storage_transformers[0].configuration.chunks_per_shard"),
        (
            [sharding([2], configuration={"chunks_per_shard": 2})],
            "storage_transformers[0].configuration.chunks_per_shard",
        ),
        ([sharding([2, 2])], "storage_transformers[0].configuration.chunks_per_shard"),
        ([sharding([])], "storage_transformers[0].configuration.chunks_per_shard"),
        ([sharding([0])], "storage_transformers[0].configuration.chunks_per_shard"),
        ([sharding([-1])], "storage_transformers[0].configuration.chunks_per_shard"),
        ([sharding([2.0])], "storage_transformers[0].configuration.chunks_per_shard"),
        ([sharding([2], more=1)], "storage_transformers[0].more"),
        ([good, sharding([2, 2])], "storage_transformers[1].configuration.chunks_per_shard"),
    ):
        assert str(refused(array(storage_transformers=value))).startswith(member), value
    unknown = {"extension": "https://example.org/transformers/cloud", "type": "x"}
    error = refusal(one(array(storage_transformers=[good, unknown])))
    assert isinstance(error, UnknownExtensionError)
    assert str(error.path).startswith("storage_transformers[1]")


@pytest.mark.rule("D89")
def test_write_strategies_are_no_part_of_a_document() -> None:
    transformer = sharding([2], configuration={"chunks_per_shard": [2], "order": "morton"})
    assert refused(array(storage_transformers=[transformer])) == "storage_transformers[0].configuration.order"


@pytest.mark.rule("D49", "X8")
@pytest.mark.parametrize(
    "member",
    [
        "compressor",
        "dimension_names",
        "zarr_format",
        "node_type",
        "dimension_separator",
        "filters",
        "chunk_key_encoding",
        "x",
    ],
)
def test_other_members_are_refused(member: str) -> None:
    for value in (None, "x", {"must_understand": False}):
        error = refusal(one(array(**{member: value})))
        assert error.path == member
        assert error.key == "meta/a.array.json"


@pytest.mark.rule("D53", "X6")
def test_fill_values_are_required_and_the_default_is_written_out() -> None:
    assert fill("int16", None).tolist() == [0]
    for dialect in ("draft", "draft-2021"):
        for dtype, zero in (("bool", False), ("int32", 0), ("float64", 0.0)):
            store = MemoryStore()
            frazil.create_array(store, path="a", shape=1, dtype=dtype, zarr_format=dialect)
            key = "meta/a.array.json" if dialect == "draft" else "meta/root/a.array.json"
            assert document(store, key)["fill_value"] == zero
            assert document(store, key)["fill_value"] is not None


@pytest.mark.rule("D54")
def test_fill_values_of_booleans_and_integers() -> None:
    assert fill("bool", True).tolist() == [True]
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        limits = np.iinfo(name)
        for value in (limits.min, limits.max):
            assert fill(name, int(value)).tolist() == [value]
        for value in (limits.min - 1, limits.max + 1, 1.0, 1.5, "1", True, [1], {}):
            assert refused(array(data_type=name, fill_value=value)) == "fill_value", (name, value)
    assert refused('{"shape": [1], "data_type": "int8", "chunk_grid": {"type": "regular", "chunk_shape": [1], "separator": "/"},'
                   '"chunk_memory_layout": "C", "fill_value": 1e0, "extensions": [], "attributes": {}}') == "fill_value"  # fmt: skip
    for value in (0, 1, "true", "", [True]):
        assert refused(array(data_type="bool", fill_value=value)) == "fill_value", value


@pytest.mark.rule("D55", "X13")
def test_fill_values_of_any_bits() -> None:
    assert fill("float32", "0x7fc00001").tobytes() == struct.pack("<I", 0x7FC00001)
    assert fill("float64", "0x8000000000000000").tobytes() == struct.pack("<d", -0.0)
    assert fill("float16", "0b0011110000000001").tobytes() == struct.pack("<H", 0x3C01)
    assert fill("r24", "0x010203").tobytes() == b"\1\2\3"
    for name, value in (
        ("float32", "0x7fc0000"),
        ("float32", "0x7fc000010"),
        ("float32", "7fc00001"),
        ("float32", "0x7fc0000g"),
        ("float16", "0b001111000000000"),
        ("float16", "0b0011110000000002"),
        ("uint8", "0x01"),
        ("int16", "0b0000000000000001"),
        ("r24", "0x0102"),
        ("r24", "0x01020304"),
        ("float32", "0x"),
        ("float32", ""),
    ):
        assert refused(array(data_type=name, fill_value=value)) == "fill_value", value


@pytest.mark.rule("D56", "X12")
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_fill_values_that_json_has_no_numbers_for(name: str) -> None:
    assert math.isnan(fill(name, "NaN")[0])
    for text, value in (("+Infinity", math.inf), ("Infinity", math.inf), ("-Infinity", -math.inf)):
        assert fill(name, text).tolist() == [value]
    for text in ("nan", "inf", "+inf", "infinity", "-NaN", "1.0", True, [1.0]):
        assert refused(array(data_type=name, fill_value=text)) == "fill_value", text
    for dialect, text in (("draft", "+Infinity"), ("draft-2021", "Infinity")):
        store = MemoryStore()
        frazil.create_array(store, path="a", shape=1, dtype=name, fill_value=math.inf, zarr_format=dialect)
        key = "meta/a.array.json" if dialect == "draft" else "meta/root/a.array.json"
        assert document(store, key)["fill_value"] == text


@pytest.mark.rule("X13")
def test_fill_values_of_complex_numbers_and_raw_bytes() -> None:
    assert fill("complex64", [1.5, -2.0]).tolist() == [1.5 - 2j]
    read = fill("complex128", ["NaN", "-Infinity"])[0]
    assert math.isnan(read.real)
    assert read.imag == -math.inf
    assert fill("r16", [1, 255]).tobytes() == b"\1\xff"
    for name, value in (
        ("complex64", [1.0]),
        ("complex64", [1, 2, 3]),
        ("complex64", ["x", 1]),
        ("r16", [1]),
        ("r16", [1, 256]),
    ):
        assert refused(array(data_type=name, fill_value=value)) is not None, value
    store = MemoryStore()
    frazil.create_array(
        store, path="a", shape=1, dtype="complex64", fill_value=complex(math.inf, -1), zarr_format="draft"
    )
    assert document(store)["fill_value"] == ["+Infinity", -1.0]
    store = MemoryStore()
    frazil.create_array(store, path="a", shape=1, dtype="r16", fill_value=[1, 255], zarr_format="draft")
    assert document(store)["fill_value"] == "0x01ff"


@pytest.mark.rule("D57", "D102", "D103", "D104", "D105")
def test_fill_values_of_extension_types() -> None:
    assert fill(extension_type("datetime", "<M8[s]"), 5)[0] == np.datetime64(5, "s")
    assert np.isnat(fill(extension_type("datetime", "<m8[s]"), "NaT")[0])
    assert fill(extension_type("string", "S4"), base64.b64encode(b"ab").decode())[0] == b"ab"
    assert fill(extension_type("string", "<U4"), "ab")[0] == "ab"
    assert fill(extension_type("complex", "<c8"), [1, 2])[0] == 1 + 2j
    value = np.array((3, b"x"), [("n", "<u2"), ("s", "S2")])
    described = extension_type("struct", [["n", "<u2"], ["s", "S2"]])
    assert fill(described, base64.b64encode(value.tobytes()).decode())[0] == value


@pytest.mark.rule("X6", "Z8")
def test_null_in_the_older_dialect_is_zero() -> None:
    for data_type in (
        "<f8",
        "bool",
        {"extension": "TODO: bytestring array protocol URL", "type": "|S4", "fallback": None},
    ):
        read = opened(old(array([1], [1], data_type, fill_value=None)))
        assert read[...].tobytes() == bytes(read.dtype.itemsize)


def test_contradictory_documents_are_refused_whole() -> None:
    store = one(array(codecs=[codec("gzip", level=1)], compressor={"codec": "x"}))
    assert refusal(store).path == "compressor"
    with pytest.raises(MetadataError):
        frazil.open_array(store, path="a", mode="r+")
