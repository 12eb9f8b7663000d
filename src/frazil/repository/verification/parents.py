"""Compares the parents that two files state: that of the snapshot itself, and a list of ancestors in a later one. Snapshots alone are in snapshots.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

from frazil.base.record import Record
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.expired import may_end
from frazil.repository.maintenance.live_snapshots import is_same, names_wrong_parent
from frazil.repository.verification.histories import UNREADABLE, ReachedSnapshot
from frazil.repository.verification.report import Findings, Problem, Subject
from frazil.repository.verification.snapshots import MOST_LISTED, Expected


class _Contradiction(Record):
    """A snapshot, its parent by a list, and that by its own file; None: it is the first."""

    child: ObjectId
    listed: ObjectId
    own: ObjectId | None


def check_parents(
    files: RepositoryFormat, tips: Sequence[tuple[str, ObjectId]], expected: Expected, found: Findings
) -> dict[ObjectId, Problem]:
    """Adds the contradictions in the lists of ancestors that histories consist of, then the others, but not those that a record accepts. tips: with the ref of
    each. Returns the problems of wrong lists, by the snapshot whose file has the list. Raises StoreError."""
    wrong: dict[ObjectId, Problem] = {}
    compared: set[ObjectId] = set()
    reported: set[tuple[ObjectId, ObjectId | None]] = set()
    pairs: Counter[tuple[ObjectId, ObjectId]] = Counter()
    for ref, start in tips:
        for file, listed in _lists(files, start, expected):
            if file in compared:
                break
            compared.add(file)
            fault = _fault(files, file, listed, expected)
            if fault is None or may_end(files, file):
                continue
            pairs = pairs or Counter(pair for known in expected.ancestors.values() for pair in pairwise(known))
            child, parent, own = fault
            # either the other lists agree with this one, or that of the child contradicts itself
            if own is not None and (
                (pairs[child, parent] > 1 and not pairs[child, own]) or names_wrong_parent(files, child)
            ):
                expected.other_parents.setdefault(ReachedSnapshot(child, ref, False, parent), own)
                continue
            name = encode_id(child)
            names = "is the first snapshot" if own is None else f"names {encode_id(own)}"
            text = f"its list of ancestors gives {encode_id(parent)} as the parent of {name}, but {name} itself {names}"
            found.add("history", text, Subject(ref, encode_id(file)), files.key(f"snapshots/{encode_id(file)}"))
            wrong[file] = found.problems[-1]
            reported.add((child, parent))
    for reached, named in [*expected.other_parents.items()]:
        if may_end(files, reached.file):
            del expected.other_parents[reached]
        elif (reached.file, reached.parent) not in reported:
            reported.add((reached.file, reached.parent))
            listed_parent = "nothing" if reached.parent is None else encode_id(reached.parent)
            text = f"a later snapshot gives {listed_parent} as the parent of this one, but this one names {encode_id(named)}"
            found.add("history", text, reached.subject, files.key(f"snapshots/{encode_id(reached.file)}"))
    return wrong


def _lists(
    files: RepositoryFormat, start: ObjectId, expected: Expected
) -> Iterator[tuple[ObjectId, Sequence[ObjectId]]]:
    """The lists of ancestors that the history of a snapshot consists of, each with its file: the next is in the file of the last ancestor or, if that has none,
    in that of the one after it."""
    at, listed = start, expected.ancestors.get(start, ())
    if len(listed) == MOST_LISTED:
        with suppress(*UNREADABLE):
            (listed,) = files.listed(files.snapshot(start)).ancestors
    visited = set[ObjectId]()
    while listed and at not in visited:
        visited.add(at)
        yield at, listed
        at, last = (at, *listed)[-2:]
        if expected.ancestors.get(last):
            at = last
        listed = expected.ancestors.get(at, ())


def _fault(
    files: RepositoryFormat, file: ObjectId, listed: Sequence[ObjectId], expected: Expected
) -> _Contradiction | None:
    """The first contradiction in a list of ancestors. Snapshots whose files were not read, or at which a record accepts it, are skipped."""
    for child, parent in pairwise((file, *listed)):
        known = expected.ancestors.get(child, (parent,))
        own = next(iter(known), None)
        is_fault = not is_same(files, own, parent) if own is not None else files.history_fault(child) is None
        if is_fault and not may_end(files, child):
            return _Contradiction(child, parent, own)
    return None
