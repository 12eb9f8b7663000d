"""Fill values: exact to the bit, rounded once, and refused if the data type does not permit them."""

from __future__ import annotations

import math
import struct
import sys
from base64 import b64encode
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.metadata.refusals import refused

from frazil.errors import MetadataError
from frazil.metadata.json_text import dump_json, parse_json
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.fill_values import FillValue, emit_float, infinity_bits, nan_bits, parse_float

FLOATS = ("float16", "float32", "float64")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
CORE = ("bool", *INTEGERS, *FLOATS, "complex64", "complex128", "r8", "r24", "r104")


def data_type(name):
    return CORE_EXTENSIONS.data_type_from_user(name)


def bits(name, text):
    """The bits of a fill value given as JSON text."""
    return int.from_bytes(data_type(name).parse_fill(parse_json(text)).data, sys.byteorder)


# --- every bit pattern -------------------------------------------------------------------------------------------------------------


@given(st.sampled_from(CORE[1:]), st.data())
def test_every_bit_pattern_is_written_and_read_back(name, data):
    kind = data_type(name)
    fill = FillValue(data.draw(st.binary(min_size=kind.itemsize, max_size=kind.itemsize)), kind.dtype)
    text = dump_json(kind.emit_fill(fill))
    assert kind.parse_fill(parse_json(text)) == fill
    assert kind.fill_from_user(fill.scalar) == fill
    assert kind.fill_from_user(fill) == fill


@pytest.mark.rule("K19")
def test_every_float16_is_written_and_read_back():
    patterns = [pattern.to_bytes(2, sys.byteorder) for pattern in range(2**16)]
    values = parse_json(dump_json([emit_float(data) for data in patterns]))
    assert isinstance(values, list)
    assert [parse_float(value, 2, "fill_value") for value in values] == patterns


@given(st.sampled_from(["float32", "float64"]), st.data())
def test_every_nan_is_hexadecimal_but_one(name, data):
    kind = data_type(name)
    size = kind.itemsize
    payload = data.draw(st.integers(1, (1 << (23 if size == 4 else 52)) - 1))
    pattern = data.draw(st.integers(0, 1)) << (8 * size - 1) | infinity_bits(size) | payload
    emitted = kind.emit_fill(FillValue(pattern.to_bytes(size, sys.byteorder), kind.dtype))
    assert emitted == ("NaN" if pattern == nan_bits(size) else f"0x{pattern:0{2 * size}x}")


# --- rounding ----------------------------------------------------------------------------------------------------------------------


def nearest(text: str, size: int) -> int | None:
    """The bits of a decimal number, by comparing exact fractions with all candidates near it: slow, and independent of the code."""
    exact = Fraction(text)
    sign = 1 << (8 * size - 1) if text.startswith("-") else 0
    with np.errstate(over="ignore"):
        guess = np.array(min(abs(exact), Fraction(sys.float_info.max)), dtype=f"f{size}")
    pattern = int(guess.view(f"u{size}"))
    best = min(
        range(max(0, pattern - 2), min(infinity_bits(size), pattern + 2) + 1),
        key=lambda candidate: (abs(value_of(candidate, size) - abs(exact)), candidate & 1),
    )
    return sign | best if best < infinity_bits(size) else None


def value_of(pattern: int, size: int) -> Fraction:
    """The exact value of the bits; for infinity, the next value if exponents continued."""
    precision = {2: 11, 4: 24, 8: 53}[size]
    exponent, fraction = divmod(pattern, 1 << (precision - 1))
    least = 3 - (1 << (8 * size - precision - 1)) - precision
    significand = fraction + (1 << (precision - 1)) if exponent else fraction
    return Fraction(significand) * Fraction(2) ** (least + max(exponent - 1, 0))


@st.composite
def hard_decimals(draw, size):
    """Decimal text at, just below and just above the middle between two neighbours."""
    pattern = draw(st.integers(0, infinity_bits(size) - 1))
    middle = (value_of(pattern, size) + value_of(pattern + 1, size)) / 2
    with localcontext() as context:
        context.prec = 2000
        exact = Decimal(middle.numerator) / Decimal(middle.denominator)
        shift = draw(st.sampled_from([0, 1, -1])) * exact.scaleb(-draw(st.integers(1, 60)))
        return draw(st.sampled_from(["", "-"])) + format(exact + shift, "e")


@pytest.mark.rule("K19")
@pytest.mark.parametrize("name", ["float16", "float32"])
@given(data=st.data())
def test_numbers_round_once_half_to_even(name, data):
    size = data_type(name).itemsize
    text = data.draw(
        hard_decimals(size) | st.floats(allow_nan=False, allow_infinity=False).map(lambda x: format(Decimal(x), "e"))
    )
    expected = nearest(text, size)
    if expected is None:
        with refused("fill_value", f"within {name}", "Infinity"):
            bits(name, text)
    else:
        assert bits(name, text) == expected


