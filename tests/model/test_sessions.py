"""Random programs of sessions, compared with a plain model: commits, rebases, merges and reads give the results of the model."""

from __future__ import annotations

import numpy as np
import pytest

from frazil.repository.merge import common_ancestor, conflicts, equal_changes
from tests.model.programs import program, shrunk
from tests.model.sessions import Run, fails

RUNS = 64  # of `make test`
MANY = 10_000  # of `make campaign`
BATCH = 16
MANY_BATCH = 200


def run_all(seeds: range) -> None:
    """Raises AssertionError with the shortest program that fails, and its steps."""
    for seed in seeds:
        steps = program(seed)
        if fails(seed, steps) is None:
            continue
        steps = shrunk(steps, lambda left, seed=seed: fails(seed, left) is not None)  # type: ignore[misc]
        run = Run(seed)
        try:
            run.run(steps)
        except Exception as error:
            history = "\n".join(run.trace)
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{history}\n{steps}") from error
        raise AssertionError(f"seed {seed} failed, and does not any more")


@pytest.mark.parametrize("first", range(0, RUNS, BATCH))
def test_sessions_and_their_model(first: int) -> None:
    run_all(range(first, first + BATCH))


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(RUNS, MANY, MANY_BATCH))
def test_many_sessions_and_their_model(first: int) -> None:
    run_all(range(first, min(first + MANY_BATCH, MANY)))


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("attributes", 43),
        ("metadata", 0),
        ("chunks", 11),
        ("renamed", 29),
        ("deleted", 4),
        ("changed", 38),
        ("created", 19),
        ("parent", 60),
    ],
)
def test_the_programs_find_ignored_conflicts(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each seed is one of those of `make test`."""
    find = conflicts._Comparison._add

    def add(self: object, found: str, *rest: object, **more: object) -> None:
        if found != kind:
            find(self, found, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(conflicts._Comparison, "_add", add)
    assert fails(seed, program(seed)) is not None


def test_a_program_that_fails_is_made_short() -> None:
    """Steps without influence are left out."""
    steps = program(3)
    failing_step = steps[len(steps) // 2]
    assert shrunk(steps, lambda left: failing_step in left) == [failing_step]


@pytest.mark.parametrize(
    ("module", "name", "defect", "seed"),
    [
        (common_ancestor, "merged_by", lambda _: [], 47),
        (equal_changes.Sides, "_same_chunks", lambda _, __, ___, chunks: np.ones(len(chunks), np.bool_), 45),
    ],
    ids=["merges are forgotten", "chunks count as equal"],
)
def test_the_programs_find_wrong_merges(
    module: object, name: str, defect: object, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each seed is one of those of `make test`."""
    monkeypatch.setattr(module, name, defect)
    assert fails(seed, program(seed)) is not None
