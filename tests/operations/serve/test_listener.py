"""Connections: their limit, which one is closed for a new one, and a process without free file descriptors."""

from __future__ import annotations

import errno
import socketserver
import threading
from collections.abc import Sequence

import pytest
from tests.operations.served import Client

from frazil.errors import InvalidInputError
from frazil.operations.serve.server import serve
from frazil.stores import MemoryStore, Store
from frazil.testing.buffered_store import BufferedStore

WAIT = 60  # timeout in seconds for events that must happen


def threads_of_connections(others: set[threading.Thread]) -> int:
    """others: the threads before the test; servers of other tests may still have connections."""
    return sum("process_request_thread" in thread.name for thread in {*threading.enumerate()} - others)


def test_connections_that_wait_make_room_for_new_ones(stores: dict[str, Store]) -> None:
    others = {*threading.enumerate()}
    with serve(stores["memory"], connections=3) as server:
        clients = [Client(server) for _ in range(20)]
        for client in clients:
            assert client.request("/zarr.json").status == 200
            assert threads_of_connections(others) <= 3
        assert clients[-1].request("/zarr.json").status == 200
        cut = clients[0].connection.sock
        assert cut is not None and cut.recv(1) == b""
        # those that never send a request are closed, too
        silent = [Client(server) for _ in range(5)]
        for client in silent:
            client.connection.connect()
            client.connection.sock.sendall(b"GET /zarr.json HTTP/1.1\r\n")
        assert Client(server).request("/zarr.json").status == 200


class _Held(BufferedStore):
    """Answers a fetch when allowed."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.came, self.may = threading.Semaphore(0), threading.Semaphore(0)
        self.now = self.most = 0
        self.lock = threading.Lock()

    def fetch(self, names: Sequence[str], spans, *, expect=None, continue_from=None, single_read=False):  # type: ignore[no-untyped-def]
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.came.release()
        assert self.may.acquire(timeout=WAIT)
        with self.lock:
            self.now -= 1
        return super().fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)


def test_more_than_may_be_at_once_wait() -> None:
    memory = MemoryStore()
    memory.set("zarr.json", b'{"node_type": "array"}')
    memory.set("c/0", b"value")
    store = _Held(memory)
    status: list[int] = []

    def ask() -> None:
        for _ in range(100):
            try:
                status.append(Client(server).request("/c/0").status)
                return
            except (
                ConnectionError
            ):  # a connection without a request may be closed for one that waits: clients connect again
                pass

    with serve(store, connections=2) as server:
        asking = [threading.Thread(target=ask) for _ in range(5)]
        for thread in asking:
            thread.start()
        for _ in range(2):  # two must be open before any may continue
            assert store.came.acquire(timeout=WAIT)
        for _ in range(500):  # also for repeated requests
            store.may.release()
        for thread in asking:
            thread.join(WAIT)
    assert (status, store.most) == ([200] * 5, 2)


def test_the_end_while_connections_wait() -> None:
    memory = MemoryStore()
    memory.set("zarr.json", b'{"node_type": "array"}')
    memory.set("c/0", b"value")
    store = _Held(memory)
    server = serve(store, connections=1)
    clients = [Client(server) for _ in range(3)]
    for client in clients:
        client.connection.connect()
        client.connection.request("GET", "/c/0")
    assert store.came.acquire(timeout=WAIT)
    server.close()
    for _ in clients:
        store.may.release()


def test_a_process_without_files_waits(stores: dict[str, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that no connection can be accepted, an idle one is closed, after a delay."""
    accept = socketserver.TCPServer.get_request
    left, waits = [4], list[float]()

    def without_files(self: socketserver.TCPServer) -> object:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(self)

    with serve(stores["memory"]) as server:
        idle = Client(server)
        assert idle.request("/zarr.json").status == 200
        while not server._listener._idle:  # its thread is about to wait for the next request
            pass
        ending = server._listener._ending
        wait = ending.wait
        monkeypatch.setattr(ending, "wait", lambda seconds: (waits.append(seconds), wait(0))[1])
        monkeypatch.setattr(socketserver.TCPServer, "get_request", without_files)
        assert Client(server).request("/zarr.json").status == 200
        assert len(waits) == 4 and min(waits) > 0
        assert idle.connection.sock is not None and idle.connection.sock.recv(1) == b""


@pytest.mark.parametrize("connections", [0, -1, True, "many"])
def test_an_invalid_number(connections: object, stores: dict[str, Store]) -> None:
    with pytest.raises(InvalidInputError, match="connections"):
        serve(stores["memory"], connections=connections)  # type: ignore[arg-type]
