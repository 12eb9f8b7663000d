"""Many writers of one branch and of one shard, in real object stores: no writer's data is lost, and everything reported as done is there."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
from tests.api.stored_files import check_files
from tests.faults import test_committers as committers
from tests.faults.concurrent_calls import expect_line, finish, in_threads, running
from tests.faults.test_writers import append_rows, check_rows, create, elements, expected, inner_chunks, write_share
from tests.servers.buckets import Buckets
from tests.servers.processes import ROOT

import frazil

THREADS, PROCESSES, TURNS = 6, 3, 4


@pytest.fixture(params=["s3", "azure", "gcs"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Buckets:
    """A server whose URLs work here, and in started processes."""
    server: Buckets = request.getfixturevalue(request.param)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server


def test_the_environment_has_the_address_of_a_server(server: Buckets) -> None:
    url = server.url(prefix="in/a place")
    frazil.create_array(url, shape=(8,), dtype="i4", chunks=(2,), shards=(4,))[1:7] = 5
    array = pickle.loads(pickle.dumps(frazil.open_array(url, "r+")))
    array[0] = 6
    assert frazil.open_array(url)[...].tolist() == [6, 5, 5, 5, 5, 5, 5, 0]


# --- one branch ------------------------------------------------------------------------------------------------------------------------

WORK = {
    "disjoint": (committers.commit_disjoint, committers.check_disjoint),
    "count": (committers.count_up, committers.check_counted),
}

COMMITTER = """
import sys
root, work, url, turns, writer = sys.argv[1:]
sys.path.insert(0, root)
from tests.faults.test_in_buckets import WORK
print("ready", flush=True)
sys.stdin.readline()
WORK[work][0](url, int(turns), int(writer))
"""


def check_messages(repo: frazil.Repository, writers: int, turns: int) -> None:
    """Every commit is there once, those of one writer in order."""
    messages = committers.messages_of(repo)
    assert sorted(messages) == sorted(f"{writer} {turn}" for writer in range(writers) for turn in range(1, turns + 1))
    for writer in range(writers):
        of_writer = [one for one in messages if one.startswith(f"{writer} ")]
        assert of_writer == [f"{writer} {turn}" for turn in range(1, turns + 1)]


@pytest.mark.parametrize("work", WORK)
def test_threads_commit_at_once(server: Buckets, work: str) -> None:
    store = server.store(prefix="repo")
    commit, check = WORK[work]
    repo = committers.begin(store, THREADS)  # type: ignore[arg-type]
    in_threads(THREADS, partial(commit, store, TURNS))  # type: ignore[arg-type]
    check_messages(repo, THREADS, TURNS)
    check(repo.readonly_session().root, THREADS, TURNS)
    check_files(store)


@pytest.mark.parametrize("server", ["s3"], indirect=True)
@pytest.mark.parametrize("work", WORK)
def test_processes_commit_at_once(server: Buckets, work: str) -> None:
    url = server.url(prefix="repo")
    repo = committers.begin(url, PROCESSES)  # type: ignore[arg-type]
    with ExitStack() as stack:
        others = [
            stack.enter_context(running(COMMITTER, ROOT, work, url, TURNS, writer)) for writer in range(PROCESSES)
        ]
        begin_together(others)
    check_messages(repo, PROCESSES, TURNS)
    WORK[work][1](repo.readonly_session().root, PROCESSES, TURNS)


def begin_together(others: list) -> None:  # type: ignore[type-arg]
    for other in others:
        expect_line(other.stdout, "ready")
    for other in others:
        other.stdin.write("go\n")
        other.stdin.flush()
    for other in others:
        finish(other)


# --- one shard -------------------------------------------------------------------------------------------------------------------------

WRITER = """
import json, sys
root, url, writer, rounds, places = sys.argv[1:]
sys.path.insert(0, root)
import frazil
from tests.faults.test_writers import write_share
array = frazil.open_array(url, "r+")
print("ready", flush=True)
sys.stdin.readline()
write_share(array, [tuple(slice(*part) for part in place) for place in json.loads(places)], int(writer), int(rounds))
"""


@pytest.mark.parametrize("share", [inner_chunks, elements])
@pytest.mark.parametrize("layout", ["chunk", "shard"])
def test_threads_write_one_object(
    server: Buckets, layout: str, share: Callable[[int, int], list[tuple[slice, ...]]]
) -> None:
    store = server.store(prefix="array")
    array = create(store, layout)

    def write(writer: int) -> None:
        mine = frazil.open_array(store, "r+") if writer < THREADS // 2 else array
        write_share(mine, share(writer, 4)[:6], writer, 1)

    in_threads(4, write)
    found = frazil.open_array(store)[...]
    for writer in range(4):
        for number, place in enumerate(share(writer, 4)[:6]):
            assert (found[place] == 1000 * writer + number % 10).all()


@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_processes_write_one_shard(server: Buckets) -> None:
    url = server.url(prefix="array")
    create(url, "shard")
    with ExitStack() as stack:
        others = []
        for writer in range(PROCESSES):
            places = json.dumps(
                [[[p.start, p.stop, p.step] for p in place] for place in inner_chunks(writer, PROCESSES)]
            )
            others.append(stack.enter_context(running(WRITER, ROOT, url, writer, 1, places)))
        begin_together(others)
    np.testing.assert_array_equal(frazil.open_array(url)[...], expected(inner_chunks, PROCESSES, 1))


def test_threads_append_rows(server: Buckets) -> None:
    store = server.store(prefix="array")
    array = create(store, "chunk", shape=(0, 3))
    in_threads(3, lambda writer: append_rows(frazil.open_array(store, "r+"), writer, 0))
    check_rows(array.refresh(), 3, 0)
