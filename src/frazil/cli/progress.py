"""The progress of long work on standard error, drawn only on a terminal: a bar of bytes, or a count."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from typing import IO, Final, Self

from frazil.base.reports import human

_WIDTH: Final = 24
_DELAY: Final = 0.3  # seconds of work before the bar is shown
_INTERVAL: Final = 0.1


class _Line(ABC):
    """A line that is drawn again and again, and removed at the end."""

    def __init__(self, stream: IO[str] | None, *, shows: bool) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shows = shows and self._stream.isatty()
        self._start = time.monotonic()
        self._next, self._drawn = self._start + _DELAY, 0

    def __enter__(self) -> Self:
        return self

    def _update(self) -> None:
        if self._shows and (now := time.monotonic()) >= self._next:
            self._next = now + _INTERVAL
            line = self.line(now - self._start)
            print("\r" + line.ljust(self._drawn), end="", file=self._stream, flush=True)
            self._drawn = len(line)

    @abstractmethod
    def line(self, seconds: float) -> str:
        """The text after this many seconds of work."""

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            print("\r" + " " * self._drawn + "\r", end="", file=self._stream, flush=True)


class Progress(_Line):
    """Called with bytes done since the last call: `with Progress("reading", total) as report: ... report(n)`. total: None if it is not known."""

    def __init__(self, label: str, total: int | None, stream: IO[str] | None = None, *, shows: bool = True) -> None:
        super().__init__(stream, shows=shows)
        self._label, self._total, self._done = label, total, 0

    def __call__(self, nbytes: int) -> None:
        self._done += nbytes
        self._update()

    def line(self, seconds: float) -> str:
        """The bar after this many seconds of work; where the total is not known, the bytes done."""
        if self._total is None:
            return f"{self._label}: {human(self._done)}{f', {human(self._done / seconds)}/s' if seconds else ''}"
        part = min(1.0, self._done / self._total) if self._total else 1.0
        full = int(part * _WIDTH)
        rate = self._done / seconds if seconds else 0.0
        time_left = f", {(self._total - self._done) / rate:.0f} s left" if rate and self._done < self._total else ""
        bar = "#" * full + "-" * (_WIDTH - full)
        return f"{self._label} [{bar}] {part:4.0%} of {human(self._total)}, {human(rate)}/s{time_left}"


class Steps(_Line):
    """Called with a step and its count since the last call: `with Steps() as report: ... report("chunks listed", 100)`. Shows the last step and its count."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        super().__init__(stream, shows=True)
        self._step, self._count = "", 0

    def __call__(self, step: str, count: int) -> None:
        self._count = count + (self._count if step == self._step else 0)
        self._step = step
        self._update()

    def line(self, seconds: float) -> str:  # a count needs no time
        return f"{self._count} {self._step}"
