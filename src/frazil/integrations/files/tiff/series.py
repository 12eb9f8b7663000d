"""TIFF files, scanned with tifffile: each series of pages as an array, with its pyramid, and the positions of its tiles.

Our codecs decode tiles without compression, or with deflate or zstd and no predictor; tifffile decodes the others.
libraries/scan_worker.py calls this in another process."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from types import ModuleType
from typing import Any, BinaryIO, Final

import numpy as np

from frazil.base.arrays import Values
from frazil.base.optional_package import load_package
from frazil.errors import ChunkDecodeError, FormatError, FrazilError, InvalidInputError
from frazil.formats.manifests import FileCheck
from frazil.integrations.files.contiguous import split_contiguous
from frazil.integrations.files.numpy_files.arrays import array_name
from frazil.integrations.files.runs import check_dtype, scan_run
from frazil.integrations.files.scanned import (
    Box,
    ChunkColumns,
    Library,
    ScannedArray,
    ScannedFile,
    Skipped,
    bytes_codec,
    check_shape,
    no_chunks,
)
from frazil.integrations.files.tiff.messages import tiff_messages
from frazil.metadata.json_text import Json

MAGICS: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_CODECS: Final[dict[int, Mapping[str, Json] | None]] = {  # by the number of the compression
    1: None,
    8: {"name": "numcodecs.zlib", "configuration": {"level": 6}},
    32946: {"name": "numcodecs.zlib", "configuration": {"level": 6}},
    50000: {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
    34926: {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
}
_JPEG: Final = (6, 7)
_NAMES: Final = {"X": "x", "Y": "y", "Z": "z", "T": "time", "C": "channel", "S": "sample"}
_FILE_NAME: Final = re.compile(r"""FileName=["']([^"']*)["']""")  # in OME-XML, of the file that contains a page
_MOST_COLOURS: Final = 2**12
_MOST_TEXT: Final = 2**16  # characters of a description that is kept


def load_tifffile() -> ModuleType:
    """Raises InvalidInputError where it is not installed."""
    return load_package("tifffile", "TIFF files are read with", "tiff")


def scan_tiff(file: BinaryIO, name: str, state: FileCheck) -> ScannedFile:
    """The series of a file that is open for reading, and their pyramids. A single array has the name of the file, others are series0, series0_level1, and so
    on.

    Raises InvalidInputError without tifffile, FormatError if the file is damaged, MemoryError."""
    tifffile = load_tifffile()
    arrays: list[ScannedArray] = []
    skipped: list[Skipped] = []
    tiles = 0
    with tiff_messages() as messages:
        try:
            # a file must not choose which other files are opened, as OME-XML could
            with tifffile.TiffFile(file, _multifile=False) as tiff:
                levels = [
                    (i, k, level) for i, series in enumerate(tiff.series) for k, level in enumerate(series.levels)
                ]
                for i, k, level in levels:
                    path = array_name(name) if len(levels) == 1 else f"series{i}" + (f"_level{k}" if k else "")
                    try:
                        arrays.append(_scanned(tiff, level, path, f"{i}/{k}", file, state.size))
                    except InvalidInputError as error:
                        skipped.append(Skipped(path, None, messages.explained(error.message)))
                    else:
                        tiles += len(arrays[-1].chunks.offsets)
                    if tiles > state.size:
                        raise FormatError(f"the TIFF file is damaged: {tiles} tiles in {state.size} bytes", key=name)
                kind = "OME-TIFF" if tiff.is_ome else "TIFF"
        except (FrazilError, MemoryError):
            raise
        except Exception as error:  # tifffile raises errors of many classes for damaged files
            raise FormatError(f"the TIFF file is damaged: {messages.explained(error)}", key=name) from error
    if messages.lacks_memory:
        raise FormatError("there is not enough memory for its pages: the TIFF file is damaged, or very large", key=name)
    if messages.circle:  # tifffile drops some of the pages
        raise FormatError(f"the TIFF file is damaged: its pages form a circle: {messages.circle}", key=name)
    if not levels:
        raise FormatError(messages.explained("the TIFF file is damaged: it has no page that can be read"), key=name)
    return ScannedFile(kind, state, {"": {}}, tuple(arrays), tuple(skipped))


def _scanned(tiff: Any, series: Any, path: str, address: str, file: BinaryIO, size: int) -> ScannedArray:
    """Raises InvalidInputError for a series that cannot be an array here."""
    dtype = np.dtype(series.dtype).newbyteorder(tiff.byteorder)
    shape = tuple(map(int, series.shape))
    check_dtype(dtype)
    check_shape(shape)
    names = _dimension_names(series.axes)
    attributes = _attributes(series)
    if len(set(_FILE_NAME.findall(tiff.ome_metadata or ""))) > 1 or any(page is None for page in series.pages):
        raise InvalidInputError("some of its pages are in other files, or missing")
    if series.dataoffset:  # 0: its only strip is not stored
        return scan_run(
            file, size, path, dtype, shape, int(series.dataoffset), attributes=attributes, dimension_names=names
        )
    page = series.keyframe
    plain = len(page.chunks) == len(page.shape) and shape[-len(page.shape) :] == tuple(page.shape)
    inner = tuple(map(int, page.chunks)) if plain else ()
    if 0 in inner:
        raise InvalidInputError(f"the file is damaged: its tiles have the shape {inner}")
    whole = not inner
    chunk_shape = (*[1] * (len(shape) - len(inner)), *inner) if inner else split_contiguous(shape, dtype.itemsize)
    reason = _undecodable(page, dtype, shape, inner)
    library = Library("tifffile", f"{address}/{'whole' if whole else 'pages'}", reason) if reason else None
    chunks = no_chunks(len(shape)) if library else _tiles(series, shape, chunk_shape, len(inner), size)
    codec = _CODECS.get(int(page.compression))
    codecs = (bytes_codec(dtype), *([codec] if codec else []))
    return ScannedArray(
        path,
        shape,
        dtype,
        chunk_shape,
        codecs,
        _fill(page, dtype),
        attributes,
        names,
        chunks,
        (),
        chunked=not whole,
        library=library,
    )


def _fill(page: Any, dtype: np.dtype[np.generic]) -> np.generic:
    """The value of tiles that are not stored: that of GDAL's tag for no data, if the data type has it, else 0. tifffile ignores the tag if it has more digits
    than the data type, or a decimal point for integers."""
    tag, fill = page.tags.get("GDAL_NODATA"), np.zeros(1, dtype)
    text = "" if tag is None else str(tag.value)
    with suppress(ValueError, OverflowError), np.errstate(over="ignore"):
        if dtype.kind == "f":
            fill = np.array([float(text)]).astype(dtype)
        elif dtype.kind in "iu":
            number = int(text) if text.strip("-+ ").isdigit() else float(text)
            if np.iinfo(dtype.str).min <= number <= np.iinfo(dtype.str).max:
                fill = np.array([int(number)], dtype)
    value: np.generic = fill[0]
    return value


def _dimension_names(axes: str) -> tuple[str, ...]:
    """The name of each axis. Axes of one name are numbered: xarray opens no array in which two dimensions have one name."""
    names = [_NAMES.get(axis, axis.lower()) for axis in axes]
    return tuple([name if names.count(name) == 1 else f"{name}{names[:i].count(name)}" for i, name in enumerate(names)])


def _attributes(series: Any) -> dict[str, Json]:
    """What the elements mean. An element of a palette is a row of `colormap`: red, green and blue of 16 bits; of "miniswhite", 0 is white. Raises
    InvalidInputError for a colour map that is too long for an attribute."""
    found: dict[str, Json] = {"axes": str(series.axes)}
    photometric = getattr(series.keyframe.photometric, "name", str(series.keyframe.photometric)).lower()
    if photometric == "ycbcr" and int(series.keyframe.compression) in _JPEG:
        photometric = "rgb"  # as tifffile decodes it
    if photometric != "minisblack":
        found["photometric"] = photometric
    colours = series.keyframe.colormap
    if colours is not None:
        if colours.shape[-1] > _MOST_COLOURS:
            raise InvalidInputError(f"its colour map has {colours.shape[-1]} colours; at most {_MOST_COLOURS} are read")
        found["colormap"] = colours.T.tolist()
    description = series.keyframe.description
    if isinstance(description, str) and 0 < len(description) <= _MOST_TEXT:
        found["description"] = description
    return found


def _undecodable(page: Any, dtype: np.dtype[np.generic], shape: tuple[int, ...], inner: tuple[int, ...]) -> str:
    """The reason why our codecs cannot decode the tiles of a series; "" if they can."""
    if int(page.compression) not in _CODECS:
        return f"its tiles are compressed with {getattr(page.compression, 'name', page.compression)}, which no codec here decodes"
    if int(page.predictor) != 1:
        return f"its tiles have the predictor {getattr(page.predictor, 'name', page.predictor)}"
    if int(page.fillorder) != 1 or int(page.bitspersample) != 8 * dtype.itemsize:
        return f"its elements have {page.bitspersample} bits, in a packed or reversed order"
    if int(getattr(page, "photometric", 1)) == 6:
        return "its colours are YCbCr"
    if not inner:
        return "its pages are put together"
    if not page.is_tiled and any(extent % part for extent, part in zip(shape[-len(inner) :], inner, strict=True)):
        return "its last strips are shorter than the others"
    return ""


def _tiles(series: Any, shape: tuple[int, ...], chunk_shape: tuple[int, ...], rank: int, size: int) -> ChunkColumns:
    """The positions of the tiles of all pages. Pages and tiles that are not stored are left out. Raises InvalidInputError if the file ends before."""
    grid = [-(-extent // part) for extent, part in zip(shape, chunk_shape, strict=True)]
    before, inside = grid[: len(grid) - rank], grid[len(grid) - rank :]
    count = math.prod(inside)
    if any(page is not None and min(len(page.dataoffsets), len(page.databytecounts)) < count for page in series.pages):
        raise InvalidInputError(f"the file is damaged: a page has {count} tiles, and does not say where they are")
    offsets = np.zeros((math.prod(before), count), np.int64)
    lengths = np.zeros_like(offsets)
    for number, page in enumerate(series.pages):
        if page is not None and number < len(offsets):
            offsets[number] = page.dataoffsets[:count]
            lengths[number] = page.databytecounts[:count]
    coordinates = np.indices(grid, np.int64).reshape(len(grid), -1).T
    flat, nbytes = offsets.reshape(-1), lengths.reshape(-1)
    if (flat > size - nbytes).any():
        raise InvalidInputError(f"the file is cut short: a tile ends after the file's {size} bytes")
    stored = np.flatnonzero((nbytes > 0) & (flat > 0))
    return ChunkColumns(np.ascontiguousarray(coordinates[stored]), flat[stored], nbytes[stored])


# --- tiles that tifffile decodes -------------------------------------------------------------------------------------------------------


class OpenTiff:
    """A file whose series are read. file: is closed by close"""

    def __init__(self, file: BinaryIO) -> None:
        self._file: Final = file
        with tiff_messages():  # the scan has read the same structure
            self._tiff: Any = load_tifffile().TiffFile(file, _multifile=False)
            self._series: Any = self._tiff.series
        self._whole: dict[str, Values] = {}  # arrays that cannot be decoded in parts, mapped from temporary files

    def read(self, wanted: Box) -> Values:
        """The elements of a box. Raises ChunkDecodeError, MemoryError."""
        address = wanted.library.address
        number, level, how = address.split("/")
        with tiff_messages() as messages:
            try:
                series = self._series[int(number)].levels[int(level)]
                if how == "pages":
                    return _read_tiles(series, wanted.box, wanted.fill_value)
                if address not in self._whole:
                    self._whole[address] = _read_whole(series, wanted.shape)
                return self._whole[address][wanted.box]
            except (FrazilError, MemoryError):
                raise
            except Exception as error:  # tifffile and its codecs raise errors of many classes
                raise ChunkDecodeError(f"tifffile cannot decode it: {messages.explained(error)}") from error

    def close(self) -> None:
        self._tiff.close()
        self._file.close()


def _read_whole(series: Any, shape: tuple[int, ...]) -> Values:
    values: Values = series.asarray(out="memmap")
    if values.shape != shape:
        raise ChunkDecodeError(f"the file is damaged: its pages have the shape {values.shape}, and not {shape}")
    return values


def _read_tiles(series: Any, box: tuple[slice, ...], fill: np.generic) -> Values:
    """A box of a series, from the tiles or strips that it overlaps. fill: where they are not stored"""
    keyframe = series.keyframe
    rank = len(keyframe.shape)
    outer, inner = box[: len(box) - rank], box[len(box) - rank :]
    values = np.full([part.stop - part.start for part in box], fill, series.dtype)
    sizes, grid = keyframe.chunks, keyframe.chunked
    spans = [range(part.start // size, -(-part.stop // size)) for part, size in zip(inner, sizes, strict=True)]
    for outer_index in product(*[range(part.start, part.stop) for part in outer]):
        number = int(np.ravel_multi_index(outer_index, series.shape[: len(outer)])) if outer_index else 0
        page = series.pages[number]
        if page is None:
            continue
        into = values[tuple([at - part.start for at, part in zip(outer_index, outer, strict=True)])]
        for tile in product(*spans):
            row = int(np.ravel_multi_index(tile, grid))
            decoded = _tile(keyframe, page, row)
            if decoded is None:
                continue
            starts = [at * size for at, size in zip(tile, sizes, strict=True)]
            decoded = decoded.reshape(_shape_of(decoded, sizes))
            low = [max(start, part.start) for start, part in zip(starts, inner, strict=True)]
            high = [
                min(start + extent, part.stop) for start, extent, part in zip(starts, decoded.shape, inner, strict=True)
            ]
            into[
                tuple([slice(a - part.start, b - part.start) for a, b, part in zip(low, high, inner, strict=True)])
            ] = decoded[tuple([slice(a - start, b - start) for a, b, start in zip(low, high, starts, strict=True)])]
    return values


def _tile(keyframe: Any, page: Any, row: int) -> Values | None:
    """A tile of a page, decoded; None if it is not stored. Raises ChunkDecodeError if the page does not say where it is."""
    if row >= min(len(page.dataoffsets), len(page.databytecounts)):
        raise ChunkDecodeError("the file is damaged: a page does not say where its tiles are")
    count = page.databytecounts[row]
    if not count or not page.dataoffsets[row]:
        return None
    handle = keyframe.parent.filehandle
    handle.seek(page.dataoffsets[row])
    options = {"jpegtables": page.jpegtables, "jpegheader": keyframe.jpegheader} if page.jpegtables is not None else {}
    # imagecodecs cannot decode the first JPEG of a process unless another reference to its bytes exists
    encoded = handle.read(count)
    decoded, _, _ = keyframe.decode(encoded, row, **options)
    return decoded if decoded is None else np.asarray(decoded)


def _shape_of(decoded: Values, sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape of a decoded tile (depth, length, width, samples) without dimensions that pages do not have; the last strip is shorter than the others."""
    squeezed = [extent for extent in decoded.shape if extent != 1]
    expected = [size for size in sizes if size != 1]
    if len(squeezed) == len(expected):
        found = iter(squeezed)
        return tuple([1 if size == 1 else next(found) for size in sizes])
    return tuple(sizes) if decoded.size == math.prod(sizes) else (decoded.size // math.prod(sizes[1:]), *sizes[1:])
