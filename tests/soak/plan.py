"""The decisions of a seed about a round before it begins: the place, the faults, the processes and their kills. Pure."""

from __future__ import annotations

from random import Random
from typing import Final, Literal, TypeAlias

from frazil.base.record import Record

Place: TypeAlias = Literal["folder", "full", "bucket"]
Kind: TypeAlias = Literal["writer", "collector", "names", "reader"]

PLACES: Final[tuple[Place, ...]] = ("folder", "bucket", "full")
FAULTS: Final = ("fail", "cut", "lose", "late", "interrupt", "full", "die", "die after", "stall")
WRITERS: Final = 8
COLLECTORS: Final = 2

HOUR: Final = 3_600_000_000_000  # nanoseconds of the repository's time
SCALE: Final = 1800  # seconds of the repository's time per real second: an hour in two
_ROUND: Final = 8.0  # seconds
_SKEW: Final = HOUR  # the maximum by which the clock of a process is fast or slow


class Round(Record):
    """One round. name: seed and number;  faults: kinds of faults at store operations, in processes with faults;  rate: how often;  kills, stops: seconds from
    one to the next, by the parent"""

    name: str
    place: Place
    seconds: float
    writers: int
    durable: bool
    packing: str
    faults: tuple[str, ...]
    rate: float
    kills: float
    stops: float


class Life(Record):
    """One process from its start to its end. number: among those of its kind;  dies_at: the store operation before or in which it kills itself, 0: none;
    file_limit: the maximum of bytes of its files, 0: none;  skew: nanoseconds by which its clock is fast"""

    kind: Kind
    number: int
    name: str
    faults: tuple[str, ...]
    rate: float
    dies_at: int
    file_limit: int
    skew: int


def make_round(seed: int, number: int, place: Place | None = None) -> Round:
    random = Random(f"round {seed} {number}")
    chosen = PLACES[number % len(PLACES)]
    return Round(
        f"{seed}.{number}",
        place or chosen,
        _ROUND,
        random.choice((2, 4, WRITERS, WRITERS)),
        random.random() < 0.5,
        random.choice(("auto", "off")),
        tuple(fault for fault in FAULTS if random.random() < 0.5),
        random.choice((0.0, 0.002, 0.01, 0.03)),
        random.choice((0.2, 0.5, 1.5)),
        random.choice((0.3, 1.0, 3.0)),
    )


def make_life(plan: Round, kind: Kind, number: int, turn: int) -> Life:
    """turn: which process of this kind and number, from 0"""
    random = Random(f"life {plan.name} {kind} {number} {turn}")
    return Life(
        kind,
        number,
        f"{kind}-{number}",
        plan.faults if random.random() < (0.3 if kind == "collector" else 0.7) else (),
        plan.rate,
        random.randrange(1, 400) if random.random() < 0.3 else 0,
        random.randrange(100, 3000) if random.random() < 0.1 and plan.place != "bucket" else 0,
        random.randrange(-_SKEW, _SKEW),
    )
