"""The common ancestor of two snapshots, in random histories with merges, against all ancestors computed one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ConflictError, InvalidInputError, NotFoundError, StoreError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.json_values import Json
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.format import Ancestor, RepositoryFormat
from frazil.repository.merge.common_ancestor import MERGED, common_ancestor


def name(number: int) -> ObjectId:
    return ObjectId(number.to_bytes(12, "big"))


class Histories:
    """parents: of each snapshot, the one before and the merged one; times: of each; gone: snapshots that are collected"""

    def __init__(
        self, parents: list[tuple[int | None, int | None]], times: list[int], gone: frozenset[int] = frozenset()
    ) -> None:
        self.own, self.times, self.gone = parents, times, gone

    def ancestors(self, snapshot: ObjectId) -> Iterator[Ancestor]:
        at: int | None = int.from_bytes(snapshot, "big")
        if at in self.gone:
            raise NotFoundError("it is gone")
        while at is not None and at not in self.gone:
            parent = self.own[at][0]
            yield Ancestor(SnapshotInfo(name(at), self.times[at], ""), None if parent is None else name(parent))
            at = parent

    def read_ahead(self, files: Sequence[ObjectId]) -> int:
        """Nothing is cached here."""
        return len(files)

    def commit_metadata(self, snapshot: ObjectId) -> Mapping[str, Json]:
        merged = self.own[int.from_bytes(snapshot, "big")][1]
        return {} if merged is None else {MERGED: [encode_id(name(merged))]}

    def all_of(self, snapshot: int) -> set[int]:
        """A snapshot and all that lead to it."""
        found, waiting = set[int](), [snapshot]
        while waiting:
            at = waiting.pop()
            if at not in found and at not in self.gone:
                found.add(at)
                waiting += [parent for parent in self.own[at] if parent is not None]
        return found

    def newest_common(self, one: int, other: int) -> list[int]:
        both = self.all_of(one) & self.all_of(other)
        return sorted(at for at in both if not any(at in self.all_of(later) - {later} for later in both))

    def port(self) -> RepositoryFormat:
        return cast("RepositoryFormat", self)


@st.composite
def histories(draw: st.DrawFn) -> Histories:
    """Parents come before children; the clock of a branch never goes back, those of two branches differ."""
    parents: list[tuple[int | None, int | None]] = [(None, None)]
    times = [100]
    for number in range(1, draw(st.integers(2, 14))):
        parent = draw(st.integers(0, number - 1))
        merged = draw(st.none() | st.integers(0, number - 1))
        parents.append((parent, merged))
        times.append(times[parent] + draw(st.integers(1, 40)))
    return Histories(parents, times)


@given(histories(), st.data())
def test_the_newest_common_ancestor(found: Histories, data: st.DataObject) -> None:
    one, other = (data.draw(st.integers(0, len(found.own) - 1)) for _ in range(2))
    expected = found.newest_common(one, other)
    if len(expected) == 1:
        ancestor, own = common_ancestor(found.port(), name(one), name(other))
        assert ancestor == name(expected[0])
        assert {name(at) for at in found.all_of(one) - found.all_of(other)} == set(own)
    else:
        with pytest.raises(ConflictError) as caught:
            common_ancestor(found.port(), name(one), name(other))
        assert all(encode_id(name(at)) in str(caught.value) for at in expected)


class _Unreadable(Histories):
    """unreadable: snapshots that the store does not give"""

    unreadable: frozenset[int] = frozenset()

    def ancestors(self, snapshot: ObjectId) -> Iterator[Ancestor]:
        for found in super().ancestors(snapshot):
            if int.from_bytes(found.snapshot, "big") in self.unreadable:
                raise StoreError("it is in another storage class")
            yield found


def test_snapshots_that_are_not_needed_may_be_unreadable() -> None:
    count, fork = 100, 80
    parents: list[tuple[int | None, int | None]] = [(None, None), *[(at, None) for at in range(count)], (fork, None)]
    for at in range(fork - 2):  # two generations behind the common ancestor are looked at
        found = _Unreadable(parents, list(range(len(parents))))
        found.unreadable = frozenset({at})
        assert common_ancestor(found.port(), name(count), name(count + 1))[0] == name(fork)
    found.unreadable = frozenset({fork})
    with pytest.raises(StoreError):
        common_ancestor(found.port(), name(count), name(count + 1))


def test_what_is_gone_is_skipped() -> None:
    parents = [(None, None), (0, None), (0, None), (1, 2), (1, None)]
    found = Histories(parents, [1, 2, 3, 4, 5], gone=frozenset({2}))
    assert common_ancestor(found.port(), name(3), name(4)) == (name(1), [name(3)])
    with pytest.raises(InvalidInputError, match="no snapshot in common"):
        common_ancestor(Histories(parents, [1, 2, 3, 4, 5], gone=frozenset({1})).port(), name(3), name(4))
