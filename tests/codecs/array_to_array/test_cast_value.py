"""The codec cast_value against exact arithmetic: every number of a small type, numbers between two of them, and numbers outside."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import frazil
from frazil.codecs import CastValue
from frazil.errors import InvalidInputError
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.small_numbers import FLOATS
from frazil.stores import MemoryStore
from frazil.testing import chunk_spec

SMALL = [name for name in FLOATS if name != "bfloat16"]
ROUNDINGS = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]


def numbers_of(name: str) -> list[tuple[float, int]]:
    """The finite numbers of a type, each with its bits, ascending."""
    dtype = CORE_EXTENSIONS.data_type_from_user(name).dtype
    bits = {"float4": 4, "float6": 6}.get(name[:6], 8)
    every = np.arange(2**bits, dtype=np.uint8)
    pairs = zip(every.view(dtype).astype(np.float64).tolist(), every.tolist(), strict=True)
    return sorted({number: code for number, code in pairs if np.isfinite(number)}.items())


def rounded(exact: float, below: tuple[float, int], above: tuple[float, int], rounding: str) -> float:
    """The one of two neighbours to which a number between them is rounded."""
    (low, bits), (high, _) = below, above
    down, up = Fraction(exact) - Fraction(low), Fraction(high) - Fraction(exact)
    if rounding == "towards-positive" or (rounding == "towards-zero" and exact < 0):
        return high
    if rounding in ("towards-negative", "towards-zero"):
        return low
    if down != up:
        return low if down < up else high
    return (low if bits % 2 == 0 else high) if rounding == "nearest-even" else (low if low < 0 else high)


def cast(name: str, numbers: list[float], rounding: str, out_of_range: str | None = None) -> list[float]:
    array = np.array(numbers)
    return CastValue(name, rounding, out_of_range).encode(array, chunk_spec("float64", array.shape)).tolist()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_numbers_between_two_of_a_type(name: str, rounding: str) -> None:
    known = numbers_of(name)
    given, expected = [], []
    for below, above in zip(known, known[1:], strict=False):
        middle = (below[0] + above[0]) / 2
        if Fraction(middle) * 2 != Fraction(below[0]) + Fraction(above[0]):
            continue
        numbers = [below[0], middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)]
        if name == "float8_e8m0fnu" and rounding == "nearest-even":
            del numbers[1]  # neither of two powers of two is even
        for exact in numbers:
            given.append(float(exact))
            expected.append(below[0] if exact == below[0] else rounded(float(exact), below, above, rounding))
    assert [float(number) for number in cast(name, given, rounding)] == expected


@pytest.mark.parametrize(
    ("name", "rounding", "inside", "outside"),
    [
        ("float4_e2m1fn", "nearest-even", [6.9, -6.9], [7, -7, 100, -1e300]),
        ("float6_e3m2fn", "towards-zero", [31.9, -31.9], [32, -32]),
        ("float8_e4m3fn", "nearest-even", [464, -464], [464.1, -500, 1e30]),
        ("float8_e4m3fn", "nearest-away", [463.9, -463.9], [464, -464]),
        ("float8_e5m2fnuz", "towards-positive", [57344, -65535], [57345, -65536]),
        ("float8_e4m3", "towards-negative", [255.9, -240], [256, -240.1]),
        ("float8_e8m0fnu", "nearest-even", [2.0**-127, 2.5e38], [0, -1, 2.6e38, 1e300]),
        ("float16", "towards-positive", [65504, -65535], [65504.1, -65536]),
        ("bfloat16", "nearest-even", [3.395e38], [3.397e38, 1e300]),
    ],
)
def test_numbers_outside_a_type(name: str, rounding: str, inside: list[float], outside: list[float]) -> None:
    dtype = CORE_EXTENSIONS.data_type_from_user(name).dtype
    ends = [number for number, _ in numbers_of(name)] if name in SMALL else None
    for number in inside:
        assert np.isfinite(np.array(cast(name, [number], rounding), np.float64)).all()
    for number in outside:
        with pytest.raises(InvalidInputError, match="cannot be a number"):
            cast(name, [1.0, number], rounding)
        _, found = map(float, cast(name, [1.0, number], rounding, "clamp"))
        if np.isinf(np.array(np.inf).astype(dtype).astype(np.float64)):
            assert found == np.copysign(np.inf, number)
        else:
            assert ends is not None
            assert found == (max(ends) if number > ends[0] else min(ends))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_values_without_a_representation_are_refused(number: float) -> None:
    for name in ("float4_e2m1fn", "int8", "uint64"):
        with pytest.raises(InvalidInputError, match="cannot be a number"):
            cast(name, [number], "nearest-even", "clamp")
    for name in ("float8_e4m3", "bfloat16", "float16"):
        np.testing.assert_array_equal(np.array(cast(name, [number], "towards-zero"), np.float64), [number])


def test_integers_are_rounded_once() -> None:
    array = np.array([2**40 + 2**32 + 1, 2**40 + 2**32, 257, 2**62 + 2**54 + 1])
    made = CastValue("bfloat16").encode(array, chunk_spec("int64", array.shape)).astype(np.float64)
    assert made.tolist() == [2**40 + 2**33, 2**40, 256, 2**62 + 2**55]


def test_infinity_as_the_registry_writes_it() -> None:
    mapping = {"encode": [["+Infinity", 1], ["-Infinity", 2], ["NaN", 3]]}
    codecs = [{"name": "cast_value", "configuration": {"data_type": "uint8", "scalar_map": mapping}}, "bytes"]
    a = frazil.create_array(MemoryStore(), shape=4, dtype="float32", codecs=codecs)
    a[...] = [np.inf, -np.inf, np.nan, 7]
    assert a[...].tolist() == [1, 2, 3, 7]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("target", ["int8", "uint64", "float32"])
@pytest.mark.parametrize("out_of_range", [None, "clamp", "wrap"])
def test_one_element_without_dimensions(dtype: str, target: str, out_of_range: str | None) -> None:
    """Of which NumPy's arithmetic makes scalars, and Python's integers."""
    if out_of_range == "wrap" and target == "float32":
        return
    codec = CastValue(target, out_of_range=out_of_range)
    results: list[object] = []
    for shape, codecs in (
        ((), [codec, "bytes"]),
        ((1, 1), ["zarrs.squeeze", codec, "bytes"]),
        ((1,), [codec, "bytes"]),
    ):
        a = frazil.create_array(MemoryStore(), shape=shape, chunks=shape, dtype=dtype, codecs=codecs)
        a[...] = 3
        assert a.read().tolist() == np.full(shape, 3).tolist()
        try:
            a[...] = 300
            results.append(a.read().reshape(-1).tolist())
        except InvalidInputError as error:
            results.append(error.message)
    assert results == results[:1] * 3
