"""Histories as graphs in plain text: the order of their commits, and the lanes that they are drawn in. Pure; what is told of a commit is the caller's.

A commit has one parent at most, so that lanes join on the way back in time, and never part."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from frazil.record import Record


class Line(Record):
    """One line of a graph. commit: the one that it has, None for a line between two"""

    drawing: str
    commit: str | None


def in_order(parents: Mapping[str, str | None], times: Mapping[str, int]) -> list[str]:
    """Commits, each after all that came from it, the newest line of them first; a line is told as far as it goes by itself before the next begins.

    parents: of each commit its parent, which need not be among them; times: when each was written, in any unit"""
    waiting = dict.fromkeys(parents, 0)  # children that were not told yet
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
    """The lines of a graph of commits in an order as in_order gives: `*` a commit, `|` a line that goes on, `/` one that joins another."""
    lanes: list[str] = []  # the commit that each is waiting for
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


def _moved(count: int, gone: int, joins: int | None) -> str:
    """The line in which a lane goes over into one further left, or ends, and those on its right move up."""
    signs = [" "] * (2 * count - 1)
    for lane in range(count):
        if lane < gone:
            signs[2 * lane] = "|"
        elif lane > gone or joins is not None:
            signs[2 * lane - 1] = "/"
    if joins is not None:
        for lane in range(joins, gone - 1):
            signs[2 * lane + 1] = "_"
    return "".join(signs).rstrip()
