"""Keeps changes of several steps whole, such as an append, which makes an array longer and then writes rows: what commits, rebases or forks a session waits until
no other thread is within one.

Codecs of users may read and write sessions within a change, also on threads that work for the one that began it: these count as that thread, and who is within a
change of any session never waits for the changes of others. Changes are known by weak references, so that a thread that an interrupt stops anywhere keeps nobody
waiting for ever."""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import Condition, RLock, get_ident
from typing import Final, Protocol
from weakref import ref

_PATIENCE: Final = 0.5  # seconds until a thread that waits looks for threads that were interrupted
_within: Final = ContextVar[int | None]("frazil change", default=None)  # the thread whose change this one is within


class _Entry:
    """What a thread holds while it is within a change, or waits for the changes of others."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self) -> None:
        self.thread = _within.get() or get_ident()


class WholeChanges:
    """The changes of several steps in one session, under its lock, which the caller of a method holds."""

    def __init__(self, lock: RLock) -> None:
        self._ended = Condition(lock)
        self._inside: list[ref[_Entry]] = []
        self._waiting: list[ref[_Entry]] = []

    def begin(self, *, at_once: bool) -> _Entry:
        """Begins a change, after those have ended that wait for all changes. at_once: the caller held the lock before, so that waiting would release it in the
        middle of what it does. A change within another one begins at once, too."""
        entry = _Entry()
        if self._waiting and not at_once and _within.get() is None:
            while _threads(self._waiting):
                self._ended.wait(_PATIENCE)
        self._inside.append(ref(entry))
        return entry

    def end(self, entry: _Entry) -> None:
        self._inside = _without(self._inside, entry)
        if self._waiting:
            self._ended.notify_all()

    def wait(self) -> None:
        """Waits until no other thread is within a change, except those that wait, too. Then none begins one before the caller releases the lock."""
        if not self._inside:
            return
        entry = _Entry()
        self._waiting.append(ref(entry))
        try:
            while self.goes_on():
                self._ended.wait(_PATIENCE)
        finally:
            self._waiting = _without(self._waiting, entry)
            self._ended.notify_all()

    def goes_on(self) -> bool:
        """Whether another thread is within a change, and does not wait itself."""
        return not _threads(self._inside) <= {_Entry().thread, *_threads(self._waiting)}


class _Session(Protocol):
    lock: RLock
    whole_changes: WholeChanges


class WholeChange:
    """`with` it, a change of several steps in a session."""

    __slots__ = ("_entry", "_session", "_token")

    def __init__(self, session: _Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        lock = self._session.lock
        is_held = lock._is_owned()  # type: ignore[attr-defined] # as threading.Condition does
        with lock:
            self._entry = self._session.whole_changes.begin(at_once=is_held)
        self._token: Token[int | None] = _within.set(self._entry.thread)

    def __exit__(self, *_: object) -> None:
        _within.reset(self._token)
        with self._session.lock:  # of a forked child, if the process was forked since
            self._session.whole_changes.end(self._entry)


def _threads(entries: list[ref[_Entry]]) -> set[int]:
    """The threads whose entries have not ended."""
    return {entry.thread for reference in entries if (entry := reference()) is not None}


def _without(entries: list[ref[_Entry]], ended: _Entry) -> list[ref[_Entry]]:
    return [reference for reference in entries if reference() not in (None, ended)]
