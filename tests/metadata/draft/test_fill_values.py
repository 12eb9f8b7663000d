"""Fill values of the draft, both dialects."""

from __future__ import annotations

import base64
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata import data_types_of_all_kinds as kinds
from tests.metadata.draft.test_types import BOTH, DEC2022, OLD
from tests.metadata.refusals import refused

from frazil.errors import MetadataError
from frazil.metadata.draft.fill_values import emit_fill, parse_fill
from frazil.metadata.draft.types import parse_type
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, dump_json, parse_json
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue

NAT = -(2**63)


def kind(dtype: object) -> DataType:
    return CORE_EXTENSIONS.from_numpy(dtype)


def filled(value: object, dtype: object) -> FillValue:
    """The fill value with the bits of this NumPy value."""
    return FillValue(np.array(value, dtype).tobytes(), np.dtype(dtype))  # type: ignore[call-overload]


def read(value: Json, dtype: object, old: bool = False, big: bool = False) -> FillValue:
    return parse_fill(value, kind(dtype), old=old, big=big)


def written(value: object, dtype: object, old: bool = False, big: bool = False) -> Json:
    return emit_fill(filled(value, dtype), kind(dtype), old=old, big=big)


# --- numbers -----------------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.rule("D54", "D53")
def test_booleans_and_integers(old: bool) -> None:
    for value in (True, False):
        assert read(value, "bool", old) == filled(value, "bool")
        assert written(value, "bool", old) is value
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        limits = np.iinfo(name)
        for number in (int(limits.min), 0, 7, int(limits.max)):
            assert read(number, name, old) == filled(number, name)
            assert written(number, name, old) == number
        for outside in (int(limits.min) - 1, int(limits.max) + 1, True, "1", "0x", "NaN", [1], {}):
            with refused("fill_value", "without fraction or exponent"):
                read(outside, name, old)


@pytest.mark.rule("D54", "Z8")
def test_the_old_dialect_is_read_more_freely() -> None:
    one = parse_json(b"1.0")
    for name, value in (("bool", 1), ("int16", one)):
        with refused("fill_value"):
            read(value, name, DEC2022)
        assert read(value, name, OLD) == filled(1, name)
    with refused("fill_value"):
        read(parse_json(b"1.5"), "int16", OLD)
    with refused("fill_value"):
        read(2, "bool", OLD)


@BOTH
@pytest.mark.rule("X6", "Z8")
@given(dtype=kinds.scalars | kinds.nested(kinds.scalars) | kinds.described(kinds.scalars))
def test_null_is_zero(dtype: np.dtype[np.generic], old: bool) -> None:
    data_type = CORE_EXTENSIONS.from_numpy(dtype)
    assert parse_fill(None, data_type, old=old) == data_type.zero
    assert emit_fill(data_type.zero, data_type, old=old) is not None


@BOTH
@pytest.mark.rule("D56", "X12")
@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_floats(name: str, old: bool) -> None:
    for text, value in (("NaN", math.nan), ("Infinity", math.inf), ("+Infinity", math.inf), ("-Infinity", -math.inf)):
        assert read(text, name, old) == filled(value, name)
    assert written(math.inf, name, old) == ("Infinity" if old else "+Infinity")
    assert written(-math.inf, name, old) == "-Infinity"
    assert written(math.nan, name, old) == "NaN"
    for number in (0, 0.0, 0.25, -1.5, 3):
        assert read(number, name, old) == filled(number, name)
    assert read(parse_json(b"-0.0"), name, old) == read(parse_json(b"-0"), name, old) == filled(-0.0, name)
    for value in ("nan", "inf", "+NaN", True, [1.0], "0x00", {}, "0b1"):
        with refused("fill_value"):
            read(value, name, old)