@pytest.mark.parametrize("name", FLOATS)
@given(st.integers())
@example(2**24 + 1)
@example(2**24 + 3)
@example(-(2**53 + 1))
@example(2**53 + 2**29 + 1)
@example(2048 + 1)
@example(2**60 + 2**36 + 1)
def test_integers_round_once_half_to_even(name, number):
    size = data_type(name).itemsize
    expected = nearest(str(number), size)
    if expected is None:
        with refused("fill_value"):
            bits(name, str(number))
    else:
        assert bits(name, str(number)) == expected


def test_rounding_twice_would_be_wrong():
    # just above the middle of 1 and its neighbour in float32, by less than a float64 can represent
    text = "1.00000005960464477540"
    assert np.float32(float(text)) == 1.0
    assert bits("float32", text) == 0x3F800001
    assert bits("float32", "1.00000005960464477539") == 0x3F800000


@pytest.mark.parametrize(
    ("name", "text", "pattern"),
    [
        ("float16", "65504", 0x7BFF),
        ("float16", "65519.999", 0x7BFF),
        ("float16", "65519.99999999999999999999", 0x7BFF),
        ("float16", "6e-8", 0x0001),
        ("float16", "2.98023223876953125e-8", 0x0000),
        ("float16", "2.98023223876953125000001e-8", 0x0001),
        ("float16", "-1e-300", 0x8000),
        ("float32", "0.1", 0x3DCCCCCD),
        ("float32", "16777217", 0x4B800000),
        ("float32", "3.4028235677973365e38", 0x7F7FFFFF),
        ("float32", "1e-46", 0x00000000),
        ("float64", "1e-400", 0),
        ("float64", "0.1", 0x3FB999999999999A),
        ("float64", "5e-324", 1),
        ("float64", "-0", 1 << 63),
        ("float32", "-0", 0x80000000),
        ("float32", "-0.0", 0x80000000),
        ("float16", "-0e5", 0x8000),
        ("float32", '"NaN"', 0x7FC00000),
        ("float16", '"NaN"', 0x7E00),
        ("float64", '"NaN"', 0x7FF8000000000000),
        ("float32", '"0x7fc00001"', 0x7FC00001),
        ("float16", '"0x7e01"', 0x7E01),
        ("float32", '"0xFFC00000"', 0xFFC00000),
        ("float64", '"0x7ff0000000000001"', 0x7FF0000000000001),
        ("float32", '"Infinity"', 0x7F800000),
        ("float64", '"-Infinity"', 0xFFF0000000000000),
        ("float16", '"0x0001"', 0x0001),
        ("bool", "true", 1),
        ("int8", "-128", 0x80),
        ("int64", "-9223372036854775808", 1 << 63),
        ("uint64", "18446744073709551615", 2**64 - 1),
        ("int32", "-0", 0),
    ],
)
def test_bits_of_fill_values(name, text, pattern):
    assert bits(name, text) == pattern


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bool", "0", ["true or false", "found 0"]),
        ("bool", '"true"', ["true or false"]),
        ("bool", "null", ["found null"]),
        ("uint8", "256", ["from 0 to 255", "found 256"]),
        ("uint8", "-1", ["from 0 to 255"]),
        ("int8", "128", ["from -128 to 127"]),
        ("int64", "9223372036854775808", ["from -9223372036854775808"]),
        ("uint64", "18446744073709551616", ["18446744073709551615"]),
        ("int32", "1.0", ["without fraction or exponent", "found 1.0"]),
        ("int32", "1e2", ["found 1e2"]),
        ("int32", "true", ["found true"]),
        ("int32", '"1"', ['found "1"']),
        ("int32", "null", ["found null"]),
        ("int32", "[1]", ["found [1]"]),
        ("float32", "null", ["found null"]),
        ("float32", "true", ["found true"]),
        ("float32", '"nan"', ["NaN"]),
        ("float32", '"inf"', ["Infinity"]),
        ("float32", '"+Infinity"', ["Infinity"]),
        ("float32", '"1.5"', ["a number"]),
        ("float32", '"0x7fc0"', ["8 hexadecimal digits"]),
        ("float32", '"0x7fc000000"', ["8 hexadecimal digits"]),
        ("float32", '"0X7fc00000"', ["8 hexadecimal digits"]),
        ("float32", '"0x7fc0_000"', ["8 hexadecimal digits"]),
        ("float32", '"0x7fc0000g"', ["8 hexadecimal digits"]),
        ("float32", '"7fc00000"', ["8 hexadecimal digits"]),
        ("float16", "65520", ["within float16", "found 65520"]),
        ("float16", "-65520.0", ["within float16"]),
        ("float32", "3.4028235677973367e38", ["within float32"]),
        ("float32", "1" + "0" * 400, ["within float32"]),
        ("float64", "2" + "0" * 308, ["within float64"]),
        ("complex64", "1", ["[real, imaginary]"]),
        ("complex64", "[1]", ["two"]),
        ("complex64", "[1, 2, 3]", ["two"]),
        ("complex64", '"NaN"', ["two"]),
        ("r24", "[1, 2]", ["3 integers"]),
        ("r24", "[" + "0," * 23 + "0]", ["3 integers"]),
        ("r24", '"AAAA=="', ["base64"]),
        ("r24", '"AAA"', ["base64"]),
        ("r24", '"AAAAAA=="', ["base64"]),
        ("r24", '"AA!A"', ["base64"]),
        ("r24", "0", ["3 integers"]),
        ("r24", "null", ["3 integers"]),
    ],
)  # fmt: skip
def test_fill_values_outside_a_type_are_refused(name, text, words):
    with refused("fill_value", *words):
        bits(name, text)


