"""A server over a repository whose store is interrupted: that request fails, the next ones get what is stored, and the server goes on and ends."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn

import numpy as np
import pytest
from tests.faults.interrupted_lines import Interrupts, ends, first_times
from tests.operations.served import Client
from tests.repository.maintenance.interrupts import Interrupted

import frazil
from frazil.operations.serve.server import Server, follow, serve
from frazil.stores import LocalStore, MemoryStore, Store

INTERRUPTS: list[Callable[[], BaseException]] = [
    KeyboardInterrupt,
    SystemExit,
    MemoryError,
    lambda: RuntimeError("can't start new thread"),
]
KEYS = ("zarr.json", "g/zarr.json", "g/a/zarr.json", "g/a/c/0/0", "g/a/c/1/1")
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def filled(store: Store) -> frazil.Repository:
    repo = frazil.Repository.create(store, chunk_packing="off")
    with repo.transaction(message="0") as root:
        root.create_group("g").create_array(
            "a", data=np.arange(128.0 * 128).reshape(128, 128), chunks=(64, 64), codecs=[]
        )
    return repo


def contents(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


@pytest.mark.parametrize("make", INTERRUPTS, ids=["KeyboardInterrupt", "SystemExit", "MemoryError", "RuntimeError"])
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("follows", [False, True])
def test_interrupts_in_any_store_operation_leave_the_server_running(
    make: Callable[[], BaseException], local: bool, follows: bool, tmp_path: Path
) -> None:
    inner: Store = LocalStore(tmp_path / "r") if local else MemoryStore()
    repo = filled(inner)
    session = repo.readonly_session()
    told: list[str] = []
    with serve(session.store, tell=told.append) as server:
        expected = {key: response_of(server, key) for key in KEYS}
    assert {status for status, _ in expected.values()} == {200}
    before, failures = contents(inner), 0
    for number in range(40):
        store = Interrupted(inner, 10**9, make(), after=False)
        repo = frazil.Repository.open(store)
        start = (
            follow(repo, every=0, connections=1, tell=told.append)
            if follows
            else serve(repo.readonly_session().store, every=0, connections=1, tell=told.append)
        )
        with start as server:
            store.left = number
            found = [response_of(server, key) for key in KEYS]
            wrong = [key for key, one in zip(KEYS, found, strict=True) if one != expected[key]]
            assert len(wrong) <= 1
            assert all(one[0] in (0, 500) for key, one in zip(KEYS, found, strict=True) if key in wrong)
            failures += len(wrong)
            reached, store.left = store.left < 0, 10**9
            assert [response_of(server, key) for key in KEYS] == list(expected.values())
        if not reached:
            break
    assert failures
    assert contents(inner) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "frazil serve"]


def response_of(server: Server, key: str) -> tuple[int, bytes]:
    """The status and the body of an answer; 0 if the connection ended without one."""
    try:
        reply = Client(server).request(f"/{key}")
    except OSError:
        return 0, b""
    return reply.status, reply.body


def test_the_threads_that_accept_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no memory or thread is left for a connection, or where failures cannot be reported, the next connection is answered."""
    store = MemoryStore()
    repo = filled(store)

    def refuse(line: str) -> None:
        raise OSError("standard error is closed")

    with serve(repo.readonly_session().store, tell=refuse) as server:
        for owner, name in ((TCPServer, "get_request"), (ThreadingMixIn, "process_request")):
            real, left = getattr(owner, name), iter([MemoryError(), RuntimeError("can't start new thread")])
            if name == "get_request":
                left = iter([MemoryError(), OSError(errno.EMFILE, "too many files")])

            def failing(
                *arguments: object, real: Callable[..., object] = real, left: Iterator[Exception] = left
            ) -> object:
                error = next(left, None)
                if error is not None:
                    raise error
                return real(*arguments)

            monkeypatch.setattr(owner, name, failing)
            for _ in range(3):
                response_of(server, "zarr.json")
            assert response_of(server, "zarr.json")[0] == 200
            monkeypatch.setattr(owner, name, real)


def test_a_server_ends_after_an_interrupt_of_its_end() -> None:
    """Also where a lock of the standard library would stay locked."""
    store, modules = MemoryStore(), {"threading.py"}
    frazil.create_group(store)

    def end(at: int | None) -> list[tuple[str, int]]:
        server, interrupts = serve(store, port=0), Interrupts(at, modules=modules)
        interrupts.run(server.close)
        assert ends(server.close, 20), interrupts.seen[-1]
        return interrupts.seen

    seen, lines = end(None), {line for *_, line in threading.Condition.__enter__.__code__.co_lines()}
    for number in first_times(seen):
        if seen[number][1] in lines:
            end(number)
