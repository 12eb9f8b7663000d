"""Simulated runs with collectors: nothing live is lost, no garbage is left; and each of the required steps is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.testing.simulation.seeds import COLLECTORS

from frazil.testing import Simulation

LOST = r"NotFoundError|FormatError|is missing"


def test_collectors_beside_writers_and_readers() -> None:
    """Tags and branches are made of condemned snapshots, and sessions of such branches are committed long after they began. Clocks jump, and late operations
    take up to days."""
    traces = ["\n".join(Simulation(seed).run().trace) for seed in COLLECTORS]
    rare = ("on the side", "refused", "the clock of the store", "its clock", "arrives late", "verifies", "repairs")
    for what in ("expires", "erase chunks/", "stands still", *rare):
        assert sum(what in trace for trace in traces) > 1, what


def test_a_pin_on_what_a_broken_commit_left() -> None:
    """A snapshot without its manifests was pinned, and no collection ended any more."""
    Simulation(1374, without=["check", "drift", "merge"]).run()


def test_a_snapshot_whose_chunk_was_condemned_before_it() -> None:
    """An old session wrote a snapshot that it could not commit, a collection had removed its chunk file, and a branch was created from it."""
    Simulation(9101349, without=["check", "drift", "merge"]).run()


def test_clocks_that_jump() -> None:
    """A node was lost in a reset, and made again with the same bytes."""
    Simulation(800277).run()


def test_a_collection_that_saw_a_commit_before_a_crash_lost_it() -> None:
    """The branch file could not be synced, and its tip was recorded durably: later collections were refused."""
    Simulation(2148).run()


def no_hold(*_: object) -> int:
    return 0


def never(*_: object) -> bool:
    return False


@contextmanager
def no_pin(*_: object) -> Iterator[None]:
    yield


COLLECTION = "frazil.repository.maintenance.collection"
EXPIRY = "frazil.repository.maintenance.expiry"
OTHERS = ["rescue", "check", "drift", "merge"]
NOT_TAGS = ["run", "look", "rest", "fork", "fork_reads", "threads", "handles", "solve"]
DEFECTS: list[tuple[str, str, Callable[..., object], int, list[str]]] = [
    (COLLECTION, "_hold_branches", no_hold, 1065, OTHERS),
    ("frazil.repository.commit.commit", "may_be_condemned", never, 91, OTHERS),
    ("frazil.api.repository", "pinned", no_pin, 269, OTHERS + NOT_TAGS),
]


@pytest.mark.parametrize(("module", "name", "defect", "seed", "without"), DEFECTS, ids=["hold", "look", "pin"])
def test_a_missing_step_is_found(
    module: str,
    name: str,
    defect: Callable[..., object],
    seed: int,
    without: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Branches are not held before the second mark; old sessions do not check; tags have no pins. Without the record of tips, which these do not depend on: the
    orders of events that need them are rare, and its requests change them."""
    for user, step in ((COLLECTION, "record_tips"), (COLLECTION, "refuse_lost_tips"), (EXPIRY, "refuse_lost_tips")):
        monkeypatch.setattr(sys.modules[user], step, lambda _: None)
    Simulation(seed, without=without).run()
    monkeypatch.setattr(sys.modules[module], name, defect)
    with pytest.raises(AssertionError, match=LOST):
        Simulation(seed, without=without).run()
