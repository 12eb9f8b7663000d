"""How much writers of one branch slow each other down: many threads that commit disjoint chunks of one array, on a store in memory and on a slow store, and
many processes on a disk.

    python benchmarks/contention_rows.py memory [--peer PYTHON] [--repeat 3]    32 writers x 10 commits, beside icechunk on its memory store (in its own Python)
    python benchmarks/contention_rows.py slow                                   the same on a store of 20 ms a request, over as many commits in turn; requests
    python benchmarks/contention_rows.py processes [FOLDER]                     8 processes x 1,250 commits on a disk: all acknowledged ones are read again

Each row checks what it wrote: the length of the history, and every value."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np

WRITERS, COMMITS = 32, 10
PROCESSES, EACH = 8, 1250
CHUNK = 16  # elements
SECONDS = 0.02  # per request to the slow store


def used() -> float:
    """CPU seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def in_threads(count: int, work: Callable[[int], None]) -> tuple[float, float]:
    """Seconds and CPU seconds of work(0), work(1) and so on, each in a thread. Raises an exception that one of them raised."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    start, before = time.perf_counter(), used()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start, used() - before
    if failures:
        raise failures[0]
    return seconds


def check(values: Any, writers: int, commits: int, length: int) -> None:
    """Whether every commit is in the history and in the array."""
    expected = np.repeat(np.arange(writers * commits), CHUNK) + 1
    if not np.array_equal(values, expected) or length < writers * commits:
        raise SystemExit("WRONG: a commit that was acknowledged is not there")


def chunk(writer: int, turn: int, commits: int = COMMITS) -> slice:
    """The part that a writer writes in one commit."""
    number = writer * commits + turn
    return slice(number * CHUNK, (number + 1) * CHUNK)


# --- the engines ---------------------------------------------------------------------------------------------------------------------


def frazil_array(location: Any, count: int, *, durable: bool = False) -> Any:
    """A repository with the array to write, of this many chunks."""
    import frazil

    repo = frazil.Repository.create(location, durable=durable)
    with repo.transaction(message="array") as root:
        root.create_array("a", shape=count * CHUNK, dtype="i8", chunks=CHUNK)
    return repo


def frazil_commit(repo: Any, writer: int, turn: int, commits: int = COMMITS) -> None:
    session, at = repo.writable_session(), chunk(writer, turn, commits)
    session.open("a")[at] = writer * commits + turn + 1
    session.commit("one of many", rebase="disjoint")


def frazil_check(repo: Any, writers: int, commits: int) -> None:
    check(repo.readonly_session().open("a")[:], writers, commits, sum(1 for _ in repo.history()) - 2)


def frazil_memory() -> tuple[float, float]:
    from frazil.stores import MemoryStore

    repo = frazil_array(MemoryStore(), WRITERS * COMMITS)

    def work(writer: int) -> None:
        for turn in range(COMMITS):
            frazil_commit(repo, writer, turn)

    seconds = in_threads(WRITERS, work)
    frazil_check(repo, WRITERS, COMMITS)
    return seconds


def icechunk_memory() -> tuple[float, float]:
    import icechunk
    import zarr

    repo = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(WRITERS * COMMITS * CHUNK,), dtype="i8", chunks=(CHUNK,))
    session.commit("array")

    def work(writer: int) -> None:
        for turn in range(COMMITS):
            session = repo.writable_session("main")
            zarr.open_array(session.store, path="a", mode="r+")[chunk(writer, turn)] = writer * COMMITS + turn + 1
            session.commit("one of many", rebase_with=icechunk.ConflictDetector(), rebase_tries=60_000)

    seconds = in_threads(WRITERS, work)
    array = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    check(array[:], WRITERS, COMMITS, sum(1 for _ in repo.ancestry(branch="main")) - 2)
    return seconds


# --- the rows ------------------------------------------------------------------------------------------------------------------------


def memory(peer: str | None, repeat: int) -> None:
    """Both engines in turns, each run in its own process."""
    engines = {"frazil": sys.executable} | ({"icechunk": peer} if peer else {})
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    for turn in range(repeat):
        for name in list(engines)[:: -1 if turn % 2 else 1]:
            done = subprocess.run([engines[name], __file__, "one", name], check=True, stdout=subprocess.PIPE, text=True)
            runs[name].append(tuple(json.loads(done.stdout)))
    for name, each in runs.items():
        seconds, cpu = zip(*each, strict=True)
        print(
            f"{WRITERS} writers x {COMMITS} commits in memory, {name}: {median(seconds):.2f} s, {median(cpu):.2f} CPU s"
        )
    if peer:
        for at, unit in enumerate(("seconds", "CPU seconds")):
            ratios = [theirs[at] / ours[at] for ours, theirs in zip(runs["frazil"], runs["icechunk"], strict=True)]
            print(
                f"  times as fast as icechunk, in {unit}: {median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
            )


def slow(repeat: int) -> None:
    """The same on a slow store: the time compared with commits one after another, and the requests per commit."""
    from frazil.stores import MemoryStore
    from frazil.testing import CountingStore, SlowStore

    ratios = []
    for _ in range(repeat):
        alone = frazil_array(SlowStore(MemoryStore(), SECONDS), WRITERS * COMMITS)
        start = time.perf_counter()
        for number in range(WRITERS * COMMITS):
            frazil_commit(alone, *divmod(number, COMMITS))
        sequential = time.perf_counter() - start
        store = SlowStore(MemoryStore(), SECONDS)
        frazil_array(store, WRITERS * COMMITS)
        counts: list[int] = []
        manifests: list[int] = []

        def work(writer: int, store: Any = store, counts: list[int] = counts, manifests: list[int] = manifests) -> None:
            import frazil

            counter = CountingStore(store)
            repo = frazil.Repository.open(counter, durable=False)
            repo.lookup("main")
            for turn in range(COMMITS):
                before = counter.count()
                frazil_commit(repo, writer, turn)
                counts.append(counter.count() - before)
            manifests.append(
                sum(request.operation == "put" and "manifests/" in request.key for request in counter.requests)
            )

        together, _ = in_threads(WRITERS, work)
        import frazil

        frazil_check(frazil.Repository.open(store.inner), WRITERS, COMMITS)
        ratios.append(together / sequential)
        print(
            f"{SECONDS * 1000:.0f} ms a request: {WRITERS} x {COMMITS} commits {together:.1f} s, one after the other {sequential:.1f} s: {together / sequential:.2f}; "
            f"requests of a commit: median {median(counts):.0f}, most {max(counts)}; {sum(manifests)} manifests written for {len(counts)} commits"
        )
    print(f"  median of the ratios: {median(ratios):.2f}")


def process(location: str, writer: int) -> None:
    """One of the processes: prints how many of its commits were acknowledged."""
    import frazil

    repo = frazil.Repository.open(location, durable=False)
    for turn in range(EACH):
        frazil_commit(repo, writer, turn, EACH)


def processes(folder: str | None) -> None:
    """Processes on a disk. Every commit that was acknowledged must be in the history, and its data readable."""
    import frazil

    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        location = f"{scratch}/repository"
        frazil_array(location, PROCESSES * EACH)
        start = time.perf_counter()
        workers = [get_context("spawn").Process(target=process, args=(location, writer)) for writer in range(PROCESSES)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - start
        failed = [worker.exitcode for worker in workers if worker.exitcode]
        repo = frazil.Repository.open(location)
        commits = sum(1 for _ in repo.history()) - 2
        values: Any = repo.readonly_session().open("a")
        right = int((values[:] == np.repeat(np.arange(PROCESSES * EACH), CHUNK) + 1).sum())
        print(
            f"{PROCESSES} processes x {EACH} commits: {commits} of {PROCESSES * EACH} in the history, {right // CHUNK} chunks right, {len(failed)} processes failed, "
            f"{seconds:.0f} s, {seconds / (PROCESSES * EACH) * 1000:.1f} ms each"
        )
        if failed or commits != PROCESSES * EACH or right != PROCESSES * EACH * CHUNK:
            raise SystemExit("WRONG")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=("memory", "slow", "processes", "one"))
    parser.add_argument("what", nargs="?", help="the folder, or the engine of one run")
    parser.add_argument("--peer", help="a Python with icechunk and zarr")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    if options.row == "one":
        print(json.dumps(frazil_memory() if options.what == "frazil" else icechunk_memory()))
    elif options.row == "memory":
        memory(options.peer, options.repeat)
    elif options.row == "slow":
        slow(options.repeat)
    else:
        processes(options.what)


if __name__ == "__main__":
    main()
