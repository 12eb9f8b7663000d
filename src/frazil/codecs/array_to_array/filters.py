"""Filters of numcodecs that view elements as another data type, under the names that zarr-python writes, and `zarrs.delta`.

Types are given in NumPy's notation. Filters here work on values; the byte order of a type is that of the codec `bytes` behind them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from math import ceil, floor, isfinite, log2, log10
from typing import Final, Self, cast

import numpy as np

from frazil.base.arrays import Dtype
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, integer
from frazil.errors import InvalidInputError, MetadataError, shown

_WITH_DELTA: Final = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"})  # for zarrs


class Filter(ArrayToArray):
    """dtype: the type as which elements are viewed, "" for that of the array (`resolved`); astype: the type of stored elements."""

    astype: str
    dtype: str

    @abstractmethod
    def stored(self, elements: Array) -> Array:
        """Elements of `dtype`, in one dimension, as elements of `astype`."""

    @abstractmethod
    def loaded(self, stored: Array) -> Array:
        """Undoes `stored`."""

    def configuration(self) -> dict[str, object] | None:
        return {name: value for name, value in (super().configuration() or {}).items() if value != ""}

    def resolved(self, spec: ChunkSpec) -> Self:
        if self.dtype:
            return self
        return cast("Callable[..., Self]", type(self))(**{**(self.configuration() or {}), "dtype": spec.dtype})

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        return _spec_of(spec, _taken_shape(spec, self.dtype, path), native(self.astype))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            stored = self.stored(_as_flat(array, self.dtype))
        return stored.reshape(_taken_shape(spec, self.dtype, self.name))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            elements = self.loaded(array.reshape(-1))
        return _as_chunk(elements, self.dtype, spec)


class AsType(Filter):
    """decode_dtype: the type of decoded elements; encode_dtype: the type of stored elements. NumPy converts them."""

    name = "numcodecs.astype"
    required = ("encode_dtype", "decode_dtype")

    def __init__(self, encode_dtype: object, decode_dtype: object) -> None:
        self.astype = self.encode_dtype = spelled(encode_dtype, "encode_dtype")
        self.dtype = self.decode_dtype = spelled(decode_dtype, "decode_dtype")
        check_conversion(self.dtype, self.astype, "encode_dtype")
        check_conversion(self.astype, self.dtype, "decode_dtype")

    def stored(self, elements: Array) -> Array:
        return elements.astype(native(self.astype))

    def loaded(self, stored: Array) -> Array:
        return stored.astype(native(self.dtype))


class Delta(Filter):
    """The first element, then the difference of each to the one before it, in C order. dtype: the type of elements; astype: the type of stored differences
    (None: dtype). An integer difference that it does not hold is an error."""

    name = "numcodecs.delta"
    required = ("dtype",)
    optional = ("astype",)

    def __init__(self, dtype: object, astype: object = None) -> None:
        self.dtype = spelled(dtype, "dtype")
        self.astype = self.dtype if astype is None else spelled(astype, "astype")
        check_conversion(self.dtype, self.astype, "astype")
        check_conversion(self.astype, self.dtype, "dtype")

    def stored(self, elements: Array) -> Array:
        deltas = np.empty(elements.shape, native(self.astype))
        deltas[:1] = elements[:1]
        deltas[1:] = np.diff(elements)
        exact = deltas.dtype == elements.dtype or elements.dtype.kind not in "iu"
        if not exact and self.loaded(deltas).tobytes() != elements.tobytes():
            raise InvalidInputError(
                f"codec {self.name}: differences of {self.dtype} do not fit into {self.astype}",
                hint="use a larger astype",
            )
        return deltas

    def loaded(self, stored: Array) -> Array:
        elements = np.empty(stored.size, native(self.dtype))
        np.cumsum(stored, out=elements)
        return elements


class ZarrsDelta(ArrayToArray):
    """As Delta without a configuration, for elements of the array's own data type. Integers wrap around, floats are rounded."""

    name = "zarrs.delta"

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype.str[1:] not in _WITH_DELTA:
            raise MetadataError(f"the codec takes integers and floats, not {spec.dtype}", path=path)
        return spec

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        return Delta(spec.dtype).encode(array, spec)

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        return Delta(spec.dtype).decode(array, spec)


class FixedScaleOffset(Filter):
    """Stores (x - offset) * scale, rounded to whole numbers. dtype: the type of elements (None: the data type of a new array); astype: the stored type (None:
    dtype), which must hold the numbers: integers wrap around."""

    name = "numcodecs.fixedscaleoffset"
    required = ("offset", "scale")
    optional = ("dtype", "astype")

    def __init__(self, offset: float, scale: float, dtype: object = None, astype: object = None) -> None:
        self.offset, self.scale = _number(offset, "offset"), _number(scale, "scale")
        if not scale:
            raise MetadataError("scale is 0; decoding divides the stored values by it", path="scale")
        self.dtype = "" if dtype is None else spelled(dtype, "dtype", "iuf")
        self.astype = self.dtype if astype is None else spelled(astype, "astype", "iuf")

    def stored(self, elements: Array) -> Array:
        return np.around((elements - self.offset) * self.scale).astype(native(self.astype), copy=False)  # type: ignore[operator, return-value]

    def loaded(self, stored: Array) -> Array:
        return (stored / self.scale + self.offset).astype(native(self.dtype), copy=False)  # type: ignore[operator, no-any-return]