@BOTH
@pytest.mark.rule("D55", "X13")
def test_bits_of_floats(old: bool) -> None:
    one = "00" + "1" * 7 + "0" * 23
    assert read("0x3f800000", "float32", old) == read("0b" + one, "float32", old) == filled(1, "float32")
    assert read("0x7e01", "float16", old).data == np.array(0x7E01, "u2").tobytes()
    for value in ("0x3f8", "0x3f80000000", "0b1", "0x3f80000g", "0b" + "2" * 32, "0X3f800000"):
        with refused("fill_value", "float32"):
            read(value, "float32", old)
    payload = FillValue(np.array(0x7FF8000000000123, "u8").tobytes(), np.dtype("f8"))
    assert emit_fill(payload, kind("f8"), old=False) == "0x7ff8000000000123"
    with refused("fill_value", "cannot express the NaN 0x7ff8000000000123"):
        emit_fill(payload, kind("f8"), old=True)


@BOTH
@pytest.mark.rule("D55")
def test_bits_of_64_bit_integers(old: bool) -> None:
    assert read("0x" + "f" * 16, "int64", old) == filled(-1, "int64")
    assert read("0x" + "f" * 16, "uint64", old) == filled(2**64 - 1, "uint64")
    assert read("0b" + "0" * 63 + "1", "uint64", old) == filled(1, "uint64")


@BOTH
@pytest.mark.rule("X13", "D56", "Z8")
def test_complex_numbers(old: bool) -> None:
    assert read([1, 2.5], "c8", old) == filled(1 + 2.5j, "c8")
    assert read(["NaN", "+Infinity"], "c16", old).data == np.array([math.nan, math.inf]).tobytes()
    assert (
        read(["0x3f800000", "0x40000000"], "c8", old) == read("0x3f80000040000000", "c8", old) == filled(1 + 2j, "c8")
    )
    assert read("0b" + "0" * 128, "c16", old) == filled(0, "c16")
    assert written(complex(math.inf, -1), "c8", old) == ["Infinity" if old else "+Infinity", -1.0]
    for value in (1, [1], [1, 2, 3], "NaN", "0x3f800000", {}):
        with refused("fill_value"):
            read(value, "c8", old)
    with refused("fill_value[1]", "float32"):
        read([1, "x"], "c8", old)


@BOTH
@pytest.mark.parametrize("name", ["complex_bfloat16", "complex_float8_e4m3fn"])
def test_pairs_of_small_floats_have_their_own_bits(name: str, old: bool) -> None:
    """The names are not the draft's: a data type of a user's registry may be such a pair."""
    pair = CORE_EXTENSIONS.data_type(Extension(name))
    fill = parse_fill([1.5, -2.0], pair, old=old)
    assert fill == pair.parse_fill([1.5, -2.0])
    assert emit_fill(fill, pair, old=old) == [1.5, -2.0]


# --- bytes and strings -------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.rule("X13", "Z8")
def test_raw_bytes(old: bool) -> None:
    data = b"\x01\xff\x80"
    for value in ("0x01ff80", "0x01FF80", "0b000000011111111110000000", [1, 255, 128], base64.b64encode(data).decode()):
        assert read(value, "V3", old).data == data
    assert read(0, "V3", old) == kind("V3").zero
    assert emit_fill(FillValue(data, np.dtype("V3")), kind("V3"), old=False) == "0x01ff80"
    assert emit_fill(FillValue(data, np.dtype("V3")), kind("V3"), old=True) == "Af+A"
    for value in ("0x01ff", [1, 2], [1, 2, 256], "Af+", "Af+AAAAA", True, 1, {}):
        with refused("fill_value" if value != [1, 2, 256] else "fill_value[2]"):
            read(value, "V3", old)


@BOTH
@pytest.mark.rule("D57", "Z8")
def test_byte_strings(old: bool) -> None:
    assert read("YWI=", "S4", old) == filled(b"ab", "S4")
    assert read("", "S4", old) == kind("S4").zero
    assert written(b"ab", "S4", old) == "YWI="
    for value in ("YWJjZGU=", "YWI", "a b=", 1, ["a"]):
        with refused("fill_value", "base64"):
            read(value, "S4", old)


@BOTH
@pytest.mark.rule("D57", "Z8")
def test_text(old: bool) -> None:
    assert read("año", "U4", old) == filled("año", "U4")
    assert read("", "U4", old) == kind("U4").zero
    assert written("\U0001f9ca x", "U4", old, big=True) == "\U0001f9ca x"
    for value in ("12345", 1, ["a"]):
        with refused("fill_value", "at most 4 characters"):
            read(value, "U4", old)


