"""The `scale_offset` codec: (x - offset) * scale in the arithmetic of the data type (Zarr extensions registry, scale_offset)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from frazil.base.arrays import Dtype
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec
from frazil.codecs.number_types import integer_range, is_integer
from frazil.errors import ChunkDecodeError, DataError, FrazilError, InvalidInputError, MetadataError, shown
from frazil.metadata.registry import CORE_EXTENSIONS

Scalar = int | float | str


class ScaleOffset(ArrayToArray):
    """Subtracts offset, then multiplies by scale; both are in the form of fill values of the data type (None: 0 and 1). A result that the data type does not
    hold is an error, in either direction."""

    name = "scale_offset"
    optional = ("offset", "scale")
    omits_null = True

    def __init__(self, offset: Scalar | None = None, scale: Scalar | None = None) -> None:
        for name, value in (("offset", offset), ("scale", scale)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float | str)):
                raise MetadataError(f"{name} is {shown(value)}; it must be a number", path=name)
        self.offset, self.scale = offset, scale

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if spec.dtype.names is not None or spec.dtype.kind in "bcmMOSUT":
            raise MetadataError(
                f"codec {self.name} scales integers and floating-point numbers, not {spec.dtype}", path=path
            )
        _, scale = self._scalars(spec, path)
        if not scale:
            raise MetadataError("scale is 0", path=f"{path}.configuration.scale")
        fill = np.frombuffer(spec.fill, spec.dtype)
        try:
            encoded = self.encode(fill, spec)
            self.decode(encoded, spec)
        except (DataError, InvalidInputError) as error:
            raise MetadataError(f"the fill value cannot be scaled: {error.message}", path=path) from error
        return spec._replace(fill=encoded.tobytes())

    def _scalars(self, spec: ChunkSpec, path: str) -> tuple[np.generic, np.generic]:
        return (
            scalar_of(0 if self.offset is None else self.offset, spec.dtype, f"{path}.configuration.offset"),
            scalar_of(1 if self.scale is None else self.scale, spec.dtype, f"{path}.configuration.scale"),
        )

    def encode(self, array: Array, spec: ChunkSpec) -> Array:
        offset, scale = self._scalars(spec, self.name)
        if is_integer(spec.dtype):
            shift, factor = int(offset), int(scale)
            return _exact(array, lambda x: x - shift, lambda x: x * factor, InvalidInputError)
        with np.errstate(all="ignore"):
            scaled: Array = (array - offset) * scale  # type: ignore[operator]
        return _finite(array, scaled.astype(spec.dtype, copy=False), InvalidInputError)

    def decode(self, array: Array, spec: ChunkSpec) -> Array:
        offset, scale = self._scalars(spec, self.name)
        if is_integer(spec.dtype):
            shift, factor = int(offset), int(scale)
            if factor != 1 and np.any(array.astype(object if array.dtype == np.uint64 else np.int64) % factor):
                raise ChunkDecodeError(f"codec {self.name}: a number is not divisible by {factor}")
            return _exact(array, lambda x: x // factor, lambda x: x + shift, ChunkDecodeError)
        with np.errstate(all="ignore"):
            unscaled: Array = array / scale + offset  # type: ignore[operator]
        return _finite(array, unscaled.astype(spec.dtype, copy=False), ChunkDecodeError)


def scalar_of(value: Scalar, dtype: Dtype, path: str) -> np.generic:
    """A number of a document, in the form of a fill value; the registry also writes "+Infinity"."""
    value = "Infinity" if value == "+Infinity" else value
    return CORE_EXTENSIONS.data_type_from_user(dtype).parse_fill(value, path).scalar


def _exact(
    array: Array, first: Callable[[int], int], second: Callable[[int], int], refusal: type[FrazilError]
) -> Array:
    """Both steps on integers. As both steps are monotonic, the results of the smallest and the largest show whether any result is outside the type."""
    if not array.size:
        return array
    low, high = integer_range(array.dtype)
    ends = [int(array.min()), int(array.max())]
    for step in (first, second):
        ends = [step(end) for end in ends]
        outside = [end for end in ends if not low <= end <= high]
        if outside:
            raise refusal(f"codec scale_offset: {outside[0]} is not a number of {array.dtype}")
    work = array.astype(object if high > 2**63 - 1 else np.int64)  # every result fits
    return np.asarray(second(first(work))).astype(array.dtype)  # type: ignore[arg-type]


def _finite(array: Array, result: Array, refusal: type[FrazilError]) -> Array:
    if bool((~np.isfinite(result) & np.isfinite(array)).any()):
        raise refusal(f"codec scale_offset: a result is outside {array.dtype}")
    return result
