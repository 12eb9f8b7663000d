"""The base of numcodecs' filters: they view elements as another data type, and may produce elements of a third one.

Types are given in NumPy's notation. Filters here work on values; the byte order of a type is that of the codec `bytes` behind them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Self, cast

import numpy as np

from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.errors import MetadataError, shown

Dtype = np.dtype[np.generic]


class Filter(ArrayToArray):
    """dtype: the type as which elements are viewed, "" for that of the array (`resolved`); astype: the type of stored elements."""

    __slots__ = ("astype", "dtype")
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
        return _spec_of(spec, _viewed_shape(spec, self.dtype, path), native(self.astype))

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            stored = self.stored(_as_flat(array, self.dtype))
        return stored.reshape(_viewed_shape(spec, self.dtype, self.name))

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        with np.errstate(all="ignore"):
            elements = self.loaded(array.reshape(-1))
        return _as_chunk(elements, self.dtype, spec)


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


def spelled_or_open(value: object, name: str, kinds: str) -> str:
    """As `spelled`; "" for None, which means the data type of the array (`Codec.resolved`)."""
    return "" if value is None else spelled(value, name, kinds)


def native(text: str) -> Dtype:
    """The type of a NumPy type string, in this machine's byte order."""
    return np.dtype(text).newbyteorder("=")


def check_conversion(source: str, target: str, name: str) -> None:
    """Refuses to convert complex numbers to real ones."""
    if np.dtype(source).kind == "c" and np.dtype(target).kind != "c":
        raise MetadataError(f"{name} is {target!r}, which holds no complex numbers", path=name)


def _viewed_shape(spec: ChunkSpec, text: str, path: str) -> tuple[int, ...]:
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
