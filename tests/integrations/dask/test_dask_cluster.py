"""Writing from a cluster of processes: one commit of all data, also if a worker is killed on the way, and none if it cannot be finished."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import distributed
import numpy as np
import pytest
from dask.base import tokenize
from numpy.typing import NDArray
from tests.integrations.clusters import local_cluster
from tests.servers.buckets import S3

import frazil
import frazil.dask
from frazil.errors import InvalidInputError
from frazil.stores import MemoryStore

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of workers that were killed
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

VALUES = np.arange(60 * 40, dtype="i8").reshape(60, 40) + 1
LAYOUT: dict[str, Any] = {"shape": (60, 40), "dtype": "i8", "chunks": (5, 5), "shards": (10, 20)}


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with local_cluster(threads=2) as client:
        yield client


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    repo = frazil.Repository.create(tmp_path / "r")
    with repo.transaction(message="arrays") as root:
        root.create_array("t", **LAYOUT)
        root.create_array("u", **LAYOUT)
    return repo


def misaligned() -> da.Array:
    return da.from_array(VALUES, chunks=(7, 9))


def kill_worker(block: NDArray[np.int64], seen: str, times: int) -> NDArray[np.int64]:
    """The block, unless it is the last one: then it kills the worker, as often as allowed."""
    if (block == VALUES[-1, -1]).any():
        for number in range(times):
            try:
                os.close(os.open(f"{seen}{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    return block


def fail_at_first(block: NDArray[np.int64], seen: str) -> NDArray[np.int64]:
    """The block; among those with its last element, the first requested one fails."""
    if (block == VALUES[-1, -1]).any() and not Path(seen).exists():
        Path(seen).touch()
        raise OSError("for the first time")
    return block


def test_tasks_that_are_tried_again(client: distributed.Client, repo: frazil.Repository, tmp_path: Path) -> None:
    never, later = (
        misaligned().map_blocks(fail_at_first, str(tmp_path / name), dtype="i8", meta=np.empty((0, 0), "i8"))
        for name in ("never", "later")
    )
    with pytest.raises(OSError, match="for the first time"):
        frazil.dask.store(never, "t", into=repo, message="never")
    frazil.dask.store(later, "t", into=repo, message="the second time", retries=1)
    np.testing.assert_array_equal(repo.readonly_session().root["t"][...], VALUES)
    assert [commit.message for commit in repo.history()][:2] == ["the second time", "arrays"]


def fail_or_wait(block: NDArray[np.int64], folder: str) -> NDArray[np.int64]:
    """The block with the first element waits for a file; that with the last one fails when the other has begun."""
    if (block == VALUES[0, 0]).any():
        Path(folder, "began").touch()
        while not Path(folder, "goes on").exists():
            time.sleep(0.01)
    elif (block == VALUES[-1, -1]).any():
        while not Path(folder, "began").exists():
            time.sleep(0.01)
        raise OSError("on purpose")
    return block


def running(dask_worker: distributed.Worker) -> int:
    return dask_worker.state.executing_count


def test_a_failed_store_writes_nothing_later(client: distributed.Client, tmp_path: Path) -> None:
    """Tasks of a cluster run on when another one has failed."""
    array = frazil.create_array(tmp_path / "a", **LAYOUT)
    aligned = da.from_array(VALUES, chunks=(10, 20))  # computed and written by one task
    late = aligned.map_blocks(fail_or_wait, str(tmp_path), dtype="i8", meta=np.empty((0, 0), "i8"))
    with pytest.raises(OSError, match="on purpose"):
        frazil.dask.store(late, array)
    frazil.dask.store(misaligned() + 1, array)
    (tmp_path / "goes on").touch()
    while any(client.run(running).values()):
        time.sleep(0.01)
    np.testing.assert_array_equal(array[...], VALUES + 1)


@pytest.mark.parametrize("answers", [{"a": None, "b": None}, {"a": None, "b": OSError("gone")}, TimeoutError("late")])
def test_a_failed_store_says_which_tasks_it_cannot_end(answers: object) -> None:
    class Client:
        def get(self, *_args: object, **_options: object) -> object:
            raise ArithmeticError("on purpose")

        def run(self, *_args: object, **_options: object) -> object:
            if isinstance(answers, Exception):
                raise answers
            return answers

    array = frazil.create_array(MemoryStore(), shape=4, dtype="i8")
    with pytest.raises(ArithmeticError) as failed:
        frazil.dask.store(da.arange(4), array, scheduler=Client().get)
    notes = " ".join(getattr(failed.value, "__notes__", []))
    assert ("Not all workers answered" in notes) == (answers != {"a": None, "b": None})


def set_environment(variables: dict[str, str]) -> None:
    os.environ.update(variables)


def test_a_plain_array(client: distributed.Client, tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", **LAYOUT)
    frazil.dask.store(misaligned(), array)
    np.testing.assert_array_equal(array[...], VALUES)


def test_two_arrays_are_one_commit(client: distributed.Client, repo: frazil.Repository) -> None:
    x = misaligned()
    snapshot = frazil.dask.store([x, x + 1], ["t", "u"], into=repo, message="a cluster")
    assert [commit.message for commit in repo.history()][:2] == ["a cluster", "arrays"]
    root = repo.readonly_session().root
    assert repo.lookup("main") == snapshot
    np.testing.assert_array_equal(root["t"][...], VALUES)
    np.testing.assert_array_equal(root["u"][...], VALUES + 1)


def test_read_by_workers(client: distributed.Client, repo: frazil.Repository) -> None:
    with repo.transaction(message="x") as root:
        root["t"][...] = VALUES
    x = frazil.dask.from_array(repo.readonly_session().root["t"])
    assert int(x.sum().compute()) == int(VALUES.sum())
    frazil.dask.store(x[::-1], "u", into=repo, message="turned")
    np.testing.assert_array_equal(repo.readonly_session().root["u"][...], VALUES[::-1])


def test_a_worker_that_is_killed_does_no_harm(
    client: distributed.Client, repo: frazil.Repository, tmp_path: Path
) -> None:
    x = misaligned().map_blocks(kill_worker, str(tmp_path / "killed"), 1, dtype="i8", meta=np.empty((0, 0), "i8"))
    frazil.dask.store([x, misaligned() * 2], ["t", "u"], into=repo, message="in spite of it")
    assert (tmp_path / "killed0").exists()
    assert [commit.message for commit in repo.history()][:2] == ["in spite of it", "arrays"]
    root = repo.readonly_session().root
    np.testing.assert_array_equal(root["t"][...], VALUES)
    np.testing.assert_array_equal(root["u"][...], VALUES * 2)


def test_a_write_that_is_given_up_shows_nothing(
    client: distributed.Client, repo: frazil.Repository, tmp_path: Path
) -> None:
    before = repo.lookup("main")
    x = misaligned().map_blocks(kill_worker, str(tmp_path / "killed"), 99, dtype="i8", meta=np.empty((0, 0), "i8"))
    with pytest.raises(distributed.KilledWorker):
        frazil.dask.store([misaligned(), x], ["t", "u"], into=repo, message="never")
    assert repo.lookup("main") == before
    assert not repo.readonly_session().root["t"][...].any()


def test_a_bucket(client: distributed.Client, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository by its URL, with credentials from the environment, which the workers also have; one of them is killed."""
    variables = s3.environment()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    client.wait_for_workers(2, timeout=120)  # workers that were killed before may not be back yet
    client.run(set_environment, variables)
    for nanny in client.cluster.workers.values():  # which starts the next worker
        nanny.env.update(variables)
    repo = frazil.Repository.create(s3.url(prefix="sea.repo"))
    x = misaligned().map_blocks(kill_worker, str(tmp_path / "killed"), 1, dtype="i8", meta=np.empty((0, 0), "i8"))
    with repo.transaction(message="a cluster") as root:
        frazil.dask.store(
            [x, misaligned()[3:50]], [root.create_array(name, **LAYOUT) for name in "tu"], regions=[(), (slice(2, 49),)]
        )
    assert (tmp_path / "killed0").exists()
    root = repo.readonly_session().root
    np.testing.assert_array_equal(root["t"][...], VALUES)
    np.testing.assert_array_equal(root["u"][2:49], VALUES[3:50])
    assert len(list(repo.history())) == 2
    assert int(frazil.dask.from_array(root["t"]).sum().compute()) == int(VALUES.sum())


