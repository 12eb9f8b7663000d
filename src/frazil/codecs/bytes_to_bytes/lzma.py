"""xz and lzma streams, under the name that zarr-python writes: `numcodecs.lzma`. Python's lzma does the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from frazil.codecs.bytes_to_bytes.decompressor import Decompressor, decompress
from frazil.codecs.codec import BytesToBytes, integer
from frazil.errors import MetadataError, shown

_XZ, _ALONE, _RAW = 1, 2, 3  # the numbers of the formats in Python's lzma
_EXTREME = 2**31
_MEMORY = 2**30  # memory limit for decoding; the strongest preset needs 65 MiB


class Lzma(BytesToBytes):
    """format: 1 (xz), 2 (lzma alone) or 3 (raw); check: the number of the checksum, -1 for the format's usual one; preset: None or 0 to 9,
    with 2^31 added for the extreme variants; filters: None, or a chain of objects with an `id`. All as in Python's lzma."""

    __slots__ = ("check", "filters", "format", "preset")
    name: ClassVar[str] = "numcodecs.lzma"
    optional: ClassVar[tuple[str, ...]] = ("format", "check", "preset", "filters")

    def __init__(
        self,
        format: int = _XZ,  # noqa: A002  the member's name
        check: int = -1,
        preset: int | None = None,
        filters: Sequence[Mapping[str, int]] | None = None,
    ) -> None:
        self.format = integer(format, "format", _XZ, _RAW)
        self.check = integer(check, "check", -1, 15)
        self.preset = None if preset is None else integer(preset, "preset", 0, _EXTREME + 9)
        self.filters = None if filters is None else _filters(filters)
        if preset is not None and filters is not None:
            raise MetadataError(
                "preset and filters are both given; a chain of filters has its own presets", path="preset"
            )
        if self.format == _RAW and self.filters is None:
            raise MetadataError("format is 3 (raw), which needs filters", path="filters")
        if self.format != _XZ and self.check > 0:
            raise MetadataError("only format 1 (xz) has a checksum", path="check")

    def configuration(self) -> dict[str, object] | None:
        filters = None if self.filters is None else [dict(entry) for entry in self.filters]
        return {"format": self.format, "check": self.check, "preset": self.preset, "filters": filters}

    def encode(self, data: bytes) -> bytes:
        import lzma

        return lzma.compress(data, self.format, self.check, self.preset, self.filters)

    def decode(self, data: bytes, limit: int) -> bytes:
        import lzma

        def start() -> Decompressor:
            if self.format == _RAW:
                return lzma.LZMADecompressor(_RAW, filters=self.filters)
            return lzma.LZMADecompressor(self.format, memlimit=_MEMORY)

        return decompress(start, data, limit, self.name)


def _filters(value: object) -> tuple[Mapping[str, int], ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise MetadataError(
            f"filters is {shown(value)}; it must be a list of objects with an id, or null", path="filters"
        )
    for at, entry in enumerate(value):
        if not isinstance(entry, Mapping) or "id" not in entry:
            raise MetadataError(f"{shown(entry)} is not an object with an id", path=f"filters[{at}]")
        for name, number in entry.items():
            integer(number, f"filters[{at}].{name}", 0, 2**32 - 1)
    return tuple({str(name): int(number) for name, number in entry.items()} for entry in value)