@pytest.mark.parametrize(
    ("name", "text", "path"),
    [
        ("complex64", '[1, "nan"]', "fill_value[1]"),
        ("complex64", "[1e39, 1]", "fill_value[0]"),
        ("r24", "[0, 256, 0]", "fill_value[1]"),
        ("r24", "[0, 1.0, 0]", "fill_value[1]"),
        ("r24", "[0, -1, 0]", "fill_value[1]"),
    ],
)
def test_parts_are_named(name, text, path):
    with refused(path):
        bits(name, text)


@pytest.mark.rule("K19")
def test_complex_parts_are_each_exact():
    kind = data_type("complex64")
    fill = kind.parse_fill(parse_json('["0x7fc00001", -0.0]'))
    assert fill.data == struct.pack("=II", 0x7FC00001, 0x80000000)
    assert dump_json(kind.emit_fill(fill)).split() == [b"[", b'"0x7fc00001",', b"-0.0", b"]"]
    assert kind.emit_fill(kind.parse_fill(["-Infinity", "NaN"])) == ["-Infinity", "NaN"]


@pytest.mark.rule("K19")
@given(st.binary(min_size=1, max_size=20))
def test_raw_bits_are_read_as_integers_and_as_base64(data):
    kind = data_type(f"r{8 * len(data)}")
    fill = kind.parse_fill(list(data))
    assert fill.data == data
    assert kind.emit_fill(fill) == list(data)
    assert kind.parse_fill(b64encode(data).decode()) == fill


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("float32", 0.1, "0.1"),
        ("float16", 0.1, "0.1"),
        ("float64", 0.1, "0.1"),
        ("float32", 1.0, "1.0"),
        ("float32", -0.0, "-0.0"),
        ("float32", 3.4028234663852886e38, "3.4028235e+38"),
        ("float16", 65504.0, "65500.0"),
        ("float64", 1e22, "1e+22"),
        ("uint64", 2**64 - 1, "18446744073709551615"),
        ("bool", True, "true"),
    ],
)
def test_the_shortest_exact_form_is_written(name, value, text):
    kind = data_type(name)
    assert dump_json(kind.emit_fill(kind.fill_from_user(value))).decode().strip() == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_reader_that_goes_through_float64_sees_the_same(number):
    emitted = emit_float(struct.pack("=f", number))
    assert struct.pack("=f", emitted) == struct.pack("=f", number)


# --- users' values -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CORE)
def test_a_fill_value_of_none_is_the_zero_of_the_type(name):
    kind = data_type(name)
    assert kind.fill_from_user(None) == kind.zero
    assert kind.zero.data == bytes(kind.itemsize)
    assert not any(kind.zero.data)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("uint8", 255, np.uint8(255)),
        ("uint8", np.int64(7), np.uint8(7)),
        ("uint8", 7.0, np.uint8(7)),
        ("int16", np.float32(-3.0), np.int16(-3)),
        ("int32", True, np.int32(1)),
        ("bool", 1, np.True_),
        ("bool", np.False_, np.False_),
        ("bool", 0.0, np.False_),
        ("float32", 1, np.float32(1)),
        ("float32", 0.1, np.float32(0.1)),
        ("float32", np.float64(0.1), np.float32(0.1)),
        ("float32", np.float16(0.1), np.float32(np.float16(0.1))),
        ("float64", np.uint64(2**63), np.float64(2**63)),
        ("float32", math.inf, np.float32(np.inf)),
        ("float16", -math.inf, np.float16(-np.inf)),
        ("float16", "-Infinity", np.float16(-np.inf)),
        ("float32", True, np.float32(1)),
        ("complex64", 1, np.complex64(1)),
        ("complex64", 1 - 2j, np.complex64(1 - 2j)),
        ("complex128", np.complex64(1j), np.complex128(1j)),
        ("complex128", ("Infinity", -1), np.complex128(complex(math.inf, -1))),
        ("complex128", np.float32(2.5), np.complex128(2.5)),
        ("r24", b"abc", np.void(b"abc")),
        ("r24", bytearray(b"abc"), np.void(b"abc")),
        ("r24", memoryview(b"abc"), np.void(b"abc")),
        ("r24", np.void(b"abc"), np.void(b"abc")),
        ("r24", [97, 98, 99], np.void(b"abc")),
        ("r24", (97, 98, 99), np.void(b"abc")),
        ("r24", "YWJj", np.void(b"abc")),
        ("int32", np.array(5), np.int32(5)),
        ("int32", np.array(5, ">i4"), np.int32(5)),
    ],
)
def test_users_values(name, value, expected):
    fill = data_type(name).fill_from_user(value)
    assert fill.dtype == data_type(name).dtype
    assert fill.data == np.asarray(expected).tobytes()


