"""The chart of speeds is made from the results of the harness."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from benchmarks.chart import about, chart, tasks

VERSIONS = {"zarrs": {"versions": {"zarr": "3.4", "zarrs": "0.2"}}}


def run(row: str, metric: str, **medians: float) -> dict[str, Any]:
    rows = [{"row": row, "metric": metric, "engine": engine, "median": median} for engine, median in medians.items()]
    return {"cores": 2, "repeat": 3, "engines": VERSIONS, "rows": [*rows, {"row": "left out", "why": "nothing"}]}


def test_times_are_multiples_of_ours() -> None:
    runs = [
        run("512^3 inner 32^3: open", "ms", frazil=0.5, zarrs=2.0),
        run("512^3 inner 32^3: open", "ms", frazil=0.25, zarrs=2.0, tensorstore=0.125, other=9.0),
        run("ERA float64 blosc: one map", "s", zarrs=1.0),
    ]
    (task,) = tasks(runs)
    assert (task.label, task.seconds) == ("open an array", 0.25e-3)
    assert task.times == {"frazil": 1.0, "zarrs": 8.0, "tensorstore": 0.5}
    assert about(runs) == "2 cores, medians of 3 runs; zarr 3.4, zarrs 0.2"
    drawn = ET.fromstring(chart([task], about(runs)))  # which is ours
    dots = [one for one in drawn.iter("{http://www.w3.org/2000/svg}circle") if len(one)]
    places = {one[0].text: float(one.attrib["cx"]) for one in dots}
    assert places["tensorstore: 0.50"] < places["Frazil: 1.00"] < places["zarr-python with zarrs: 8.00"]
    texts = [one.text for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"1/2", "1", "8", "0.25 ms", "open an array"} <= set(texts)
