"""Simulated collectors: clients that collect garbage and expire snapshots while others work, hours that pass, and the check of the objects that are left at the
end.

The dead objects are determined here again in a simple way: object by object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from frazil.errors import CommitUnknownError, StoreError
from frazil.formats.ids import encode_id
from frazil.formats.manifests import NATIVE
from frazil.formats.nodes import AttributesReference, NodeSnapshot
from frazil.repository.maintenance.id_columns import id_list
from frazil.repository.maintenance.records import list_records, read_records

if TYPE_CHECKING:
    from frazil.api.repository import Repository
    from frazil.testing.simulation.ledger import Ledger
    from frazil.testing.simulation.scheduler import Client, Scheduler
    from frazil.testing.simulation.store import World

COLLECTORS: Final = 2
WAIT: Final = timedelta(hours=1)
_MINUTE: Final = 60_000_000_000  # nanoseconds
WAIT_NS: Final = 60 * _MINUTE
_PAUSES: Final = (1, 20, 40, 61, 61, 150)  # minutes
_KINDS: Final = ("snapshots/", "attributes/", "manifests/", "chunks/")
_SIMULATED_ERRORS: Final = (StoreError, CommitUnknownError, KeyboardInterrupt, SystemExit, MemoryError)
_END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC)  # later than all writes


class Collector:
    """One client that collects garbage, from its start to its end. open: opens the repository again"""

    def __init__(self, world: World, client: Client, open: Callable[[], Repository]) -> None:  # noqa: A002
        self.world, self.client, self.open = world, client, open

    def run(self) -> None:
        """Lets time pass and collects, several times."""
        random = self.world.random
        self.client.collects = True
        try:
            for _ in range(random.randrange(2, 7)):
                self._collect()
                self.world.collections += 1
        finally:
            self.world.collectors -= 1

    def _collect(self) -> None:
        random, scheduler = self.world.random, self.world.scheduler
        scheduler.let_pass(random.choice(_PAUSES) * _MINUTE)
        scheduler.point()
        try:
            if "check" in self.world.plan.tasks and random.random() < 0.3:
                self._check(self.open())
            elif random.random() < 0.25:
                scheduler.note("expires")
                self.open().expire(older_than=_END_OF_TIME, keep_last=random.randrange(1, 4))
            else:
                scheduler.note("collects")
                scheduler.note(str(self.open().garbage_collect(wait=WAIT)).replace("\n", "; "))
        except _SIMULATED_ERRORS as error:
            if error is self.client.death:
                raise
            assert self.world.plan.faults, f"an error without a fault: {error!r}"

    def _check(self, repository: Repository) -> None:
        """Verifies or repairs the repository, in which nothing is damaged."""
        if self.world.random.random() < 0.5:
            self.world.scheduler.note("verifies")
            found = repository.verify().problems
            assert not found, f"a sound repository has problems: {found}"
        else:
            self.world.scheduler.note("repairs")
            done = repository.repair()
            assert not done.repaired, f"a sound repository was repaired: {done}"


def watch(key: str, *, scheduler: Scheduler, ledger: Ledger) -> None:
    """Records a commit as soon as it exists: a snapshot that no ref leads to may be removed before the ledger reads it."""
    if not key.startswith(("refs/branch.main/", "state")):
        return
    task = scheduler.current()
    threads = 0 if task is None else task.client.threads
    if task is not None:
        task.client.threads = 1  # no other client runs meanwhile
    try:
        ledger.state(next(ledger.repository.history()).id)
    finally:
        if task is not None:
            task.client.threads = threads


def check_collected(world: World, repository: Repository) -> None:
    """Two collections, far enough apart, must leave no dead objects, and no lists; a collection before them removes files that killed clients left beside the
    objects."""
    world.calm = True
    for hours in (12 * 24, 2, 2):
        world.scheduler.let_pass(hours * 60 * _MINUTE)
        repository.garbage_collect(wait=WAIT)
    remaining = dead_objects(repository, world.medium.values)
    assert not remaining, f"dead after two collections: {remaining}"
    names = [key for key in world.medium.values if key.startswith(("gc/condemned/", "gc/runs/"))]
    assert not names, f"left after two collections: {names}"
    world.calm = False


def dead_objects(repository: Repository, names: Iterable[str]) -> list[str]:
    """The names of all objects of a repository that no branch, tag or pin leads to. Raises the errors of reading if an object is missing."""
    files = repository._files
    existing = {name for name in names if name.startswith(_KINDS)}
    starts = [repository.lookup_branch(name) for name in repository.branches]
    starts += [repository.lookup_tag(name) for name in repository.tags]
    for columns in read_records(files, list_records(files, "pins"), ["snapshots"]):
        pinned = map(encode_id, id_list(columns["snapshots"]))  # type: ignore[arg-type] # a column of ids
        starts += [snapshot for snapshot in pinned if f"snapshots/{snapshot}" in existing]
    live: set[str] = set()
    for start in starts:
        for commit in repository.history(start):
            live.add(f"snapshots/{commit.id}")
            nodes = files.snapshot(commit.snapshot).nodes
            for path in nodes:
                node = nodes.get(path)
                assert isinstance(node, NodeSnapshot)
                if isinstance(node.attributes, AttributesReference):
                    live.add(f"attributes/{encode_id(node.attributes.id)}")
                for reference in () if node.array is None else node.array.manifests:
                    (manifest,) = files.manifests([reference.id])
                    live.add(f"manifests/{encode_id(reference.id)}")
                    ids = manifest.ids[manifest.kinds == NATIVE]
                    live.update(f"chunks/{encode_id(chunk_id.tobytes())}" for chunk_id in ids)
    assert live <= existing, f"lost: {sorted(live - existing)}"
    return sorted(existing - live)
