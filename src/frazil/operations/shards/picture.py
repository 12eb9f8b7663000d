"""One shard as a picture of its bytes: in characters, or as pixels whose colours show the position of an inner chunk in the grid. shards.py finds the positions
of inner chunks in the bytes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.base.reports import counted, human
from frazil.operations.shards.shards import Shard
from frazil.operations.view.canvas import INK, Pixels, blank, write
from frazil.operations.view.colour_bar import colour_bar
from frazil.operations.view.picture import colour_scale, raster
from frazil.operations.view.text import line_height, text_coverage

_WIDTH: Final = 64  # characters of a line
_LINES: Final = 8
_PIXELS: Final = 512, 256  # width and height
_TEXT: Final = 10  # height of capitals, in pixels
_SIGNS: Final = {"chunk": "#", "index": "i", "unused": "."}


def shard_text(shard: Shard) -> str:
    """Lines of characters from the first byte to the last: # inner chunks, i the index, . unused. A character shows the kind of its first byte. An index or
    unused bytes that are shorter than a character also get one."""
    size = _size(shard)
    count = max(1, min(_WIDTH * _LINES, size))
    signs = ["#"] * count
    for kind in ("index", "unused"):
        for piece in shard.pieces:
            if piece.kind == kind and piece.nbytes:
                first = piece.start * count // size
                last = max(first, (piece.start + piece.nbytes) * count // size - 1)
                signs[first : last + 1] = _SIGNS[kind] * (last + 1 - first)
    text = "".join(signs)
    lines = [text[low : low + _WIDTH] for low in range(0, count, _WIDTH)]
    each = -(-size // count)
    return "\n".join([*lines, f"# inner chunks, i index, . unused; one character is about {counted(each, 'byte')}"])


def draw_shard(shard: Shard) -> Pixels:
    """Pixels from the first byte, at the top left, to the last one, line by line, with a title and a legend. Colours: the position of the inner chunk in C
    order among those of its shard; dark: the index; grey: unused bytes."""
    width, height = _PIXELS
    positions = np.arange(width * height) * _size(shard) // (width * height)
    values = np.full(len(positions), np.nan)
    dark = np.zeros(len(positions), np.bool_)
    chunks = [piece for piece in shard.pieces if piece.kind == "chunk" and piece.nbytes]
    ranks = _ranks(np.array([piece.chunk for piece in chunks], np.int64).reshape(len(chunks), len(shard.coords)))
    for piece, rank in zip(chunks, ranks.tolist(), strict=True):
        low, high = np.searchsorted(positions, (piece.start, piece.start + piece.nbytes))
        values[low:high] = rank
    for piece in shard.pieces:
        if piece.kind == "index":
            low, high = np.searchsorted(positions, (piece.start, piece.start + piece.nbytes))
            dark[low : max(high, low + 1)] = True
    shown = values.reshape(height, width)
    scale = colour_scale(shown, "dusk", low=0, high=max(1, shard.total - 1))
    pixels = raster(shown, scale)
    pixels[dark.reshape(height, width)] = INK
    bar = colour_bar(scale.colours, scale.low, scale.high, height - line_height(_TEXT) // 2 * 2, _TEXT)
    return _framed(np.concatenate((pixels, bar), axis=1), shard)


def _framed(picture: Pixels, shard: Shard) -> Pixels:
    """A picture on paper, with a title above it and its legend below."""
    coords = ", ".join(map(str, shard.coords))
    title = text_coverage(f"shard {coords}: {human(shard.nbytes)}, {shard.chunks} of {shard.total} inner chunks", _TEXT)
    legend = text_coverage("colour: inner chunk, counted in C order; dark: index; grey: unused", _TEXT)
    line = line_height(_TEXT)
    height, width = picture.shape[:2]
    canvas = blank(
        height + 2 * (_TEXT + line), max(width, title.shape[1], legend.shape[1]) + 2 * _TEXT, picture.shape[2]
    )
    canvas[_TEXT + line : _TEXT + line + height, _TEXT : _TEXT + width] = picture
    write(canvas, title, _TEXT // 2, _TEXT)
    write(canvas, legend, _TEXT + line + height + _TEXT // 2, _TEXT)
    return canvas


def _size(shard: Shard) -> int:
    """Bytes of the (decoded) shard: the end of its last piece."""
    return max((piece.start + piece.nbytes for piece in shard.pieces), default=1)


def _ranks(chunks: NDArray[np.int64]) -> NDArray[np.float64]:
    """The rank of each chunk in C order, from 0 to the number of chunks in the bounding box of all."""
    if not len(chunks):
        return np.zeros(0)
    least, extent = chunks.min(axis=0), np.ptp(chunks, axis=0) + 1
    ranks = np.zeros(len(chunks), np.float64)
    for axis, count in enumerate(extent.tolist()):
        ranks = ranks * count + (chunks[:, axis] - least[axis])
    return ranks
