"""Interrupts at the lines of a merge: no pin is left."""

from __future__ import annotations

from tests.faults.interrupted_lines import Interrupts, first_times

import frazil
from frazil.stores import MemoryStore

MODULES = {"merge.py", "pins.py"}


def test_an_interrupt_leaves_no_pin() -> None:
    """A collection would keep the snapshot for days."""
    diverged = MemoryStore()
    repo = frazil.Repository.create(diverged)
    for branch, value in (("main", 1), ("dev", 2), ("main", 3)):
        if branch not in repo.branches:
            repo.create_branch(branch, "main")
        with repo.transaction(branch, message="a value") as root:
            root.attrs["value"] = value

    def interrupted(at: int | None) -> Interrupts:
        store = MemoryStore()
        for key in diverged.list():
            store.set(key, diverged.get(key) or b"")
        repo, interrupts = frazil.Repository.open(store), Interrupts(at, modules=MODULES)
        assert interrupts.run(lambda: repo.merge("dev", solver=lambda _: "ours")) == (at is None)
        assert not store.list_prefix("gc/pins/"), (at, interrupts.seen[-1], interrupts.lost)
        return interrupts

    for number in first_times(interrupted(None).seen):
        interrupted(number)
