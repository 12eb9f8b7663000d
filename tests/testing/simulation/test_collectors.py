"""Simulated runs with collectors: nothing live is lost, nothing dead is left; and each of the steps that keep it so is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from frazil.testing import Simulation
from frazil.testing.simulation.plan import make_plan

SEEDS = 300
MANY = 20_000  # of `make campaign`
BATCH = 100


def collecting(seeds: range) -> list[int]:
    return [seed for seed in seeds if "collect" in make_plan(seed).tasks]


def test_collectors_beside_writers_and_readers() -> None:
    traces = ["\n".join(Simulation(seed).run().trace) for seed in collecting(range(60))]
    assert sum("expires" in trace for trace in traces) > 3
    assert sum("erase chunks/" in trace for trace in traces) > 3
    assert sum("stands still" in trace for trace in traces) > 3


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(SEEDS, MANY, BATCH))
def test_many_runs_with_collectors(first: int) -> None:
    for seed in collecting(range(first, first + BATCH)):
        Simulation(seed).run()


def no_hold(*_: object) -> int:
    return 0


def never(*_: object) -> bool:
    return False


@contextmanager
def no_pin(*_: object) -> Iterator[None]:
    yield


DEFECTS: list[tuple[str, str, Callable[..., object], int]] = [
    ("frazil.repository.maintenance.collection", "_hold_branches", no_hold, 685),
    ("frazil.repository.commit.commit", "may_be_condemned", never, 9),
    ("frazil.api.repository", "pinned", no_pin, 62),
]


@pytest.mark.parametrize(("module", "name", "defect", "seed"), DEFECTS, ids=["hold", "look", "pin"])
def test_a_missing_step_is_found(
    module: str, name: str, defect: Callable[..., object], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Branches are not held before the second mark; old sessions do not look; tags have no pins."""
    Simulation(seed).run()
    monkeypatch.setattr(sys.modules[module], name, defect)
    with pytest.raises(AssertionError, match=r"NotFoundError|FormatError"):
        Simulation(seed).run()
