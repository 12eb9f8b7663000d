"""Compares array engines: the same rows, measured in turns (A, B, C, C, A, B, ...), every result checked.

    python compare.py --engines frazil,zarr,zarrs,tensorstore --rows read,write,random --repeat 5 --json out.json

Each engine runs in its own worker process (worker.py). The table shows the minimum, the median, and how many times as fast (or as small) as the best peer an
engine is: the median over the rounds of best peer / engine. Peers are all engines of the same kind except frazil's own; the floor is not a peer. If all engines
agree within 1 %, one line represents all."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import os
import pickle
import platform
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import data
from rows import FLOOR, PLAIN, REPOSITORY, Row, every_row
from server import serve

HERE = Path(__file__).parent
ENGINES = sorted(path.stem for path in (HERE / "engines").glob("[a-z]*.py"))
QUIET = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "ICECHUNK_LOG": "error"}
LINE = "{:<44} {:<16} {:<15} {:>10} {:>10} {:>8}"

Samples = list[dict[str, float]]  # one engine's metrics, a dict for each round


@dataclasses.dataclass
class Worker:
    """A worker process. It starts at the first request, and again at the next request after it died."""

    name: str
    command: list[str]
    log: Path
    timeout: float
    process: subprocess.Popen[bytes] | None = dataclasses.field(default=None, init=False)

    def request(self, verb: str, row: Row | None = None) -> dict[str, Any]:
        """The worker's reply: {"ok": ...} or {"error": reason}."""
        if self.process is None:
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=os.environ | QUIET
                )
        question, answer = self.process.stdin, self.process.stdout
        assert question and answer
        try:
            question.write(pickle.dumps((verb, row)))
            question.flush()
        except BrokenPipeError:
            pass  # its last output, if any, is in the pipe
        if not select.select([answer], [], [], self.timeout)[0]:
            self.close(kill=True)
            return {"error": f"failed: no answer in {self.timeout:.0f} s"}
        try:
            reply: dict[str, Any] = pickle.load(answer)
        except EOFError:
            return {"error": f"failed: the process died with status {self.close()}"}
        return reply

    def close(self, kill: bool = False) -> int:
        """Ends the process; its exit status."""
        process, self.process = self.process, None
        if process is None:
            return 0
        if kill:
            process.kill()
        process.communicate()
        return process.returncode


class Comparison:
    def __init__(self, workers: list[Worker], repeat: int) -> None:
        self.workers, self.repeat = workers, repeat
        self.engines: dict[str, dict[str, Any]] = {}
        self.results: list[dict[str, Any]] = []

    def greet(self) -> None:
        """Leaves out the engines that do not start, and prints a note."""
        for worker in self.workers:
            reply = worker.request("hello")
            if "ok" in reply:
                self.engines[worker.name] = reply["ok"]
                print(f"{worker.name}: Python {reply['ok']['python']}, {reply['ok']['versions']}")
            else:
                print(f"{worker.name}: left out, {reply['error']}")
        names = [worker.name for worker in self.workers]
        self.workers = [worker for worker in self.workers if worker.name in self.engines]
        own = [name for name in names if name.startswith("frazil_repo")]
        if own and not any(name in self.engines for name in own):
            for worker in [worker for worker in self.workers if self.engines[worker.name]["kind"] == REPOSITORY]:
                print(f"{worker.name}: left out, as no repository of frazil's is there to compare with")
                self.workers.remove(worker)
                worker.close()

    def run(self, rows: list[Row], scratch: Path) -> None:
        reasons = {row.name: f"{data.missing(row.spec)} is not here" for row in rows if data.missing(row.spec)}
        reasons |= {row.name: "no engine for it is here" for row in rows if not self.workers_of(row)}
        measured = [row for row in rows if row.name not in reasons]
        for reason in dict.fromkeys(reasons.values()):
            print(f"left out, as {reason}:", *(f"  {name}" for name in reasons if reasons[name] == reason), sep="\n")
        print("\n" + LINE.format("row", "metric", "engine", "min", "median", "x best"))
        for spec, group in itertools.groupby(measured, key=lambda row: row.spec):
            data.ensure(spec, scratch)
            for row in group:
                self.report(row.name, *self.measure(row))
            for worker in self.workers:
                worker.request("drop")

    def workers_of(self, row: Row) -> list[Worker]:
        """The workers whose engines can run rows of this kind."""
        return [
            worker
            for worker in self.workers
            if self.engines[worker.name]["kind"] in row.kinds and (worker.name.startswith("frazil") or not row.own)
        ]

    def measure(self, row: Row) -> tuple[dict[str, Samples], dict[str, str]]:
        """What each engine of the row's kinds took in every round, and the reason for those that failed."""
        workers = self.workers_of(row)
        samples: dict[str, Samples] = {worker.name: [] for worker in workers}
        failures: dict[str, str] = {}
        shuffled = random.Random(
            row.name
        )  # so that no engine always follows the same one, whose dirty pages are still being written
        for verb in ("prepare", *("measure" for _ in range(self.repeat))):
            for worker in shuffled.sample(workers, len(workers)):
                if worker.name in failures:
                    continue
                target = dataclasses.replace(worker) if row.fresh and verb == "measure" else worker
                reply = target.request(verb, row)
                if target is not worker:
                    target.close()
                if "error" in reply:
                    failures[worker.name] = reply["error"]
                    del samples[worker.name]
                elif verb == "measure":
                    samples[worker.name].append(reply["ok"])
        return samples, failures

    def report(self, title: str, samples: dict[str, Samples], failures: dict[str, str]) -> None:
        """Prints and stores one row."""
        lines = []
        for metric in dict.fromkeys(key for rounds in samples.values() for key in rounds[0]):
            values = {name: [found[metric] for found in rounds] for name, rounds in samples.items()}
            rows: list[dict[str, Any]] = []
            for name, value in values.items():
                ratio = ratio_to_best(value, self.peers(name, values))
                rows.append(
                    {
                        "row": title,
                        "metric": metric,
                        "engine": name,
                        "min": min(value),
                        "median": median(value),
                        "ratio": ratio,
                        "samples": value,
                    }
                )
            self.results += rows
            low, high = (pick(line["median"] for line in rows) for pick in (min, max))
            if len(rows) > 1 and high <= 1.01 * low:
                rows = [{"engine": "(all)", "min": low, "median": high, "ratio": None}]
            lines += [
                (
                    metric,
                    line["engine"],
                    f"{line['min']:.4g}",
                    f"{line['median']:.4g}",
                    "-" if line["ratio"] is None else f"{line['ratio']:.2f}",
                )
                for line in rows
            ]
        for line, name in itertools.zip_longest(lines, [title][: len(lines)], fillvalue=""):
            print(LINE.format(name, *line))
        for i, (engine, reason) in enumerate(failures.items()):
            self.results.append({"row": title, "engine": engine, "error": reason})
            print(f"{'' if lines or i else title:<44} {'':<16} {engine:<15} {' '.join(reason.split())[:150]}")
        sys.stdout.flush()

    def peers(self, name: str, values: dict[str, list[float]]) -> list[list[float]]:
        kind = self.engines[name]["kind"].replace(FLOOR, PLAIN)
        return [
            value
            for other, value in values.items()
            if self.engines[other]["kind"] == kind and not other.startswith("frazil")
        ]


