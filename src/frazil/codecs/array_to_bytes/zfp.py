"""The `zfp` codec: numbers in blocks of 4 along each dimension, without a header (Zarr extensions registry, zfp). The package zfpy does the work."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, isfinite, prod
from typing import ClassVar, Final, Self, cast

import numpy as np

from frazil.base.arrays import Dtype
from frazil.base.optional_package import codec_package
from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec, ParseCodecs, choice, integer
from frazil.codecs.number_types import bits_of
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError, shown

_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "reversible": (),
    "fixed_accuracy": ("tolerance",),
    "fixed_rate": ("rate",),
    "fixed_precision": ("precision",),
}
_EXPERT_MEMBERS = ("minbits", "maxbits", "maxprec", "minexp")
_MOST_DIMENSIONS = 4
_REVERSIBLE: Final = 5  # the number of this mode in headers
_LEAST_BITS: Final = {"i4": 1, "i8": 1, "f4": 9, "f8": 12}  # of a block: floating-point numbers have a common exponent
_ZARRS_DIMENSIONS: Final = 3


class Zfp(ArrayToBytes):
    """mode: reversible, fixed_accuracy (tolerance: the largest error, of floating-point numbers), fixed_rate (rate: bits for each element) or
    fixed_precision (precision: bits before compression). Chunks have up to four dimensions."""

    name = "zfp"
    required = ("mode",)
    optional = ("tolerance", "rate", "precision", *_EXPERT_MEMBERS)

    def __init__(
        self,
        mode: str = "reversible",
        tolerance: float | None = None,
        rate: float | None = None,
        precision: int | None = None,
    ) -> None:
        codec_package("zfpy", self.name, "zfp")
        if mode == "expert":
            raise MetadataError(
                "mode is expert, which the package zfpy does not have",
                path="mode",
                hint=f"{', '.join(_MEMBERS)} are possible",
            )
        self.mode = choice(mode, "mode", tuple(_MEMBERS))
        self.tolerance = None if tolerance is None else _number(tolerance, "tolerance", 0.0)
        self.rate = None if rate is None else _number(rate, "rate", 2.0**-20)
        self.precision = None if precision is None else integer(precision, "precision", 1, 64)
        for member in ("tolerance", "rate", "precision"):
            belongs = member in _MEMBERS[self.mode]
            if belongs != (getattr(self, member) is not None):
                raise MetadataError(
                    f"{member} {'is required with' if belongs else 'does not belong to'} mode {self.mode}", path=member
                )

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, object], parse: ParseCodecs) -> Self:
        if configuration["mode"] == "expert":
            cls("expert")
        for member in _EXPERT_MEMBERS:
            if member in configuration:
                raise MetadataError(f"{member} belongs to mode expert", path=member)
        return super().from_configuration(configuration, parse)

    def configuration(self) -> dict[str, object] | None:
        return {"mode": self.mode} | {member: getattr(self, member) for member in _MEMBERS[self.mode]}

    def check(self, spec: ChunkSpec, path: str) -> None:
        work = _work_type(spec.dtype)
        if work is None:
            raise MetadataError(
                f"codec {self.name} compresses integers and floating-point numbers, not {spec.dtype}", path=path
            )
        if len(spec.shape) > _MOST_DIMENSIONS:
            raise MetadataError(
                f"codec {self.name} compresses chunks of up to {_MOST_DIMENSIONS} dimensions, not of {len(spec.shape)}",
                path=path,
                hint="put the codec reshape before it",
            )
        if self.mode == "fixed_accuracy" and work.kind != "f":
            raise MetadataError("mode fixed_accuracy is for floating-point numbers", path=f"{path}.configuration.mode")
        least, ndim = _LEAST_BITS[work.str[1:]], len(spec.shape) or 1
        if self.rate is not None and _block_bits(_written_rate(self.rate, ndim, work), ndim) < least:
            raise MetadataError(
                f"rate is {self.rate}: a block of {4 ** max(ndim, _ZARRS_DIMENSIONS)} elements of {work} needs {least} bits at least",
                path=f"{path}.configuration.rate",
            )

    def bound(self, spec: ChunkSpec) -> int:
        """All bits that zfp can write, or read from damaged data: for each block its exponent, each bit plane of all elements, and the tests between."""
        work = _checked_type(spec.dtype)
        shape = spec.shape or (1,)
        elements, planes = 4 ** len(shape), 8 * work.itemsize
        rated = _block_bits(self.rate or 0, max(len(shape), _ZARRS_DIMENSIONS))
        bits = max(elements * (planes + 2) + planes + 64, rated + 64)
        return prod([-(-length // 4) for length in shape]) * int(bits) // 8 + 64

    def _arguments(self, shape: tuple[int, ...], work: Dtype) -> dict[str, object]:
        if self.rate is not None:
            return {"rate": _written_rate(self.rate, len(shape), work)}
        return {member: getattr(self, member) for member in _MEMBERS[self.mode]}

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        zfpy = codec_package("zfpy", self.name, "zfp")
        work = np.ascontiguousarray(_promoted(array)).reshape(spec.shape or (1,))
        return cast("bytes", zfpy.compress_numpy(work, write_header=False, **self._arguments(work.shape, work.dtype)))

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        if not data:
            raise ChunkDecodeError(f"codec {self.name} got no bytes")
        zfpy = codec_package("zfpy", self.name, "zfp")
        work = _checked_type(spec.dtype)
        shape = spec.shape or (1,)
        arguments = self._arguments(shape, work)
        if self.rate is not None and arguments["rate"] == self.rate:
            arguments["rate"] = _stored_rate(self.rate, shape, len(data))
        # zfp reads beyond the end of damaged data, so it needs a buffer for all that it can read
        padded = data + bytes(max(self.bound(spec) - len(data), 0) + 64)
        decoded = zfpy._decompress(padded, zfpy.dtype_to_ztype(work), shape, **arguments)
        return _demoted(decoded.reshape(spec.shape), spec.dtype)


def _block_bits(rate: float, ndim: int) -> int:
    """The bits of a block in mode fixed_rate."""
    return floor((1 << 2 * ndim) * rate + 0.5)


def _written_rate(rate: float, ndim: int, work: Dtype) -> float:
    """The rate of a chunk that is written in mode fixed_rate. With fewer bits in a block than it needs, zfp would write behind the end of its memory: then the
    one of zarrs, which gives each block the bits of a block of three dimensions."""
    if _block_bits(rate, ndim) >= _LEAST_BITS[work.str[1:]]:
        return rate
    return _block_bits(rate, _ZARRS_DIMENSIONS) / (1 << 2 * ndim)


def _stored_rate(rate: float, shape: tuple[int, ...], nbytes: int) -> float:
    """The rate of a chunk of `nbytes` bytes in mode fixed_rate. zarrs gives each block the bits of a block of three dimensions."""
    blocks = prod([-(-length // 4) for length in shape])
    own, theirs = [_block_bits(rate, ndim) for ndim in (len(shape), _ZARRS_DIMENSIONS)]
    own_size, their_size = [-(-blocks * bits // 64) * 8 for bits in (own, theirs)]  # whole words
    return theirs / 4 ** len(shape) if nbytes == their_size != own_size else rate


def _number(value: object, name: str, least: float) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not isfinite(value)
        or not least <= value < 1e300
    ):
        raise MetadataError(f"{name} is {shown(value)}; it must be a number of at least {least}", path=name)
    if name == "rate" and value > 128:
        raise MetadataError(f"rate is {shown(value)}; no element has more than 128 bits", path=name)
    return value


def _work_type(dtype: Dtype) -> Dtype | None:
    """The type as which zfp compresses elements of this dtype."""
    if dtype.kind in "mM":
        return np.dtype(np.int64)
    if dtype.kind in "iuf" and dtype.itemsize >= 4:
        return np.dtype(f"{'f' if dtype.kind == 'f' else 'i'}{dtype.itemsize}") if dtype.itemsize <= 8 else None
    if dtype.kind in "iu" or dtype.name in {"int2", "int4", "uint2", "uint4"}:
        return np.dtype(np.int32)
    if dtype.kind == "f" or (dtype.num >= 256 and "float" in dtype.name):
        return np.dtype(np.float32)
    return None


def _checked_type(dtype: Dtype) -> Dtype:
    work = _work_type(dtype)
    assert work is not None, "check has seen it"
    return work


def _promoted(array: Array) -> Array:
    work = _checked_type(array.dtype)
    if array.dtype.kind in "mM":
        return array.view(np.int64)
    if work.kind == "f":
        return array.astype(work, copy=False)
    if array.dtype.kind == "u" and array.dtype.itemsize >= 4:
        most = 2 ** (8 * work.itemsize - 1) - 1
        if array.size and int(array.max()) > most:
            raise InvalidInputError(f"codec zfp holds numbers up to {most}; there is {int(array.max())}")
        return array.astype(work)
    if array.dtype.itemsize >= 4:
        return array
    bits = bits_of(array.dtype)
    centre = 1 << (bits - 1) if "uint" in array.dtype.name else 0
    promoted: Array = (array.astype(np.int32) - np.int32(centre)) << np.int32(31 - bits)
    return promoted


def _demoted(promoted: Array, dtype: Dtype) -> Array:
    if dtype.kind in "mM":
        return promoted.view(dtype)
    if promoted.dtype == dtype:
        return promoted
    if promoted.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return promoted.astype(dtype)
    if dtype.itemsize >= 4:
        return np.maximum(promoted, 0).astype(dtype)
    bits = bits_of(dtype)
    centre = 1 << (bits - 1)
    numbers = np.clip(promoted >> np.int32(31 - bits), -centre, centre - 1)  # type: ignore[operator]
    promoted = numbers + centre if "uint" in dtype.name else numbers
    return np.asarray(promoted).astype(dtype)  # NumPy makes scalars of arrays of shape ()


class NumcodecsZfpy(ArrayToBytes):
    """zfp behind its header, under the name that zarr-python writes. mode: 2 (rate), 3 (precision), 4 (tolerance) or, as zarrs
    writes it, 5 (reversible); the other members are ignored. A negative value of the mode, which is the default of numcodecs, is reversible, too.

    compression_kwargs: the same values again, as numcodecs writes them for arrays of Zarr v2; they are not kept."""

    name = "numcodecs.zfpy"
    _kept: ClassVar = ("mode", "tolerance", "rate", "precision")
    optional = (*_kept, "compression_kwargs")

    def __init__(
        self,
        mode: int = 4,
        tolerance: float = -1,
        rate: float = -1,
        precision: int = -1,
        compression_kwargs: object = None,
    ) -> None:
        self.mode = integer(mode, "mode", 2, 5)
        self.tolerance, self.rate, self.precision = tolerance, rate, precision
        self._without_header()

    def _without_header(self) -> Zfp:
        """The same codec without a header."""
        value = {2: self.rate, 3: self.precision, 4: self.tolerance}.get(self.mode, -1)
        if isinstance(value, int | float) and value < 0:
            return Zfp()
        if self.mode == 2:
            return Zfp("fixed_rate", rate=value)
        return Zfp("fixed_precision", precision=self.precision) if self.mode == 3 else Zfp("fixed_accuracy", value)

    def configuration(self) -> dict[str, object] | None:
        return {member: getattr(self, member) for member in self._kept}

    def check(self, spec: ChunkSpec, path: str) -> None:
        self._without_header().check(spec, path)

    def bound(self, spec: ChunkSpec) -> int:
        return self._without_header().bound(spec) + 32

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        zfpy = codec_package("zfpy", self.name, "zfp")
        codec, work = self._without_header(), np.ascontiguousarray(_promoted(array)).reshape(spec.shape or (1,))
        return cast("bytes", zfpy.compress_numpy(work, write_header=True, **codec._arguments(work.shape, work.dtype)))

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        zfpy = codec_package("zfpy", self.name, "zfp")
        padded = data + bytes(max(self.bound(spec) - len(data), 0) + 64)
        try:
            header = zfpy.header(padded)
        except ValueError as error:
            raise ChunkDecodeError(f"codec {self.name}: {error}") from error
        found = tuple(header[name] for name in ("nw", "nz", "ny", "nx") if header[name])
        if found != (spec.shape or (1,)) or header["type"] != _work_type(spec.dtype):
            raise ChunkDecodeError(f"codec {self.name}: {header['type']} {found}, not {spec.dtype} {spec.shape}")
        # a header of damaged data may name another mode, whose blocks are longer than the data
        config = header["config"]
        mode = _REVERSIBLE if self._without_header().mode == "reversible" else self.mode
        if config["mode"] != mode or (mode == 2 and not config["rate"] <= self.rate + 64):
            raise ChunkDecodeError(f"codec {self.name}: the header has mode {config['mode']}, not {mode}")
        return _demoted(zfpy.decompress_numpy(padded).reshape(spec.shape), spec.dtype)
