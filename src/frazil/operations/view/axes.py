"""An axis of a picture: the values of a coordinate along it, its name, and ticks at round values. Pure: coordinates.py reads the values."""

from __future__ import annotations

import numpy as np

from frazil.base.arrays import Values
from frazil.base.record import Record
from frazil.operations.view.ticks import ticks, time_ticks

_LONGEST = 24  # characters of a label
_MOST_YEARS = 100_000  # from 1970, within which times have ticks at round ones


class Axis(Record):
    """values: for each element along the axis, float64, datetime64 or text; name: with units; angles: in degrees; upwards: drawn vertically, greater values are
    above."""

    values: Values
    name: str
    angles: bool = False
    upwards: bool = False

    @property
    def reverses(self) -> bool:
        """Whether a vertical axis is drawn with the last element at the top."""
        return self.upwards and len(self.values) > 1 and self._direction() > 0

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most about `most` ticks; one for each element, if there are at most twice as many. For each: the position in elements from the start of the first
        (0.5 is its middle), and the label."""
        if not self._direction() or len(self.values) <= 2 * most:
            return self._ticks_of_elements(most)
        values = self.values[:: self._direction()]
        at = np.arange(len(self.values))[:: self._direction()] + 0.5
        if values.dtype.kind == "M":
            if np.datetime_data(values.dtype.str)[0] in ("Y", "M"):  # these units have no fixed number of seconds
                values = values.astype("datetime64[D]")
            times = time_ticks(values[0], values[-1], most)
            second = np.timedelta64(1, "s")
            positions = np.interp([(time - values[0]) / second for time, _ in times], (values - values[0]) / second, at)
            return [(float(position), text) for position, (_, text) in zip(positions, times, strict=True)]
        found = ticks(float(values[0]), float(values[-1]), most, angles=self.angles)
        positions = np.interp([value for value, _ in found], values.astype(np.float64), at)
        return [(float(position), text) for position, (_, text) in zip(positions, found, strict=True)]

    def _direction(self) -> int:
        """1 if every value is greater than the one before it, -1 if every value is less, 0 otherwise, also for a single value."""
        if len(self.values) < 2 or self.values.dtype.kind not in "fM" or not np.isfinite(self.values).all():
            return 0
        if self.values.dtype.kind == "M" and not _is_near(self.values):
            return 0
        after, before = self.values[1:], self.values[:-1]
        return 1 if np.greater(after, before).all() else -1 if np.less(after, before).all() else 0

    def _ticks_of_elements(self, most: int) -> list[tuple[float, str]]:
        step = 1 if len(self.values) <= 2 * most else -(-len(self.values) // most)
        return [(i + 0.5, coordinate_text(self.values[i])) for i in range(0, len(self.values), step)]


def _is_near(times: Values) -> bool:
    """Whether all times are within _MOST_YEARS of 1970, and so have a number of seconds. False for numbers without a unit."""
    if np.datetime_data(times.dtype.str)[0] == "generic":
        return False
    years = times.astype("datetime64[Y]").astype(np.int64)
    return bool(((years >= -_MOST_YEARS) & (years <= _MOST_YEARS)).all())


def coordinate_text(value: object) -> str:
    """One value of a coordinate as readable text."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return "NaT"
        if not _is_near(np.array([value])):
            unit = np.datetime_data(value.dtype.str)[0]
            return f"{value.astype(np.int64)} {unit}".removesuffix(" generic")
        text = str(value.astype("datetime64[s]")).replace("T", " ")
        return text.removesuffix(":00").removesuffix(" 00:00")
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