@pytest.mark.rule("Z8")
@pytest.mark.parametrize("dtype", ["S3", "U3", "V3", [("a", "i4")]])
def test_zero_of_strings_and_structs_in_the_old_dialect(dtype: object) -> None:
    for value in (0, "", parse_json(b"0.0")):
        assert read(value, dtype, OLD) == kind(dtype).zero
    if dtype != "V3":
        with refused("fill_value"):
            read(0, dtype, DEC2022)


# --- datetimes and structs ---------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.rule("D57", "Z8", "D103")
def test_datetimes(old: bool) -> None:
    assert read(3, "M8[s]", old) == filled(np.datetime64(3, "s"), "M8[s]")
    assert read("NaT", "m8[s]", old) == read(NAT, "m8[s]", old) == filled("NaT", "m8[s]")
    assert written("NaT", "M8[D]", old) == NAT
    assert written(np.timedelta64(-3, "D"), "m8[D]", old) == -3
    for value in (2**63, "nat", 1.5, True, "2020-01-01", [1]):
        with refused("fill_value"):
            read(value, "M8[s]", old)


DOG = [("name", "U3"), ("age", "i4"), ("at", "M8[s]"), ("tag", "S2")]


@BOTH
@pytest.mark.rule("D57", "Z8")
def test_structs_are_the_bytes_of_their_element_as_it_is_stored(old: bool) -> None:
    little = np.array(("Rex", 9, 7, b"a"), np.dtype(DOG).newbyteorder("<"))
    big = little.astype(little.dtype.newbyteorder(">"))
    for stored, is_big in ((little, False), (big, True)):
        text = base64.b64encode(stored.tobytes()).decode()
        fill = read(text, DOG, old, is_big)
        assert fill == filled(little, DOG)
        assert emit_fill(fill, kind(DOG), old=old, big=is_big) == text
    as_object: Json = {"name": "Rex", "age": 9, "at": 7, "tag": "YQ=="}
    assert read(as_object, DOG, old) == filled(little, DOG)
    for value in ("", "AAAA", 5, ["Rex", 9, 7, "a"]):
        if (value, old) != ("", OLD):
            with refused("fill_value"):
                read(value, DOG, old)


@BOTH
def test_structs_of_both_byte_orders_are_in_memory_as_stored(old: bool) -> None:
    fields: Json = [["a", ">i4"], ["b", "<i4"]]
    data_type, big = parse_type(
        {"extension": "https://purl.org/zarr/spec/extensions/data-types/struct/1.0", "type": fields},
        old=old,
        extensions=CORE_EXTENSIONS,
    )
    element = np.array((1, 2), [("a", ">i4"), ("b", "<i4")])
    text = base64.b64encode(element.tobytes()).decode()
    fill = parse_fill(text, data_type, old=old, big=big)
    assert fill.data == element.tobytes()
    assert emit_fill(fill, data_type, old=old, big=big) == text
    assert parse_fill({"a": 1, "b": 2}, data_type, old=old) == fill == data_type.fill_from_user((1, 2))


# --- there and back ----------------------------------------------------------------------------------------------------------------

data_types = kinds.typed(kinds.scalars | kinds.nested(kinds.scalars) | kinds.described(kinds.scalars))


@given(data_types, st.booleans(), st.booleans(), st.data())
def test_fill_values_round_trip(data_type: DataType, old: bool, big: bool, data: st.DataObject) -> None:
    fill = FillValue(kinds.bits(data.draw, data_type), data_type.dtype)
    try:
        emitted = emit_fill(fill, data_type, old=old, big=big)
    except MetadataError as error:
        emitted, message = None, error.message
    if emitted is None:
        assert (old, "NaN" in message) == (True, True)
        return
    document = parse_json(dump_json({"fill_value": emitted}))
    assert isinstance(document, dict)
    assert parse_fill(document["fill_value"], data_type, old=old, big=big) == fill
