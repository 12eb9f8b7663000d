"""Branches and tags as lines and as JSON: names, and the snapshots that they point to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from frazil.base.record import Record
from frazil.errors import DataError, NotFoundError, one_line
from frazil.metadata.json_text import Json


class Point(Record):
    """snapshot: an id; error: why it cannot be read"""

    name: str
    snapshot: str | None
    error: str | None = None


def points(names: Iterable[str], look_up: Callable[[str], str]) -> list[Point]:
    """Where each name points to. An invalid file gives an error in place of a snapshot; a name that was removed meanwhile is left out."""
    found: list[Point] = []
    for name in names:
        try:
            found.append(Point(name, look_up(name)))
        except NotFoundError:
            continue
        except DataError as error:
            found.append(Point(name, None, str(error)))
    return found


def points_text(found: Sequence[Point]) -> str:
    """A line for each, in columns."""
    names = [one_line(point.name) for point in found]
    width = max(map(len, names), default=0)
    return "\n".join(
        f"{name:<{width}}  {point.snapshot or f'(unreadable: {one_line(str(point.error))})'}"
        for name, point in zip(names, found, strict=True)
    )


def as_json(point: Point) -> dict[str, Json]:
    return {"name": point.name, "snapshot": point.snapshot, **({"error": point.error} if point.error else {})}
