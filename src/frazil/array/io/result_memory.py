"""Memory for the results of reads. What is written to it is in read.py and single_chunk.py."""

from __future__ import annotations

from typing import Final

import numpy as np

from frazil import _kernel
from frazil.base.arrays import Values

# From here on malloc takes fresh pages of the system, one page fault each; from 4 MiB on NumPy asks for huge pages, which need few.
_FRESH_PAGES: Final = range(128 * 1024, 4 * 1024 * 1024)


def result_memory(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Values:
    """np.empty(shape, dtype), with its pages: a read of a megabyte is a sixth faster. Raises ValueError and MemoryError as NumPy does."""
    values = np.empty(shape, dtype)
    if values.nbytes in _FRESH_PAGES and not dtype.hasobject:
        _kernel.populate(values.view(np.uint8))  # some data types have no buffers
    return values
