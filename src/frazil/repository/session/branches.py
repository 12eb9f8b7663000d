"""What the sessions of one Repository object share about its branches: the latest known tips, the chunks that the last commits changed, the turns of commits,
and the keys that a crash of the machine may still lose.

repository/format.py is the port that reads and writes branches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from frazil.base.fork_safety import renew_after_fork
from frazil.base.record import Record
from frazil.errors import StoreError
from frazil.formats.ids import ObjectId
from frazil.repository.format import Tip
from frazil.repository.session.change_set import ChunksByPath
from frazil.stores.store import Store

_LONGEST_WAIT: Final = 10.0  # seconds
_MOST_COMMITS: Final = 256  # commits whose chunks are recorded


class _ChunkCommit(Record):
    """A commit that changed only chunks. before: the snapshot that it follows"""

    before: ObjectId
    snapshot: ObjectId
    chunks: ChunksByPath


class Branches:
    """Safe to use from many threads.

    tips  the latest known tip of each branch"""

    def __init__(self) -> None:
        self.tips: dict[str, Tip] = {}
        self._chunk_commits: deque[_ChunkCommit] = deque(maxlen=_MOST_COMMITS)
        self._unsynced: dict[str, bool] = {}  # whether the key may not exist yet
        self._lost: str | None = None  # the error of the system that could not write these keys to the medium
        self._syncing = threading.Lock()
        self._commit_locks: dict[str, threading.RLock] = {}
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Resets the locks in a child process, in which the threads that held them do not run."""
        self._syncing, self._commit_locks = threading.Lock(), {}

    def latest(self, tip: Tip) -> Tip:
        """A tip, or a later known one of its branch."""
        newest = self.tips.get(tip.branch)
        return newest if newest is not None and newest.folder == tip.folder and newest.sequence > tip.sequence else tip

    def note_chunks(self, before: ObjectId, snapshot: ObjectId, chunks: ChunksByPath) -> None:
        """Records a commit that changed only these chunks."""
        self._chunk_commits.append(_ChunkCommit(before, snapshot, chunks))

    def changed_none(self, chunks: ChunksByPath, before: ObjectId, snapshot: ObjectId) -> bool:
        """Whether all commits from one snapshot to another are recorded, so that they changed only chunks, and changed none of these. False: unknown."""
        for commit in reversed(self._chunk_commits.copy()):
            if commit.snapshot == snapshot:
                for path, others in commit.chunks.items():
                    if path in chunks and not chunks[path].isdisjoint(others):
                        return False
                if commit.before == before:
                    return True
                snapshot = commit.before
        return False

    def note_unsynced(self, keys: Iterable[str], *, exist: bool = True) -> None:
        """Records keys that a crash of the machine may lose. exist: False if they are written next"""
        self._unsynced |= dict.fromkeys(keys, not exist)

    def sync(self, store: Store) -> None:
        """Syncs all recorded keys. A commit that has to survive a crash must not refer to them before. Keys that are written next stay recorded.
        Raises StoreError; then all keys stay recorded.

        The system reports a failed write once, and then treats the data as written. So after such an error every later call raises, and no durable commit
        refers to these keys. Only if the store is certain that the sync had not begun (done=False), the next call tries again."""
        with self._syncing:
            noted = dict(self._unsynced)
            if not noted:
                return
            if self._lost is not None:
                raise StoreError(
                    f"an earlier sync failed ({self._lost}): what was committed with durable=False may be lost, and a later sync would not report it",
                    done=None,
                    hint="check the disk, mount it again, open the repository again, verify it with decode=True, and repeat the commits since the last sync",
                )
            noted = _without_unfinished(store, noted)
            try:
                absent = set(store.sync_values(list(noted)))
            except BaseException as error:
                # an interrupt may come while the error of the system is converted
                failed = error if isinstance(error, StoreError) else error.__context__
                if isinstance(failed, OSError) and getattr(failed, "done", None) is not False:
                    self._lost = str(failed)
                raise
            for key, may_follow in noted.items():
                if not (may_follow and key in absent):
                    self._unsynced.pop(key, None)

    @contextmanager
    def serialize_commits(self, branch: str, meanwhile: Callable[[], object]) -> Iterator[None]:
        """Serializes the commits of threads to one branch, as only one can succeed at a time. Correctness does not depend on it: a thread that waits too long,
        as for a killed one, continues without a turn, and later threads do not wait for the killed one.

        meanwhile  is called once before waiting, if another thread has the turn. A thread never waits for itself, as when it commits in a solver."""
        lock = self._commit_locks.setdefault(branch, threading.RLock())
        if not lock.acquire(blocking=False):
            meanwhile()
            if not lock.acquire(timeout=_LONGEST_WAIT):
                lock = threading.RLock()
                lock.acquire()  # before other threads can get it
                self._commit_locks[branch] = lock
        try:
            yield
        finally:
            lock.release()


def _without_unfinished(store: Store, noted: dict[str, bool]) -> dict[str, bool]:
    """The noted keys without those that are written now. If a branch file stays, the files of its commit do, too: a sync of the branch file alone would let a
    crash lose these. Raises StoreError."""
    absent = [key for key, may_follow in noted.items() if may_follow]
    while absent:  # until nothing appears during a look-up: files of a commit exist before its branch file does
        still = [key for key, size in zip(absent, store.sizes(absent).tolist(), strict=True) if size < 0]
        if len(still) == len(absent):
            break
        absent = still
    unfinished = set(absent)
    return {key: may_follow for key, may_follow in noted.items() if key not in unfinished}
