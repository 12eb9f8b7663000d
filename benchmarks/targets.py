"""Reads the results of the harness and reports which of the project's targets they meet.

    python targets.py out.json [objects.json memory.json requests.json] [--markdown]

This module has the targets and how each is read from the reports of compare.py, objects.py, remote_memory.py and remote_requests.py. It measures nothing except
the lines of the sources. Ratios are to the best peer of the same run, round by round (compare.py, "x best"). Seconds are meaningful only on a quiet machine:
the ratio in CPU time is shown next to them if the row has it."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import source_lines

ROOT = Path(__file__).resolve().parents[1]
OWN = "frazil"
BEFORE = "frazil_before"  # src/ of an earlier commit
REPOSITORY = "frazil_repo"  # without syncing, as its peers
ZARR = ("zarr", "zarr_fused")

Report = Mapping[str, Any]  # the output of compare.py --json
Line = Mapping[str, Any]  # the results of one engine in one row, for one metric
Measured = tuple[float, str]  # the value to compare with the target, and what it was computed from


class Target(NamedTuple):
    """One line of the table."""

    name: str
    goal: float
    unit: str  # "x" is a ratio
    at_least: bool  # or at most
    read: Callable[[Report, Sequence[str], str], Measured | None]  # None: the run does not have the data
    rows: tuple[str, ...]  # patterns, as sizes differ in a quick run
    metric: str
    engine: str = OWN  # a failure of these is a missed target


class Verdict(NamedTuple):
    """A target with the value that a run measured. `met` is None if the run did not measure it."""

    target: Target
    met: bool | None
    value: float | None
    source: str


def judge(report: Report, targets: Iterable[Target]) -> list[Verdict]:
    """Each target, in their order. A row that failed, or whose result was wrong, is a missed target."""
    return [_verdict(report, target) for target in targets]


def _verdict(report: Report, target: Target) -> Verdict:
    failures = [
        line["error"]
        for line in report["rows"]
        if line["engine"] == target.engine
        and "error" in line
        and any(re.fullmatch(row, line["row"]) for row in target.rows)
    ]
    if failures:
        return Verdict(target, False, None, failures[0])
    measured = target.read(report, target.rows, target.metric)
    if measured is None:
        return Verdict(target, None, None, "")
    value, source = measured
    return Verdict(target, value >= target.goal if target.at_least else value <= target.goal, value, source)


# --- ways to read a value from a run --------------------------------------------------------------------------------------------------


def lines_of(report: Report, row: str, metric: str) -> dict[str, Line]:
    """Engine -> its line, for the row whose name matches the pattern."""
    return {
        line["engine"]: line
        for line in report["rows"]
        if "error" not in line and line["metric"] == metric and re.fullmatch(row, line["row"])
    }


def best_peer(lines: Mapping[str, Line], report: Report) -> str:
    """The value of the best other engine of the same kind, as a text."""
    own_kind = report["engines"][OWN]["kind"]
    peers = {
        name: line["median"]
        for name, line in lines.items()
        if not name.startswith(OWN) and report["engines"][name]["kind"] == own_kind
    }
    return f"best peer {min(peers, key=peers.__getitem__)} {min(peers.values()):.3g}" if peers else "no peer"


def ratio_to_best(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """How many times as fast (or as small) as the best peer."""
    lines = lines_of(report, rows[0], metric)
    if OWN not in lines or lines[OWN]["ratio"] is None:
        return None
    return lines[OWN][
        "ratio"
    ], f"{lines[OWN]['median']:.3g} {metric}; {best_peer(lines, report)}{cpu(report, rows, metric)}"


def cpu(report: Report, rows: Sequence[str], metric: str) -> str:
    """The same ratio in CPU time, as a text; empty if it was not measured."""
    line = lines_of(report, rows[0], f"cpu {metric}").get(OWN)
    return "" if line is None or line["ratio"] is None else f"; {line['ratio']:.3g} x in CPU time"


def median_value(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """The median itself."""
    lines = lines_of(report, rows[0], metric)
    return (lines[OWN]["median"], best_peer(lines, report)) if OWN in lines else None


def ratio_to(*engines: str) -> Callable[[Report, Sequence[str], str], Measured | None]:
    """What the better of these engines takes / what frazil takes, round by round."""

    def read(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
        lines = lines_of(report, rows[0], metric)
        peers = [lines[name] for name in engines if name in lines]
        if OWN not in lines or not peers:
            return None
        peer, own = min(peers, key=lambda line: float(line["median"])), lines[OWN]
        ratio = median(theirs / ours for theirs, ours in zip(peer["samples"], own["samples"], strict=True))
        return ratio, f"{own['median']:.3g} {metric}; {peer['engine']} {peer['median']:.3g}"

    return read


ratio_to_zarr = ratio_to(*ZARR)


def share_of_zarr(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """The inverse: what frazil takes / what zarr-python takes."""
    measured = ratio_to_zarr(report, rows, metric)
    return (1 / measured[0], measured[1]) if measured else None


def growth(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """What frazil takes in the second row / what it takes in the first."""
    small, large = (lines_of(report, row, metric).get(OWN) for row in rows)
    if small is None or large is None:
        return None
    return large["median"] / small["median"], f"from {small['median']:.3g} to {large['median']:.3g} {metric}"


def repository_ratio(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """How many times as fast (or as small) as the better of the peer's pipelines, in a repository."""
    lines = lines_of(report, rows[0], metric)
    if REPOSITORY not in lines or lines[REPOSITORY]["ratio"] is None:
        return None
    kind = report["engines"][REPOSITORY]["kind"]
    peers = [
        line["median"]
        for name, line in lines.items()
        if report["engines"][name]["kind"] == kind and not name.startswith(OWN)
    ]
    return lines[REPOSITORY]["ratio"], f"{lines[REPOSITORY]['median']:.3g} {metric}; peer {min(peers, default=0):.3g}"


