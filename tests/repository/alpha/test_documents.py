"""Metadata of nodes as defined in documents and as stored in snapshots: equal to the bit, or refused by name."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import strategies
from tests.formats.archives import NAMES, files_in

from frazil.errors import InvalidInputError, MetadataError, UnknownExtensionError
from frazil.formats.alpha.snapshots import SnapshotFile, decode_snapshot
from frazil.formats.alpha.zarr_metadata import (
    DATA_TYPES,
    NamedConfiguration,
    ZarrArrayMetadata,
    pack_metadata,
    read_metadata,
)
from frazil.formats.msgpack import Reader
from frazil.formats.nodes import NodeSnapshot
from frazil.formats.snapshots import SnapshotInfo
from frazil.metadata.extensions import Extension, NamedExtension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import DefaultKeys, V2Keys
from frazil.metadata.json_text import Json, NonFinite
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.v3.documents import emit_node, node_document, parse_node
from frazil.repository.alpha import documents
from frazil.repository.alpha.documents import from_attributes, from_metadata, to_attributes, to_metadata
from frazil.repository.alpha.format import AlphaSnapshots
from frazil.stores.memory import MemoryStore

NUMBERS = tuple(name for name in DATA_TYPES if name not in {"string", "bytes"})
BYTES = Extension("bytes", {"endian": "little"})
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | strategies.texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strategies.texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(strategies.texts, json_values, max_size=3)
names = st.sampled_from(["bytes", "zstd", "numcodecs.delta", "https://example.com/codec", "no-such.codec"])
extensions = st.builds(Extension, names, objects)


@st.composite
def arrays(draw: st.DrawFn) -> ArrayMetadata:
    """Arrays of any core type, with any bits of a fill value."""
    data_type = CORE_EXTENSIONS.data_type_from_user(draw(st.sampled_from(NUMBERS)))
    size = data_type.itemsize
    bits = draw(
        st.sampled_from([b"\0", b"\1"]) if data_type.name == "bool" else st.binary(min_size=size, max_size=size)
    )
    shape = draw(st.lists(st.integers(0, 2**31), max_size=4))
    return ArrayMetadata(
        shape=shape,
        data_type=data_type,
        fill_value=FillValue(bits, data_type.dtype),
        chunk_grid=RegularGrid([draw(st.integers(1, 2**63 - 1)) for _ in shape]),
        chunk_key_encoding=DefaultKeys("/"),
        codecs=draw(st.lists(extensions, min_size=1, max_size=3)),
        attributes=draw(objects),
        dimension_names=draw(st.none() | st.just([draw(st.none() | strategies.texts) for _ in shape])),
        storage_transformers=draw(st.lists(extensions, max_size=2)),
    )


RULES = AlphaSnapshots(MemoryStore()).rules(SnapshotFile(SnapshotInfo(bytes(12), 0, ""), 0))  # of the alpha library


def an_array(dtype: object = "float32", **members: object) -> ArrayMetadata:
    data_type = CORE_EXTENSIONS.data_type_from_user(dtype)
    made: dict[str, object] = {
        "shape": (4, 6),
        "data_type": data_type,
        "fill_value": data_type.zero,
        "chunk_grid": RegularGrid((2, 3)),
        "chunk_key_encoding": DefaultKeys("/"),
        "codecs": [BYTES],
    }
    return ArrayMetadata(**{**made, **members})  # type: ignore[arg-type]


def stored(data: ZarrArrayMetadata) -> ZarrArrayMetadata:
    """As the next reader of the snapshot sees it."""
    return read_metadata(Reader(pack_metadata(data), None))


# --- there and back ------------------------------------------------------------------------------------------------------------------


@given(arrays())
def test_metadata_of_documents_round_trips(metadata: ArrayMetadata) -> None:
    data = stored(from_metadata(metadata))
    attributes = from_attributes(metadata)
    assert to_metadata(data, attributes, CORE_EXTENSIONS) == metadata
    assert parse_node(emit_node(to_metadata(data, attributes, CORE_EXTENSIONS))) == metadata


@given(arrays())
def test_our_documents_round_trip(metadata: ArrayMetadata) -> None:
    data = from_metadata(metadata)
    assert from_metadata(to_metadata(data, None, CORE_EXTENSIONS)) == data


@given(objects)
def test_groups(attributes: dict[str, Json]) -> None:
    group = GroupMetadata(attributes=attributes)
    assert to_attributes(from_attributes(group)) == group.attributes
    assert from_attributes(group) is not group.attributes
    assert to_attributes(None) == to_attributes({}) == {}


@pytest.mark.parametrize("first", range(0, 0x10000, 0x1000))
def test_every_float16_survives(first: int) -> None:
    for bits in range(first, first + 0x1000):
        single = documents.single_of_half(bits)
        assert documents.half_of_single(single) == bits
        if bits & 0x7FFF <= 0x7C00:
            number = np.array(bits, np.uint16).view(np.float16)
            assert np.array(single, np.uint32).view(np.float32) == number


@pytest.mark.parametrize(
    ("single", "half"),
    [
        (0x7FC00000, 0x7E00),  # the NaN of all libraries
        (0xFFC00000, 0xFE00),
        (0x7F800001, 0x7E00),  # a payload that does not fit
        (0x7FC02001, 0x7E01),
        (0x3F800000, 0x3C00),
        (0x3F801000, 0x3C00),  # half way: rounded to even
        (0x3F803000, 0x3C02),
        (0x47800000, 0x7C00),  # 65536 becomes infinity, as in NumPy
        (0x33000000, 0x0000),
        (0x33000001, 0x0001),
    ],
)
def test_float16_of_others(single: int, half: int) -> None:
    assert documents.half_of_single(single) == half


@pytest.mark.parametrize("name", NAMES)
def test_arrays_that_the_library_wrote(name: str) -> None:
    """Each is read, except those of no fixed size; its form is preserved if nothing else was changed."""
    seen = 0
    for key, value in files_in(name, "snapshots").items():
        nodes = decode_snapshot(value, key).nodes
        for path in nodes:
            node = nodes.get(path)
            assert isinstance(node, NodeSnapshot)
            assert not isinstance(node.attributes, tuple)
            if node.array is None:
                to_attributes(node.attributes)
                continue
            data = node.array.metadata
            if data.data_type in {"string", "bytes"}:
                with pytest.raises(UnknownExtensionError, match=data.data_type):
                    to_metadata(data, None, CORE_EXTENSIONS)
                continue
            metadata = to_metadata(data, node.attributes, CORE_EXTENSIONS)
            assert from_metadata(metadata, like=data) == data
            assert from_attributes(metadata) == (node.attributes or {})
            assert from_metadata(metadata.with_shape([n + 1 for n in data.shape]), like=data) == data._replace(
                shape=tuple(n + 1 for n in data.shape)
            )
            seen += 1
    assert seen > 10


@given(strategies.metadata())
def test_whatever_is_stored_is_read_or_refused(data: ZarrArrayMetadata) -> None:
    try:
        metadata = to_metadata(data, None, CORE_EXTENSIONS)
    except (MetadataError, UnknownExtensionError) as error:
        refused = error
    else:
        assert parse_node(json.dumps(node_document(metadata)).encode()).shape == data.shape
        assert from_metadata(metadata, like=data) == data
        return
    assert refused.path is not None


def test_forms_of_others_are_kept() -> None:
    data = ZarrArrayMetadata(
        (3,),
        "float16",
        (2,),
        "Default",
        b"\x7f\xc0\x00\x01",
        (NamedConfiguration("bytes", {}), NamedConfiguration("zstd", {"level": float("nan")})),
        (),
    )
    metadata = to_metadata(data, {"a": [float("nan"), {"b": float("-inf")}]}, CORE_EXTENSIONS)
    assert metadata.chunk_key_encoding == DefaultKeys("/"), "the keys that a session shows"
    assert metadata.attributes == {"a": [NonFinite("NaN"), {"b": NonFinite("-Infinity")}]}
    assert metadata.codecs[1].configuration == {"level": "NaN"}
    assert from_metadata(metadata, like=data) == data
    changed = metadata.with_members(fill_value=metadata.data_type.fill_from_user(1.5), codecs=[BYTES])
    again = from_metadata(changed, like=data)
    assert (again.fill_value, again.codecs) == (
        struct.pack(">f", 1.5),
        (NamedConfiguration("bytes", {"endian": "little"}),),
    )
    assert (again.chunk_key_encoding, again.storage_transformers) == ("Default", ())
    other = from_metadata(
        metadata.with_members(
            data_type=CORE_EXTENSIONS.from_numpy("f8"), fill_value=CORE_EXTENSIONS.from_numpy("f8").zero
        ),
        like=data,
    )
    assert other.fill_value == bytes(8)


def test_codecs_have_a_configuration_always() -> None:
    """The alpha library gives zarr-python `"configuration": null` for a codec without one, and that array cannot be opened."""
    data = from_metadata(an_array(codecs=[Extension("bytes"), Extension("numcodecs.shuffle"), Extension("crc32c")]))
    expected = tuple([NamedConfiguration(name, {}) for name in ("bytes", "numcodecs.shuffle", "crc32c")])
    assert data.codecs == expected


# --- data types of users -------------------------------------------------------------------------------------------------------------


class Fixed(DataType):
    """A user type for values whose size the format does not support: elements of four bytes."""

    __slots__ = ()

    def parse_bytes(self, value: Json, path: str) -> bytes:
        return (value.encode() if isinstance(value, str) else bytes(value)).ljust(4, b"\0")  # type: ignore[arg-type]

    def emit_bytes(self, data: bytes) -> Json:
        return data.rstrip(b"\0").decode() if self.name == "string" else list(data)

    def user_bytes(self, value: object, path: str) -> bytes:
        return self.parse_bytes(value, path)  # type: ignore[arg-type]


class Family(NamedExtension[DataType]):
    __slots__ = ()

    def from_numpy(self, dtype: np.dtype[np.generic]) -> DataType | None:
        return None


@pytest.mark.parametrize(("name", "fill"), [("string", "ün"), ("bytes", b"\0\xff\x07\0")])
def test_types_of_users_for_strings_and_bytes(name: str, fill: str | bytes) -> None:
    known = CORE_EXTENSIONS.with_data_type(Family(name, lambda extension, path: Fixed(name, np.dtype("V4"))))
    data = ZarrArrayMetadata((3,), name, (2,), "Slash", fill, (NamedConfiguration("bytes", {}),))
    metadata = to_metadata(data, None, known)
    assert metadata.data_type.name == name
    assert from_metadata(metadata) == from_metadata(metadata, like=data) == data


def test_a_type_that_only_has_a_name_of_the_list() -> None:
    other = Fixed("float32", np.dtype("V4"))
    known = CORE_EXTENSIONS.with_data_type(Family("float32", lambda extension, path: other))
    with pytest.raises(MetadataError, match="float32"):
        to_metadata(from_metadata(an_array()), None, known)
    with pytest.raises(MetadataError, match="float32"):
        from_metadata(an_array(data_type=other, fill_value=FillValue(bytes(4), other.dtype)))


# --- metadata that a snapshot cannot hold --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "label", "hint"),
    [
        ("r24", "r24", "uint8, with one more dimension of length 3"),
        ("M8[ms]", "datetime64", "int64"),
        ("m8[ms]", "timedelta64", "int64"),
        ("U5", "fixed_length_utf32", "uint32, with one more dimension of length 5"),
        ("S5", "null_terminated_bytes", "uint8, with one more dimension of length 5"),
        ([("a", "i2"), ("b", "f4")], "struct", "each field"),
    ],
)
def test_data_types_outside_the_list(dtype: object, label: str, hint: str) -> None:
    with pytest.raises(InvalidInputError, match=label) as caught:
        from_metadata(an_array(np.dtype(dtype) if isinstance(dtype, list) else dtype), freedoms=False)
    assert "alpha format of Icechunk" in caught.value.message
    assert caught.value.path == "data_type"
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "dtype", ["r24", "M8[25ms]", "m8[D]", "U5", "S1", np.dtype([("a", "<i2"), ("b", "<f4"), ("c", "S3")])]
)
def test_other_data_types_are_kept_as_in_their_documents(dtype: object) -> None:
    metadata = an_array(dtype)
    data = stored(from_metadata(metadata))
    assert data.data_type not in DATA_TYPES
    assert to_metadata(data, None, CORE_EXTENSIONS) == metadata
    assert from_metadata(to_metadata(data, None, CORE_EXTENSIONS), like=data) == data


@pytest.mark.parametrize("name", ["no-such", '{"name": "no-such", "configuration": {"a": 1}}', "{", '{"name": 5}', "Ü"])
def test_an_unknown_data_type_is_an_error(name: str) -> None:
    data = from_metadata(an_array("r24"))._replace(data_type=name)
    with pytest.raises((UnknownExtensionError, MetadataError)):
        to_metadata(data, None, CORE_EXTENSIONS)


def test_keys_with_points() -> None:
    metadata = an_array(chunk_key_encoding=DefaultKeys("."))
    assert from_metadata(metadata).chunk_key_encoding == "Dot"
    assert to_metadata(from_metadata(metadata), None, CORE_EXTENSIONS) == metadata
    with pytest.raises(InvalidInputError, match="alpha format of Icechunk") as caught:
        from_metadata(metadata, freedoms=False)
    assert caught.value.path == "chunk_key_encoding"
    slashes = from_metadata(metadata.with_members(chunk_key_encoding=DefaultKeys("/")), like=from_metadata(metadata))
    assert slashes.chunk_key_encoding == "Slash"


@pytest.mark.parametrize(
    ("name", "fill", "json"), [("string", "ün", "ün"), ("bytes", b"\0\xff", "AP8="), ("bytes", b"", "")]
)
def test_strings_and_bytes_have_documents(name: str, fill: str | bytes, json: str) -> None:
    known = CORE_EXTENSIONS
    data = ZarrArrayMetadata((3,), name, (2,), "Slash", fill, (NamedConfiguration("vlen-bytes", {}),))
    metadata = to_metadata(data, None, known)
    assert node_document(metadata)["fill_value"] == json
    assert parse_node(emit_node(metadata), known) == metadata
    assert from_metadata(metadata) == from_metadata(metadata, like=data) == data


class Blocks(RegularGrid):
    __slots__ = ()

    def extension(self) -> Extension:
        return Extension("rectilinear", {"chunk_shape": [2, 3]})


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"chunk_key_encoding": V2Keys("/")}, "chunk_key_encoding"),
        ({"chunk_grid": Blocks((2, 3))}, "chunk_grid"),
        ({"shape": (2**40, 1), "chunk_grid": RegularGrid((1, 1))}, "chunk_grid.configuration.chunk_shape"),
        ({"codecs": [BYTES, Extension("zstd", None, False)]}, "codecs[1].must_understand"),
        ({"codecs": [Extension("bytes", {"a": [1, 2**64]})]}, "codecs[0].configuration.a[1]"),
        ({"storage_transformers": [Extension("other", None, False)]}, "storage_transformers[0].must_understand"),
        ({"unknown": {"mine": {"must_understand": False}}}, "mine"),
        ({"unknown": {"mine too": {"must_understand": False}}}, '["mine too"]'),
        ({"zarr_format": "draft"}, "zarr_format"),
        ({"dimension_names": ["a", "\udc80"]}, "dimension_names[1]"),
    ],
)
def test_members_that_are_refused(members: dict[str, object], path: str) -> None:
    metadata = an_array(**members)
    with pytest.raises(InvalidInputError) as caught:
        AlphaSnapshots(MemoryStore()).node("/a", metadata, RULES)
    assert caught.value.path == path
    assert caught.value.hint is not None or "must be" in caught.value.message


@pytest.mark.parametrize(
    ("attributes", "path"),
    [
        ({"a": {"b": [0, -(2**63) - 1]}}, "attributes.a.b[1]"),
        ({"a": "\ud800"}, "attributes.a"),
        ({"\ud800": 1}, "attributes"),
    ],
)
def test_attributes_that_are_refused(attributes: dict[str, object], path: str) -> None:
    for metadata in (GroupMetadata(attributes=attributes), an_array(attributes=attributes)):
        with pytest.raises(InvalidInputError) as caught:
            from_attributes(metadata, "zarr.json")
        assert caught.value.path == path


def test_groups_with_more_members() -> None:
    copies = parse_node(
        b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline"}, "attributes": {"a": 1}}'
    )
    with pytest.warns(UserWarning, match="cannot hold consolidated_metadata of g/zarr.json"):
        assert from_attributes(copies, "g/zarr.json") == {"a": 1}
    more = parse_node(b'{"zarr_format": 3, "node_type": "group", "mine": {"must_understand": false}}')
    with pytest.raises(InvalidInputError, match="mine") as caught:
        from_attributes(more)
    assert caught.value.path == "mine"


def test_values_that_no_document_may_have() -> None:
    data = from_metadata(an_array())
    for changed, path in (
        (data._replace(shape=(2**63, 1)), "shape[0]"),
        (data._replace(codecs=(NamedConfiguration("Not A Name"),)), "codecs[0].name"),
        (data._replace(codecs=()), "codecs"),
    ):
        with pytest.raises(MetadataError) as caught:
            to_metadata(changed, None, CORE_EXTENSIONS)
        assert caught.value.path == path


def test_refusals_name_the_key_of_the_document() -> None:
    files = AlphaSnapshots(MemoryStore())
    for metadata in (an_array(unknown={"extra": {"must_understand": False}}), an_array("M8[ms]")):
        with pytest.raises(InvalidInputError) as caught:
            files.node("/a/b", metadata, RULES)
        assert caught.value.key == "a/b/zarr.json"
    assert files.node("/a", an_array(), RULES).attributes == {}
