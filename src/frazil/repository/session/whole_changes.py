"""Keeps changes of several steps whole, such as an append, which makes an array longer and then writes rows: what commits, rebases or forks a session waits
until no other thread is within one.

Codecs of users may read and write sessions within a change, also on threads that work for the one that began it: these count as that thread, and who is within
a change never waits for others that wait within one. Changes are known by weak references, so that a thread that an interrupt stops anywhere keeps nobody
waiting for ever."""

from __future__ import annotations

from contextvars import ContextVar, Token
from threading import Condition, RLock, get_ident
from typing import Final, Protocol
from weakref import ref

from frazil.base.threads import wait_for_change


class _Entry:
    """What a thread holds while it is within a change, or waits for the changes of others."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self) -> None:
        outer = _outer()
        self.thread: int = get_ident() if outer is None else outer.thread


# of all sessions: those that wait within a change. Each thread adds and removes its own
_waiting_within: Final[list[ref[_Entry]]] = []
# the change that this code is within; weakly: after an interrupt before its end, it ends with its frame
_within: Final = ContextVar[ref[_Entry] | None]("frazil change", default=None)


def _outer() -> _Entry | None:
    reference = _within.get()
    return None if reference is None else reference()


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
        if self._waiting and not at_once and _outer() is None:
            while _threads(self._waiting):
                wait_for_change(self._ended)
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
        entry, is_within = _Entry(), _outer() is not None
        self._waiting.append(reference := ref(entry))
        if is_within:
            _waiting_within.append(reference)
        try:
            while self._go_on():
                wait_for_change(self._ended)
        finally:
            self._waiting = _without(self._waiting, entry)
            if is_within:
                _waiting_within.remove(reference)
            self._ended.notify_all()

    def _go_on(self) -> bool:
        """Whether others are within a change. Who waits within a change does not count those who do so, too, in any session: all would wait for ever."""
        return bool(
            _threads(self._inside) - {_Entry().thread} - (set() if _outer() is None else _threads(_waiting_within))
        )


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
        self._token: Token[ref[_Entry] | None] = _within.set(ref(self._entry))

    def __exit__(self, *_: object) -> None:
        _within.reset(self._token)
        with self._session.lock:  # of a forked child, if the process was forked since
            self._session.whole_changes.end(self._entry)


def _threads(entries: list[ref[_Entry]]) -> set[int]:
    """The threads whose entries have not ended."""
    return {entry.thread for reference in tuple(entries) if (entry := reference()) is not None}


def _without(entries: list[ref[_Entry]], ended: _Entry) -> list[ref[_Entry]]:
    return [reference for reference in entries if reference() not in (None, ended)]
