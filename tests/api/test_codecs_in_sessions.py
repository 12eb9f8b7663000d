"""Codecs of users that read and write the session that they encode chunks for, while another thread commits, rebases, forks, merges or discards it: nobody
waits for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import Event, Thread
from typing import TypeAlias

import numpy as np
import pytest

import frazil
from frazil.repository.session.whole_changes import WholeChanges
from frazil.runtime import Runtime
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.testing import SlowStore
from tests.codecs.user_codecs import REGISTRY, Invert
from tests.faults.interrupted_lines import ends

Act: TypeAlias = Callable[[], object]

SECONDS = 20.0  # until a test fails that would wait for ever


def repository(store: Store | None = None) -> frazil.Repository:
    """An array that a codec of a user encodes, in chunks of 2, and a plain one."""
    threads = Runtime(threads=2)
    repo = frazil.Repository.create(store or MemoryStore(), registry=REGISTRY, runtime=threads)
    with repo.transaction(message="first") as root:
        root.create_array("coded", shape=(5, 4), chunks=(2, 2), dtype="u1", codecs=["bytes", Invert()], fill_value=0)
        root.create_array("plain", data=np.arange(6), chunks=(1,))
    return repo


def array(session: frazil.Session, path: str = "coded") -> frazil.Array:
    found = session[path]
    assert isinstance(found, frazil.Array)
    return found


def read(session: frazil.Session) -> None:
    assert len(array(session, "plain")[...]) == 6


def write(session: frazil.Session) -> None:
    array(session, "plain")[1:5] = 7


@pytest.fixture
def in_codec(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Act], None]]:
    """Sets what the codec does in its next call."""
    acts: list[Act] = []
    encode = Invert.encode

    def acting(self: Invert, data: bytes) -> bytes:
        if acts:
            acts.pop()()
        return encode(self, data)

    monkeypatch.setattr(Invert, "encode", acting)
    yield acts.append
    assert not acts, "the codec was called"


def beside(
    monkeypatch: pytest.MonkeyPatch,
    in_codec: Callable[[Act], None],
    session: frazil.Session,
    use: Act,
    act: Act,
    rows: int,
    columns: int,
) -> None:
    """Writes some elements in one thread, whose codec calls `use` when another thread waits for this change in its call of `act`."""
    begun, awaited = Event(), Event()
    wait = WholeChanges.wait

    def noted(self: WholeChanges) -> None:
        if self is session._transaction.whole_changes:
            awaited.set()
        wait(self)

    def meanwhile() -> None:
        begun.set()
        assert awaited.wait(SECONDS)
        use()

    in_codec(meanwhile)
    writer = Thread(target=lambda: array(session).__setitem__((slice(rows), slice(columns)), 1), daemon=True)
    writer.start()
    assert begun.wait(SECONDS)
    monkeypatch.setattr(WholeChanges, "wait", noted)
    assert ends(act, SECONDS), "the other thread waits for ever"
    writer.join(SECONDS)
    assert not writer.is_alive()
    assert array(session)[:rows, :columns].sum() in (0, rows * columns)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (4, 4)], ids=["one chunk", "several threads"])
@pytest.mark.parametrize(
    "use", [read, write, frazil.Session.fork, lambda session: array(session).append(np.ones((1, 4), "u1"))]
)
@pytest.mark.parametrize("name", ["fork", "rebase", "discard", "commit"])
def test_beside_another_thread(
    name: str,
    use: Callable[[frazil.Session], object],
    rows: int,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    in_codec: Callable[[Act], None],
) -> None:
    session = repository().writable_session()
    acts = {"commit": partial(session.commit, "all", allow_empty=True)}
    beside(monkeypatch, in_codec, session, lambda: use(session), acts.get(name, getattr(session, name)), rows, columns)


@pytest.mark.parametrize("use", [read, write])
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (4, 4)])
def test_a_fork_that_uses_its_session_while_that_merges_it(
    use: Callable[[frazil.Session], object],
    rows: int,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    in_codec: Callable[[Act], None],
) -> None:
    session = repository().writable_session()
    fork = session.fork()
    beside(monkeypatch, in_codec, fork, lambda: use(session), lambda: session.merge(fork), rows, columns)
    assert array(session)[:rows, :columns].all()


@pytest.mark.parametrize(("slow", "rows"), [(False, 7), (True, 7), (True, 70)])
def test_a_rebase_whose_codecs_read_the_session(slow: bool, rows: int, in_codec: Callable[[Act], None]) -> None:
    """It copies rows, 70 in several tasks, and holds the lock of the session."""
    store = MemoryStore()
    repo = repository(store)
    if slow:
        few = Runtime(threads=2, bytes_in_flight=64)
        repo = frazil.Repository.open(SlowStore(store, 0.0), registry=REGISTRY, runtime=few)
    session = repo.writable_session()
    array(session).append(np.ones((rows, 4), "u1"))
    with repo.transaction(message="others") as root:
        root["coded"].append([[9] * 4])  # type: ignore[union-attr]
    for _ in range(8):
        in_codec(lambda: read(session))
    assert ends(session.rebase, SECONDS)
    assert array(session)[5:, 0].tolist() == [9] + [1] * rows


def test_two_threads_whose_codecs_fork_the_session(in_codec: Callable[[Act], None]) -> None:
    """Each is within a change that the other would wait for."""
    session = repository().writable_session()
    inside = [Event(), Event()]

    def use(own: int) -> None:
        inside[own].set()
        assert inside[1 - own].wait(SECONDS)
        session.fork()

    def both() -> None:
        in_codec(lambda: use(0))
        in_codec(lambda: use(1))
        threads = [Thread(target=array(session).__setitem__, args=(slice(at, at + 2), 1)) for at in (0, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert ends(both, SECONDS)
