"""Documents of arrays of Zarr v2 (.zarray) as scanned arrays need them: data type, codecs of Zarr v3 that do the same, byte for byte. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import InvalidInputError
from frazil.integrations.files.runs import check_dtype
from frazil.integrations.files.scanned import bytes_codec, check_shape
from frazil.record import Record

if TYPE_CHECKING:
    from frazil.metadata.json_text import Json

_OF_ARRAYS: Final = frozenset({"delta", "fixedscaleoffset", "quantize", "astype", "bitround", "packbits"})
_OF_BYTES: Final = frozenset({"zlib", "bz2", "lz4", "lzma", "shuffle", "crc32", "adler32", "fletcher32", "crc32c"})
_SHUFFLES: Final = ("noshuffle", "shuffle", "bitshuffle")


class ArrayDocument(Record):
    """What a .zarray says. separator: between the numbers in keys of chunks"""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    chunk_shape: tuple[int, ...]
    codecs: tuple[Mapping[str, Json], ...]
    fill_value: np.generic
    separator: str


def parse_array(document: Mapping[str, Json]) -> ArrayDocument:
    """Raises InvalidInputError for what no array here can have."""
    shape, chunks = _extents(document, "shape", 0), _extents(document, "chunks", 1)
    check_shape(shape)
    if len(shape) != len(chunks):
        raise InvalidInputError(f"chunks {chunks} do not fit the shape {shape}")
    try:
        dtype: np.dtype[np.generic] = np.dtype(document.get("dtype"))  # type: ignore[arg-type] # it is checked here
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"its data type is {document.get('dtype')!r}") from error
    check_dtype(dtype)
    separator = document.get("dimension_separator", ".")
    if separator not in (".", "/"):
        raise InvalidInputError(f"its dimension_separator is {separator!r}")
    codecs = _codecs(document, dtype, len(shape))
    return ArrayDocument(shape, dtype, chunks, codecs, _fill_value(document.get("fill_value"), dtype), str(separator))


def _extents(document: Mapping[str, Json], name: str, least: int) -> tuple[int, ...]:
    value = document.get(name)
    if not isinstance(value, list) or not all(
        isinstance(extent, int) and not isinstance(extent, bool) and extent >= least for extent in value
    ):
        raise InvalidInputError(f"its {name} is {value!r}")
    return tuple([extent for extent in value if isinstance(extent, int)])


def _codecs(document: Mapping[str, Json], dtype: np.dtype[np.generic], rank: int) -> tuple[Mapping[str, Json], ...]:
    """The chain that does what order, filters and compressor do."""
    before: list[Mapping[str, Json]] = []
    after: list[Mapping[str, Json]] = [bytes_codec(dtype)]
    if document.get("order") == "F" and rank > 1:
        before.append({"name": "transpose", "configuration": {"order": list(reversed(range(rank)))}})
    filters = document.get("filters") or []
    compressor = document.get("compressor")
    for entry in [*(filters if isinstance(filters, list) else [filters]), *([compressor] if compressor else [])]:
        name = entry.get("id") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(name, str):
            raise InvalidInputError(f"its codec is {entry!r}")
        rest = {key: value for key, value in entry.items() if key != "id"}
        if name in _OF_ARRAYS and len(after) == 1:
            before.append({"name": f"numcodecs.{name}", "configuration": rest})
        else:
            after.append(_of_bytes(name, rest, dtype))
    return (*before, *after)


def _of_bytes(name: str, rest: dict[str, Json], dtype: np.dtype[np.generic]) -> Mapping[str, Json]:
    if name in _OF_BYTES:
        return {"name": f"numcodecs.{name}", "configuration": rest}
    if name == "zstd":
        return {
            "name": "zstd",
            "configuration": {"level": rest.get("level", 3), "checksum": bool(rest.get("checksum"))},
        }
    if name == "gzip":
        return {"name": "gzip", "configuration": {"level": rest.get("level", 5)}}
    if name == "blosc":
        shuffle = rest.get("shuffle", 1)
        configuration: dict[str, Json] = {
            "cname": rest.get("cname", "lz4"),
            "clevel": rest.get("clevel", 5),
            "shuffle": _SHUFFLES[shuffle] if isinstance(shuffle, int) and 0 <= shuffle <= 2 else "shuffle",
            "typesize": dtype.itemsize,
            "blocksize": rest.get("blocksize", 0),
        }
        return {"name": "blosc", "configuration": configuration}
    raise InvalidInputError(f"its chunks went through the codec {name}, which has no counterpart here")


def _fill_value(value: Json, dtype: np.dtype[np.generic]) -> np.generic:
    """Text of documents that stands for bytes is left out: such a fill value is empty."""
    try:
        number = float(value) if isinstance(value, str) and dtype.kind != "S" else 0 if value is None else value
        filled: np.generic = np.array([b"" if dtype.kind == "S" else number]).astype(dtype)[0]
        return filled
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"its fill_value is {value!r}") from error
