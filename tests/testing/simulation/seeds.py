"""The seeds that tests of the simulation run: each is run by one of them alone, as a run takes a while."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from frazil.testing.simulation.plan import make_plan

__all__ = ["KINDS", "SEEDS", "collecting", "plain", "rescuing"]

SEEDS = 200  # of `make test`
KINDS = (*range(60), *range(69, 400, 10))  # whose traces have every kind of request


def collecting(seeds: Iterable[int]) -> list[int]:
    """Seeds of runs with collectors."""
    return [seed for seed in seeds if "collect" in _tasks(seed)]


@cache
def rescuing() -> list[int]:
    """Seeds of runs in which tags and branches are made of condemned snapshots."""
    return [seed for seed in range(700) if {"collect", "rescue"} <= set(_tasks(seed))]


@cache
def plain(first: int, count: int) -> list[int]:
    """Those of `count` seeds that no other test runs."""
    others = {*KINDS, *rescuing()}
    return [seed for seed in range(first, first + count) if seed not in others]


def _tasks(seed: int) -> tuple[str, ...]:
    return tuple(make_plan(seed).tasks)
