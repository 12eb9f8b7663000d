"""The `cast_value` codec: the same numbers in another data type (Zarr extensions registry, cast_value)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from frazil.codecs.array_to_array.scale_offset import scalar_of
from frazil.codecs.codec import Array, ArrayToArray, ChunkSpec, ParseCodecs, choice, refuse_null
from frazil.codecs.number_types import Dtype, bits_of, integer_range, is_integer
from frazil.errors import ChunkDecodeError, DataError, FrazilError, InvalidInputError, MetadataError
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]

ROUNDINGS = ("nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away")
Pairs = tuple[tuple[object, object], ...]


class CastValue(ArrayToArray):
    """data_type: what is stored; rounding: of what it does not hold exactly; out_of_range: "clamp" or "wrap" (for integers), None: what is outside is an error;
    scalar_map: under "encode" and "decode", lists of pairs [number, what it becomes], as fill values are written; they come before all other rules."""

    __slots__ = ("data_type", "out_of_range", "rounding", "scalar_map")
    name: ClassVar[str] = "cast_value"
    required: ClassVar[tuple[str, ...]] = ("data_type",)
    optional: ClassVar[tuple[str, ...]] = ("rounding", "out_of_range", "scalar_map")

    def __init__(
        self,
        data_type: object,
        rounding: str = "nearest-even",
        out_of_range: str | None = None,
        scalar_map: Mapping[str, Sequence[Sequence[object]]] | None = None,
    ) -> None:
        self.data_type = CORE_EXTENSIONS.data_type_from_user(data_type)
        if not _is_number(self.data_type.dtype):
            raise MetadataError(f"data_type is {self.data_type.name}, which is no real number", path="data_type")
        self.rounding = choice(rounding, "rounding", ROUNDINGS)
        self.out_of_range = None if out_of_range is None else choice(out_of_range, "out_of_range", ("clamp", "wrap"))
        self.scalar_map = {} if scalar_map is None else _pairs(scalar_map)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, object], parse: ParseCodecs) -> Self:
        refuse_null(configuration, "out_of_range", "scalar_map")
        return super().from_configuration(configuration, parse)

    def configuration(self) -> dict[str, object] | None:
        data_type = self.data_type.extension()
        settled: dict[str, object] = {"data_type": data_type.to_json() if data_type.configuration else data_type.name}
        settled["rounding"] = self.rounding
        if self.out_of_range is not None:
            settled["out_of_range"] = self.out_of_range
        if self.scalar_map:
            settled["scalar_map"] = {name: [list(pair) for pair in pairs] for name, pairs in self.scalar_map.items()}
        return settled

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

    def _cast(self, array: Array, target: Dtype, way: str, refusal: type[FrazilError], path: str) -> Array:
        out_of_range = self.out_of_range if self.out_of_range != "wrap" or is_integer(target) else None
        cast = _Cast(target, self.rounding, out_of_range, refusal)
        if way not in self.scalar_map:
            return cast.all(array)
        made, left = np.zeros(array.shape, target), np.ones(array.shape, np.bool_)
        for number, becomes in self.scalar_map[way]:
            place = f"{path}.scalar_map.{way}"
            key, value = scalar_of(number, array.dtype, place), scalar_of(becomes, target, place)  # type: ignore[arg-type]
            here = left & ((array == key) | ((array != array) & (key != key)))  # noqa: PLR0124  a NaN is not itself
            made[here] = value
            left &= ~here
        made[left] = cast.all(array[left])
        return made


class _Cast(Record):
    """To `target`; refusal: the class of errors."""

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
        with np.errstate(all="ignore"):
            made = array.astype(self.target)
            held: Floats = made.astype(np.float64).astype(exact.dtype)
        wrong = (np.isnan(exact) != np.isnan(held)) | (np.isinf(exact) & (exact != held))
        if wrong.any():
            raise self._refuse(array, wrong)
        beyond = np.isinf(held) & np.isfinite(exact)
        if self.rounding in ROUNDINGS[1:4] and beyond.any():
            kept = beyond & self._rounds_inwards(exact)
            made[kept] = np.copysign(self._largest(), exact[kept])
            held[kept], beyond = exact[kept], beyond & ~kept
        if beyond.any() and self.out_of_range is None:
            raise self._refuse(array, beyond)
        if self.rounding != ROUNDINGS[0]:
            inexact = np.isfinite(held) & (held != exact)
            made[inexact] = self._moved(made[inexact], held[inexact], exact[inexact])
        return made

    def _largest(self) -> Array:
        zero = np.zeros(1, self.target)
        return np.nextafter(zero + np.array(np.inf, self.target), zero)

    def _rounds_inwards(self, exact: Floats) -> NDArray[np.bool_]:
        """Which of the numbers beyond the largest one become that one: those before the next number that there would be with a larger exponent."""
        largest = self._largest()
        below = np.nextafter(largest, np.zeros(1, self.target)).astype(exact.dtype)
        end = largest.astype(exact.dtype)
        near: NDArray[np.bool_] = np.abs(exact) < end + end - below
        if self.rounding == "towards-zero":
            return near
        return np.asarray(near & ((exact > 0) == (self.rounding == "towards-negative")), np.bool_)

    def _moved(self, made: Array, held: Floats, exact: Floats) -> Array:
        """Numbers that were rounded to the nearest one, rounded as is wanted. held, exact: the same and those before, in a type that holds both."""
        up, down = np.array(np.inf, made.dtype), np.array(-np.inf, made.dtype)
        other = np.where(held < exact, np.nextafter(made, up), np.nextafter(made, down))
        beside = other.astype(np.float64).astype(exact.dtype)
        if self.rounding == "towards-zero":
            better = np.abs(held) > np.abs(exact)
        elif self.rounding == "nearest-away":
            better = (np.abs(beside - exact) == np.abs(held - exact)) & (np.abs(beside) > np.abs(held))
        else:
            better = held < exact if self.rounding == "towards-positive" else held > exact
        return np.where(better, other, made).astype(made.dtype)


def _is_number(dtype: Dtype) -> bool:
    return dtype.names is None and dtype.kind not in "bcmMOSUT" and (dtype.kind != "V" or dtype.num >= 256)


def _pairs(scalar_map: Mapping[str, Sequence[Sequence[object]]]) -> dict[str, Pairs]:
    if not isinstance(scalar_map, Mapping):
        raise MetadataError(f"scalar_map is {scalar_map!r}; it must be an object", path="scalar_map")
    made = {}
    for name, pairs in scalar_map.items():
        place = f"scalar_map.{name}"
        if name not in {"encode", "decode"}:
            raise MetadataError(f"{name} is not a member of scalar_map (allowed: encode, decode)", path=place)
        if not isinstance(pairs, list | tuple) or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
            raise MetadataError(f"{name} is {pairs!r}; it must be a list of pairs [number, number]", path=place)
        made[name] = tuple((number, becomes) for number, becomes in pairs)
    return made
