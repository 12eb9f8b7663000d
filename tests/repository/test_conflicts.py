"""Conflicts: each row of the table, solvers, and that changes without a conflict can be made in any order."""

from __future__ import annotations

from hypothesis import event, given, settings

from frazil.repository.conflicts import (
    Append,
    Conflict,
    append_of,
    find_conflicts,
)
from tests.repository.plain_history import (
    Clash,
    PlainSession,
    State,
    agree,
    apply,
    difference_of,
    sides,
    unified,
    without_appends,
)

BEGAN, TIP = b"b" * 12, b"t" * 12


def conflicts_of(base: State, ours: PlainSession, theirs: PlainSession) -> list[Conflict]:
    def agreed(kind: str, our_path: str, their_path: str) -> bool:
        our_node, their_node = ours.at(our_path), theirs.at(their_path)
        assert our_node is not None and their_node is not None
        assert kind in {"created", "metadata", "attributes"}
        return agree(kind, ours.nodes[our_node], theirs.nodes[their_node])

    return find_conflicts(
        difference_of(base, ours.nodes),
        difference_of(base, theirs.nodes),
        ours.appended(),
        None,
        BEGAN,
        TIP,
        agree=agreed,
    )


def common_appends(base: State, ours: PlainSession, theirs: PlainSession) -> dict[int, Append]:
    """Arrays to which both appended along one axis, and did nothing else to their metadata."""
    found = {}
    for number, was in base.items():
        if number in ours.nodes and number in theirs.nodes:
            our_node, their_node = ours.nodes[number], theirs.nodes[number]
            mine, other = ours.appended().get(our_node.path), append_of(was.shape, their_node.shape)
            metadata = {was.metadata, our_node.metadata, their_node.metadata}
            if mine is not None and other is not None and mine.axis == other.axis and len(metadata) == 1:
                found[number] = mine
    return found


def outcome(base: State, mine: State, onto: State, appends: dict[int, Append]) -> dict[str, object] | Clash:
    """What comes of it, by path, without what was appended."""
    try:
        state = apply(base, without_appends(base, mine, appends), onto)
    except Clash as clash:
        return clash
    shown = without_appends(base, state, appends)
    return {
        node.path: (node.is_array, node.attributes, node.metadata, node.shape, node.chunks) for node in shown.values()
    }


@settings(max_examples=600, deadline=None)
@given(sides())
def test_without_a_conflict_the_order_does_not_matter(drawn: tuple[State, PlainSession, PlainSession]) -> None:
    base, ours, theirs = drawn
    found = conflicts_of(base, ours, theirs)
    appends = common_appends(base, ours, theirs)
    other_nodes = unified(base, ours.nodes, theirs.nodes)
    one = outcome(base, ours.nodes, other_nodes, appends)
    other = outcome(base, other_nodes, ours.nodes, appends)
    for conflict in found:
        event(conflict.kind)
    if not found:
        assert not isinstance(one, Clash) and not isinstance(other, Clash)
        assert one == other
    else:  # and a conflict is told only where there is one
        assert isinstance(one, Clash) or isinstance(other, Clash) or one != other, found
