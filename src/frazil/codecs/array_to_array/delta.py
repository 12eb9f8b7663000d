"""Differences between neighbours, under the name that zarr-python writes: `numcodecs.delta`."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from frazil.codecs.array_to_array.element_types import Filter, check_conversion, native, spelled
from frazil.codecs.codec import Array
from frazil.errors import InvalidInputError


class Delta(Filter):
    """The first element, then the difference of each to the one before it, in C order. dtype: the type of elements; astype: the type of stored differences
    (None: dtype). An integer difference that it does not hold is an error."""

    __slots__ = ()
    name: ClassVar[str] = "numcodecs.delta"
    required: ClassVar[tuple[str, ...]] = ("dtype",)
    optional: ClassVar[tuple[str, ...]] = ("astype",)

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
