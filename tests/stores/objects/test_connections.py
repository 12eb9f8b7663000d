"""Connections: one client and one set of threads for each bucket and its options, for any number of open stores; closed with the last of them."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
from tests.faults.interrupted_lines import Interrupts, ends, first_times
from tests.servers.buckets import Buckets

import frazil
from frazil.base.threads import Pending
from frazil.stores import ObjectStore
from frazil.stores.objects.connections import Connection, RequestThreads

OPTIONS = {"region": "eu-central-1", "access_key_id": "a", "secret_access_key": "b"}


def connection_of(store: object) -> Connection:
    assert isinstance(store, ObjectStore)
    return store._clients.connection


def request_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("frazil-requests")]


def test_fifty_arrays_of_a_bucket_share_a_client_and_its_threads(s3: Buckets) -> None:
    gc.collect()
    before = set(request_threads())
    bucket = s3.new_bucket()
    for number in range(3):
        frazil.create_array(s3.store(bucket, f"a{number}"), data=np.full(8, number), chunks=4)
    stores = [s3.store(bucket, f"a{number % 3}") for number in range(50)]
    arrays = [frazil.open_array(store) for store in stores]
    for number, array in enumerate(arrays):
        assert (array[...] == number % 3).all()
    assert len({id(connection_of(array.store)) for array in arrays}) == 1
    limit = arrays[0].store.requests_in_flight  # type: ignore[attr-defined]
    grown = [thread for thread in request_threads() if thread not in before]
    assert len(grown) <= limit
    del stores, arrays, array
    gc.collect()
    for thread in grown:  # each ends when there is nothing to do
        thread.join(60)
        assert not thread.is_alive()


def test_other_buckets_options_limits_and_environments_have_clients_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = ObjectStore("s3://one/a", **OPTIONS)
    same = ObjectStore("s3://one/b/c", **dict(reversed(OPTIONS.items())))
    assert connection_of(first) is connection_of(same)
    others = [
        ObjectStore("s3://two/a", **OPTIONS),
        ObjectStore("s3://one/a", requests_in_flight=3, **OPTIONS),
        ObjectStore("s3://one/a", **{**OPTIONS, "secret_access_key": "c"}),
        ObjectStore("s3://one/a", client_options={"timeout": "5s"}, **OPTIONS),
    ]
    monkeypatch.setenv("AWS_SESSION_TOKEN", "told later")
    others.append(ObjectStore("s3://one/a", **OPTIONS))
    assert len({id(connection_of(store)) for store in [first, *others]}) == 6


def test_a_pickle_finds_the_client_that_is_in_use() -> None:
    store = ObjectStore("s3://one/a", **OPTIONS)
    assert connection_of(pickle.loads(pickle.dumps(store))) is connection_of(store)


def test_stores_over_one_object_of_obstore_share_its_threads() -> None:
    from obstore.store import MemoryStore

    objects = MemoryStore()
    one, two = ObjectStore(objects), ObjectStore(objects)
    assert connection_of(one) is connection_of(two)
    assert connection_of(ObjectStore(MemoryStore())) is not connection_of(one)


def test_servers_of_one_origin_share_connections() -> None:
    one, two = ObjectStore("https://example.org/a/b"), ObjectStore("https://example.org/c")
    assert connection_of(one) is connection_of(two)
    assert (one.url, two.url) == ("https://example.org/a/b", "https://example.org/c")
    assert connection_of(ObjectStore("http://example.org/c")) is not connection_of(one)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_begins_with_no_connections() -> None:
    store = ObjectStore("s3://one/a", **OPTIONS)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(connection_of(ObjectStore("s3://one/a", **OPTIONS)) is connection_of(store))
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


SILENT = """
import os, signal, socket, threading
from frazil.stores import ObjectStore
server = socket.create_server(("127.0.0.1", 0))

def interrupt():
    server.accept()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
store = ObjectStore("s3://b/p", endpoint=f"http://127.0.0.1:{server.getsockname()[1]}", client_options={"allow_http": True}, region="x", access_key_id="a", secret_access_key="b")
try:
    store.get("a")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_program_ends_while_a_server_is_silent() -> None:
    """Its threads were waited for, for some minutes."""
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n" and not done.stderr


LATER = """
import threading
from obstore.store import MemoryStore
from frazil.stores import ObjectStore
store = ObjectStore(MemoryStore())
store.set("a", b"1")

def use():
    threading.main_thread().join()
    print(store.get("a"), store.get_many(["a", "b", "a"]), flush=True)

threading.Thread(target=use).start()
"""


def test_a_thread_that_outlives_the_main_thread_makes_requests() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "b'1' [b'1', None, b'1']\n" and not done.stderr


def test_as_many_threads_as_are_busy_and_no_more_than_the_limit() -> None:
    threads, free, running = RequestThreads(3), threading.Event(), threading.Semaphore(0)

    def call() -> int:
        running.release()
        assert free.wait(60)
        return threading.get_ident()

    tasks = [Pending(call) for _ in range(8)]
    for task in tasks:
        threads.submit(task)
    for _ in range(3):
        assert running.acquire(timeout=60)
    assert len(threads._alive) == 3 and not running.acquire(blocking=False)
    free.set()
    assert len({task.result() for task in tasks}) == 3


def test_requests_are_made_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = RequestThreads(3)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    tasks = [Pending(partial(int, text)) for text in "123a"]
    for task in tasks:
        threads.submit(task)
    assert [task.result() for task in tasks[:3]] == [1, 2, 3]
    assert isinstance(tasks[3].errors[0], ValueError)
    assert not threads._alive


def test_requests_go_on_after_interrupts() -> None:
    """A thread that was counted and never started, or a lock that it needs and an interrupt keeps, would keep all later requests waiting."""

    def answered(threads: RequestThreads) -> int:
        task = Pending(int)
        threads.submit(task)
        return task.result()

    def interrupted(number: int | None, threads: RequestThreads) -> list[tuple[str, int]]:
        interrupts = Interrupts(number)
        interrupts.run(partial(answered, threads))
        assert ends(partial(answered, threads), 20), interrupts.seen[-1]
        return interrupts.seen

    before = sys.getswitchinterval()
    sys.setswitchinterval(60)  # a request is made when its caller waits
    try:
        for number in first_times(interrupted(None, RequestThreads(1))):
            interrupted(number, RequestThreads(1))
        begun = RequestThreads(1)
        answered(begun)
        for number in first_times(interrupted(None, begun)):
            interrupted(number, begun)
    finally:
        sys.setswitchinterval(before)
