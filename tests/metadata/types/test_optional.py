"""Optional elements: their arrays, fill values, and damaged chunks."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import ChunkDecodeError, MetadataError, UnknownExtensionError
from frazil.metadata.extensions import Extension
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.stores import MemoryStore

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VLEN = {
    "name": "zarrs.vlen",
    "configuration": {
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "big"}}, "crc32c"],
        "data_codecs": ["bytes", {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
        "index_data_type": "uint32",
        "index_location": "end",
    },
}


def optional(name: str, **configuration: object) -> dict:
    return {"name": "zarrs.optional", "configuration": {"name": name, **configuration}}


def data_type(entry: dict) -> DataType:
    return CORE_EXTENSIONS.data_type(Extension(entry["name"], entry["configuration"]))


@given(st.data(), st.sampled_from(["string", "bytes"]), st.sampled_from([None, 4]), st.none() | texts)
def test_text_and_bytes_may_be_missing(data: st.DataObject, name: str, shards: int | None, fill: str | None) -> None:
    def of(value: str | None) -> object:
        return value.encode() if name == "bytes" and value is not None else value

    a = frazil.create_array(MemoryStore(), shape=7, chunks=2, shards=shards, dtype=optional(name), fill_value=of(fill))
    expected = [of(fill)] * 7
    assert a.fill_value == of(fill)
    assert a[...].tolist() == expected
    for _ in range(2):
        part = data.draw(st.slices(7))
        count = len(range(7)[part])
        expected[part] = [of(value) for value in data.draw(st.lists(st.none() | texts, min_size=count, max_size=count))]
        values = np.empty(count, object)
        values[:] = expected[part]
        a[part] = values
        assert frazil.open_array(a.store)[...].tolist() == expected
        assert a[3] == expected[3]


@pytest.mark.parametrize("name", ["string", "bytes"])
def test_bytes_that_no_element_needs_are_dropped_while_many_chunks_are_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The views of optional elements are not contiguous."""
    monkeypatch.setattr(sys.modules["frazil.metadata.types.heap"], "_LEAST_COMPACTED", 0)
    expected = np.empty(17, object)
    expected[:] = [None if at % 3 == 0 else b"%d" % at if name == "bytes" else str(at) for at in range(17)]
    runtime = frazil.Runtime(bytes_in_flight=1)  # so that there are many tasks
    a = frazil.create_array(MemoryStore(), shape=17, chunks=2, dtype=optional(name), runtime=runtime)
    a[...] = expected
    assert a[...].tolist() == expected.tolist()
    assert a[::-3].tolist() == expected[::-3].tolist()


@pytest.mark.parametrize(("name", "value"), [("string", "a"), ("int16", 3)])
def test_an_element_without_dimensions_may_be_missing(name: str, value: object) -> None:
    a = frazil.create_array(MemoryStore(), shape=(), dtype=optional(name))
    for there in (value, None):
        element = there if name == "string" else (there is not None, there or 0)
        a[...] = np.array(element, a.dtype)
        found = frazil.open_array(a.store)[...]
        assert (found.item() if isinstance(found, np.void) else found) == element


@pytest.mark.parametrize("fill", [None, 2.5])
def test_numbers_may_be_missing(fill: float | None) -> None:
    a = frazil.create_array(MemoryStore(), shape=5, chunks=2, dtype=optional("float32"), fill_value=fill)
    whole = (False, 0) if fill is None else (True, fill)
    a[1:3] = [(True, 1.5), (False, 0)]
    assert a[...].tolist() == [whole, (True, 1.5), (False, 0), whole, whole]
    a[...] = np.full(5, a.fill_value)
    assert a.nchunks_initialized == 0


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (optional("uint8"), None),
        (optional("uint8"), [42]),
        (optional("string"), None),
        (optional("string"), [""]),
        (optional("string"), ["ü"]),
        (optional("bytes"), ["AP8="]),
        (optional("zarrs.optional", configuration={"name": "uint8"}), [None]),
        (optional("zarrs.optional", configuration={"name": "uint8"}), [[42]]),
        (optional("numpy.datetime64", configuration={"unit": "s", "scale_factor": 1}), ["NaT"]),
    ],
)
def test_fill_values_are_null_or_a_list_of_one(entry: dict, value: object) -> None:
    kind = data_type(entry)
    assert kind.emit_fill(kind.parse_fill(value)) == value
    assert data_type({"name": kind.name, "configuration": kind.extension().configuration}) == kind


