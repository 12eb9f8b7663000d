"""Connections: the clients of one bucket and the threads that make their requests, shared by all stores of that bucket with the same options; and which process
may use them.

A registry finds the connection that is in use, but does not keep it open: the last store that is removed closes it. Clients are created in clients.py."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from frazil.base.fork_safety import renew_after_fork
from frazil.base.threads import Pending, to_its_end
from frazil.base.weak_references import WeakValues
from frazil.errors import StoreError

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, HTTPStore, MemoryStore, S3Store

    from frazil.stores.objects.web_client import WebConnections

    ObjectClient: TypeAlias = S3Store | GCSStore | AzureStore | HTTPStore | MemoryStore

_IDLE_SECONDS: Final = 1.0

A = TypeVar("A")
B = TypeVar("B")


class RequestThreads:
    """Threads that make requests, up to a limit. Each is started when all others are busy, and ends after one second without work. The interpreter does not
    wait for them when it exits, as it does for those of concurrent.futures: a request to a silent server, left by an interrupt, may take minutes."""

    __slots__ = ("_alive", "_changed", "_idle", "_limit", "_lock", "_tasks")

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._tasks: Final[deque[Pending[Any]]] = deque()
        self._lock: Final = threading.RLock()  # an interrupt in the __enter__ of a Condition would leave it locked
        self._changed: Final = threading.Condition(self._lock)
        self._alive: Final[set[threading.Thread]] = set()
        self._idle = 0

    def submit(self, task: Pending[A]) -> None:
        """Runs a task on one of the threads; on this thread where the system cannot start one, as when the interpreter exits."""
        if not to_its_end(partial(self._put, task)):
            task.run()

    def _put(self, task: Pending[Any]) -> bool:
        """Whether a thread will run the task."""
        with self._lock:
            if len(self._tasks) >= self._idle and len(self._alive) < self._limit:
                thread = threading.Thread(target=self._work, name="frazil-requests", daemon=True)
                self._alive.add(thread)
                try:
                    thread.start()
                except RuntimeError:  # no more threads are available
                    self._alive.discard(thread)
            if self._alive:
                self._tasks.append(task)
                self._changed.notify()
            return bool(self._alive)

    def _work(self) -> None:
        try:
            while (task := self._next()) is not None:
                task.run()
                del task
        finally:
            self._alive.discard(threading.current_thread())  # also after a MemoryError

    def _next(self) -> Pending[Any] | None:
        """The next task; None, after which the thread ends, if none arrives within a second."""
        with self._lock:
            while not self._tasks:
                self._idle += 1
                try:
                    notified = self._changed.wait(_IDLE_SECONDS)
                finally:
                    self._idle -= 1
                if not notified and not self._tasks:
                    self._alive.discard(threading.current_thread())
                    return None
            return self._tasks.popleft()


class Connection:
    """What makes the requests to one bucket.

    reader, writer, decider  clients of the whole bucket. reader: for requests that may be made twice; writer: for writes that may be done twice; decider: for
                             writes under a condition. It never repeats one by itself: after a repetition, a refusal could belong to either try
    lister                   for lists, whose keys have the prefix that its clients add to others; None: the reader
    web                      for a web server: its connections. The clients then only check the options, and make no request
    requests_in_flight       how many requests are made at once, by all stores and threads together
    refused_a_condition      whether the server was seen to refuse to create an existing object
    copied_a_value           whether it was seen to copy a value: a server that does not know copies makes empty objects
    answered_as_a_store      whether it was seen to read an object, or to say that a key is absent, as no other server does"""

    def __init__(
        self,
        reader: ObjectClient,
        writer: ObjectClient,
        decider: ObjectClient,
        requests_in_flight: int,
        *,
        lister: ObjectClient | None = None,
        web: WebConnections | None = None,
    ) -> None:
        self.reader: Final = reader
        self.writer: Final = writer
        self.decider: Final = decider
        self.lister: Final = lister or reader
        self.web: Final = web
        self.requests_in_flight: Final = requests_in_flight
        self.refused_a_condition = False
        self.answered_as_a_store = False
        self.copied_a_value = False
        self._threads: Final = RequestThreads(requests_in_flight)

    def run_all(self, request: Callable[[A], B], arguments: Sequence[A]) -> list[B]:
        """The answers to requests that are made together, on threads: the client waits without handling Ctrl-C, which the main thread must receive. The first
        error is raised when no request is running any more; requests that have not begun are not made."""
        tasks = [Pending(partial(self._answer, request, argument)) for argument in arguments]
        try:
            list(map(self._threads.submit, tasks))
            return list(map(Pending.result, tasks))
        except BaseException as error:
            tasks = [task for task in tasks if not task.cancel()]
            # a write that ends after its caller got an error would undo the caller's next write; after an interrupt the user does not want to wait
            if isinstance(error, Exception):
                list(map(Pending.wait, tasks))
            raise
        finally:
            del tasks  # the traceback of an error has this frame, which would keep the error and all results

    def _answer(self, request: Callable[[A], B], argument: A) -> B:
        first = argument[0] if isinstance(argument, tuple | list) and argument else None
        with client_panics(first if isinstance(first, str) else None):
            return request(argument)


@contextmanager
def client_panics(key: str | None) -> Iterator[None]:
    """Raises StoreError where the client gives up on an answer in a way of its own: a PanicException, which is no Exception and would end threads and
    programs."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise StoreError(
            "the client of the object store stopped, as after an answer that no object store gives",
            key=key,
            hint="check the server, and proxies before it; it is not known which values were written",
        ) from error


def shared_connection(key: object, make: Callable[[], Connection]) -> Connection:
    """The connection that a store of this process has under a key, else the result of `make`. Keys that cannot be compared share nothing."""
    try:
        name = _hashable(key)
    except TypeError:
        return make()
    with _registry.lock:
        found = _registry.connections.get(name)
        if found is None:
            found = make()
            _registry.connections.put(name, found)
        return found


def check_process(store: object) -> None:
    """Raises StoreError in a forked child of a process that made requests: the client's own threads do not exist there, and requests would wait for ever."""
    if _registry.process is None:
        _registry.process = os.getpid()
    elif _registry.process != os.getpid():
        raise StoreError(
            f"{store} does not work in a process that was forked after requests had been made",
            hint='start workers by "spawn" or "forkserver" (multiprocessing.set_start_method), and open the store there',
        )


def environment(beginnings: tuple[str, ...]) -> list[tuple[str, str]]:
    """What the environment now defines of servers, credentials and proxies: part of what a client is created from. beginnings: of names, in lower case."""
    lower = [(name.lower(), name, value) for name, value in os.environ.items()]
    return sorted((name, value) for key, name, value in lower if key.startswith(beginnings) or key.endswith("_proxy"))


def _hashable(value: object) -> Hashable:
    """An equal value for equal options. Raises TypeError if there is no such value."""
    if isinstance(value, Mapping):
        return "mapping", *sorted((f"{name}", _hashable(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return "sequence", *map(_hashable, value)
    hash(value)
    return type(value).__name__, value


class _Registry:
    """process: the first one that made a request"""

    __slots__ = ("__weakref__", "connections", "lock", "process")

    def __init__(self) -> None:
        self.process: int | None = None
        self.after_fork()

    def after_fork(self) -> None:
        """Starts empty, also in the child of a fork, which has none of the threads."""
        self.lock = threading.Lock()
        self.connections: WeakValues[Hashable, Connection] = WeakValues()


_registry: Final = _Registry()
renew_after_fork(_registry)
