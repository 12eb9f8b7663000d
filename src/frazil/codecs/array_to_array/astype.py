"""Elements stored as another type, under the name that zarr-python writes: `numcodecs.astype`."""

from __future__ import annotations

from typing import ClassVar

from frazil.codecs.array_to_array.element_types import Filter, check_conversion, native, spelled
from frazil.codecs.codec import Array


class AsType(Filter):
    """decode_dtype: the type of decoded elements; encode_dtype: the type of stored elements. NumPy converts them."""

    __slots__ = ()
    name: ClassVar[str] = "numcodecs.astype"
    required: ClassVar[tuple[str, ...]] = ("encode_dtype", "decode_dtype")

    def __init__(self, encode_dtype: object, decode_dtype: object) -> None:
        self.astype = spelled(encode_dtype, "encode_dtype")
        self.dtype = spelled(decode_dtype, "decode_dtype")
        check_conversion(self.dtype, self.astype, "encode_dtype")
        check_conversion(self.astype, self.dtype, "decode_dtype")

    @property
    def encode_dtype(self) -> str:
        return self.astype

    @property
    def decode_dtype(self) -> str:
        return self.dtype

    def stored(self, elements: Array) -> Array:
        return elements.astype(native(self.astype))

    def loaded(self, stored: Array) -> Array:
        return stored.astype(native(self.dtype))
