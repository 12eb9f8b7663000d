"""One thread at a time: hand-over, waiting, ends, and the locks and clocks of simulated threads."""

from __future__ import annotations

import os
import threading
import time

from frazil.testing.simulation.machine import simulated_machine
from frazil.testing.simulation.scheduler import Client, Scheduler


def order(seed: str, switch: float = 0.5) -> list[str]:
    """The order in which three clients do three things each."""
    scheduler = Scheduler(seed, switch)
    done: list[str] = []

    def act(name: str) -> None:
        for number in range(3):
            scheduler.point()
            done.append(f"{name}{number}")

    for name in "abc":
        scheduler.start(Client(name, seed), lambda name=name: act(name))  # type: ignore[misc]
    scheduler.run()
    return done


def test_the_seed_decides_the_order() -> None:
    assert order("1") == order("1")
    assert len({tuple(order(str(seed))) for seed in range(20)}) > 10
    assert sorted(order("2")) == [f"{name}{number}" for name in "abc" for number in range(3)]
    together = order("3", switch=0)
    assert [name[0] for name in together] == sorted([name[0] for name in together], key=together_order(together))


def together_order(done: list[str]) -> dict[str, int] | object:
    first = {name[0]: at for at, name in reversed(list(enumerate(done)))}
    return first.__getitem__


def test_a_lock_lets_others_run() -> None:
    scheduler = Scheduler("locks")
    inside: list[str] = []
    made: list[object] = []

    def act(name: str) -> None:
        lock = made[0] if made else threading.RLock()
        made[:] = [lock]
        with lock, lock:  # type: ignore[attr-defined]
            inside.append(name)
            scheduler.point()
            scheduler.point()
            inside.append(name)

    with simulated_machine(scheduler):
        for name in "abcd":
            scheduler.start(Client(name, "locks"), lambda name=name: act(name))  # type: ignore[misc]
        scheduler.run()
    assert inside[::2] == inside[1::2], "nobody enters while another is inside"


def test_a_deadlock_is_reported() -> None:
    scheduler = Scheduler("deadlock", switch=1)

    def act() -> None:
        scheduler.wait(lambda: False)

    task = scheduler.start(Client("a", ""), act)
    scheduler.run()
    assert scheduler.broken == "no task can run: each waits for another"
    assert task.error is None, "it died"


def test_clients_have_clocks_of_their_own() -> None:
    scheduler = Scheduler("clocks")
    seen: dict[str, tuple[int, bytes]] = {}

    def look(name: str) -> None:
        time.sleep(3600)
        seen[name] = time.time_ns(), os.urandom(8)

    real = time.time_ns, os.urandom
    with simulated_machine(scheduler):
        for name in "ab":
            scheduler.start(Client(name, "clocks"), lambda name=name: look(name))  # type: ignore[misc]
        scheduler.run()
        assert abs(time.time_ns() - real[0]()) < 10**12, "other threads have the real one"
    assert seen["a"] != seen["b"]
    assert abs(seen["a"][0] - seen["b"][0]) > 1_000_000
    assert (time.time_ns, os.urandom) == real


def test_a_client_that_died_does_nothing_more() -> None:
    scheduler = Scheduler("death", switch=1)
    client, done = Client("a", ""), []

    def act() -> None:
        scheduler.point()
        done.append("first")
        client.die()
        try:
            scheduler.point()
        finally:
            done.append("cleaned up")
        done.append("second")

    task = scheduler.start(client, act)
    scheduler.run()
    assert done == ["first", "cleaned up"]
    assert task.error is None
