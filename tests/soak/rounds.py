"""One round: a repository is created, processes use it, are killed, stopped and started again until the time is over, and the invariants are checked."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from frazil.base.record import Record
from tests.servers.buckets import S3
from tests.servers.proxy import FaultProxy
from tests.soak import checks, processes
from tests.soak.journal import Answers, entries
from tests.soak.machine import Place
from tests.soak.plan import COLLECTORS, HOUR, SCALE, Kind, Round, make_life

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

_TICK: Final = 0.02  # seconds between two checks of the processes
_PATIENCE: Final = 120.0  # seconds for a process to end on request
_LONGEST_STOP: Final = 3 * HOUR / SCALE / 1e9  # seconds
_DISK_BYTES: Final = 6 * 2**20  # of a disk that becomes full
_LOST: Final = ("lost answer", "no answer", "503", "cut body")

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.soak.processes", "tests.soak.checks"])


class Failed(Exception):
    """An invariant does not hold. The message names it and the process."""


class Done(Record):
    """The events of a round. collected: objects removed while others worked"""

    place: str
    commits: int
    unknown: int
    kills: int
    stops: int
    collections: int
    collected: int
    names: int


def run_round(plan: Round, server: S3 | None, folder: Path) -> Done:
    """Runs it in an empty folder. Raises Failed."""
    with _place(plan, server, folder) as (place, disturbed):
        epoch = time.time_ns()
        _in_process(processes.create, plan, place)
        crew = _Processes(plan, place, epoch)
        with disturbed:
            try:
                crew.run()
            finally:
                crew.end()
        _in_process(checks.main, plan, place, epoch)
        _raise_failures(Path(place.notes))
        return _report(plan, Path(place.notes), crew)


def _in_process(target: object, *arguments: object) -> None:
    process = _processes.Process(target=target, args=arguments)  # type: ignore[arg-type] # a function
    process.start()
    process.join(_PATIENCE)
    if process.exitcode != 0:
        process.kill()
        raise Failed(f"{target} ended with {process.exitcode}")


def _raise_failures(notes: Path) -> None:
    found = sorted(notes.glob("failed-*"))
    if found:
        raise Failed(f"{len(found)} failed; {found[0].name}: {found[0].read_text()}")


# --- places ------------------------------------------------------------------------------------------------------------------------------


@contextmanager
def _place(plan: Round, server: S3 | None, folder: Path) -> Iterator[tuple[Place, AbstractContextManager[None]]]:
    """The place of the repository; and a block during which more faults happen there."""
    notes, files = folder / "notes", folder / "files"
    notes.mkdir(parents=True)
    files.mkdir()
    if plan.place == "bucket" and server is not None:
        bucket = server.new_bucket()
        with FaultProxy(server.endpoint) as proxy:
            objects = str(server.folder / bucket / "repo")
            place = Place(server.url(bucket, "repo"), server.environment(proxy.url), objects, str(notes))
            yield place, _unreliable(proxy, Random(f"proxy {plan.name}"), plan.rate)
        return
    with _disk(files, enabled=plan.place == "full") as is_own:
        place = Place(str(files / "repo"), {}, str(files / "repo"), str(notes))
        yield place, _filled(files, Random(f"filler {plan.name}")) if is_own else nullcontext()


@contextmanager
def _unreliable(proxy: FaultProxy, random: Random, rate: float) -> Iterator[None]:
    """During the block, answers of the server are lost, requests refused, connections cut."""
    for fault in _LOST:
        proxy.fail(lambda _request: random.random() < rate / len(_LOST), fault, times=None)
    yield
    proxy.mend()


@contextmanager
def _disk(folder: Path, *, enabled: bool) -> Iterator[bool]:
    """A small disk mounted at a folder, if this user may do so; yields whether it is."""
    is_own = enabled and shutil.which("mount") is not None and os.geteuid() == 0
    if is_own:
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "soak", str(folder)]
        is_own = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield is_own
    finally:
        if is_own:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def _filled(disk: Path, random: Random) -> Iterator[None]:
    """During the block, the disk is full now and then; afterwards it has room."""
    over = Event()

    def fill() -> None:
        while not over.wait(random.random()):
            try:
                with (disk / "filler").open("wb", buffering=0) as file:
                    while not over.is_set():
                        file.write(bytes(random.choice((512, 4096, 65536))))
            except OSError:
                over.wait(random.random())
            (disk / "filler").unlink(missing_ok=True)

    thread = Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        subprocess.run(["mount", "-o", f"remount,size={_DISK_BYTES * 8}", str(disk)], check=True)


# --- processes ---------------------------------------------------------------------------------------------------------------------------


class _Processes:
    """The processes of a round: each is started again when it ends."""

    def __init__(self, plan: Round, place: Place, epoch: int) -> None:
        self.plan, self.place, self.epoch = plan, place, epoch
        self.random = Random(f"parent {plan.name}")
        kinds: list[tuple[Kind, int]] = [("writer", number) for number in range(plan.writers)]
        kinds += [("collector", number) for number in range(COLLECTORS)]
        kinds += [("names", 0), ("names", 1), ("reader", 0)]
        self.turns = dict.fromkeys(kinds, 0)
        self.alive: dict[tuple[Kind, int], BaseProcess] = {}
        self.stopped: dict[int, float] = {}  # when stopped processes continue, by their ids
        self.kills = self.stops = 0

    def run(self) -> None:
        """Runs until the time is over, or something has failed."""
        start = time.monotonic()
        end, notes = start + self.plan.seconds, Path(self.place.notes)
        while (now := time.monotonic()) < end and not any(notes.glob("failed-*")):
            self._start()
            self._go_on(now)
            if self.random.random() < _TICK / self.plan.kills:
                self._signal(self.random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT)))
                self.kills += 1
            if self.random.random() < _TICK / self.plan.stops:
                self.stopped[self._signal(signal.SIGSTOP)] = now + self.random.random() * _LONGEST_STOP
                self.stops += 1
            time.sleep(_TICK)

    def end(self) -> None:
        """Asks all to end, and waits for them. Raises Failed for one that does not."""
        (Path(self.place.notes) / processes.STOP).touch()
        self._go_on(float("inf"))
        until = time.monotonic() + _PATIENCE
        for (kind, number), process in self.alive.items():
            process.join(max(0.1, until - time.monotonic()))
            if process.exitcode is None:
                os.kill(process.pid or 0, signal.SIGABRT)  # its faulthandler shows where it is
                process.join(5)
                process.kill()
                raise Failed(f"{kind} {number} does not end")

    def _start(self) -> None:
        for (kind, number), turn in self.turns.items():
            process = self.alive.get((kind, number))
            if process is None or process.exitcode is not None:
                life = make_life(self.plan, kind, number, turn)
                process = _processes.Process(
                    target=processes.main, args=(self.plan, self.place, life, turn, self.epoch)
                )
                process.start()
                self.alive[kind, number] = process
                self.turns[kind, number] += 1

    def _signal(self, number: signal.Signals) -> int:
        process = self.random.choice(list(self.alive.values()))
        assert process.pid is not None
        if process.exitcode is None:
            os.kill(process.pid, number)
        return process.pid

    def _go_on(self, now: float) -> None:
        for process, until in list(self.stopped.items()):
            if until <= now:
                del self.stopped[process]
                if any(one.pid == process and one.exitcode is None for one in self.alive.values()):
                    os.kill(process, signal.SIGCONT)


def _report(plan: Round, notes: Path, crew: _Processes) -> Done:
    answers = [Answers(entries(notes, f"writer-{number}")) for number in range(plan.writers)]
    collected = [entry for number in range(COLLECTORS) for entry in entries(notes, f"collector-{number}")]
    names = [entry for number in range(2) for entry in entries(notes, f"names-{number}")]
    return Done(
        plan.place,
        sum(len(one.numbers("committed")) for one in answers),
        sum(len(one.numbers("unknown")) for one in answers),
        crew.kills,
        crew.stops,
        sum("removed" in entry for entry in collected),
        sum(entry.get("removed", 0) for entry in collected),
        sum(entry.get("told") == "done" for entry in names),
    )
