"""Two listings merged: pairs by name, keys that only the destination has, and the requests of a resumed copy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.operations.copy.journal import JOURNAL_NAME, Journal
from frazil.operations.copy.merge import Pair, merge, with_found
from frazil.operations.copy.plan import ObjectFacts
from frazil.stores.location_overlap import origin_of
from frazil.stores.memory import MemoryStore
from frazil.stores.values import Page
from frazil.testing import CountingStore

LISTINGS = st.dictionaries(st.text("ab/!é", min_size=1, max_size=3), st.integers(0, 9), max_size=20)


def pages(values: dict[str, int], root: str, length: int) -> list[Page]:
    keys = sorted(values)
    return [
        Page(
            [root + key for key in keys[low : low + length]],
            None,
            np.array([values[key] for key in keys[low : low + length]]),
            [b"%d" % values[key] for key in keys[low : low + length]],
            np.array([values[key] - 1 for key in keys[low : low + length]]),
        )
        for low in range(0, len(keys), length)
    ]


def seen(size: int, timed: bool) -> ObjectFacts:
    return ObjectFacts(size, b"%d" % size, size - 1 if timed and size else None)


@given(LISTINGS, LISTINGS, st.integers(1, 7), st.integers(1, 7), st.booleans())
def test_listings_of_any_pages(here: dict[str, int], there: dict[str, int], low: int, high: int, timed: bool) -> None:
    parts = list(merge(pages(here, "x/", low), pages(there, "", high), "x/", "", timed=timed))
    found = {name: None if name not in there else seen(there[name], timed) for name in here}
    assert [pair for part in parts for pair in part.pairs] == [
        Pair(name, seen(size, timed), found[name]) for name, size in sorted(here.items())
    ]
    assert [name for part in parts for name in part.others] == sorted(there.keys() - here.keys())
    assert all(len(part.pairs) <= low for part in parts)


@given(LISTINGS, LISTINGS, st.integers(1, 7))
def test_a_later_listing_of_the_destination(here: dict[str, int], there: dict[str, int], length: int) -> None:
    pairs = [Pair(name, ObjectFacts(size), ObjectFacts(99)) for name, size in sorted(here.items())]
    expected = [pair._replace(found=seen(there[pair.name], False) if pair.name in there else None) for pair in pairs]
    assert not pairs or with_found(pairs, pages(there, "x/", length), "x/") == expected


def test_listings_without_details() -> None:
    (part,) = merge([Page(["a", "b"])], [], "", "")
    assert part.pairs == [Pair("a", ObjectFacts(-1)), Pair("b", ObjectFacts(-1))]


@pytest.mark.parametrize("repository", [False, True])
def test_a_resumed_copy_looks_nothing_up(repository: bool) -> None:
    source, destination = CountingStore(MemoryStore()), CountingStore(MemoryStore())
    root = frazil.Repository.create(source).transaction(message="one") if repository else None
    if root is None:
        frazil.create_array(source, shape=(40,), dtype="u1", chunks=(1,), fill_value=9)[...] = 1
    else:
        with root as group:
            group.create_array("a", shape=(40,), dtype="u1", chunks=(1,), fill_value=9)[...] = 1
    frazil.copy(source, destination)
    destination.set(JOURNAL_NAME, Journal(origin_of(source, ""), run="an earlier one").emit())
    destination.set("c/not-any-more", b"")
    source.clear()
    destination.clear()
    done = frazil.copy(source, destination)
    assert done.removed == 1
    assert (done.found > 0) == repository, "of a repository sizes are enough"
    requests = [*source.requests, *destination.requests]
    assert {one.key for one in requests if one.operation == "look up"} == {JOURNAL_NAME}, (
        "whether the source is a copy itself"
    )
    assert frazil.copy(destination, MemoryStore()).keys > 0
