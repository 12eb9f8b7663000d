"""The seeds that `make test` runs: each is run by one test alone, as a run takes a while. `make campaign` runs the first 100,000."""

from __future__ import annotations

__all__ = ["COLLECTORS", "KINDS", "SEEDS", "plain"]

SEEDS = 150
# Chosen for events that are rare: the tests say which. There are more of each than the tests need, as a change of the simulation changes what happens.
KINDS = (*range(20, 36), 54, 571, 622, 79, 119, 169, 189, 199, 239, 259, 279, 289, 349, 369, 379, 399)
COLLECTORS = (
    *(42, 47, 84, 188),  # commits to a branch of a condemned snapshot
    *(19, 33, 37, 49, 64, 142, 155, 163, 233, 264, 271, 298, 469),  # a condemned snapshot is refused
    *(9, 159, 221, 249, 286, 337, 434),  # collectors erase chunks
    *(28, 269),
    *(832, 833),  # clocks jump, and operations arrive late
)


def plain(first: int, count: int) -> list[int]:
    """Those of `count` seeds that no other test runs."""
    return sorted({*range(first, first + count)} - {*KINDS, *COLLECTORS})
