"""Histories drawn as graphs."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from frazil.cli.graph import Line, draw, in_order


def drawn(parents: dict[str, str | None], times: dict[str, int]) -> list[str]:
    return [f"{line.drawing} {line.commit or ''}".rstrip() for line in draw(in_order(parents, times), parents)]


def by_name(*commits: str) -> dict[str, int]:
    """Times: the first one is the newest."""
    return {commit: -at for at, commit in enumerate(commits)}


def test_a_linear_history_is_drawn_as_one_lane() -> None:
    assert drawn({"a": "b", "b": "c", "c": None}, by_name("a", "b", "c")) == ["* a", "* b", "* c"]
    assert drawn({}, {}) == []


def test_branches_meet() -> None:
    parents = {"a": "b", "b": "d", "c": "d", "d": "e", "e": None}
    assert drawn(parents, by_name("a", "c", "b", "d", "e")) == ["* a", "* b", "| * c", "|/", "* d", "* e"]


def test_a_branch_from_further_left_crosses() -> None:
    parents = {"a": "x", "b": "y", "c": "x", "d": "y", "x": "y", "y": None}
    assert drawn(parents, by_name("b", "a", "d", "c", "x", "y")) == [
        *("* b", "| * a", "| | * d", "| | | * c"),
        *("| |_|/", "| * | x", "| |/", "|/", "* y"),
    ]


def test_histories_that_never_meet() -> None:
    parents = {"a": "gone", "b": "c", "c": None}
    assert drawn(parents, by_name("a", "b", "c")) == ["* a", "* b", "* c"]


@given(st.integers(0, 30), st.randoms(use_true_random=False))
def test_every_commit_is_drawn_once_in_its_lane(count: int, chance: random.Random) -> None:
    names = [f"c{number}" for number in range(count)]
    parents = {
        name: None if not at or chance.random() < 0.1 else names[chance.randrange(at)] for at, name in enumerate(names)
    }
    times = {name: chance.randrange(5) for name in names}  # clocks may be wrong
    lines = list(draw(in_order(parents, times), parents))
    commits = [line.commit for line in lines if line.commit is not None]
    assert sorted(commits) == sorted(names)
    places = {commit: at for at, commit in enumerate(commits)}
    assert all(parent is None or places[commit] < places[parent] for commit, parent in parents.items())
    follow(lines, parents)


def follow(lines: list[Line], parents: dict[str, str | None]) -> None:
    """Follows the drawing from top to bottom: the signs of a line must lead from each commit to its parent."""
    lanes: dict[int, str | None] = {}  # the parent that each column leads to
    for line in lines:
        signs = dict(enumerate(line.drawing))
        if line.commit is not None:
            stars = [at for at, sign in signs.items() if sign == "*"]
            assert len(stars) == 1
            assert {at for at, sign in signs.items() if sign == "|"} == set(lanes) - set(stars)
            assert lanes.get(stars[0], line.commit) == line.commit
            assert line.commit not in [awaited for at, awaited in lanes.items() if at != stars[0]]
            lanes.pop(stars[0], None)
            if parents[line.commit] is not None:
                lanes[stars[0]] = parents[line.commit]
            continue
        moved: dict[int, str | None] = {}
        for at, awaited in sorted(lanes.items()):
            to = at
            if signs.get(at) != "|":
                to = at - 1
                assert signs[to] == "/"
                while signs.get(to - 2) == "_":
                    to -= 2
                to -= 1
            assert moved.get(to, awaited) == awaited
            moved[to] = awaited
        lanes = moved
