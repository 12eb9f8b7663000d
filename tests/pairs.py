"""Parameters of which any two values of different axes meet in one test, instead of all combinations: for axes that are independent of each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product, zip_longest
from typing import Any


def pairs(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """About as many rows as the two longest axes have combinations."""
    values = [tuple(axis) for axis in axes]
    order = sorted(range(len(values)), key=lambda axis: -len(values[axis]))
    rows = [list(numbers) for numbers in product(*(range(len(values[axis])) for axis in order[:2]))]
    for new, axis in enumerate(order[2:], 2):
        count = len(values[axis])
        missing = {(at, n, m) for at in range(new) for n in range(len(values[order[at]])) for m in range(count)}
        for row in rows:
            row.append(max(range(count), key=lambda m: sum((at, row[at], m) in missing for at in range(new))))
            missing -= {(at, row[at], row[new]) for at in range(new)}
        for m in range(count):
            columns = ([n for n in range(len(values[order[at]])) if (at, n, m) in missing] for at in range(new))
            rows += [[*numbers, m] for numbers in zip_longest(*columns, fillvalue=0)]
    return [tuple(values[axis][row[order.index(axis)]] for axis in range(len(values))) for row in rows]
