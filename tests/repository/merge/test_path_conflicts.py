"""Changes without a conflict can be applied in any order, a conflict is reported only if they cannot, and the rest of a side that gives way fits the other
side."""

from __future__ import annotations

import pickle
from itertools import count

import numpy as np
import pytest
from hypothesis import event, given, settings
from tests.repository.plain_history import (
    BEGINNINGS,
    Clash,
    PlainNode,
    PlainSession,
    State,
    begin,
    delta_of,
    every_session,
    sides,
)
from tests.repository.plain_merge import common_appends, one_gives_way, other_gives_way, outcome, unified

from frazil.repository.merge.conflicts import KINDS, Conflict, find_conflicts

BEGAN, TIP = b"b" * 12, b"t" * 12


def conflicts_of(base: State, ours: PlainSession, theirs: PlainSession) -> list[Conflict]:
    return find_conflicts(delta_of(base, ours.nodes, ours.appended()), delta_of(base, theirs.nodes), BEGAN, TIP)


def check(base: State, ours: PlainSession, theirs: PlainSession) -> list[Conflict]:
    """Without a conflict both orders have the same result, and a conflict is reported only if they do not. The rest of our changes, after giving way, fits
    theirs."""
    found = conflicts_of(base, ours, theirs)
    appends = common_appends(base, ours, theirs)
    other_nodes = unified(base, ours.nodes, theirs.nodes)
    one = outcome(base, ours.nodes, other_nodes, appends)
    other = outcome(base, other_nodes, ours.nodes, appends)
    if not found:
        assert not isinstance(one, Clash) and not isinstance(other, Clash), (ours.nodes, theirs.nodes)
        assert one == other
    else:
        assert isinstance(one, Clash) or isinstance(other, Clash) or one != other, (found, ours.nodes, theirs.nodes)
        assert not isinstance(one_gives_way(base, ours.nodes, theirs.nodes, found, appends), Clash)
        if all("ours" in conflict.answers for conflict in found):
            assert not isinstance(other_gives_way(base, ours.nodes, theirs.nodes, found, appends), Clash)
    return found


@pytest.mark.parametrize("nodes", BEGINNINGS[:3])
def test_every_two_small_changes(nodes: list[PlainNode]) -> None:
    made = count(1)
    base = begin(nodes, made, [(0, 0), (1, 0), (1, 1)])
    every, others = every_session(base, made), every_session(base, made)
    kinds = {conflict.kind for ours in every for theirs in others for conflict in check(base, ours, theirs)}
    assert kinds == {*KINDS} - {"read"} or len(nodes) == 1


@settings(max_examples=200, deadline=None)
@given(sides())
def test_without_a_conflict_the_order_does_not_matter(drawn: tuple[State, PlainSession, PlainSession]) -> None:
    for conflict in check(*drawn):
        event(conflict.kind)


@settings(max_examples=100, deadline=None)
@given(sides())
def test_conflicts_are_seen_from_both_sides(drawn: tuple[State, PlainSession, PlainSession]) -> None:
    base, ours, theirs = drawn
    for session in (ours, theirs):
        session.not_appended.update(session.nodes)  # swapped, the sides would have other appends
    assert bool(conflicts_of(base, ours, theirs)) == bool(conflicts_of(base, theirs, ours))


@given(sides())
def test_descriptions_of_path_conflicts(drawn: tuple[State, PlainSession, PlainSession]) -> None:
    base, ours, theirs = drawn
    found = conflicts_of(base, ours, theirs)
    kinds = list(KINDS)
    order = [(one.path, kinds.index(one.kind), one.chunks is not None) for one in found]
    assert order == sorted(set(order))
    for conflict in found:
        assert (conflict.ours, conflict.theirs) == (BEGAN, TIP)
        assert conflict.text and str(conflict).startswith(f"{conflict.path}: {conflict.text}")
        assert conflict.chunks is None or np.array_equal(conflict.chunks, np.unique(conflict.chunks, axis=0))
        was_there = ours.at(conflict.path) is not None
        if conflict.kind == "changed" and conflict.chunks is None:
            assert any(node.path == conflict.path and number not in ours.nodes for number, node in base.items())
        else:
            assert was_there
        assert conflict == pickle.loads(pickle.dumps(conflict)) and conflict != conflict._replace(path="/other")
    assert len({*found, *found}) == len(found)
