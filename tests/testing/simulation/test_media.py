"""The simulated stores pass the suite of all stores; the state of a disk after a crash; and when a late write of a bucket arrives."""

from __future__ import annotations

from random import Random

import pytest

from frazil.errors import StoreError
from frazil.stores.store import Store
from frazil.stores.values import ABSENT
from frazil.testing import StoreTests
from frazil.testing.simulation.media import Bucket, Disk, Medium
from frazil.testing.simulation.plan import Fault, make_plan
from frazil.testing.simulation.scheduler import Client, Scheduler
from frazil.testing.simulation.store import SimulatedStore, World


def world(medium: Medium, *faults: Fault) -> World:
    plan = make_plan(1)._replace(faults=faults, rate=1.0)
    return World(medium, Scheduler("media"), plan)


class SimulatedStoreTests(StoreTests):
    """A store without faults."""

    medium: type[Medium]

    def make_store(self) -> Store:
        store = SimulatedStore(world(self.medium()))
        self.kept = store  # the name that its pickles use
        return store


class TestBucket(SimulatedStoreTests):
    medium = Bucket


class TestDisk(SimulatedStoreTests):
    medium = Disk


def outcomes(seeds: int) -> set[tuple[str, ...]]:
    """The content of a disk after a crash with two synced names, and two unsynced ones in another folder."""
    found = set()
    for seed in range(seeds):
        disk = Disk()
        for key in ("a/1", "a/2"):
            disk.put(key, b"", ABSENT)
        disk.sync("a/2")
        for key in ("b/1", "b/2"):
            disk.put(key, b"", ABSENT)
        disk.sync("a/1")
        disk.crash(Random(seed))
        found.add(tuple(sorted(disk.values)))
    return found


def test_a_crash_loses_names_that_were_not_synced() -> None:
    kept = ("a/1", "a/2")
    assert outcomes(40) == {kept, (*kept, "b/1"), (*kept, "b/2"), (*kept, "b/1", "b/2")}


def test_an_erased_name_may_come_back() -> None:
    left = set()
    for seed in range(20):
        disk = Disk()
        disk.put("a", b"", ABSENT)
        disk.sync("a")
        disk.erase("a", None)
        disk.crash(Random(seed))
        left.add(tuple(disk.values))
    assert left == {(), ("a",)}


@pytest.mark.parametrize("fault", ["fail", "lose", "late"])
def test_a_put_that_fails(fault: Fault) -> None:
    bucket = Bucket()
    there = world(bucket, fault)
    found = []

    def act() -> None:
        try:
            SimulatedStore(there, client).put("key", b"value", ABSENT)
        except StoreError as error:
            found.append(error.key)
        found.append(bucket.get("key") is not None)

    client = Client("a", "")
    there.scheduler.start(client, act)
    there.scheduler.run()
    assert found == ["key", fault == "lose"]
    assert len(there.sent) == (fault == "late")
    if there.sent:
        there.arrive(0)
        assert bucket.get("key") is not None


def test_a_late_put_minds_its_condition() -> None:
    bucket = Bucket()
    there = world(bucket, "late")
    store = SimulatedStore(there, Client("a", ""))
    with pytest.raises(StoreError):
        store.put("key", b"late", ABSENT)
    bucket.put("key", b"quick", ABSENT)
    there.arrive(0)
    assert bucket.values["key"][0] == b"quick"
