"""Merges two listings: names at the source, with the same names at the destination, and names that only the destination has. Pure; plan.py decides what is the
same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile

from frazil.base.record import Record
from frazil.operations.copy.plan import ObjectFacts
from frazil.stores.values import Page


class Pair(Record):
    """A name at the source, with the listed facts about it at the source and the destination; found: None if the destination does not have it, or was not
    listed."""

    name: str
    source: ObjectFacts
    found: ObjectFacts | None = None


class Merged(Record):
    """A part of two listings. pairs: names at the source; others: names that only the destination has."""

    pairs: list[Pair]
    others: list[str]


def merge(
    source_pages: Iterable[Page], destination_pages: Iterable[Page], root: str, to_root: str, *, timed: bool = False
) -> Iterator[Merged]:
    """Both listings, by name below their roots, in parts: one for each page of the source. Pages are taken as they are needed.

    timed  whether times of change identify a copy: both stores keep them"""
    coming = chain.from_iterable(_rows(page, to_root, timed) for page in destination_pages)
    following = next(coming, None)
    for page in source_pages:
        rows = list(_rows(page, root, timed))
        found: dict[str, ObjectFacts] = {}
        while rows and following is not None and following[0] <= rows[-1][0]:
            found[following[0]] = following[1]
            following = next(coming, None)
        yield Merged([Pair(name, facts, found.pop(name, None)) for name, facts in rows], list(found))
    if following is not None:
        yield Merged([], [following[0], *(name for name, _ in coming)])


def with_found(pairs: Sequence[Pair], existing: Iterable[Page], to_root: str) -> list[Pair]:
    """Pairs, sorted by name, with the facts of a later listing of the destination, which begins at the first name or before it. Pages are taken up to the last
    name."""
    rows = chain.from_iterable(_rows(page, to_root, False) for page in existing)
    facts = dict(takewhile(lambda row: row[0] <= pairs[-1].name, rows))
    return [pair._replace(found=facts.get(pair.name)) for pair in pairs]


def _rows(page: Page, root: str, timed: bool) -> Iterator[tuple[str, ObjectFacts]]:
    for row, key in enumerate(page.keys):
        size = -1 if page.sizes is None else int(page.sizes[row])
        changed = int(page.modified[row]) if timed and page.modified is not None else -1
        version = None if page.versions is None else page.versions[row]
        yield key[len(root) :], ObjectFacts(size, version, None if changed < 0 else changed)
