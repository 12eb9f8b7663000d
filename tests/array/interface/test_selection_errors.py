"""Selections that are refused: the error names the array, whatever indexer and method it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import frazil
from frazil.errors import InvalidInputError


def test_every_refused_selection_names_the_array() -> None:
    root = frazil.create_group({})
    array = root.create_array("in/a", shape=(8, 8), dtype="i4", chunks=(2, 2), shards=(4, 4))
    fields = root.create_array("in/s", shape=(8,), dtype=np.dtype([("a", "i4"), ("b", "f4")]), chunks=(4,))
    uneven = root.create_array("in/r", shape=(8,), dtype="i4", chunks=[[2, 3, 3]])
    wrong: list[tuple[object, object]] = [
        *(
            (array, item)
            for item in (99, -9, 1.5, "x", (1, 2, 3), [99], (..., ...), slice(None, None, 0), np.ones((3, 3), bool))
        ),
        *((array.oindex, item) for item in (([99], 0), (0, 1, 2), "x")),
        *((array.vindex, item) for item in (([99], [0]), np.ones((3, 3), bool), ([0], [1, 2, 3], [0]))),
        *((array.blocks, item) for item in (9, "x", (0, 0, 0))),
        *((array.lazy, item) for item in (99, "x", (1, 2, 3), (..., ...), [99], slice("a", "b"))),
        *((array.lazy[1:3], item) for item in (2, [9])),
        *((fields, item) for item in ("q", ("a", "a"), ["a", "q"], 99)),
        *((uneven, item) for item in (99, [99])),
        (uneven.blocks, 9),
    ]
    calls: list[Callable[[], object]] = [partial(where.__getitem__, item) for where, item in wrong]  # type: ignore[attr-defined]
    calls += [partial(where.__setitem__, item, 1) for where, item in wrong]  # type: ignore[attr-defined]
    calls += [
        partial(array.get_mask_selection, [1, 2]),
        partial(array.get_mask_selection, [[True], [True, False]]),
        partial(fields.get_basic_selection, 0, fields=5),
        partial(fields.set_basic_selection, 0, 1, fields="q"),
        partial(array.get_block_selection, (9,)),
        partial(array.get_coordinate_selection, ([99], [0])),
        partial(array.get_orthogonal_selection, ([99], 0)),
        partial(array.append, np.zeros((1, 8), "i4"), axis=7),
    ]
    for call in calls:
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.path in {"in/a", "in/s", "in/r"}, call
