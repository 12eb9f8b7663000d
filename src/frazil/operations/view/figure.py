"""A whole picture: the pixels of the values between their axes, below a title, beside a colour bar or a legend. picture.py has the colours, axes.py the
ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.base.record import Record
from frazil.operations.view.axes import Axis
from frazil.operations.view.canvas import INK, Pixels, blank, write
from frazil.operations.view.colour_bar import colour_bar, legend
from frazil.operations.view.coordinates import Caption
from frazil.operations.view.picture import Scale, raster
from frazil.operations.view.text import Coverage, line_height, text_coverage

_LEAST_SIDE: Final = 512  # smaller pictures are enlarged, with a square of pixels for each value
# the greatest ratio of the longer side to the shorter one: beyond it the values are not drawn as squares
_THINNEST: Final = 3
_SMALLEST_TEXT, _LARGEST_TEXT = 9, 28
_NO_MEANINGS: Final[Mapping[float, str]] = {}


class _Frame(Record):
    """The position of the values on the canvas. size: of the text; tick: length of a tick"""

    top: int
    left: int
    height: int
    width: int
    size: int

    @property
    def tick(self) -> int:
        return max(3, self.size // 2)

    @property
    def gap(self) -> int:
        return self.size // 3

    @property
    def line(self) -> int:
        return max(1, self.size // 10)


def draw_bare(values: NDArray[np.float64], scale: Scale) -> Pixels:
    """Only the values, with a pixel or a square of pixels for each. values: float64[height, width]; returns uint8[..., ..., 3 or 4]."""
    enlarge = -(-_LEAST_SIDE // max(values.shape))
    return raster(values, scale).repeat(enlarge, axis=0).repeat(enlarge, axis=1)


def draw_figure(
    values: NDArray[np.float64],
    scale: Scale,
    caption: Caption,
    factor: int,
    meanings: Mapping[float, str] = _NO_MEANINGS,
) -> Pixels:
    """The values with everything around them.

    values    float64[height, width];  factor: elements of an axis for each value
    meanings  of single values, for the legend"""
    vertical, horizontal = caption.axes
    pixels = _enlarged(raster(values[::-1] if vertical.reverses else values, scale))
    height, width = pixels.shape[:2]
    size = min(_LARGEST_TEXT, max(_SMALLEST_TEXT, round(max(height, width) / 90)))
    down = _positions(vertical, height / len(values) / factor, height, height // (3 * line_height(size)))
    if vertical.reverses:
        down = [(height - position, text) for position, text in down]
    rows = [(position, text_coverage(text, size)) for position, text in down]
    columns = _fitting(horizontal, width / values.shape[1] / factor, width, size)
    strip = (
        colour_bar(scale.colours, scale.low, scale.high, height, size)
        if scale.entries is None
        else legend(scale.colours, scale.entries, meanings, height, size)
    )
    above = (strip.shape[0] - height) // 2 if scale.entries is None else 0
    headings = [text_coverage(caption.title, round(size * 1.3)), text_coverage(caption.subtitle, size)]
    headings = [text for text in headings if text.shape[1]]
    line = line_height(size)
    top = size + sum(text.shape[0] for text in headings) + size // 2 + above
    left = size + line + size // 2 + max((text.shape[1] for _, text in rows), default=0) + size
    frame = _Frame(top, left, height, width, size)
    beside = text_coverage(vertical.name, size)
    bottom = max(
        top + height + frame.tick + 2 * line + frame.gap + size,
        top - above + strip.shape[0] + size,
        beside.shape[1] + size,
    )
    right = max(
        left + width + strip.shape[1] + size, left + max((text.shape[1] for text in headings), default=0) + size
    )
    canvas = blank(bottom, right, pixels.shape[2])
    _draw_frame(canvas, frame)
    canvas[top : top + height, left : left + width] = pixels
    canvas[top - above : top - above + strip.shape[0], left + width : left + width + strip.shape[1]] = strip
    at = size
    for text in headings:
        write(canvas, text, at, left)
        at += text.shape[0]
    _draw_rows(canvas, frame, rows, beside)
    _draw_columns(canvas, frame, columns, text_coverage(horizontal.name, size))
    return canvas


def _enlarged(pixels: Pixels) -> Pixels:
    enlarge = -(-_LEAST_SIDE // max(pixels.shape[:2]))
    least = max(pixels.shape[:2]) * enlarge // _THINNEST
    for axis in range(2):
        pixels = pixels.repeat(max(enlarge, -(-least // pixels.shape[axis])), axis=axis)
    return pixels


def _positions(axis: Axis, scale: float, length: int, most: int) -> list[tuple[int, str]]:
    """Ticks in pixels."""
    return [(min(length - 1, round(position * scale - 0.5)), text) for position, text in axis.ticks(max(2, most))]


def _fitting(axis: Axis, scale: float, length: int, size: int) -> list[tuple[int, Coverage]]:
    """Ticks of a horizontal axis, as many as fit beside each other."""
    most = length // (5 * size)
    while True:
        found = sorted(
            [(position, text_coverage(text, size)) for position, text in _positions(axis, scale, length, most)],
            key=lambda tick: tick[0],
        )
        ends = [position + text.shape[1] // 2 + size // 2 for position, text in found]
        starts = [position - text.shape[1] // 2 for position, text in found]
        if most <= 2 or all(end <= start for end, start in zip(ends, starts[1:], strict=False)):
            return found
        most = most * 3 // 4


def _draw_frame(canvas: Pixels, frame: _Frame) -> None:
    top, left, line = frame.top, frame.left, frame.line
    canvas[top - line : top + frame.height + line, left - line : left + frame.width + line, :3] = INK


def _draw_rows(canvas: Pixels, frame: _Frame, ticks: list[tuple[int, Coverage]], name: Coverage) -> None:
    for position, text in ticks:
        row = frame.top + position - frame.line // 2
        canvas[row : row + frame.line, frame.left - frame.tick : frame.left, :3] = INK
        write(canvas, text, row - text.shape[0] // 2, frame.left - frame.tick - frame.gap - text.shape[1])
    name = np.rot90(name)
    middle = frame.top + (frame.height - name.shape[0]) // 2
    write(canvas, name, max(0, min(middle, canvas.shape[0] - name.shape[0])), frame.size // 2)


def _draw_columns(canvas: Pixels, frame: _Frame, ticks: list[tuple[int, Coverage]], name: Coverage) -> None:
    below = frame.top + frame.height
    for position, text in ticks:
        column = frame.left + position - frame.line // 2
        canvas[below : below + frame.tick, column : column + frame.line, :3] = INK
        write(canvas, text, below + frame.tick, column - text.shape[1] // 2)
    centred = frame.left + max(0, (frame.width - name.shape[1]) // 2)
    write(canvas, name, below + frame.tick + line_height(frame.size) + frame.gap, centred)
