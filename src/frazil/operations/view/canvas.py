"""Pixels of paper, and text on them. figure.py and colour_bar.py draw on it."""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil.base.arrays import Octets
from frazil.operations.view.text import Coverage

Pixels = Octets

INK: Final = (45, 45, 50)
_PAPER: Final = 255


def blank(height: int, width: int, samples: int) -> Pixels:
    """Paper, uint8[height, width, samples]; opaque."""
    return np.full((height, width, samples), _PAPER, np.uint8)


def write(canvas: Pixels, text: Coverage, top: int, left: int) -> None:
    """Draws a text with ink. Parts outside the canvas are cut off."""
    rows = slice(max(0, -top), min(text.shape[0], canvas.shape[0] - top))
    columns = slice(max(0, -left), min(text.shape[1], canvas.shape[1] - left))
    if rows.stop <= rows.start or columns.stop <= columns.start:
        return
    position = canvas[top + rows.start : top + rows.stop, left + columns.start : left + columns.stop, :3]
    part = text[rows, columns, None]
    position[...] = np.rint(position * (1 - part) + np.array(INK, np.float32) * part)