def ratio_to_best(own: list[float], peers: list[list[float]]) -> float | None:
    """The median over the rounds of best peer / own; best is the peer with the lowest median. None if there is no peer."""
    if not peers:
        return None
    pairs = zip(min(peers, key=median), own, strict=True)
    return median(best / value if value else math.inf if best else 1.0 for best, value in pairs)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma-separated; all: %(default)s")
    parser.add_argument("--rows", help="comma-separated tasks or tags (see --list); all when left out")
    parser.add_argument("--repeat", type=int, default=0, help="rounds (5; with --quick 2)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="ENGINE=PATH",
        help="the Python of an engine's environment (default: this one); once for each engine",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the harness; the ratios mean nothing")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument(
        "--scratch", type=Path, help="a folder on the disk to measure (default: the system's temporary one)"
    )
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one answer of a worker (%(default)s)")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    options = parser.parse_args()
    options.engines = options.engines.split(",")
    unknown = set(options.engines) - set(ENGINES)
    if unknown:
        parser.error(f"no adapter for {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    selected_rows = set(options.rows.split(",")) if options.rows else None
    options.rows = [
        row for row in every_row(options.quick) if selected_rows is None or selected_rows & {row.task, *row.tags}
    ]
    if not options.rows:
        parser.error("no such rows; see --list")
    options.repeat = options.repeat or (2 if options.quick else 5)
    return options


def main() -> None:
    options = arguments()
    if options.list:
        print(*(f"{row.name:<46} {' '.join((row.task, *row.tags))}" for row in options.rows), sep="\n")
        return
    pythons = dict(item.split("=", 1) for item in options.python)
    scratch = Path(tempfile.mkdtemp(prefix="frazil-bench-", dir=options.scratch)).resolve()
    url = serve(scratch)
    workers = [
        Worker(
            name,
            [pythons.get(name, sys.executable), str(HERE / "worker.py"), name, str(scratch), url],
            scratch / f"{name}.log",
            options.timeout,
        )
        for name in options.engines
    ]
    comparison = Comparison(workers, options.repeat)
    about: dict[str, Any] = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "quick": options.quick,
        "repeat": options.repeat,
        "started": time.time(),
        "load before": os.getloadavg()[0],
    }
    try:
        comparison.greet()
        comparison.run(options.rows, scratch)
    finally:
        for worker in workers:
            worker.close()
        shutil.rmtree(scratch)
    about |= {"seconds": time.time() - about["started"], "load after": os.getloadavg()[0]}
    print(
        f"\n{about['seconds']:.0f} s; load average {about['load before']:.1f} before and {about['load after']:.1f} after, "
        f"{about['cores']} cores; rounds: {about['repeat']}"
        + ("; QUICK: the ratios mean nothing" if about["quick"] else "")
    )
    if options.json:
        options.json.write_text(
            json.dumps({**about, "engines": comparison.engines, "rows": comparison.results}, indent=1)
        )


if __name__ == "__main__":
    main()
