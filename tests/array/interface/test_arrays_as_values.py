"""Arrays that cannot be read, given as values, indices and data: the read error is raised unchanged, though NotFoundError is also a ValueError."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.errors import NotFoundError
from frazil.stores.memory import MemoryStore


class Unreadable:
    """An array whose manifest is missing."""

    shape, ndim = (4,), 1

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise NotFoundError("there is no such file", key="manifests/x")


USES: dict[str, Callable[[frazil.Array, object], object]] = {
    "value": lambda array, values: array.__setitem__(..., values),
    "index": lambda array, values: array[values],
    "view": lambda array, values: array.lazy[:][values],
    "mask": lambda array, values: array.get_mask_selection(values),
    "data": lambda array, values: frazil.array(values),
}


@pytest.mark.parametrize("use", USES)
def test_the_error_is_that_of_the_read(use: str) -> None:
    array = frazil.create_array(MemoryStore(), shape=(4,), dtype="i4", chunks=(2,))
    with pytest.raises(NotFoundError, match="no such file"):
        USES[use](array, Unreadable())
    assert not array[...].any()
