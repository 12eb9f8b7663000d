"""Histories as graphs in plain text: the order of their commits, and the lanes that they are drawn in. Pure. The caller prints the commits.

A commit has at most one parent, so going back in time lanes join, and never split."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from frazil.base.record import Record


class Line(Record):
    """One line of a graph. commit: the commit in it, None for a line between two"""

    drawing: str
    commit: str | None


def in_order(parents: Mapping[str, str | None], times: Mapping[str, int]) -> list[str]:
    """Commits, each after all its descendants, otherwise the newest first. A line of commits is completed as far as this allows before the next one begins.

    parents: the parent of each commit, which need not be among them; times: when each was written, in any unit"""
    waiting = dict.fromkeys(parents, 0)  # children that are not in `found` yet
    for parent in parents.values():
        if parent in waiting:
            waiting[parent] += 1
    tips = [(-times[commit], commit) for commit, children in waiting.items() if not children]
    heapq.heapify(tips)
    found: list[str] = []
    while tips:
        commit: str | None = heapq.heappop(tips)[1]
        while commit is not None and commit in waiting and not waiting[commit]:
            found.append(commit)
            commit = parents[commit]
            if commit in waiting:
                waiting[commit] -= 1
    return found


def draw(order: Sequence[str], parents: Mapping[str, str | None]) -> Iterator[Line]:
    """The lines of a graph of commits in the order of in_order: `*` a commit, `|` a line that goes on, `/` one that joins another."""
    lanes: list[str] = []  # for each lane the commit that comes next in it
    for commit in order:
        waiting = [lane for lane, awaited in enumerate(lanes) if awaited == commit]
        for left, lane in reversed(list(pairwise(waiting))):
            yield Line(_moved(len(lanes), lane, left), None)
            del lanes[lane]
        if not waiting:
            lanes.append(commit)
        at = lanes.index(commit)
        yield Line(" ".join("*" if lane == at else "|" for lane in range(len(lanes))), commit)
        parent = parents[commit]
        if parent in parents:
            assert parent is not None
            lanes[at] = parent
            continue
        if at + 1 < len(lanes):
            yield Line(_moved(len(lanes), at, None), None)
        del lanes[at]


def _moved(count: int, ended: int, joins: int | None) -> str:
    """The line in which a lane joins one further left, or ends, and the lanes on its right move left."""
    signs = [" "] * (2 * count - 1)
    for lane in range(count):
        if lane < ended:
            signs[2 * lane] = "|"
        elif lane > ended or joins is not None:
            signs[2 * lane - 1] = "/"
    if joins is not None:
        for lane in range(joins, ended - 1):
            signs[2 * lane + 1] = "_"
    return "".join(signs).rstrip()
