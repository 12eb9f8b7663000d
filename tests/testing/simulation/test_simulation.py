"""Many simulated runs of clients in one repository; the simulation repeats itself exactly, and finds deliberate errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

import pytest
from tests.testing.simulation.seeds import KINDS, SEEDS, plain

from frazil.repository.merge import snapshot_delta
from frazil.repository.session.changed_references import Rows
from frazil.stores.store import Store
from frazil.stores.values import ANY, Changed, Pieces, Version
from frazil.stores.wrappers import WrappedStore
from frazil.testing import Simulation
from frazil.testing.simulation.media import Disk

MANY = 100_000  # of `make campaign`: some 80 minutes of one core, 40 of two
BATCH = 50
MANY_BATCH = 1_000


def run_all(seeds: Iterable[int]) -> int:
    return sum(Simulation(seed).run().commits for seed in seeds)


@pytest.mark.parametrize("first", range(BATCH, SEEDS, BATCH))
def test_clients_of_one_repository(first: int) -> None:
    seeds = plain(first, BATCH)
    assert run_all(seeds) > 2 * len(seeds), "clients commit"


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, MANY, MANY_BATCH))
def test_many_clients_of_one_repository(first: int) -> None:
    run_all(range(first, min(first + MANY_BATCH, MANY)))


# --- a run is its seed -------------------------------------------------------------------------------------------------------------------


def test_equal_seeds_give_equal_runs() -> None:
    for seed in (2, 4, 9):  # on a disk, in a bucket, and in the other format
        first, again = (Simulation(seed).run() for _ in range(2))
        assert first == again
    assert first.trace != Simulation(21).run().trace


def test_a_run_is_repeated_in_another_process() -> None:
    """Nothing depends on the hashes of strings, or on addresses."""
    here = "\n".join(Simulation(7).run().trace)
    for hashes in ("1", "2"):
        completed = subprocess.run(
            [sys.executable, "-m", "frazil.testing.simulation", "7"],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        assert completed.stdout.startswith(here)


@pytest.mark.parametrize("seed", [213, 551, 1063, 1117, 1134, 10653])
def test_seeds_that_failed_before_pass(seed: int) -> None:
    """213: a commit whose folder could not be synced was looked up again, acknowledged without another sync, and lost in a crash. 10653: of two commits of
    unknown outcome the first arrived between two reads of the branch, and was made again."""
    Simulation(seed, without=["reset", "solve", "collect", "rescue", "drift", "merge"]).run()


def test_a_reset_whose_answer_was_lost() -> None:
    """The repository in one object mistook a late reset for a completed one."""
    Simulation(3469, without=["collect", "rescue", "drift", "merge"]).run()


@pytest.mark.parametrize("seed", [4375, 8773])
def test_appends_to_arrays_whose_moves_are_given_up(seed: int) -> None:
    """Rows were read at the array's place without the moves that a solver gave up, where the session has another array."""
    Simulation(seed, without=["collect", "rescue", "drift", "merge"]).run()


def test_a_cherry_pick_that_is_rebased() -> None:
    """Arrays that the first tip had already were not made again, and changed before the commit: the model expected a conflict."""
    Simulation(51497).run()


def test_every_kind_of_request_is_made() -> None:
    """In both formats."""
    traces = ["\n".join(Simulation(seed).run().trace) for seed in KINDS]
    second = [trace for trace in traces if "put state" in trace]
    assert len(second) > 10
    assert any("answered" in trace for trace in traces)
    for what in ("reset from", "by two threads", "in a fork", "in run", " merge of", " cherry_pick of"):
        assert sum(what in trace for trace in second) > 1, what


# --- deliberate errors are found ---------------------------------------------------------------------------------------------------------


class Unconditional(WrappedStore):
    """A store that ignores the conditions of puts."""

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.inner.put_many(names, pieces, [ANY] * len(names))


class Forgetful(WrappedStore):
    """A store that reports a put that it did not do, for a new key among several."""

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        answers = self.inner.put_many(names, pieces, expect)
        if len(names) > 1:
            self.inner.erase_many(names[:1], [ANY])
        return answers


def failures(make: Callable[[int], Simulation], seeds: range) -> Iterator[str]:
    for seed in seeds:
        try:
            make(seed).run()
        except AssertionError as error:
            yield str(error)


@pytest.mark.parametrize("broken", [Unconditional, Forgetful])
def test_a_broken_store_is_found(broken: Callable[[Store], Store]) -> None:
    found = list(islice(failures(partial(Simulation, wrap=broken), range(30)), 4))
    assert len(found) == 4
    assert "seed " in found[0]
    assert f"python -m frazil.testing.simulation {found[0].partition('seed ')[2].partition(':')[0]}" in found[0]


def test_a_disk_that_does_not_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "sync", lambda *_: None)
    assert any(failures(partial(Simulation, kind="disk"), range(60)))


def test_merges_of_wrong_bytes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets of merged chunks are lost."""
    rows = snapshot_delta._rows

    def at_the_start(*arguments: object) -> Rows:
        found = rows(*arguments)  # type: ignore[arg-type]
        return found._replace(offsets=found.offsets * 0)

    monkeypatch.setattr(snapshot_delta, "_rows", at_the_start)
    assert any(failures(Simulation, range(54, 55)))


def test_excluded_parts_must_exist() -> None:
    with pytest.raises(ValueError, match="no 'wind' in a simulation"):
        Simulation(1, without=["wind"])
