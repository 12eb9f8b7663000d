"""Converts times in repository files: RFC 3339 text and nanoseconds since 1970 in UTC."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from frazil.errors import InvalidInputError

_SECOND: Final = 10**9
_YEAR_0: Final = -62167219200  # the year 0
_LAST: Final = 253402300799  # the end of the year 9999


def parse_time(text: str) -> int | None:
    """Nanoseconds since 1970-01-01 in UTC; None for text that is not a time with a zone. Digits of a fraction after the ninth are ignored."""
    if len(text) < 20 or not text.isascii():
        return None
    zone, second = text[19:], text[17:19]
    digits = text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + second
    if not digits.isdigit() or text[4:17:3] != f"--{text[10]}::" or text[10] not in "Tt ":
        return None
    fraction = ""
    if zone[0] == ".":
        size = len(zone) - 1 - len(zone[1:].lstrip("0123456789"))
        fraction, zone = zone[1 : 1 + size], zone[1 + size :]
        if not fraction:
            return None
    offset = _offset(zone)
    leap = second == "60"  # a leap second: converted to the next second
    try:
        seconds = (
            int(np.datetime64(f"{text[:10]}T{text[11:17]}{'59' if leap else second}", "s").astype(np.int64)) + leap
        )
    except ValueError:
        return None
    if offset is None or not _YEAR_0 <= seconds - offset <= _LAST:
        return None
    return (seconds - offset) * _SECOND + int(fraction[:9].ljust(9, "0"))


def _offset(zone: str) -> int | None:
    """Seconds that the zone is ahead of UTC."""
    if zone in ("Z", "z"):
        return 0
    if len(zone) != 6 or zone[0] not in "+-" or zone[3] != ":" or not (zone[1:3].isdigit() and zone[4:].isdigit()):
        return None
    hours, minutes = int(zone[1:3]), int(zone[4:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)


def emit_time(value: int) -> str:
    """The text of nanoseconds since 1970, in UTC, with the fewest digits of a fraction that keep the value: none, 3, 6 or 9. Raises InvalidInputError outside
    the years 0 to 9999."""
    seconds, fraction = divmod(value, _SECOND)
    if not _YEAR_0 <= seconds <= _LAST:
        raise InvalidInputError(f"a time in a repository must be in the years 0 to 9999, found {value} ns from 1970")
    digits = f".{fraction:09}" if fraction else ""
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{_emit_second(seconds)}{digits}Z"


@lru_cache(64)  # the times of a commit, and of those around it, are often in one second
def _emit_second(seconds: int) -> str:
    return str(np.datetime64(seconds, "s"))
