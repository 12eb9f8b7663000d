"""ds.frazil.write from a cluster of processes into a branch: one commit of all variables, also if a worker is killed meanwhile, or none."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import distributed
import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from tests.integrations.clusters import local_cluster

import frazil
import frazil.xarray

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning:xarray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of workers that were killed
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with local_cluster(threads=1) as client:
        yield client


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    repo = frazil.Repository.create(tmp_path / "sea.repo")
    dataset().frazil.write(repo, message="before", chunks={"time": 2, "x": 5}, shards={"time": 4})
    return repo


def dataset() -> xr.Dataset:
    values = np.arange(12 * 10 * 20, dtype="f8").reshape(12, 10, 20)
    return xr.Dataset(
        {"t": (("time", "y", "x"), values), "u": (("time", "y", "x"), values * 2)}, {"time": np.arange(12)}
    )


def kill_worker(block: NDArray[np.float64], seen: str, times: int) -> NDArray[np.float64]:
    """The block, unless it has the largest value: then it kills the worker, as often as allowed."""
    if block.size and block.max() == 12 * 10 * 20 - 1:
        for number in range(times):
            try:
                os.close(os.open(f"{seen}{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    return block


def changed(path: Path, times: int) -> xr.Dataset:
    """The cluster's result from the repository: t (unchanged, but workers die), and three times u."""
    opened = xr.open_dataset(str(path / "sea.repo"), engine="frazil", chunks={})
    blocks = opened.t.data.map_blocks(kill_worker, str(path / "killed"), times, dtype="f8", meta=np.empty((0, 0, 0)))
    return xr.Dataset({"t": (opened.t.dims, blocks + 1), "u": opened.u * 3})


def test_a_worker_that_is_killed_does_no_harm(
    client: distributed.Client, repo: frazil.Repository, tmp_path: Path
) -> None:
    snapshot = changed(tmp_path, 1).frazil.write(repo, mode="a", message="in spite of it")
    assert (tmp_path / "killed0").exists()
    assert repo.lookup("main") == snapshot
    assert [commit.message for commit in repo.history()][:2] == ["in spite of it", "before"]
    found = xr.open_dataset(repo, engine="frazil")  # type: ignore[arg-type] # xarray's stubs know paths
    np.testing.assert_array_equal(found.t, dataset().t + 1)
    np.testing.assert_array_equal(found.u, dataset().u * 3)


def test_a_write_that_is_given_up_leaves_the_branch(
    client: distributed.Client, repo: frazil.Repository, tmp_path: Path
) -> None:
    before = repo.lookup("main")
    with pytest.raises(distributed.KilledWorker):
        changed(tmp_path, 99).frazil.write(repo, mode="a", message="never")
    assert repo.lookup("main") == before
    assert xr.open_dataset(repo, engine="frazil").equals(dataset())  # type: ignore[arg-type] # as above
    client.wait_for_workers(2, timeout=120)
