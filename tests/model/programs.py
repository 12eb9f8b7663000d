"""Programs of sessions: random steps of a seed, and the shortest one with the same failure. sessions.py has the steps.

A program is a list of steps, each with its own seed: steps can be left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

STEPS = {  # kinds of steps, and their weights
    "act": 10,
    "handle": 2,  # an operation by a handle that was opened before
    "fork": 2,
    "fork_act": 3,
    "merge": 2,
    "rebase": 3,
    "solve": 2,  # a rebase that answers conflicts
    "commit": 4,
    "discard": 1,
    "reset": 1,  # of the branch to an earlier snapshot
    "read": 2,  # by a serializable session
    "fork_read": 1,
    "skew": 2,  # a fork that reads one array and writes another, and is merged at once
    "interrupt": 1,  # of the next commit, rebase or change
    "look": 1,
    "diff": 1,  # of two snapshots
    "branch": 1,  # another branch is created, reset or deleted
    "tag": 1,
    "travel": 1,  # to a snapshot, by its time
}
MERGES = ("join", "join", "pick", "revert", "reset")  # added to the steps of some programs
MEETINGS = (  # kinds of changes that conflict if two sessions make them at one place, and the place: a node, and what is below it
    (("resize", "resize", "append", "unappend"), ("a/a", "b", "c")),
    (("move", "move", "swap"), ("a/a", "a/b", "b")),
    (("remove", "array", "group", "move"), ("a",)),
    (("swap", "array", "group", "move"), ("a",)),
    (("remove", "array", "write", "resize"), ("a/a", "a/b", "b")),
    (("array", "group", "array"), ("a/c", "b/a", "b/c")),
    (("attribute",), ("", "a", "b")),
)
SAME_PLACE = 64  # seeds of steps that meet
LENGTHS = range(8, 26)
SESSIONS = 4


class Step(NamedTuple):
    kind: str
    session: int
    seed: int


def program(seed: int, without: Sequence[str] = ()) -> list[Step]:
    """The steps of a seed. without: kinds that are left out"""
    random = Random(f"program {seed}")
    kinds = [
        kind for kind, weight in STEPS.items() if kind not in without for _ in range(weight * _emphasis(random, kind))
    ]
    count = random.choice((2, 2, 3, SESSIONS))
    if random.random() < 0.5:
        steps = _races(random, count, without)
    else:
        steps = [
            Step(random.choice(kinds), random.randrange(count), random.randrange(2**32))
            for _ in range(random.choice(LENGTHS))
        ]
    merges = Random(f"merges {seed}")
    for _ in range(merges.choice((0, 0, 2, 4, 8))):
        kind = merges.choice([kind for kind in MERGES if kind not in without])
        steps.insert(merges.randrange(len(steps) + 1), Step(kind, merges.randrange(count), merges.randrange(2**32)))
    return steps


def _races(random: Random, count: int, without: Sequence[str]) -> list[Step]:
    """Rounds in which all sessions change something, and then all commit."""
    kinds = [
        kind
        for kind in ("act", "act", random.choice(("act", "skew")), random.choice(("skew", "handle", "act")))
        if kind not in without
    ]
    steps = []
    for _ in range(random.choice((2, 3, 4))):
        order, place = random.sample(range(count), count), random.randrange(2**20) * SAME_PLACE
        meets = "meet" not in without and random.random() < 0.6
        for session in order:
            if meets:
                changes = [("meet", place + random.randrange(SAME_PLACE)) for _ in range(random.choice((1, 2)))]
            else:
                changes = [(random.choice(kinds), random.randrange(2**32)) for _ in range(random.choice((1, 2, 3)))]
            steps += [Step(kind, session, seed) for kind, seed in changes]
        for session in order:
            last = random.choice(("commit", "commit", "rebase", "interrupt"))
            steps += [Step(kind, session, random.randrange(2**32)) for kind in (last, "commit") if kind not in without]
    return steps


def _emphasis(random: Random, kind: str) -> int:
    """Some programs do much of one kind, and none of another."""
    return random.choice((1, 2)) if kind in ("act", "commit", "skew") else random.choice((0, 0, 1, 3))


def shrunk(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    """A program of fewer steps that also fails: first as many steps as possible at the end are left out, then others, by halves and one by one."""
    left = list(steps)
    length = len(left)
    while length:
        at = 0
        while at < len(left):
            shorter = left[:at] + left[at + length :]
            if fails(shorter):
                left = shorter
            else:
                at += length
        length //= 2
    return left
