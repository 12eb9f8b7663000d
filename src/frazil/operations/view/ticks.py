"""Round values between two ends, with their text: numbers, angles, times. axes.py and colour_bar.py place them on a picture."""

from __future__ import annotations

from math import ceil, floor, isfinite, log10
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Unit = Literal["Y", "M", "D", "h", "m", "s"]

_ANGLES: Final = (
    15.0,
    30.0,
    45.0,
    60.0,
    90.0,
)  # readable steps of degrees, besides 1, 2 and 5 and their powers of ten below 15
_TIMES: Final[tuple[tuple[int, Unit], ...]] = (
    *((n, "s") for n in (1, 2, 5, 10, 15, 30)),
    *((n, "m") for n in (1, 2, 5, 10, 15, 30)),
    *((n, "h") for n in (1, 2, 3, 6, 12)),
    *((n, "D") for n in (1, 2, 5, 10)),
    *((n, "M") for n in (1, 2, 3, 6)),
    *((n, "Y") for n in (1, 2, 5)),
)


def ticks(low: float, high: float, most: int, *, angles: bool = False) -> list[tuple[float, str]]:
    """Round values (1, 2 or 5 times a power of ten apart) from low to high, at most about `most`, with their text; both ends if no round value is between them.
    angles: in degrees, which are 15, 30, 45, 60 or 90 apart if there are many."""
    rough = (high / most - low / most) or 5e-324
    power = floor(log10(rough))
    # inf at the end of floats
    step = next((m * 10.0**power for m in (1, 2, 5, 10) if m * 10.0**power >= rough * 0.999), 0.0)
    if angles and 10 < rough <= _ANGLES[-1]:
        step = next(angle for angle in _ANGLES if angle >= rough)
    if (
        not step
        or not isfinite(step)
        or not isfinite(low / step)
        or abs(low / step) > 2**52
        or abs(high / step) > 2**52
    ):
        return [(low, f"{low:.3g}"), (high, f"{high:.3g}")]
    values = [number * step for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
    if len(values) < 2:
        return [(low, f"{low:.4g}"), (high, f"{high:.4g}")]
    return [(min(max(value, low), high), _label(value, step)) for value in values]


def _label(value: float, step: float) -> str:
    if step >= 1e-4 and abs(value) < 1e6:
        text = f"{value:.{max(0, -floor(log10(step) + 1e-9))}f}"
        return text if float(text) else text.lstrip("-")
    digits = max(0, floor(log10(abs(value)) + 1e-9) - floor(log10(step) + 1e-9)) if value else 0
    return f"{value:.{min(digits, 6)}e}" if value else "0"


def time_ticks(low: np.datetime64, high: np.datetime64, most: int) -> list[tuple[np.datetime64, str]]:
    """Round times from low to high, in whole seconds, at most `most`, written without parts that are zero; both ends if fewer than two are between them."""
    # in seconds: the round times before and after may be out of range for finer units
    low, high = low.astype("datetime64[s]"), high.astype("datetime64[s]")
    for count, unit in _TIMES:
        found = _times(low, high, count, unit, most)
        if found is not None:
            break
    else:
        years = 10
        while (found := _times(low, high, years, "Y", most)) is None:
            years *= 10
    if len(found) < 2:
        return [(time, str(time).replace("T", " ")) for time in (low, high)]
    texts = np.datetime_as_string(found, _coarsest(found)).tolist()
    return [(time, text.replace("T", " ")) for time, text in zip(found, texts, strict=True)]


def _coarsest(times: NDArray[np.datetime64]) -> Unit:
    """The coarsest unit for the end of texts in which all times are whole."""
    units: tuple[Unit, ...] = ("Y", "M", "D", "m")
    return next((unit for unit in units if (times == times.astype(f"datetime64[{unit}]")).all()), "s")


def _times(low: np.datetime64, high: np.datetime64, count: int, unit: Unit, most: int) -> NDArray[np.datetime64] | None:
    """The multiples of `count` units from low to high; days are counted within their month, so that each month begins with one. None if there are more than
    `most`."""
    first, last = low.astype(f"datetime64[{unit}]"), high.astype(f"datetime64[{unit}]")
    if (last - first).astype(np.int64) > most * count * 2:
        return None
    every: NDArray[np.datetime64] = np.arange(first, last + np.timedelta64(1, unit))
    if unit == "D":
        number = (every - every.astype("datetime64[M]")).astype(np.int64)
        every = every[(number % count == 0) & ((count == 1) | (number + count // 2 < 30))]
    else:
        epoch = 1970 if unit == "Y" else 0
        every = every[(every.astype(np.int64) + epoch) % count == 0]
    every = every[(every >= low) & (every <= high)]
    return every if len(every) <= most else None
