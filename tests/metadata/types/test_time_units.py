"""Times in another unit. What they are when written to arrays is in tests/array."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.metadata.types.datetimes import in_unit


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (np.array(["2000-01-01T00:00:01.5", "NaT"], "M8[ns]"), "M8[s]", ["2000-01-01T00:00:01", "NaT"]),
        (np.array(["1969-12-31T23:59:59.5"], "M8[ms]"), "M8[s]", ["1969-12-31T23:59:59"]),
        (np.array([3, -1], "M8[25s]"), ">M8[s]", ["1970-01-01T00:01:15", "1969-12-31T23:59:35"]),
        (np.array(30, "M8[Y]"), "M8[D]", "2000-01-01"),
        (np.array([292, -292], "M8[Y]"), "M8[ns]", ["2262-01-01", "1678-01-01"]),
        (np.array([602], "M8[M]"), "M8[W]", ["2020-02-27"]),
        (np.array([], "M8[s]"), "M8[ns]", []),
        (np.array([1, -2], ">i8").view(">M8"), "M8[s]", ["1970-01-01T00:00:01", "1969-12-31T23:59:58"]),
    ],
)
def test_times_in_another_unit(values: np.ndarray, dtype: str, expected: object) -> None:
    found = in_unit(values, np.dtype(dtype), "a")
    assert found.dtype == dtype
    assert np.array_equal(found, np.array(expected, dtype), equal_nan=True)


@pytest.mark.parametrize("source", ["<M8", ">M8", ">M8[s]"])
@pytest.mark.parametrize("dtype", ["<M8", ">M8"])
def test_times_without_a_unit_keep_their_numbers(source: str, dtype: str) -> None:
    """NumPy's astype leaves such values in their byte order: their bytes were written as other numbers."""
    found = in_unit(np.array([0, 1, -2, -(2**63)], f"{source[0]}i8").view(source), np.dtype(dtype), "a")
    assert found.dtype == dtype
    assert found.view(f"{dtype[0]}i8").tolist() == [0, 1, -2, -(2**63)]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array(["2000-01-01", "3000-01-01"], "M8[us]"), "M8[ns]"),
        (np.array(1030, "M8[Y]"), ">M8[ns]"),
        (np.array([-(2**62)], "m8[s]"), "m8[ms]"),
        (np.array([2**62], ">m8[D]"), "m8[h]"),
        (np.array([2**60], "M8[Y]"), "M8[D]"),
        (np.array([2**62], "m8[3s]"), "m8[2s]"),
        (np.array([5735630597326753838], "M8[s]"), "M8[1500ms]"),
        (np.array([293], "M8[Y]"), "M8[ns]"),
    ],
)
def test_times_out_of_range_are_refused(values: np.ndarray, dtype: str) -> None:
    """NumPy before 2.5 returns other times."""
    with pytest.raises(InvalidInputError, match="a time is out of the range of"):
        in_unit(values, np.dtype(dtype), "a")
