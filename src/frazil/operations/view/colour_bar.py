"""The key to the colours beside a picture: a bar of all colours with round values, or a legend of few values. text.py draws text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from frazil.operations.view.canvas import INK, Pixels, blank, write
from frazil.operations.view.text import line_height, text_coverage
from frazil.operations.view.ticks import ticks

_LONGEST: Final = 40  # characters of a meaning


def colour_bar(table: Pixels, low: float, high: float, height: int, size: int) -> Pixels:
    """The colours from low, at the bottom, to high, and round values beside them. table: uint8[256, samples]; size: of the text."""
    margin, bar_width, tick, line = size, 2 * size, max(2, size // 2), line_height(size)
    labels = [
        (value, text_coverage(text, size)) for value, text in ticks(low, high, max(2, min(9, height // (2 * line))))
    ]
    width = margin + bar_width + 2 * tick + max(text.shape[1] for _, text in labels)
    above = line // 2
    strip = blank(height + 2 * above, width, table.shape[1])
    colours = table[::-1][(np.arange(height) * 256) // height]
    strip[above : above + height, margin : margin + bar_width] = colours[:, None]
    right = margin + bar_width
    thick = max(1, size // 10)
    for value, text in labels:
        row = above + height - 1 - round((value / 2 - low / 2) / (high / 2 - low / 2) * (height - 1))
        strip[max(0, row - thick // 2) : row - thick // 2 + thick, right : right + tick, :3] = INK
        write(strip, text, row - line // 2, right + 2 * tick)
    return strip


def legend(
    colours: Pixels, values: NDArray[np.float64], meanings: Mapping[float, str], height: int, size: int
) -> Pixels:
    """A square of colour for each value, the greatest at the top, with the value and its meaning beside it; in columns if there are many.
    colours: uint8[values, samples]"""
    line, side, gap = round(line_height(size) * 1.15), round(size * 1.4), size
    texts = [text_coverage(_label(value, meanings), size) for value in values.tolist()]
    rows = max(1, min(len(texts), height // line))
    columns = [range(start, min(start + rows, len(texts))) for start in range(0, len(texts), rows)]
    widths = [gap + side + gap // 2 + max(texts[-1 - i].shape[1] for i in column) for column in columns]
    strip = blank(max(height, rows * line), sum(widths), colours.shape[1])
    left = 0
    for column, width in zip(columns, widths, strict=True):
        for row, i in enumerate(column):
            top = row * line + (line - side) // 2
            strip[top : top + side, left + gap : left + gap + side] = colours[-1 - i]
            write(strip, texts[-1 - i], row * line + (line - line_height(size)) // 2, left + gap + side + gap // 2)
        left += width
    return strip


def _label(value: float, meanings: Mapping[float, str]) -> str:
    """A value as text: whole numbers in full, as they may be codes; others with enough digits to read back the same value."""
    number = str(int(value)) if value.is_integer() and abs(value) < 1e9 else f"{value!r}"
    meaning = meanings.get(value)
    return number if meaning is None else f"{number}  {meaning[:_LONGEST]}"
