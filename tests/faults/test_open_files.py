"""Open files: none is left open, stored errors keep none open, and many threads need only few."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.concurrent_calls import open_files, run

import frazil
from frazil.errors import FrazilError


@pytest.fixture
def damaged(tmp_path: Path) -> frazil.Array:
    """An array of 64 shards, all of them damaged."""
    array = frazil.create_array(tmp_path / "a", shape=(64, 64), dtype="u4", chunks=(4, 4), shards=(8, 8))
    array[...] = 5
    for path in (tmp_path / "a" / "c").rglob("*"):
        if path.is_file():
            path.write_bytes(bytes(100))
    return array


def test_work_leaves_no_file_open(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=(64, 64), dtype="u4", chunks=(4, 4), shards=(8, 8))
    array[...] = 1
    before = open_files()
    for turn in range(3):
        array[1:, ::2] = turn + 2
        assert array[3, 2] == turn + 2
        assert (array[1:, ::2] == turn + 2).all()
        array.vindex[[1, 60], [1, 60]] = 9
        array.resize((63 - turn, 64))
        array.attrs["turn"] = turn
        assert array.nchunks_initialized >= 0
        array.nbytes_stored()
    assert open_files() <= before


def test_errors_that_are_kept_keep_no_file_open(damaged: frazil.Array) -> None:
    before = open_files()
    kept = []
    for _ in range(3):
        for call in (
            lambda: damaged[...],
            lambda: damaged[1, 1],
            lambda: damaged.vindex[[1, 60], [1, 60]],
            lambda: damaged.__setitem__((1, 1), 3),
        ):
            with pytest.raises(FrazilError) as caught:
                call()
            kept.append(caught.value)
    assert open_files() <= before
    assert all(error.path == "/" and error.key is not None for error in kept)


FEW = """
import resource, sys, threading
import numpy as np
import frazil
from tests.faults.concurrent_calls import in_threads
array = frazil.open_array(sys.argv[1], "r+")
shape = array.shape
wanted = np.arange(shape[0])[:, None] + np.zeros(shape, "u4")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

def use(number):
    mine = array if number % 2 else frazil.open_array(sys.argv[1], "r+")
    rows = slice(number, None, 16)
    mine[rows, :-1] = wanted[rows, :-1]
    assert (mine[rows, :-1] == wanted[rows, :-1]).all()

in_threads(16, use)
assert (array[:, :-1] == wanted[:, :-1]).all()
"""


@pytest.mark.parametrize("shards", [(8, 8), None])
def test_many_threads_with_few_files(tmp_path: Path, shards: tuple[int, int] | None) -> None:
    """16 threads read 64 objects each in a process that may have 64 open files."""
    frazil.create_array(tmp_path / "a", shape=(64, 64), dtype="u4", chunks=(4, 8), shards=shards)[...] = 7
    run(FEW, tmp_path / "a")


NONE = """
import os, resource, sys
import frazil
from frazil.errors import StoreError
from frazil.base.retry import FILES, when_files_are_free
from tests.faults.concurrent_calls import in_threads
array = frazil.open_array(sys.argv[1], "r+")
array[0]
for module in list(sys.modules.values()):  # no file is ever closed
    if "FREE_FILES" in vars(module):
        module.FREE_FILES = module.FREE_FILES._replace(within=0.1)
when_files_are_free.__defaults__ = (FILES._replace(within=0.1),)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1,) * 2)
calls = (lambda: array[...], lambda: array.__setitem__(0, 1), lambda: array.store.get("zarr.json"))
errors = []

def use(number):  # at once, as each waits for others to close files
    try:
        calls[number]()
    except StoreError as error:
        errors.append(error.errno)

in_threads(3, use)
print(*errors)
"""


def test_without_any_file_it_is_an_error(tmp_path: Path) -> None:
    frazil.create_array(tmp_path / "a", shape=4, dtype="u4", chunks=2, shards=4)[...] = 7
    assert run(NONE, tmp_path / "a").split() == ["24"] * 3
