"""The metadata of arrays in snapshots: the closed lists, and metadata outside of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from tests.formats import documents, strategies
from tests.formats.encoding import Raw, Single, Wide, encoded

from frazil._kernel import skip_values
from frazil.errors import FormatError
from frazil.formats.alpha.zarr_metadata import (
    NamedConfiguration,
    ZarrArrayMetadata,
    pack_metadata,
    read_metadata,
)
from frazil.formats.msgpack import Reader

GOOD = ZarrArrayMetadata(
    (10, 10), "float32", (5, 5), "Slash", b"\x7f\xc0\0\0", (NamedConfiguration("bytes", {"endian": "little"}),), ()
)


def read(data: bytes) -> ZarrArrayMetadata:
    reader = Reader(data, "snapshots/X")
    metadata = read_metadata(reader)
    reader.finish("the metadata")
    return metadata


def written(metadata: ZarrArrayMetadata) -> bytes:
    return pack_metadata(metadata)


def test_the_example_byte_for_byte() -> None:
    data = encoded(documents.metadata(fill_value={"Float32": Raw(b"\xca\x7f\xc0\0\0")}))
    assert data.startswith(
        bytes.fromhex("98 92 0a 0a a7")
        + b"float32"
        + bytes.fromhex("92 05 05 a5")
        + b"Slash\x81\xa7Float32\xca\x7f\xc0\0\0"
    )
    assert read(data) == GOOD
    assert written(GOOD) == data


@given(strategies.metadata())
def test_metadata_come_back(metadata: ZarrArrayMetadata) -> None:
    data = written(metadata)
    assert read(data) == metadata
    assert written(read(data)) == data


@given(strategies.metadata())
def test_metadata_come_back_from_named_fields(metadata: ZarrArrayMetadata) -> None:
    data, fields, at = written(metadata), [], 1
    while at < len(data):
        fields.append(Raw(data[at : (at := skip_values(data, at, 1))]))
    assert read(encoded(documents.named("metadata", fields))) == metadata


@pytest.mark.parametrize(
    ("data_type", "variant", "value", "fill"),
    [
        ("bool", "Bool", True, True),
        ("int8", "Int8", -128, -128),
        ("int64", "Int64", Wide(5), 5),
        ("uint64", "UInt64", 2**64 - 1, 2**64 - 1),
        ("float16", "Float16", Single(1.5), struct.pack(">f", 1.5)),
        ("float32", "Float32", Raw(b"\xca\x7f\xa0\0\x01"), b"\x7f\xa0\0\x01"),
        ("float32", "Float32", 0.5, struct.pack(">f", 0.5)),
        ("float64", "Float64", -0.0, struct.pack(">d", -0.0)),
        ("float64", "Float64", 3, struct.pack(">d", 3)),
        ("complex64", "Complex64", [Single(1.0), Single(-2.0)], struct.pack(">ff", 1, -2)),
        ("complex128", "Complex128", [1.0, float("inf")], struct.pack(">dd", 1, float("inf"))),
        ("string", "String", "ünï", "ünï"),
        ("bytes", "Bytes", [0, 255, 7], b"\0\xff\x07"),
    ],
)
def test_fill_values_of_every_kind(data_type: str, variant: str, value: object, fill: object) -> None:
    metadata = read(encoded(documents.metadata(data_type=data_type, fill_value={variant: value})))
    assert metadata.fill_value == fill
    assert type(metadata.fill_value) is type(fill)
    assert read(written(metadata)) == metadata


@pytest.mark.parametrize("encoding", ["Slash", "Dot", "Default"])
def test_chunk_key_encodings(encoding: str) -> None:
    assert read(encoded(documents.metadata(chunk_key_encoding=encoding))).chunk_key_encoding == encoding


def test_members_that_may_be_absent() -> None:
    fields = dict(zip(documents.METADATA, documents.metadata(), strict=True))
    del fields["storage_transformers"], fields["dimension_names"]
    metadata = read(
        encoded({**fields, "codecs": [{"name": "crc32c"}, ["zstd", None], {"configuration": {}, "name": "x"}]})
    )
    assert metadata.storage_transformers is metadata.dimension_names is None
    assert metadata.codecs == (NamedConfiguration("crc32c"), NamedConfiguration("zstd"), NamedConfiguration("x", {}))


BAD = [
    ({"data_type": "float8"}, "data type 'float8' is unknown"),
    ({"data_type": 5}, "data_type must be a string"),
    ({"shape": [10]}, "chunk_shape must have 1 lengths"),
    ({"shape": [10, -1]}, "shape must be from 0"),
    ({"shape": [10, 1.0]}, "number without fraction, found a 64-bit float"),
    ({"chunk_shape": [5, 0]}, "chunk_shape must be from 1"),
    ({"chunk_shape": None}, "chunk_shape must be an array, found nil"),
    ({"chunk_key_encoding": "Tilde"}, "encoding 'Tilde' is unknown"),
    ({"fill_value": None}, "fill_value must be a map, found nil"),
    ({"fill_value": {"Int8": 1}}, "variant Float32, found 'Int8'"),
    ({"fill_value": "Float32"}, "a known variant, with its value"),
    ({"fill_value": {"Decimal": 1}}, "a known variant, with its value"),
    ({"fill_value": {"Float32": "NaN"}}, "must be a number, found a string"),
    ({"fill_value": {"Float32": 1e300}}, "fit 32 bits"),
    ({"data_type": "int8", "fill_value": {"Int8": 128}}, "from -128 to 127, found 128"),
    ({"data_type": "uint16", "fill_value": {"UInt16": -1}}, "from 0 to 65535"),
    ({"data_type": "bool", "fill_value": {"Bool": 1}}, "must be a boolean"),
    ({"data_type": "complex64", "fill_value": {"Complex64": [1.0]}}, "real and an imaginary"),
    ({"data_type": "bytes", "fill_value": {"Bytes": [256]}}, "from 0 to 255"),
    ({"data_type": "string", "fill_value": {"String": b"x"}}, "must be a string, found binary"),
    ({"codecs": None}, "codecs must be an array"),
    ({"codecs": [["bytes"]]}, "must have 2 fields, found 1"),
    ({"codecs": [["bytes", [1]]]}, "must be a map, found an array"),
    ({"codecs": [["bytes", {"endian": b"x"}]]}, "found binary data"),
    ({"storage_transformers": "x"}, "must be an array"),
    ({"dimension_names": ["x"]}, "dimension_names must be 2"),
    ({"dimension_names": ["x", 1]}, "must be a string"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_values_outside_the_lists_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read(encoded(documents.metadata(**changes)))
    assert caught.value.key == "snapshots/X"
