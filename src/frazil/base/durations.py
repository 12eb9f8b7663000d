"""The time since an event in this process, from two clocks of the machine: one may be set back, the other may stop while the machine sleeps."""

from __future__ import annotations

import time
from typing import TypeAlias

Instant: TypeAlias = "tuple[int, int]"  # ns, by the wall clock and by the monotonic clock


def present() -> Instant:
    return time.time_ns(), time.monotonic_ns()


def largest_age(since: Instant) -> int:
    """The largest possible time since then, in nanoseconds."""
    return max(time.time_ns() - since[0], time.monotonic_ns() - since[1])
