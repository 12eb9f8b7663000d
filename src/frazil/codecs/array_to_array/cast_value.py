"""The `cast_value` codec: the same numbers in another data type (Zarr extensions registry, cast_value)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, isnan
from typing import TYPE_CHECKING

import numpy as np

from frazil.base.arrays import Dtype, Flags
from frazil.base.record import Record
from frazil.codecs.array_to_array.scale_offset import scalar_of
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, choice
from frazil.codecs.number_types import bits_of, float_range, integer_range, is_integer
from frazil.errors import ChunkDecodeError, DataError, FrazilError, InvalidInputError, MetadataError
from frazil.metadata.registry import CORE_EXTENSIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]

ROUNDINGS = ("nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away")
Pairs = tuple[tuple[object, object], ...]


class CastValue(ArrayToArray):
    """data_type: the stored data type; rounding: for numbers that it does not hold exactly; out_of_range: "clamp" or "wrap" (for integers), None: a number
    outside is an error; scalar_map: under "encode" and "decode", lists of pairs [number, replacement], in the form of fill values; they come before all other
    rules."""

    name = "cast_value"
    required = ("data_type",)
    optional = ("rounding", "out_of_range", "scalar_map")
    not_null = ("out_of_range", "scalar_map")

    def __init__(
        self,
        data_type: object,
        rounding: str = "nearest-even",
        out_of_range: str | None = None,
        scalar_map: Mapping[str, Sequence[Sequence[object]]] | None = None,
    ) -> None:
        self.data_type = CORE_EXTENSIONS.data_type_from_user(data_type)
        if not _is_number(self.data_type.dtype):
            raise MetadataError(f"data_type is {self.data_type.name}, which is not a real number", path="data_type")
        self.rounding = choice(rounding, "rounding", ROUNDINGS)
        self.out_of_range = None if out_of_range is None else choice(out_of_range, "out_of_range", ("clamp", "wrap"))
        self.scalar_map = {} if scalar_map is None else _pairs(scalar_map)

    def configuration(self) -> dict[str, object] | None:
        data_type = self.data_type.extension()
        config: dict[str, object] = {"data_type": data_type.to_json() if data_type.configuration else data_type.name}
        config["rounding"] = self.rounding
        if self.out_of_range is not None:
            config["out_of_range"] = self.out_of_range
        if self.scalar_map:
            config["scalar_map"] = {name: [list(pair) for pair in pairs] for name, pairs in self.scalar_map.items()}
        return config

    def encoded_spec(self, spec: ChunkSpec, path: str) -> ChunkSpec:
        if not _is_number(spec.dtype):
            raise MetadataError(f"codec {self.name} casts real numbers, not {spec.dtype}", path=path)
        if self.out_of_range == "wrap" and not is_integer(self.data_type.dtype):
            raise MetadataError("only integers wrap", path=f"{path}.configuration.out_of_range")
        try:
            fill = self.encode(np.frombuffer(spec.fill, spec.dtype), spec, f"{path}.configuration")
            self.decode(fill, spec, f"{path}.configuration")
        except (DataError, InvalidInputError) as error:
            if isinstance(error, MetadataError):
                raise
            raise MetadataError(f"the fill value cannot be cast: {error.message}", path=path) from error
        return ChunkSpec(spec.shape, self.data_type.dtype, self.data_type.swaps, fill.tobytes())

    def encode(self, array: Array, spec: ChunkSpec, path: str = "cast_value") -> Array:
        return self._cast(array, self.data_type.dtype, "encode", InvalidInputError, path)

    def decode(self, array: Array, spec: ChunkSpec, path: str = "cast_value") -> Array:
        return self._cast(array, spec.dtype, "decode", ChunkDecodeError, path)

    def _cast(self, array: Array, target: Dtype, direction: str, refusal: type[FrazilError], path: str) -> Array:
        out_of_range = self.out_of_range if self.out_of_range != "wrap" or is_integer(target) else None
        cast = _Cast(target, self.rounding, out_of_range, refusal)
        if direction not in self.scalar_map:
            return cast.all(np.atleast_1d(array)).reshape(array.shape)
        result, unmapped = np.zeros(array.shape, target), np.ones(array.shape, np.bool_)
        for number, becomes in self.scalar_map[direction]:
            member_path = f"{path}.scalar_map.{direction}"
            key, value = scalar_of(number, array.dtype, member_path), scalar_of(becomes, target, member_path)  # type: ignore[arg-type]
            equal = unmapped & ((array == key) | ((array != array) & (key != key)))  # noqa: PLR0124  a NaN is not itself
            result[equal] = value
            unmapped &= ~equal
        result[unmapped] = cast.all(array[unmapped])
        return result


class _Cast(Record):
    """A cast to `target`; refusal: the class of errors."""

    target: Dtype
    rounding: str
    out_of_range: str | None
    refusal: type[FrazilError]

    def all(self, array: Array) -> Array:
        """Every number of an array."""
        if is_integer(self.target):
            return self._integers(array)
        return self._floats(array)

    def _refuse(self, array: Array, wrong: Array) -> FrazilError:
        number = array[wrong].reshape(-1)[0]
        return self.refusal(f"codec cast_value: {number!s} cannot be a number of {self.target}")

    def _integers(self, array: Array) -> Array:
        low, high = integer_range(self.target)
        if is_integer(array.dtype):
            whole = array.astype(object if np.dtype(np.uint64) in (array.dtype, self.target) else np.int64)
            outside = np.asarray((whole < low) | (whole > high), np.bool_)
        else:
            wide = array.astype(np.float64)
            finite = np.isfinite(wide)
            if not finite.all():
                raise self._refuse(array, ~finite)
            whole = rounded = self._rounded(wide)
            outside = (rounded < float(low)) | (rounded >= float(high + 1))
        if outside.any():
            if self.out_of_range is None:
                raise self._refuse(array, outside)
            whole = np.array([int(number) for number in whole.reshape(-1)], object).reshape(array.shape)
            if self.out_of_range == "clamp":
                whole = np.clip(whole, low, high)
            else:
                whole = (whole - low) % (1 << bits_of(self.target)) + low
        return whole.astype(np.uint64 if high > 2**63 - 1 else np.int64).astype(self.target)

    def _rounded(self, numbers: Floats) -> Floats:
        if self.rounding == "nearest-away":
            cut = np.trunc(numbers)
            return cut + np.copysign(np.abs(numbers - cut) >= 0.5, numbers)
        steps = dict(zip(ROUNDINGS, (np.rint, np.trunc, np.ceil, np.floor), strict=False))
        return steps[self.rounding](numbers)

    def _floats(self, array: Array) -> Array:
        # a long double holds every number of 64 bits exactly
        exact: Floats = array.astype(np.longdouble if is_integer(array.dtype) else np.float64)
        infinity, nan = np.array([np.inf, np.nan]).astype(self.target).astype(np.float64).tolist()
        wrong = (np.isnan(exact) & (not isnan(nan))) | (np.isinf(exact) & (not isinf(infinity)))
        if wrong.any():
            raise self._refuse(array, wrong)
        low, high = float_range(self.target)
        above, below = self._outside(exact, low, high)
        if self.out_of_range is None and (above | below).any():
            raise self._refuse(array, above | below)
        finite = np.isfinite(exact)
        rounded = self._rounded_floats(np.where(finite, np.clip(exact, low, high), exact), finite, (low, high))
        rounded[above], rounded[below] = (np.inf, -np.inf) if isinf(infinity) else (high, low)
        return rounded

    def _outside(self, exact: Floats, low: float, high: float) -> tuple[Flags, Flags]:
        """Which finite numbers are above and below the type when they are rounded as if it had larger exponents."""
        top = np.array(high).astype(self.target)
        with np.errstate(all="ignore"):
            last = np.nextafter(top, np.array(low).astype(top.dtype)).astype(np.float64).astype(exact.dtype)
            step = high - last if low < 0 else high  # types of powers of two have neither negative numbers nor zero
            half, behind = high + step / 2, high + step
        even = not int(top.view(f"u{top.dtype.itemsize}")) & 1  # a tie is rounded to `top` then

        def outside(numbers: Floats, up: str) -> Flags:
            if self.rounding == up:
                return np.asarray(numbers > high, np.bool_)
            if self.rounding in ROUNDINGS[1:4]:
                return np.asarray(numbers >= behind, np.bool_)
            return np.asarray(numbers > half if even and self.rounding == ROUNDINGS[0] else numbers >= half, np.bool_)

        finite = np.isfinite(exact)
        below = exact < low if low > 0 else outside(-exact, "towards-negative")
        return finite & outside(exact, "towards-positive"), finite & below

    def _rounded_floats(self, exact: Floats, finite: Flags, ends: tuple[float, float]) -> Array:
        """Numbers between the ends of the type, and others that it has, rounded."""
        registered = self.target.num >= 256  # registered with NumPy by another package, which rounds to float32 first
        with np.errstate(all="ignore"):
            rounded: Array = (exact.astype(np.float64) if registered else exact).astype(self.target)
            if self.rounding == ROUNDINGS[0] and not registered:
                return rounded
            widened: Floats = rounded.astype(np.float64).astype(exact.dtype)
            inexact = finite & (widened != exact)
            rounded[inexact] = self._moved(rounded[inexact], widened[inexact], exact[inexact], ends)
        return rounded

    def _moved(self, rounded: Array, widened: Floats, exact: Floats, ends: tuple[float, float]) -> Array:
        """Numbers that were rounded to a neighbour, rounded in the requested direction. widened, exact: the rounded and the original numbers, in a type that
        holds both."""
        down, up = (np.array(end).astype(rounded.dtype) for end in ends)
        other = np.where(widened < exact, np.nextafter(rounded, up), np.nextafter(rounded, down))
        beside = other.astype(np.float64).astype(exact.dtype)
        if self.rounding == "towards-zero":
            better = np.abs(widened) > np.abs(exact)
        elif self.rounding in ("nearest-even", "nearest-away"):
            distance, nearer = np.abs(widened - exact), np.abs(beside - exact)
            tie = (nearer == distance) & (np.abs(beside) > np.abs(widened))
            better = (nearer < distance) | (tie & (self.rounding == "nearest-away"))
        else:
            better = widened < exact if self.rounding == "towards-positive" else widened > exact
        return np.where(better, other, rounded).astype(rounded.dtype)


def _is_number(dtype: Dtype) -> bool:
    return dtype.names is None and dtype.kind not in "bcmMOSUT" and (dtype.kind != "V" or dtype.num >= 256)


def _pairs(scalar_map: Mapping[str, Sequence[Sequence[object]]]) -> dict[str, Pairs]:
    if not isinstance(scalar_map, Mapping):
        raise MetadataError(f"scalar_map is {scalar_map!r}; it must be an object", path="scalar_map")
    by_direction = {}
    for name, pairs in scalar_map.items():
        member_path = f"scalar_map.{name}"
        if name not in {"encode", "decode"}:
            raise MetadataError(f"{name} is not a member of scalar_map (allowed: encode, decode)", path=member_path)
        if not isinstance(pairs, list | tuple) or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
            raise MetadataError(f"{name} is {pairs!r}; it must be a list of pairs [number, number]", path=member_path)
        by_direction[name] = tuple((number, becomes) for number, becomes in pairs)
    return by_direction
