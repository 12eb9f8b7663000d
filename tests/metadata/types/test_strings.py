"""Strings of fixed length: documents, NumPy dtypes, fill values, values of users."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata import data_types_of_all_kinds as kinds
from tests.metadata.refusals import refused

from frazil.errors import MetadataError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, dump_json, parse_json
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue

BYTES, TEXT = "null_terminated_bytes", "fixed_length_utf32"


def read(name: str, **configuration: Json) -> DataType:
    return CORE_EXTENSIONS.data_type(Extension(name, configuration))


def filled(value: object, dtype: str) -> FillValue:
    return FillValue(np.array(value, dtype).tobytes(), np.dtype(dtype))


@pytest.mark.parametrize("length", [1, 4, 100, 2**24])
def test_documents_and_dtypes(length: int) -> None:
    data_type = read(BYTES, length_bytes=length)
    assert (data_type.dtype, data_type.swaps, data_type.label) == (np.dtype(f"S{length}"), (), f"{BYTES}[{length}]")
    assert CORE_EXTENSIONS.from_numpy(f"S{length}") == data_type
    data_type = read(TEXT, length_bytes=4 * length)
    assert (data_type.dtype, data_type.swaps) == (np.dtype(f"U{length}"), ((0, 4, length),))
    assert data_type.label == f"{TEXT}[{length}]"
    for order in "<>":
        assert CORE_EXTENSIONS.from_numpy(f"{order}U{length}") == data_type
    assert data_type.to_json() == {"name": TEXT, "configuration": {"length_bytes": 4 * length}}
    assert CORE_EXTENSIONS.data_type_from_user(data_type.to_json()) == data_type


@pytest.mark.parametrize("name", [BYTES, TEXT])
@pytest.mark.parametrize("configuration", [{}, {"length_bytes": 0}, {"length_bytes": 2**26 + 4}, {"length_bytes": "4"}])
def test_bad_lengths_are_refused(name: str, configuration: dict[str, Json]) -> None:
    with refused("data_type.configuration.length_bytes", "length_bytes"):
        read(name, **configuration)
    with refused("data_type.configuration.endian", "endian"):
        read(name, length_bytes=8, endian="big")
    with refused("data_type.configuration.length_bytes", "a multiple of 4"):
        read(TEXT, length_bytes=6)


@pytest.mark.parametrize("dtype", ["S", "U", str, bytes])
def test_a_length_is_needed(dtype: object) -> None:
    with refused("data_type", "a length"):
        CORE_EXTENSIONS.from_numpy(dtype)


def test_fill_values_of_byte_strings() -> None:
    data_type = CORE_EXTENSIONS.from_numpy("S4")
    for value, text in ((b"", ""), (b"ab", "YWI="), (b"a\0b", "YQBi"), (b"\xff\xfe\xfd\xfc", "//79/A==")):
        assert data_type.parse_fill(text) == filled(value, "S4")
        assert data_type.emit_fill(filled(value, "S4")) == text
    assert data_type.parse_fill("YWIAAA==") == filled(b"ab", "S4")
    for bad in ("YWJjZGU=", "YWI", "?", 0, None, ["a"]):
        with refused("fill_value", "base64"):
            data_type.parse_fill(bad)
    for value in (b"ab", "ab", bytearray(b"ab"), np.bytes_(b"ab"), np.str_("ab"), np.array(b"ab")):
        assert data_type.fill_from_user(value) == filled(b"ab", "S4")
    for wrong in ("abcde", b"abcde", "\u00e9", 5, [b"a"]):
        with pytest.raises(MetadataError):
            data_type.fill_from_user(wrong)


def test_fill_values_of_text() -> None:
    data_type = CORE_EXTENSIONS.from_numpy("U3")
    for text in ("", "a", "a\u00f1\U0001f9ca", "\0a"):
        assert data_type.parse_fill(text) == filled(text, "U3")
        assert data_type.emit_fill(filled(text, "U3")) == text
        assert data_type.fill_from_user(text) == data_type.fill_from_user(np.str_(text)) == filled(text, "U3")
        assert data_type.fill_from_user(np.array(text, ">U3")) == filled(text, "U3")
    for bad in ("abcd", 5, None, b"a", ["a"]):
        with refused("fill_value", "at most 3 characters"):
            data_type.parse_fill(bad)  # type: ignore[arg-type]


def test_code_points_that_json_cannot_express_are_refused() -> None:
    data_type = CORE_EXTENSIONS.from_numpy("U2")
    for units in ([0xD83E, 0xDDCA], [0x110000, 0]):
        with refused("fill_value", "Unicode text"):
            data_type.emit_fill(FillValue(np.array(units, np.uint32).tobytes(), data_type.dtype))
    half = FillValue(np.array([0xD83E, 0x41], np.uint32).tobytes(), data_type.dtype)
    document = parse_json(dump_json({"fill_value": data_type.emit_fill(half)}))
    assert isinstance(document, dict)
    assert data_type.parse_fill(document["fill_value"]) == half


@given(kinds.typed(kinds.strings), st.data())
def test_fill_values_are_exact(data_type: DataType, data: st.DataObject) -> None:
    fill = FillValue(kinds.bits(data.draw, data_type), data_type.dtype)
    assert data_type.parse_fill(data_type.emit_fill(fill)) == fill
    assert data_type.fill_from_user(fill) == fill
