"""Numbers with fewer bits: the `bitround` codec (Zarr extensions registry, bitround), and `numcodecs.bitround`, as zarr-python writes it."""

from __future__ import annotations

import numpy as np

from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, integer
from frazil.codecs.number_types import number_type
from frazil.errors import MetadataError

_FRACTIONS = {"float16": 10, "float32": 23, "float64": 52, "bfloat16": 7}  # bits


class BitRound(ArrayToArray):
    """keepbits: bits that are kept: of the fraction of a floating-point number; of an integer from its highest bit that is set. The other bits
    are rounded to 0, ties to even; a NaN stays a NaN. Decoding returns the rounded values."""

    name = "bitround"
    required = ("keepbits",)
    fewest = 1
    keeps_nan = True

    def __init__(self, keepbits: int) -> None:
        self.keepbits = integer(keepbits, "keepbits", self.fewest, 64)

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        number = number_type(spec.dtype)
        if number is None or (number.name not in _FRACTIONS and number.kind not in "iu"):
            raise MetadataError(f"codec {self.name} rounds numbers, not {spec.dtype}", path=path)
        return spec

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        number = number_type(spec.dtype)
        assert number is not None, "encoded_spec has seen it"
        bits = np.ascontiguousarray(array).reshape(-1).view(f"u{number.itemsize}")
        if number.name in _FRACTIONS:
            dropped = max(_FRACTIONS[number.name] - self.keepbits, 0)
            if not dropped:
                return array
            rounded = _rounded(bits, np.full(1, dropped, bits.dtype))
            if self.keeps_nan:
                # rounding changed a NaN to a number
                lost = np.isnan(bits.view(number)) & ~np.isnan(rounded.view(number))
                rounded[lost] = bits[lost]
        else:
            rounded = _rounded_integers(bits, self.keepbits, signed=number.kind == "i")
        return rounded.view(spec.dtype).reshape(spec.shape)

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return array


class NumcodecsBitRound(BitRound):
    """Byte for byte as in numcodecs: only for floating-point numbers, and some NaNs become other numbers."""

    name = "numcodecs.bitround"
    fewest = 0
    keeps_nan = False

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        most = _FRACTIONS.get(spec.dtype.name)
        if most is None or spec.dtype.kind != "f":
            raise MetadataError(f"codec {self.name} rounds floating-point numbers, not {spec.dtype}", path=path)
        if self.keepbits > most:
            raise MetadataError(
                f"keepbits is {self.keepbits}; {spec.dtype} has {most} bits", path=f"{path}.configuration.keepbits"
            )
        return spec


def _rounded(bits: Array, dropped: Array) -> Array:
    """Unsigned integers without their lowest bits. dropped: how many bits of each, at least 1."""
    one = bits.dtype.type(1)
    half = ((bits >> dropped) & one) + ((one << (dropped - one)) - one)  # type: ignore[operator]  # ties to even
    with np.errstate(all="ignore"):
        rounded: Array = (bits + half) >> dropped << dropped
    return rounded


def _rounded_integers(bits: Array, keepbits: int, *, signed: bool) -> Array:
    """Each keeps `keepbits` bits from its highest one on. A number that would be rounded up beyond its type, or into the sign, is rounded down."""
    width = 8 * bits.dtype.itemsize
    result = bits.copy()
    for length in range(keepbits + 1, width + 1):  # length of the number up to its highest bit
        low, high = 1 << (length - 1), (1 << length) - 1
        in_range = (bits >= bits.dtype.type(low)) & (bits <= bits.dtype.type(high))  # type: ignore[operator]
        if in_range.any():
            part, dropped = bits[in_range], np.full(1, length - keepbits, bits.dtype)
            down, rounded = part >> dropped << dropped, _rounded(part, dropped)  # type: ignore[operator]
            most = bits.dtype.type(2 ** (width - 1) - 1 if signed and length < width else 2**width - 1)
            result[in_range] = np.where((rounded < down) | (rounded > most), down, rounded)  # type: ignore[operator]
    return result
