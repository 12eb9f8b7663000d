"""From what a user wrote between brackets to columns for the kernel. Pure: no I/O, no dtype, no codec.

selection  brackets and a shape -> BoxSelection or PointSelection
axes       one axis of a box against the chunks along it
box        the product of axes, expanded batch by batch
points     single elements, grouped by chunk
single     the short way for a selection that lies within one chunk"""

from frazil.indexing.box import BoxBatch, BoxPlan, BoxUnits, box_plan
from frazil.indexing.points import PointBatch, PointPlan, PointUnits, point_plan
from frazil.indexing.selection import (
    AxisSelection,
    BoxSelection,
    PointSelection,
    basic,
    blocks,
    orthogonal,
    vectorised,
)
from frazil.indexing.single_chunk import SingleChunk, single_chunk

__all__ = [
    "AxisSelection",
    "BoxBatch",
    "BoxPlan",
    "BoxSelection",
    "BoxUnits",
    "PointBatch",
    "PointPlan",
    "PointSelection",
    "PointUnits",
    "SingleChunk",
    "basic",
    "blocks",
    "box_plan",
    "orthogonal",
    "point_plan",
    "single_chunk",
    "vectorised",
]
