"""Keeps changes of several steps whole, such as an append, which makes an array longer and then writes rows: what commits, rebases or forks a session waits until
no other thread is within one.

Threads are known by weak references, so that one that an interrupt stops anywhere keeps nobody waiting for ever."""

from __future__ import annotations

from threading import Condition, RLock, get_ident
from typing import Final, Protocol
from weakref import ref

_PATIENCE: Final = 0.5  # seconds until a thread that waits looks for threads that were interrupted


class _Entry:
    """What a thread holds while it is within a change, or waits for the changes of others."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self) -> None:
        self.thread = get_ident()


class WholeChanges:
    """The changes of several steps in one session, under its lock, which the caller of a method holds."""

    def __init__(self, lock: RLock) -> None:
        self._ended = Condition(lock)
        self._inside: list[ref[_Entry]] = []
        self._waiting: list[ref[_Entry]] = []

    def begin(self, *, at_once: bool) -> _Entry:
        """Begins a change, after those have ended that wait for all changes. at_once: the caller held the lock before, so that waiting would release it in the
        middle of what it does. A change within another of the same thread begins at once, too."""
        entry = _Entry()
        if self._waiting and not at_once and entry.thread not in _threads(self._inside):
            while _threads(self._waiting):
                self._ended.wait(_PATIENCE)
        self._inside.append(ref(entry))
        return entry

    def end(self, entry: _Entry) -> None:
        self._inside = _without(self._inside, entry)
        if self._waiting:
            self._ended.notify_all()

    def wait(self) -> None:
        """Waits until no other thread is within a change. Then none begins one before the caller releases the lock."""
        if not self._inside:
            return
        entry = _Entry()
        self._waiting.append(ref(entry))
        try:
            while _threads(self._inside) - {entry.thread}:
                self._ended.wait(_PATIENCE)
        finally:
            self._waiting = _without(self._waiting, entry)
            self._ended.notify_all()


class _Session(Protocol):
    lock: RLock
    whole_changes: WholeChanges


class WholeChange:
    """`with` it, a change of several steps in a session."""

    __slots__ = ("_session", "_entry")

    def __init__(self, session: _Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        lock = self._session.lock
        is_held = lock._is_owned()  # type: ignore[attr-defined] # as threading.Condition does
        with lock:
            self._entry = self._session.whole_changes.begin(at_once=is_held)

    def __exit__(self, *_: object) -> None:
        with self._session.lock:  # of a forked child, if the process was forked since
            self._session.whole_changes.end(self._entry)


def _threads(entries: list[ref[_Entry]]) -> set[int]:
    """The threads whose entries have not ended."""
    return {entry.thread for reference in entries if (entry := reference()) is not None}


def _without(entries: list[ref[_Entry]], ended: _Entry) -> list[ref[_Entry]]:
    return [reference for reference in entries if reference() not in (None, ended)]
