"""The work of each process of a round until it ends, is stopped, or is killed: writers commit, collectors collect and expire snapshots, others create branches
and tags, readers read. Each lists the errors that it may get; any other fails the round."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

import frazil
from frazil.errors import AlreadyExistsError, CommitUnknownError, ConflictError, DataError, NotFoundError, StoreError
from tests.soak import content, faults, machine
from tests.soak.journal import Answers, Journal, entries
from tests.soak.machine import Clock, Place
from tests.soak.plan import HOUR, SCALE, Life, Round

WAIT: Final = timedelta(hours=1)
STOP: Final = "stop"
_WAIT_SECONDS: Final = HOUR / SCALE / 1e9
_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)  # everything was written before
_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit, MemoryError)
_EXPECTED: Final = (StoreError, CommitUnknownError, ConflictError, *_INTERRUPTS)
_TRIES: Final = 4
_MOST_BRANCHES: Final = 5  # of one process


def create(plan: Round, place: Place) -> None:
    """Creates the repository of a round."""
    os.environ.update(place.environment)
    content.create(frazil.Repository.create(place.location, durable=plan.durable, chunk_packing=plan.packing))


class Worker:
    """One process. folder: for its reports"""

    def __init__(self, plan: Round, place: Place, life: Life, turn: int) -> None:
        self.plan, self.place, self.life = plan, place, life
        self.folder = Path(place.notes)
        self.journal = Journal(self.folder, life.name, turn)
        self.random = Random(f"{plan.name} {life.name} {turn}")

    def run(self) -> None:
        """Repeats its work."""
        act: Callable[[], None] = {
            "writer": self._write,
            "collector": self._collect,
            "names": self._name,
            "reader": self._read,
        }[self.life.kind]
        while not self._is_over():
            try:
                act()
            except _EXPECTED:
                continue

    def _is_over(self) -> bool:
        return (self.folder / STOP).exists()

    def _open(self) -> frazil.Repository:
        return frazil.Repository.open(self.place.location, durable=self.plan.durable, chunk_packing=self.plan.packing)

    # --- writers ---------------------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Commits, with new sessions and repeatedly with one."""
        repo = self._open()
        session: frazil.Session | None = None
        number = Answers(entries(self.folder, self.life.name)).next
        for _ in range(10):
            if self._is_over():
                return
            self.journal.record(n=number)
            outcome, since = "refused", time.monotonic()
            try:
                session = session or repo.writable_session()
                content.change(session, self.life.number, number, self.random)
                if self.random.random() < 0.2:
                    time.sleep(self.random.random() * 2.5 * _WAIT_SECONDS)
                outcome = self._commit(session, number)
                session = session if outcome == "committed" and self.random.random() < 0.7 else None
            except (*_EXPECTED, NotFoundError, DataError) as error:
                if isinstance(error, NotFoundError | DataError) and time.monotonic() - since < _WAIT_SECONDS / 2:
                    raise  # data that others overtook exists for some time
                session = None
            self.journal.record(n=number, told=outcome)
            number += 1

    def _commit(self, session: frazil.Session, number: int) -> str:
        outcome = "refused"
        for _ in range(_TRIES):
            try:
                session.commit(f"{self.life.number}: {number}", rebase="disjoint")
            except CommitUnknownError:
                outcome = "unknown"
            except (StoreError, ConflictError):
                if self.random.random() < 0.5:
                    break
            except _INTERRUPTS:
                outcome = "unknown"
                if not session.has_changes:
                    break
            else:
                return "committed"
        session.discard()
        return outcome

    # --- collectors ------------------------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        time.sleep(self.random.random() * _WAIT_SECONDS / 2)
        repo, way = self._open(), self.random.random()
        if way < 0.15:
            done = repo.expire(older_than=_EVER, keep_last=self.random.randrange(1, 30), dry_run=way < 0.03)
            self.journal.record(expired=len(done.snapshots))
        elif way < 0.25:
            start = time.monotonic()
            found = repo.verify(decode=way < 0.2).problems
            assert not found or time.monotonic() - start > _WAIT_SECONDS / 2, f"verify says {found[:3]}"
        else:
            did = repo.garbage_collect(wait=WAIT, dry_run=way > 0.9)
            self.journal.record(removed=sum(did.removed.values()), condemned=sum(did.condemned.values()))

    # --- branches and tags -----------------------------------------------------------------------------------------------------------

    def _name(self) -> None:
        """One change of a branch or a tag of this process, to a snapshot that may be old, or condemned."""
        repo = self._open()
        history = [commit.id for commit in repo.history()]
        if self.random.random() < 0.3:
            self.journal.record(known=self.random.choice(history))
        old = [entry["known"] for entry in entries(self.folder, self.life.name) if "known" in entry]
        snapshot = self.random.choice(old if old and self.random.random() < 0.4 else history)
        mine = [name for name in repo.branches if name.startswith(f"{self.life.name}-")]
        way = self.random.random()
        name = self.random.choice(mine) if mine else ""
        if (way < 0.3 and len(mine) < _MOST_BRANCHES) or not mine:
            name = f"{self.life.name}-{len(mine)}-{time.time_ns()}"
            kind = "tag" if self.random.random() < 0.2 else "branch"
            self._change(kind, name, snapshot, lambda: getattr(repo, f"create_{kind}")(name, snapshot))
        elif way < 0.6:
            self._change("branch", name, snapshot, lambda: repo.reset_branch(name, snapshot))
        elif way < 0.75:
            self._change("branch", name, None, lambda: repo.delete_branch(name))
        else:
            self._commit_to(repo, name)

    def _commit_to(self, repo: frazil.Repository, name: str) -> None:
        try:
            session = repo.writable_session(name)
        except NotFoundError:  # a deletion whose answer was lost
            return
        session.root.attrs["by"] = time.time_ns()
        if self.random.random() < 0.3:
            time.sleep(self.random.random() * 2 * _WAIT_SECONDS)
        self._change("branch", name, "?", lambda: session.commit("named"))

    def _change(self, kind: str, name: str, to: str | None, act: Callable[[], object]) -> None:
        self.journal.record(kind=kind, name=name, to=to, told="unknown")
        outcome = "unknown"
        try:
            done = act()
            outcome, to = "done", str(done) if to == "?" else to
        except StoreError as error:
            outcome = "refused" if error.done is False else "unknown"
        except (NotFoundError, AlreadyExistsError, ConflictError):
            outcome = "refused"
        except CommitUnknownError:
            pass
        finally:
            self.journal.record(kind=kind, name=name, to=to, told=outcome)

    # --- readers ---------------------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """All refs show whole commits."""
        repo = self._open()
        start = time.monotonic()
        names = [*repo.branches, *repo.tags]
        name = self.random.choice(names)
        try:
            session = repo.readonly_session(tag=name) if name in repo.tags else repo.readonly_session(name)
            content.check(session)
        except NotFoundError:
            # it may have been deleted or reset, and collected after that
            if name == "main" and time.monotonic() - start < _WAIT_SECONDS / 2:
                raise


def main(plan: Round, place: Place, life: Life, turn: int, epoch: int) -> None:
    """The whole life of a process. Unexpected errors go into a file `failed-...`, and fail the round."""
    try:
        machine.install(place, Clock(epoch), life.skew)
        worker = Worker(plan, place, life, turn)
        faults.install(life)
        worker.run()
    except _INTERRUPTS:
        pass
    except BaseException:
        text = f"{life}\n{traceback.format_exc()}"
        (Path(place.notes) / f"failed-{life.name}-{turn}").write_text(text)
