"""What the sessions of one Repository object share of its branches: the last tips that were seen, and whose turn it is to commit.

How branches are read and written is the format's question (repository/format.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from frazil.repository.format import Tip

__all__ = ["Branches"]

_LONGEST_WAIT: Final = 10.0  # seconds


class Branches:
    """Safe to use from many threads.

    tips  the last that was seen of each branch"""

    def __init__(self) -> None:
        self.tips: dict[str, Tip] = {}
        self._turns: dict[str, threading.Lock] = {}

    def latest(self, tip: Tip) -> Tip:
        """A tip, or a later one of its branch that was seen."""
        seen = self.tips.get(tip.branch)
        return seen if seen is not None and seen.folder == tip.folder and seen.sequence > tip.sequence else tip

    @contextmanager
    def turn(self, branch: str, meanwhile: Callable[[], object]) -> Iterator[None]:
        """Commits of threads to one branch go one after the other, as only one of them can succeed at a time. Nothing relies on it: who waits too long, as for one that was killed,
        goes on without, and nobody waits for that one again.

        meanwhile  is called once before waiting, where others are at work"""
        turn = self._turns.setdefault(branch, threading.Lock())
        if not turn.acquire(blocking=False):
            meanwhile()
            if not turn.acquire(timeout=_LONGEST_WAIT):
                turn = self._turns[branch] = threading.Lock()
                turn.acquire(blocking=False)
        try:
            yield
        finally:
            turn.release()
