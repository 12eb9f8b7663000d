"""The chart of speeds in the README: for each task, the times of other engines as multiples of Frazil's.

    python benchmarks/chart.py last.json more.json >docs/images/speed.svg

The files are those of `compare.py --json`; a task is taken from the file with the most engines for it. Medians are compared only within one run, in which the
engines take turns."""

from __future__ import annotations

import json
import sys
from html import escape
from math import ceil, floor, log2
from pathlib import Path
from typing import Any, Final, NamedTuple

ENGINES: Final = {  # names as in compare.py: the label in the chart, and the colour
    "frazil": ("Frazil", "#14506e"),
    "zarrs": ("zarr-python with zarrs", "#e08a2c"),
    "tensorstore": ("tensorstore", "#5f9e6e"),
    "zarr": ("zarr-python", "#b55d60"),
}
TASKS: Final = {  # by row of the harness
    "512^3 inner 32^3: write all": "write 512³ of uint16, inner chunks 32³",
    "512^3 inner 32^3: read all": "read all of it",
    "512^3 inner 32^3: random inner chunks": "read one inner chunk",
    "4096^2 inner 16^2 zstd 1: read 512^2": "read a window of 1024 inner chunks",
    "512^3 inner 32^3: open": "open an array",
    "ERA float64 blosc: write all": "write a climate data set",
    "ERA float64 blosc: read all": "read all of it ",
    "ERA float64 blosc: one point in time": "read a time series of one point",
    "ERA float64 blosc: one map": "read one map",
    "4-D float32 series: 500 appends of a step": "append a time step",
}
LEFT, WIDTH, TOP, LINE = 330, 430, 74, 30


class Task(NamedTuple):
    """seconds: Frazil's; times: of each engine, as multiples of `seconds`"""

    label: str
    seconds: float
    times: dict[str, float]


def tasks(runs: list[dict[str, Any]]) -> list[Task]:
    """The results of the tasks above in the files, in the order of the tasks."""
    found = []
    for row, label in TASKS.items():
        of_runs = []
        for run in runs:
            measured = [
                measured_row
                for measured_row in run["rows"]
                if measured_row["row"] == row and measured_row.get("metric") in ("s", "ms", "ms each")
            ]
            medians = {
                measured_row["engine"]: measured_row["median"]
                for measured_row in measured
                if measured_row["engine"] in ENGINES
            }
            if "frazil" in medians:
                unit = 1 if measured[0]["metric"] == "s" else 1e-3
                times = {engine: median / medians["frazil"] for engine, median in medians.items()}
                of_runs.append(Task(label.strip(), medians["frazil"] * unit, times))
        found += sorted(of_runs, key=lambda task: -len(task.times))[:1]
    return found


def chart(found: list[Task], about: str) -> str:
    """An SVG file: a line for each task, a dot for each engine, on a logarithmic scale."""
    every = [time for task in found for time in task.times.values()]
    low, high = floor(log2(min(every))), ceil(log2(max(every)))

    def x_of(time: float) -> float:
        return LEFT + WIDTH * (log2(time) - low) / max(1, high - low)

    height, right = TOP + LINE * len(found) + 60, LEFT + WIDTH + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {height}" font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#1d3440">',
        "<title>Times of other engines as multiples of Frazil's</title>",
        f'<rect width="{right}" height="{height}" fill="#ffffff"/>',
    ]
    x = LEFT - 310.0
    for name, colour in ENGINES.values():
        parts += [
            f'<circle cx="{x:.0f}" cy="24" r="6" fill="{colour}"/>',
            f'<text x="{x + 12:.0f}" y="28">{escape(name)}</text>',
        ]
        x += 40 + 7.2 * len(name)
    bottom = TOP + LINE * len(found) - 8
    for power in range(low, high + 1):
        at, label = x_of(2.0**power), f"{2**power}" if power >= 0 else f"1/{2**-power}"
        stroke, width = ("#14506e", 1.5) if power == 0 else ("#d7e0e5", 1)
        parts.append(f'<path d="M{at:.1f} {TOP - 14} V{bottom}" stroke="{stroke}" stroke-width="{width}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    for number, task in enumerate(found):
        y = TOP + LINE * number
        parts.append(f'<text x="{LEFT - 84}" y="{y + 4}" text-anchor="end">{escape(task.label)}</text>')
        parts.append(f'<text x="{LEFT - 16}" y="{y + 4}" text-anchor="end" fill="#14506e">{_time(task.seconds)}</text>')
        ends = [x_of(time) for time in task.times.values()]
        parts.append(f'<path d="M{min(ends):.1f} {y} H{max(ends):.1f}" stroke="#9db3bf" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{x_of(task.times[engine]):.1f}" cy="{y}" r="6" fill="{colour}"><title>{escape(name)}: {task.times[engine]:.2f}</title></circle>'
            for engine, (name, colour) in reversed(ENGINES.items())
            if engine in task.times
        ]
    parts.append(
        f'<text x="{LEFT}" y="{bottom + 36}">time, as a multiple of Frazil\'s (left of 1: faster than Frazil)</text>'
    )
    parts.append(
        f'<text x="20" y="{TOP - 22}" font-size="11" fill="#5a7280">Frazil\'s time beside each task. {escape(about)}</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def about(runs: list[dict[str, Any]]) -> str:
    """Versions of the other engines, and how the times were measured."""
    versions = {
        name: version
        for run in runs
        for engine in run["engines"].values()
        for name, version in engine["versions"].items()
    }
    names = ", ".join(f"{name} {versions[name]}" for name in ("zarr", "zarrs", "tensorstore") if name in versions)
    return f"{runs[0]['cores']} cores, medians of {runs[0]['repeat']} runs; {names}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"


if __name__ == "__main__":
    files = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    sys.stdout.write(chart(tasks(files), about(files)))