class Quantize(Filter):
    """Rounds to a power of 2 that keeps `digits` decimal digits behind the point. Decoding returns the rounded values.
    dtype: the type of elements (None: the data type of a new array); astype: the stored type (None: dtype)."""

    name = "numcodecs.quantize"
    required = ("digits",)
    optional = ("dtype", "astype")

    def __init__(self, digits: int, dtype: object = None, astype: object = None) -> None:
        self.digits = integer(digits, "digits", -300, 300)
        self.dtype = "" if dtype is None else spelled(dtype, "dtype", "f")
        self.astype = self.dtype if astype is None else spelled(astype, "astype", "f")

    def stored(self, elements: Array) -> Array:
        exponent = log10(10.0**-self.digits)
        exponent = floor(exponent) if exponent < 0 else ceil(exponent)
        scale = 2.0 ** ceil(log2(10.0**-exponent))
        return (np.around(scale * elements) / scale).astype(native(self.astype), copy=False)  # type: ignore[operator, return-value]

    def loaded(self, stored: Array) -> Array:
        return stored.astype(native(self.dtype), copy=False)


def spelled(value: object, name: str, kinds: str = "biufc") -> str:
    """The argument of a codec that names a data type, in the form of documents."""
    try:
        if not isinstance(value, str | np.dtype | type):
            raise TypeError
        dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError, KeyError):
        raise MetadataError(
            f'{name} is {shown(value)}; it must be a type in NumPy\'s spelling, such as "<i4"', path=name
        ) from None
    if dtype.kind not in kinds or dtype.num >= 256:  # above are types that other packages register with NumPy
        raise MetadataError(f"{name} is {shown(value)}; this codec does not support such elements", path=name)
    return value if isinstance(value, str) else dtype.str


def native(text: str) -> Dtype:
    """The type of a NumPy type string, in this machine's byte order."""
    return np.dtype(text).newbyteorder("=")


def check_conversion(source: str, target: str, name: str) -> None:
    """Refuses to convert complex numbers to real ones."""
    if np.dtype(source).kind == "c" and np.dtype(target).kind != "c":
        raise MetadataError(f"{name} is {target!r}, which holds no complex numbers", path=name)


def _taken_shape(spec: ChunkSpec, text: str, path: str) -> tuple[int, ...]:
    """The shape of a chunk whose bytes are viewed as elements of a type: the same if the elements have the same size, else one dimension.
    Single bytes may be viewed as larger elements. MetadataError where their number does not fit, for other sizes, and where no type is given ("")."""
    if not text:
        raise MetadataError("the codec needs a member dtype", path=path)
    size = np.dtype(text).itemsize
    if size == spec.dtype.itemsize:
        return spec.shape
    if spec.dtype.itemsize > 1 or spec.nbytes % size:
        raise MetadataError(
            f"the codec takes elements of {size} bytes, not chunks of {list(spec.shape)} of {spec.dtype}", path=path
        )
    return (spec.nbytes // size,)


def _as_flat(array: Array, text: str) -> Array:
    """The elements of an array viewed as a type, in one dimension."""
    flat, dtype = np.ascontiguousarray(array).reshape(-1), native(text)
    if flat.dtype.itemsize == dtype.itemsize:
        return flat.view(dtype)
    return flat.view(text).astype(dtype, copy=False)


def _as_chunk(flat: Array, text: str, spec: ChunkSpec) -> Array:
    """Undoes `_as_flat`, for a chunk of this spec."""
    if flat.dtype.itemsize != spec.dtype.itemsize:
        flat = flat.astype(text, copy=False)
    return flat.view(spec.dtype).reshape(spec.shape)


def _spec_of(spec: ChunkSpec, shape: tuple[int, ...], dtype: Dtype) -> ChunkSpec:
    """A chunk of another shape and type; its fill value is the same number if the type has it."""
    items = 2 if dtype.kind == "c" else 1
    width = dtype.itemsize // items
    try:
        with np.errstate(all="ignore"):
            number = np.frombuffer(spec.fill, spec.dtype)
            fill = number.real.astype(dtype) if dtype.kind != "c" else number.astype(dtype)
    except (TypeError, ValueError):
        fill = np.zeros(1, dtype)
    return ChunkSpec(shape, dtype, ((0, width, items),) if width > 1 else (), fill.tobytes())


def _number(value: object, name: str) -> float:
    """A whole number stays an integer, because NumPy keeps integers then."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not isfinite(value):
        raise MetadataError(f"{name} is {shown(value)}; it must be a number", path=name)
    return int(value) if isinstance(value, int | np.integer) else float(value)
