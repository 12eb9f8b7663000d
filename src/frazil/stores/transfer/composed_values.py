"""New values made from others: choosing and concatenating pieces, and rows of several sources in one table. Pure, except for copies that are needed:
two sources with open files cannot become one, so the bytes of one of them are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from frazil.base.arrays import offsets_of
from frazil.indexing.axes import spread
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import MISSING, Columns, Pieces, Sources, pieces_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def composed(sources: Sources, rows: Columns, offsets: NDArray[np.integer]) -> Pieces:
    """Pieces, with columns in the form of the kernel."""
    return Pieces(sources, np.ascontiguousarray(rows), np.ascontiguousarray(offsets, np.int64))


def picked(pieces: Pieces, which: Columns) -> Pieces:
    """Some of the values, in the order given."""
    if len(which) == len(pieces.offsets) - 1 and (which == np.arange(len(which))).all():
        return pieces
    count = np.diff(pieces.offsets)[which]
    rows = pieces.rows[spread(pieces.offsets[:-1][which], count)]
    return composed(pieces.sources, rows, offsets_of(count))


def joined_sources(first: Sources, second: Sources, rows: Columns) -> tuple[Sources, Columns]:
    """Both sources as one, and the rows of the second renumbered; the rows of the first stay as they are."""
    if first.files is not None and second.files is not None and first.files is not second.files:
        values = join_pieces(composed(second, rows, np.arange(len(rows) + 1)))
        second, rows = pieces_of(values)[:2]
    before = len(first.buffers)
    if before and len(second.buffers):
        rows = rows.copy()
        rows[(rows[:, 0] < 0) & (rows[:, 0] != MISSING), 0] -= before
    files = second.files if first.files is None else first.files
    return Sources(files, [*first.buffers, *second.buffers]), rows
