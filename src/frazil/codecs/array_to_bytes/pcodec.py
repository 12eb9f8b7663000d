"""Numbers packed by pcodec, under the name that zarr-python and zarrs write: `numcodecs.pcodec`. The package pcodec does the work."""

from __future__ import annotations

from typing import cast

import numpy as np

from frazil.base.optional_package import codec_package
from frazil.codecs.codec import Array, ArrayToBytes, ChunkSpec, choice, integer
from frazil.codecs.number_types import number_type
from frazil.errors import ChunkDecodeError, MetadataError

_DELTAS = ("auto", "none", "try_consecutive", "try_lookback")


class Pcodec(ArrayToBytes):
    """level: 0 to 12; mode_spec: auto or classic; delta_spec: auto, none, try_consecutive or try_lookback; delta_encoding_order: of try_consecutive, 0 to 7;
    paging_spec: equal_pages_up_to, with this number of elements."""

    name = "numcodecs.pcodec"
    optional = (
        *("level", "mode_spec", "delta_spec", "paging_spec"),
        *("delta_encoding_order", "equal_pages_up_to"),
    )

    def __init__(
        self,
        level: int = 8,
        mode_spec: str = "auto",
        delta_spec: str = "auto",
        paging_spec: str = "equal_pages_up_to",
        delta_encoding_order: int | None = None,
        equal_pages_up_to: int = 2**18,
    ) -> None:
        codec_package("pcodec", self.name, "pcodec")
        self.level = integer(level, "level", 0, 12)
        self.mode_spec = choice(mode_spec, "mode_spec", ("auto", "classic"))
        self.delta_spec = choice(delta_spec, "delta_spec", _DELTAS)
        self.paging_spec = choice(paging_spec, "paging_spec", ("equal_pages_up_to",))
        order = delta_encoding_order
        self.delta_encoding_order = None if order is None else integer(order, "delta_encoding_order", 0, 7)
        self.equal_pages_up_to = integer(equal_pages_up_to, "equal_pages_up_to", 1, 2**24)
        if order is not None and delta_spec not in {"auto", "try_consecutive"}:
            raise MetadataError(
                "delta_encoding_order is only possible with delta_spec try_consecutive", path="delta_encoding_order"
            )

    def check(self, spec: ChunkSpec, path: str) -> None:
        number = number_type(spec.dtype)
        if number is None or number.kind not in "iuf" or number.itemsize not in {2, 4, 8}:
            raise MetadataError(f"codec {self.name} packs numbers of 2, 4 or 8 bytes, not {spec.dtype}", path=path)

    def encode(self, array: Array, spec: ChunkSpec) -> bytes:
        package = codec_package("pcodec", self.name, "pcodec")
        number = number_type(spec.dtype)
        assert number is not None, "check has seen it"
        specs, order = package.DeltaSpec, self.delta_encoding_order
        if order is not None or self.delta_spec == "try_consecutive":
            delta = specs.try_consecutive(1 if order is None else order)
        elif self.delta_spec == "none":
            delta = (getattr(specs, "none", None) or specs.no_op)()  # renamed in pcodec 1.1
        else:
            delta = getattr(specs, self.delta_spec)()
        config = package.ChunkConfig(
            compression_level=self.level,
            mode_spec=getattr(package.ModeSpec, self.mode_spec)(),
            delta_spec=delta,
            paging_spec=package.PagingSpec.equal_pages_up_to(self.equal_pages_up_to),
        )
        flat = np.ascontiguousarray(array).reshape(-1).view(number)
        return cast("bytes", package.standalone.simple_compress(flat, config))

    def decode(self, data: bytes, spec: ChunkSpec) -> Array:
        package = codec_package("pcodec", self.name, "pcodec")
        number = number_type(spec.dtype)
        assert number is not None, "check has seen it"
        chunk = np.empty(spec.shape, spec.dtype)
        flat = chunk.reshape(-1).view(number)
        try:
            progress = package.standalone.simple_decompress_into(data, flat)
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ChunkDecodeError(f"codec {self.name}: {error}") from error
        if progress.n_processed != flat.size or not progress.finished:
            raise ChunkDecodeError(f"codec {self.name}: the encoded chunk does not have {flat.size} numbers")
        return chunk