@pytest.mark.parametrize("value", [42, [], [1, 2], ["x"], [None]])
def test_other_fill_values_are_refused(value: object) -> None:
    with pytest.raises(MetadataError):
        data_type(optional("uint8")).parse_fill(value)


def test_text_is_optional_once() -> None:
    with pytest.raises(MetadataError, match="once"):
        data_type(optional("zarrs.optional", configuration={"name": "string"}))
    with pytest.raises(UnknownExtensionError):
        data_type(optional("nothing"))


@given(st.lists(texts, min_size=6, max_size=6), texts)
def test_offsets_and_bytes_have_chains_of_their_own(values: list[str], fill: str) -> None:
    a = frazil.create_array(MemoryStore(), shape=6, chunks=3, dtype="string", codecs=[VLEN], fill_value=fill)
    a[...] = values
    a[2] = fill
    assert a[...].tolist() == [*values[:2], fill, *values[3:]]


@given(st.binary(max_size=60), st.sampled_from(["optional", "vlen"]), st.integers(0, 40), st.integers(0, 40))
def test_damaged_chunks_are_decode_errors(data: bytes, which: str, first: int, second: int) -> None:
    plain = {"index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "data_codecs": ["bytes"]}
    if which == "optional":
        a = frazil.create_array(MemoryStore(), shape=3, dtype=optional("string"), chunks=3, codecs=[])
        chunk = first.to_bytes(8, "little") + second.to_bytes(8, "little") + data
    else:
        vlen = {"name": "zarrs.vlen", "configuration": {**plain, "index_data_type": "uint32"}}
        a = frazil.create_array(MemoryStore(), shape=3, dtype="string", chunks=3, codecs=[vlen])
        chunk = first.to_bytes(8, "little") + data
    a.store.set("c/0", chunk)
    try:
        shape = a[...].shape
    except ChunkDecodeError:
        shape = (3,)
    assert shape == (3,)


def test_the_first_name_that_zarrs_gave_it_is_read() -> None:
    """The data type and the codec had the name `optional` before zarrs added its own prefix."""
    codecs = [{"name": "optional", "configuration": {"mask_codecs": ["packbits"], "data_codecs": ["bytes"]}}]
    a = frazil.create_array(MemoryStore(), shape=5, chunks=2, dtype=optional("uint8"), codecs=codecs)
    a[:3] = np.array([(True, 1), (False, 0), (True, 3)], a.dtype)
    document = a.store.get("zarr.json").replace(b"zarrs.optional", b"optional")
    assert b'"optional"' in document and b"zarrs" not in document
    a.store.put("zarr.json", document)
    again = frazil.open_array(a.store)
    assert again[...].tolist() == a[...].tolist()
    assert again.metadata.data_type == a.metadata.data_type


def test_optional_text_needs_a_codec_of_text() -> None:
    """The codec bytes was accepted, and reading failed with an AssertionError."""
    index = [{"name": "bytes", "configuration": {"endian": "little"}}]
    shards = {"chunk_shape": [2], "codecs": ["bytes"], "index_codecs": index}
    for codecs in (["bytes"], [{"name": "sharding_indexed", "configuration": shards}]):
        with pytest.raises(MetadataError, match="codec bytes encodes only elements of a fixed size"):
            frazil.create_array(MemoryStore(), shape=(4,), dtype=optional("string"), codecs=codecs)
