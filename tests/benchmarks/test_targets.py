"""Targets are read correctly from results: from made-up results, and against the names of the harness's own rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import objects
import remote_memory
import remote_requests
import source_lines
from rows import every_row
from targets import (
    LINES,
    TARGETS,
    Report,
    Target,
    growth,
    judge,
    median_value,
    merged,
    ratio_to,
    ratio_to_best,
    ratio_to_zarr,
    share_of_zarr,
    table,
)


def line(row: str, engine: str, samples: list[float], metric: str = "s", ratio: float | None = None) -> dict[str, Any]:
    middle = sorted(samples)[len(samples) // 2]
    return {
        "row": row,
        "metric": metric,
        "engine": engine,
        "min": min(samples),
        "median": middle,
        "ratio": ratio,
        "samples": samples,
    }


def report(*rows: dict[str, Any]) -> Report:
    kinds = {
        "frazil": "plain",
        "zarr": "plain",
        "zarr_fused": "plain",
        "zarrs": "plain",
        "floor": "floor",
        "icechunk": "repository",
    }
    return {"quick": False, "engines": {name: {"kind": kind} for name, kind in kinds.items()}, "rows": list(rows)}


def target(read: Any, goal: float, *rows: str, at_least: bool = True) -> Target:
    return Target("a target", goal, "x", at_least, read, rows or ("read",), "s")


def only(found: Report, target: Target) -> tuple[bool | None, float | None, str]:
    ((_, met, value, source),) = judge(found, [target])
    return met, value, source


@pytest.mark.parametrize(("ratio", "met"), [(1.9, False), (2.0, True), (2.1, True)])
def test_ratio_to_the_best_peer(ratio: float, met: bool) -> None:
    found = report(
        line("read", "frazil", [1.0], ratio=ratio),
        line("read", "zarr", [9.0]),
        line("read", "zarrs", [2.0]),
        line("read", "floor", [0.5]),
        line("read", "icechunk", [0.1]),
    )
    assert only(found, target(ratio_to_best, 2)) == (met, ratio, "1 s; best peer zarrs 2")


@pytest.mark.parametrize(("value", "met"), [(34.0, True), (35.0, True), (36.0, False)])
def test_a_value_as_it_is(value: float, met: bool) -> None:
    assert only(report(line("read", "frazil", [value])), target(median_value, 35, at_least=False)) == (
        met,
        value,
        "no peer",
    )


def test_ratio_to_zarr_takes_its_better_pipeline_round_by_round() -> None:
    found = report(
        line("read", "frazil", [1.0, 2.0, 4.0]),
        line("read", "zarr", [90.0, 90.0, 90.0]),
        line("read", "zarr_fused", [4.0, 6.0, 8.0]),
        line("read", "zarrs", [0.1, 0.1, 0.1]),
    )
    assert only(found, target(ratio_to_zarr, 3))[:2] == (True, 3.0)
    assert only(found, target(share_of_zarr, 0.3, at_least=False))[:2] == (False, 1 / 3)


def test_ratio_to_an_engine_of_ones_own() -> None:
    found = report(
        line("read", "frazil", [1.0, 2.0]), line("read", "before", [3.0, 6.0]), line("read", "zarr", [0.1, 0.1])
    )
    assert only(found, target(ratio_to("before"), 3))[:2] == (True, 3.0)
    assert only(found, target(ratio_to("absent"), 3))[:2] == (None, None)


def test_the_ratio_in_cpu_time_is_beside_that_in_seconds() -> None:
    found = report(
        line("read", "frazil", [1.0], ratio=0.5),
        line("read", "frazil", [1.0], metric="cpu s", ratio=1.25),
        line("read", "zarrs", [2.0]),
    )
    assert only(found, target(ratio_to_best, 2)) == (False, 0.5, "1 s; best peer zarrs 2; 1.25 x in CPU time")


def test_lines_are_counted_without_what_is_new(tmp_path: Path) -> None:
    new = source_lines.NOT_COUNTED["zip archives"][0].replace("*", "a")
    texts = {
        "src/frazil/stores/b.py": "1\n2\n",
        new: "1\n",
        "rust/src/files/d.rs": "1\n2\n3\n",
        "src/frazil/api/a.py": "1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert source_lines.rebuilt_lines(tmp_path) == 5
    assert source_lines.all_lines(tmp_path) == 7


def test_every_file_that_is_not_counted_is_there() -> None:
    for pattern in (pattern for patterns in source_lines.NOT_COUNTED.values() for pattern in patterns):
        assert list(source_lines.ROOT.glob(pattern)), pattern


def test_reports_are_merged_with_the_lines_of_the_sources() -> None:
    both = merged([report(line("read", "frazil", [1.0])), report(line("write", "zarr", [2.0]))])
    assert [one["row"] for one in both["rows"]] == ["read", "write", LINES]
    assert not both["quick"]


def test_growth() -> None:
    found = report(line("small", "frazil", [2.0]), line("large", "frazil", [3.0]))
    assert only(found, target(growth, 1.4, "small", "large", at_least=False))[:2] == (False, 1.5)
    assert only(found, target(growth, 1.4, "small", "absent", at_least=False))[:2] == (None, None)


@pytest.mark.parametrize("read", [ratio_to_best, median_value, ratio_to_zarr, share_of_zarr, growth])
def test_unmeasured_targets_are_neither_met_nor_missed(read: Any) -> None:
    assert only(report(line("read", "zarr", [1.0])), target(read, 1, "read", "read"))[:2] == (None, None)


def test_a_row_that_failed_is_missed() -> None:
    failure = {"row": "read", "engine": "frazil", "error": "WRONG: 1 of 8 elements"}
    assert only(report(failure), target(median_value, 1)) == (False, None, "WRONG: 1 of 8 elements")


def test_every_target_reads_rows_of_the_harness() -> None:
    for quick in (False, True):
        names = [row.name for row in every_row(quick)]
        names += objects.row_names(64 if quick else 512, 20).values()
        names += [remote_memory.row_name(call, in_flight) for call in remote_memory.CALLS for in_flight in (1, 64)]
        names += [remote_requests.row_name(100, command) for command in remote_requests.COMMANDS]
        names.append(LINES)
        assert len(names) == len(set(names))
        for target in TARGETS:
            assert [len([name for name in names if re.fullmatch(row, name)]) for row in target.rows] == [1] * len(
                target.rows
            )


def test_the_table() -> None:
    verdicts = judge(
        report(line("read", "frazil", [1.0], ratio=3.0)), [target(ratio_to_best, 2), target(median_value, 2, "absent")]
    )
    assert table(verdicts)[1].split() == ["a", "target", ">=", "2", "x", "3", "x", "yes", "1", "s;", "no", "peer"]
    assert table(verdicts)[2].split() == ["a", "target", ">=", "2", "x", "-", "not", "measured"]
    assert table(verdicts, markdown=True)[1] == "|---|---|---|---|---|"