def repository_value(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """The median in a repository itself."""
    lines = lines_of(report, rows[0], metric)
    return (lines[REPOSITORY]["median"], "") if REPOSITORY in lines else None


def over_plain(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """What frazil takes in a repository / what it takes in a plain store."""
    lines = lines_of(report, rows[0], metric)
    if REPOSITORY not in lines or OWN not in lines:
        return None
    own, plain = lines[REPOSITORY]["median"], lines[OWN]["median"]
    return own / plain, f"{own:.3g} and {plain:.3g} {metric}"


def repository_growth(report: Report, rows: Sequence[str], metric: str) -> Measured | None:
    """What frazil takes in a repository in the second row / what it takes in the first."""
    small, large = (lines_of(report, row, metric).get(REPOSITORY) for row in rows)
    if small is None or large is None:
        return None
    return large["median"] / small["median"], f"from {small['median']:.3g} to {large['median']:.3g} {metric}"


# --- the targets ----------------------------------------------------------------------------------------------------------------------


def cube(inner: int, task: str) -> str:
    return rf"\d+\^3 inner {inner}\^3: {task}"


DEFAULT_CUBE = cube(32, "write all, own default codec")
DEFAULT_ERA = "ERA float64, own default codec: write all"
SHEET = r"\d+\^2 inner 16\^2 raw: "
POKE = r"one element into a \d+ MiB shard"
SLOW = r"\d+\^3 in S3, 20 ms a request: "
LINES = "lines of array engine and stores"
ONE_TASK = 24  # MiB of a task of remote_memory.py: a shard of 8 MiB is fetched, copied, and encoded again
SLACK = 32  # MiB


TARGETS = (
    *(
        Target(f"512^3, open, inner {inner}^3, to tensorstore without sync", 1, "x", True, ratio_to("tensorstore_nosync"), (cube(inner, "open"),), "ms")
        for inner in (64, 32, 16)
    ),
    Target("many arrays of one document: open", 3, "x", True, ratio_to_best, (cube(32, r"open \d+ arrays of one document"),), "ms each"),
    *(
        Target(f"ERA float64 blosc: {what}", goal, "x", True, ratio_to_best, (f"ERA float64 blosc: {what}",), "s")
        for what, goal in (("one map", 1.2), ("one point in time", 1.3), ("read all", 1.3))
    ),
    *(
        Target(f"512^3 zstd 0, {what}, inner {inner}^3", goal, "x", True, ratio_to_best, (cube(inner, what),), metric)
        for what, metric, goals in (
            ("write all", "s", {64: 1, 32: 1.15, 16: 1.3}),
            ("read all", "s", {64: 1.05, 32: 1.5, 16: 2.2}),
            ("z-plane", "s", {64: 1.1, 32: 1.2, 16: 1.5}),
            ("x-plane", "s", {64: 1.1, 32: 1.2, 16: 1.5}),
            ("random inner chunks", "ms each", {64: 1.5, 32: 2.5, 16: 4}),
            ("random points", "ms each", {64: 1.5, 32: 1.5, 16: 1.5}),
        )
        for inner, goal in goals.items()
    ),
    Target("90,000 points at once", 1.15, "x", True, ratio_to_best, (cube(32, r"\d+ points at once"),), "s"),
    Target("100 rows at once", 1.2, "x", True, ratio_to_best, (cube(32, r"\d+ rows at once"),), "s"),
    Target("4096^2 raw, inner 16^2, shard 1024^2: write", 2, "x", True, ratio_to_best, (f"{SHEET}write all",), "s"),
    Target("4096^2 raw, inner 16^2, shard 1024^2: read", 2.5, "x", True, ratio_to_best, (f"{SHEET}read all",), "s"),
    Target("one element into a 128 MiB shard, rewritten", 1.3, "x", True, ratio_to_best, (POKE,), "ms"),
    Target("one element into a 128 MiB shard, appended", 5, "ms", False, median_value, (f"{POKE}, appended",), "ms"),
    Target("one element into a 128 MiB shard, appended: written (3 inner chunks)", 350, "kB", False, median_value, (f"{POKE}, appended",), "kB written"),
    Target("4-D float32 series, one step at a time, to zarr-python", 10, "x", True, ratio_to_zarr, (r"4-D float32 series: \d+ appends of a step",), "ms each"),
    *(
        Target(f"512^3 in S3, 20 ms a request: {what}, to the commit before", 1, "x", True, ratio_to(BEFORE), (f"{SLOW}{what}",), "s")
        for what in ("read all", "column", "write a part of each shard")
    ),
    *(
        Target(f"memory beside the result in S3, {in_flight} MiB in flight: {call}", max(in_flight, ONE_TASK) + SLACK, "MiB", False, median_value,
               (f"64 shards of 8 MiB in S3, {in_flight} MiB in flight: {call}",), "MiB beside the result")
        for in_flight in (1, 64)
        for call in ("read all", "read a column", "write all", "write a part of each shard", "copy within the store", "copy to a folder", "copy from a folder", "rechunk")
    ),
    *(
        Target(f"{what} of 100,000 chunks in S3", 1.1, "requests a page", False, median_value, (rf"\d+ chunks in S3: {what}",), "requests a page")
        for what in ("info", "ls -l", "ls -l of its keys")
    ),
    Target(f"{LINES}: 5 % fewer", source_lines.BEFORE * 95 // 100, "lines", False, median_value, (LINES,), "lines"),
    Target("own default codec, 512^3: write, to zarr-python", 3, "x", True, ratio_to_zarr, (DEFAULT_CUBE,), "s"),
    Target("own default codec, 512^3: bytes, of zarr-python's", 1.05, "x", False, share_of_zarr, (DEFAULT_CUBE,), "MB stored"),
    Target("own default codec, ERA: write, to zarr-python", 3, "x", True, ratio_to_zarr, (DEFAULT_ERA,), "s"),
    Target("own default codec, ERA: bytes, of zarr-python's", 1.05, "x", False, share_of_zarr, (DEFAULT_ERA,), "MB stored"),
    Target("one element, unsharded, uncompressed", 35, "us", False, median_value, (r"\d+\^2 unsharded 64\^2 raw: one element",), "us each"),
    Target("CPU of read all, inner 16^3 over 64^3", 1.4, "x", False, growth, (cube(64, "read all"), cube(16, "read all")), "cpu s"),
    Target("peak memory above the start, reading 128 MiB", 133, "MiB", False, median_value, (r"read \d+ MiB: peak memory",), "MiB above start"),
    Target("memory beside the result, 1e8 inner chunks, none stored", 200, "MiB", False, median_value,
           (r"plan \d+\^2 inner chunks, none stored",), "MiB beside the result"),
    Target("sharded draft array, 512^3: read, of the final codec's time", 1.05, "x", False, median_value,
           (r"\d+\^3 inner \d+\^3: read all, draft",), "x final codec"),
    Target("1 GB of shards converted to another folder, of the time of copying", 1.1, "x", False, median_value,
           (r"convert \d+ MB of shards",), "x copying"),
    Target("import frazil, over import numpy", 25, "ms", False, median_value, ("import",), "ms over numpy"),
    *(
        Target(f"512^3 in a repository: {what}", goal, "x", at_least, read, (cube(32, row),), metric, REPOSITORY)
        for what, goal, at_least, read, row, metric in (
            ("write + commit, of our plain store", 1.1, False, over_plain, "write all", "s"),
            ("read all, of our plain store", 1.1, False, over_plain, "read all", "s"),
            ("random inner chunk, of our plain store", 1.25, False, over_plain, "random inner chunks", "ms each"),
            ("write + commit, to the peer", 1.4, True, repository_ratio, "write all", "s"),
            ("read all, to the peer", 4, True, repository_ratio, "read all", "s"),
            ("random inner chunk, to the peer", 10, True, repository_ratio, "random inner chunks", "ms each"),
        )
    ),
    *(
        Target(f"{chunks} chunks of {nbytes} B: {what}", goal, "x", True, repository_ratio, (rf"repo \d+ chunks of {nbytes} B: {row}",), "s", REPOSITORY)
        for chunks, nbytes, goals in ((100_000, 128, (30, 50)), (20_000, 1024, (30, 30)))
        for what, row, goal in (("write + commit", r"write \+ commit", goals[0]), ("read", "read all", goals[1]))
    ),
    Target("1 reference onto 1,000,000: commit", 50, "x", True, repository_ratio, (r"repo 1 reference onto \d+, commit",), "s", REPOSITORY),
    Target("small commits by one writer", 1, "ms", False, repository_value, (r"repo \d+ small commits",), "ms each", REPOSITORY),
    Target("small commits, after 1,000", 1.2, "x", False, repository_growth, (r"repo \d+ small commits", r"repo \d+ small commits after \d+"), "ms each", REPOSITORY),
)  # fmt: skip


# --- showing them ---------------------------------------------------------------------------------------------------------------------


def table(verdicts: Iterable[Verdict], *, markdown: bool = False) -> list[str]:
    """The lines to print."""
    cells = [("target", "goal", "measured", "met", "from")]
    for target, met, value, source in verdicts:
        goal = f"{'>=' if target.at_least else '<='} {target.goal:g} {target.unit}"
        measured = "-" if value is None else f"{value:.3g} {target.unit}"
        cells.append((target.name, goal, measured, {True: "yes", False: "NO", None: "not measured"}[met], source))
    if markdown:
        rows = [f"| {' | '.join(line)} |" for line in cells]
        return [rows[0], "|---" * len(cells[0]) + "|", *rows[1:]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def merged(reports: Sequence[Report]) -> Report:
    """Several reports as one, with the current number of lines of the sources."""
    engines = {name: engine for report in reports for name, engine in report["engines"].items()}
    rows = [line for report in reports for line in report["rows"]]
    count = float(source_lines.rebuilt_lines(ROOT))
    own = {
        "row": LINES,
        "metric": "lines",
        "engine": OWN,
        "min": count,
        "median": count,
        "ratio": None,
        "samples": [count],
    }
    return {
        "quick": any(report["quick"] for report in reports),
        "engines": {OWN: {"kind": "plain"}, **engines},
        "rows": [*rows, own],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="+", help="what compare.py and the others wrote with --json")
    parser.add_argument("--markdown", action="store_true", help="as a table for a document")
    options = parser.parse_args()
    report = merged([json.loads(path.read_text()) for path in options.reports])
    verdicts = judge(report, TARGETS)
    print(*table(verdicts, markdown=options.markdown), sep="\n")
    met = [verdict.met for verdict in verdicts]
    print(f"\n{met.count(True)} met, {met.count(False)} missed, {met.count(None)} not measured")
    print(f"all sources, of every issue: {source_lines.all_lines(ROOT):,} lines")
    if report["quick"]:
        print("QUICK: sizes are small, the figures mean nothing")


if __name__ == "__main__":
    main()
