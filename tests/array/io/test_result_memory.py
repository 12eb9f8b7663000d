"""Memory for results: as np.empty gives it, for every data type and at the bounds of what is populated."""

from __future__ import annotations

import numpy as np
import pytest

from frazil import _kernel
from frazil.array.io.read import result_memory

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "dtype", ["u1", ">f4", "M8[ns]", "m8[s]", "U3", "V7", "i4,f8", "c16", "O", np.dtypes.StringDType()]
)
@pytest.mark.parametrize("nbytes", [0, 1, 128 * 1024 - 1, 128 * 1024, MIB, 4 * MIB - 1, 4 * MIB])
def test_memory_is_as_numpy_gives_it(dtype: object, nbytes: int) -> None:
    expected = np.dtype(dtype)  # type: ignore[call-overload]
    shape = (nbytes // expected.itemsize, 1)
    memory = result_memory(shape, expected)
    assert (memory.shape, memory.dtype, memory.flags.c_contiguous) == (shape, expected, True)
    assert memory.flags.writeable and memory.flags.owndata


def test_what_does_not_fit_is_numpys_error() -> None:
    with pytest.raises(MemoryError):
        result_memory((1 << 55,), np.dtype("u1"))
    with pytest.raises(ValueError, match="big"):
        result_memory((1 << 62, 1 << 62), np.dtype("f8"))


@pytest.mark.parametrize("begin", [0, 1, 4095])
def test_populating_changes_no_byte(begin: int) -> None:
    values = np.arange(MIB, dtype=np.uint8)[begin:]
    before = values.copy()
    _kernel.populate(values)
    assert (values == before).all()


@pytest.mark.parametrize("values", [b"read only", np.zeros((4, 4))[:, ::2]])
def test_other_memory_is_refused(values: object) -> None:
    with pytest.raises(ValueError, match="values"):
        _kernel.populate(values)  # type: ignore[arg-type]
