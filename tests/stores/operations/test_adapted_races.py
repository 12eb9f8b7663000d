"""Threads with adapted stores: no write is lost among the writers of a process, and reads return existing values, even if others write past the adapter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.stores.draft_operations import Table, subset

import frazil
from frazil.stores import adapt
from frazil.testing.checks import run_threads


@pytest.fixture(autouse=True)
def _many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize(
    "names",
    [
        ("get", "set", "erase"),
        ("get_partial_values", "set_partial_values", "erase_values", "size"),
        ("get_partial_values", "set", "version", "set_if", "size"),
    ],
    ids="+".join,
)
def test_writers_of_one_shard_through_adapters_of_their_own(names: tuple[str, ...]) -> None:
    inner = subset(*names)
    array = frazil.create_array(
        adapt(inner), shape=(8, 64), dtype="i4", chunks=(1, 16), shards=(8, 64), codecs=[], fill_value=-1
    )

    def write(row: int) -> None:
        mine = frazil.open_array(adapt(inner), mode="r+")
        for n in range(12):
            mine[row] = n

    def read() -> None:
        mine, last = frazil.open_array(adapt(inner)), np.full(8, -2)
        for _ in range(25):
            seen = mine[...]
            assert (seen == seen[:, :1]).all(), "a row is written at once"
            assert (seen[:, 0] >= last).all(), "and is not taken back"
            last = seen[:, 0]

    run_threads([*(partial(write, row) for row in range(6)), read, read])
    assert array[:, 0].tolist() == [11] * 6 + [-1] * 2


@pytest.mark.parametrize(
    "names", [("get",), ("get_partial_values", "size"), ("get_partial_values", "size", "version")], ids="+".join
)
def test_readers_beside_writers_of_other_stores(names: tuple[str, ...]) -> None:
    table = Table()

    def part(*some: str) -> Any:  # a separate object, so that it knows nothing of the other one's writes
        return adapt(SimpleNamespace(**{name: getattr(table, name) for name in some}))

    array = frazil.create_array(
        part("get", "set"), shape=(16, 64), dtype="i4", chunks=(4, 16), shards=(16, 64), codecs=["zstd"]
    )
    rng = np.random.default_rng(0)
    done: list[bool] = []

    def write() -> None:
        for n in range(40):
            values = rng.integers(0, 2 ** (1 + n % 30), (16, 64))
            values[:, 0] = n
            array[...] = values
        done.append(True)

    def read() -> None:
        mine = frazil.open_array(part(*names))
        finished = False
        while not finished:
            finished = bool(done)
            assert len(set(mine[:, 0].tolist())) == 1

    run_threads([write, read, read])