def test_a_plain_array_in_a_bucket(client: distributed.Client, s3: S3) -> None:
    """Explicit credentials are sent along."""
    store = s3.store(prefix="t")
    array = frazil.create_array(store, **LAYOUT)
    frazil.dask.store(misaligned()[:55, 2:], array, regions=(slice(5, 60), slice(0, 38)))
    np.testing.assert_array_equal(array[5:, :38], VALUES[:55, 2:])
    assert not array[:5].any() and not array[:, 38:].any()
    pair = [array, frazil.open_array(store, "r+")]
    with pytest.raises(InvalidInputError, match="same elements"):
        frazil.dask.store([misaligned(), misaligned()], pair)
    assert tokenize(frazil.open_array(store)) == tokenize(frazil.open_array(store))


def test_an_answer_is_never_an_old_one(client: distributed.Client, repo: frazil.Repository) -> None:
    """The same store call again writes again, although the cluster still has the first result."""
    session = repo.writable_session()
    x = misaligned()
    kept = client.persist(frazil.dask.store(x, "t", into=session, compute=False))
    distributed.wait(kept)
    frazil.dask.store(x, "t", into=repo, message="x")
    np.testing.assert_array_equal(repo.readonly_session().root["t"][...], VALUES)
    assert not session.has_changes


def test_a_store_in_memory_is_refused(client: distributed.Client) -> None:
    array = frazil.create_array(MemoryStore(), **LAYOUT)
    with pytest.raises(InvalidInputError, match="store in memory"):
        frazil.dask.store(misaligned(), array)
