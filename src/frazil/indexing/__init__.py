"""Selections -> plans in columns for the kernel. Pure: no I/O, no data type, no codec.

selection.py normalises selections; box.py (with axes.py) and points.py make plans of them; single_chunk.py has the short path for one chunk. Not here: the
execution of plans (array/io/)."""

from typing import TYPE_CHECKING

from frazil.base.late import late_names
from frazil.indexing.single_chunk import SingleChunk, single_chunk

if TYPE_CHECKING:
    from frazil.indexing.box import BoxBatch, BoxChunks, BoxPlan, box_plan
    from frazil.indexing.points import PointBatch, PointChunks, PointPlan, point_plan
    from frazil.indexing.selection import (
        AxisSelection,
        BoxSelection,
        PointSelection,
        basic,
        blocks,
        orthogonal,
        vectorised,
    )

__all__ = [
    "AxisSelection",
    "BoxBatch",
    "BoxPlan",
    "BoxSelection",
    "BoxChunks",
    "PointBatch",
    "PointPlan",
    "PointSelection",
    "PointChunks",
    "SingleChunk",
    "basic",
    "blocks",
    "box_plan",
    "orthogonal",
    "point_plan",
    "single_chunk",
    "vectorised",
]
if not TYPE_CHECKING:
    _SELECTIONS = ("AxisSelection", "BoxSelection", "PointSelection", "basic", "blocks", "orthogonal", "vectorised")
    __getattr__, __dir__ = late_names(
        __name__,
        {
            **dict.fromkeys(("BoxBatch", "BoxChunks", "BoxPlan", "box_plan"), "frazil.indexing.box"),
            **dict.fromkeys(_SELECTIONS, "frazil.indexing.selection"),
            **dict.fromkeys(("PointBatch", "PointChunks", "PointPlan", "point_plan"), "frazil.indexing.points"),
        },
    )
