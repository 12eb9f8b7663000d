"""What the sessions of one Repository object share of its branches: the last tips that were seen, whose turn it is to commit, and what a crash of the machine may still lose.

How branches are read and written is the format's question (repository/format.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from frazil.errors import StoreError
from frazil.repository.format import Tip
from frazil.stores.store import Store
from frazil.weak_references import renew_after_fork

__all__ = ["Branches"]

_LONGEST_WAIT: Final = 10.0  # seconds


class Branches:
    """Safe to use from many threads.

    tips  the last that was seen of each branch"""

    def __init__(self) -> None:
        self.tips: dict[str, Tip] = {}
        self._unsynced: dict[str, bool] = {}  # whether the key may not be there yet
        self._lost: str | None = None  # what the system said when it could not write what is noted to the medium
        self._syncing = threading.Lock()
        self._turns: dict[str, threading.RLock] = {}
        renew_after_fork(self)

    def after_fork(self) -> None:
        """In a child process no thread goes on that held a lock."""
        self._syncing, self._turns = threading.Lock(), {}

    def latest(self, tip: Tip) -> Tip:
        """A tip, or a later one of its branch that was seen."""
        seen = self.tips.get(tip.branch)
        return seen if seen is not None and seen.folder == tip.folder and seen.sequence > tip.sequence else tip

    def note_unsynced(self, written: Iterable[str], following: str | None = None) -> None:
        """Takes note of what a crash of the machine may lose: keys that are there, and the key of a branch file that is written next."""
        self._unsynced |= dict.fromkeys(written, False)
        if following is not None:
            self._unsynced[following] = True

    def sync(self, store: Store) -> None:
        """Has all of it on the medium. Nothing may rest on it, and survive a crash, before that. A branch file that is not there yet stays noted. Raises StoreError; then all
        of it is still noted.

        The system tells once that it could not write something, and then takes it for written. So after such an error this raises for ever, and nothing rests on what is noted;
        only where the store is sure that it had not begun (done=False), the next call tries again."""
        with self._syncing:
            noted = dict(self._unsynced)
            if not noted:
                return
            if self._lost is not None:
                raise StoreError(
                    f"an earlier sync failed ({self._lost}): what was committed with durable=False may be lost, and a later sync would not tell",
                    done=None,
                    hint="check the disk, mount it anew, open the repository again, verify it with decode=True, and repeat the commits since the last sync",
                )
            try:
                absent = set(store.sync_values(list(noted)))
            except BaseException as error:
                # an interrupt may come while the error of the system is made one of ours
                failed = error if isinstance(error, StoreError) else error.__context__
                if isinstance(failed, OSError) and getattr(failed, "done", None) is not False:
                    self._lost = str(failed)
                raise
            for key, may_follow in noted.items():
                if not (may_follow and key in absent):
                    self._unsynced.pop(key, None)

    @contextmanager
    def turn(self, branch: str, meanwhile: Callable[[], object]) -> Iterator[None]:
        """Commits of threads to one branch go one after the other, as only one of them can succeed at a time. Nothing relies on it: who waits too long, as for one that was killed,
        goes on without, and nobody waits for that one again.

        meanwhile  is called once before waiting, where others are at work. A thread does not wait for itself, as where it commits in a solver."""
        turn = self._turns.setdefault(branch, threading.RLock())
        if not turn.acquire(blocking=False):
            meanwhile()
            if not turn.acquire(timeout=_LONGEST_WAIT):
                turn = threading.RLock()
                turn.acquire()  # before others find it
                self._turns[branch] = turn
        try:
            yield
        finally:
            turn.release()
