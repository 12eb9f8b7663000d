"""Round values and times between two ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frazil.operations.view.ticks import ticks, time_ticks


@example(0.0, 5e-324, 5)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(2, 9),
)
def test_ticks(first: float, second: float, most: int) -> None:
    low, high = min(first, second), max(first, second)
    if low == high:
        return
    labels = ticks(low, high, most)
    assert 2 <= len(labels) <= 2 * most + 2
    if max(abs(low), abs(high)) > 1.7e308:  # with fewer digits some are infinite
        return
    assert all(low <= value <= high for value, _ in labels)
    assert [value for value, _ in labels] == sorted(value for value, _ in labels)
    assert all(set(text) <= set("0123456789.-+e") for _, text in labels)
    far = high / 2 - low / 2
    for value, text in labels:
        assert abs(float(text) / 2 - value / 2) <= far / 20 + abs(value) * 1e-2 + 5e-324


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-1, 1, ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        (0, 65535, ["0", "20000", "40000", "60000"]),
        (0, 4e9, ["0", "1e+09", "2e+09", "3e+09", "4e+09"]),
        (3, 3.5, ["3.0", "3.1", "3.2", "3.3", "3.4", "3.5"]),
    ],
)
def test_ticks_have_round_labels(low: float, high: float, texts: list[str]) -> None:
    assert [text for _, text in ticks(low, high, 5)] == texts


def test_angles_are_parts_of_a_circle() -> None:
    assert [text for _, text in ticks(-180, 179.25, 9, angles=True)] == [
        "-180",
        "-135",
        "-90",
        "-45",
        "0",
        "45",
        "90",
        "135",
    ]
    assert [value for value, _ in ticks(-90, 90, 4, angles=True)] == [-90, -45, 0, 45, 90]
    assert ticks(0, 5, 5, angles=True) == ticks(0, 5, 5)
    assert ticks(-1e5, 1e5, 5, angles=True) == ticks(-1e5, 1e5, 5)


SECONDS = st.integers(-(10**10), 10**11)  # from the year 1653 to 5138


@given(SECONDS, st.integers(1, 10**11) | st.integers(1, 5000), st.integers(2, 12))
def test_times(first: int, length: int, most: int) -> None:
    low, high = np.datetime64(first, "s"), np.datetime64(first + length, "s")
    found = time_ticks(low, high, most)
    times = [time for time, _ in found]
    assert 2 <= len(found) <= most
    assert times == sorted(set(times))
    assert all(low <= time <= high for time in times)
    assert [np.datetime64(text.replace(" ", "T")) for _, text in found] == times


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        ("1979-01-01", "2022-12-31", ["1980", "1990", "2000", "2010", "2020"]),
        ("2020-02-27", "2020-06-05", ["2020-03", "2020-04", "2020-05", "2020-06"]),
        ("2020-02-27", "2020-03-12", ["2020-03-01", "2020-03-06", "2020-03-11"]),
        ("2020-02-27T05:00", "2020-02-28T13:00", ["2020-02-27 12:00", "2020-02-28 00:00", "2020-02-28 12:00"]),
        ("2020-02-27T05:00:03", "2020-02-27T05:00:04", ["2020-02-27 05:00:03", "2020-02-27 05:00:04"]),
    ],
)
def test_ticks_of_times_have_calendar_labels(low: str, high: str, texts: list[str]) -> None:
    assert [text for _, text in time_ticks(np.datetime64(low), np.datetime64(high), 5)] == texts