def test_scalars_of_the_type_keep_their_bits():
    for pattern, dtype in ((0x7FC00001, "u4"), (0xFFC00000, "u4"), (0x7F800001, "u4")):
        scalar = np.array(pattern, dtype).view("f4")[()]
        assert data_type("float32").fill_from_user(scalar).data == scalar.tobytes()
        swapped = np.array(pattern, ">u4").view(">f4")
        assert data_type("float32").fill_from_user(swapped).data == np.array(pattern, dtype).tobytes()
    payload = struct.unpack("=d", struct.pack("=Q", 0x7FF8000000000042))[0]
    assert data_type("float64").fill_from_user(payload).data == struct.pack("=Q", 0x7FF8000000000042)
    assert data_type("float64").fill_from_user(-0.0).data == struct.pack("=d", -0.0)


def test_a_nan_of_another_width_is_the_plain_one():
    payload = np.array(0xFFF8000000000042, "u8").view("f8")[()]
    for name in ("float16", "float32"):
        assert data_type(name).emit_fill(data_type(name).fill_from_user(payload)) == "NaN"
    assert data_type("complex64").emit_fill(data_type("complex64").fill_from_user(complex(math.nan, 1))) == ["NaN", 1.0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("uint8", 300),
        ("uint8", -1),
        ("uint8", np.int64(300)),
        ("int32", 1.5),
        ("int32", math.nan),
        ("int32", math.inf),
        ("int32", 1j),
        ("int32", "1"),
        ("int64", 1e300),
        ("bool", 2),
        ("bool", "true"),
        ("bool", math.nan),
        ("float16", 65520),
        ("float16", np.float32(1e10)),
        ("float32", 1e39),
        ("float64", 10**400),
        ("float64", "nan"),
        ("float64", 1j),
        ("float64", b"12345678"),
        ("complex64", "1"),
        ("complex64", [1, 2, 3]),
        ("r24", b"abcd"),
        ("r24", 0),
        ("r24", np.uint8(1)),
        ("r24", "abc"),
        ("float64", [1.0]),
        ("float64", np.array([1.0])),
        ("int8", object()),
        ("int8", np.datetime64("2020-01-01")),
        ("int64", np.timedelta64(1, "s")),
    ],
)
def test_bad_users_values_are_refused(name, value):
    with pytest.raises(MetadataError) as caught:
        data_type(name).fill_from_user(value)
    assert caught.value.path is not None
    assert caught.value.path.startswith("fill_value")


# --- the value ---------------------------------------------------------------------------------------------------------------------


def test_equal_means_equal_bits():
    kind = data_type("float32")
    assert kind.parse_fill("NaN") == kind.parse_fill("0x7fc00000")
    assert kind.parse_fill("NaN") != kind.parse_fill("0x7fc00001")
    assert kind.parse_fill(0) != kind.fill_from_user(-0.0)
    assert not any(kind.parse_fill(0).data)
    assert any(kind.fill_from_user(-0.0).data)
    assert len({kind.parse_fill("NaN"), kind.parse_fill("0x7fc00000"), kind.parse_fill(0)}) == 2


def test_scalars_have_the_type():
    assert isinstance(data_type("float16").fill_from_user(1.5).scalar, np.float16)
    assert data_type("complex64").fill_from_user(1j).scalar == 1j
    assert data_type("r24").fill_from_user(b"abc").scalar.tobytes() == b"abc"


def test_a_value_of_another_size_is_refused():
    with refused("fill_value", "4 bytes for float32", "found 3"):
        FillValue(b"abc", np.dtype("float32"))
