"""Application of deltas: random changes of two sides against a plain model, with every solver; refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from tests.repository.plain_history import (
    CHUNK,
    PlainNode,
    PlainSession,
    State,
    as_node,
    columns,
    delta_of,
    sides,
)
from tests.repository.plain_merge import (
    Outcome,
    common_appends,
    one_gives_way,
    other_gives_way,
    outcome,
    shown,
    unified,
)

from frazil.errors import ConflictError
from frazil.formats.nodes import Nodes, NodeSnapshot
from frazil.repository.merge.apply import apply
from frazil.repository.merge.conflicts import find_conflicts
from frazil.repository.merge.delta import Delta, Made, MetadataChange
from frazil.repository.merge.difference import ChunkDifference
from frazil.repository.merge.solvers import answered
from frazil.repository.session.change_set import ChangeSet
from frazil.repository.session.changed_references import NATIVE, REMOVED, SHARED, ChangedReferences, Rows

BEGAN, TIP = b"b" * 12, b"t" * 12


def rows_of(node: PlainNode, chunks: ChunkDifference | None) -> Rows | None:
    """References to chunk files that are named after the numbers of the chunks."""
    if chunks is None:
        return None
    written, removed = [tuple(chunk) for chunk in chunks.written.tolist()], chunks.removed
    ids = b"".join([node.chunks[chunk].number.to_bytes(12, "big") for chunk in written]) + bytes(12 * len(removed))
    count = len(written) + len(removed)
    zeros = np.zeros(count, np.int64)
    kinds = np.array([NATIVE] * len(written) + [REMOVED] * len(removed), np.uint8)
    coordinates = np.concatenate([columns(written), removed])
    return Rows(
        coordinates, kinds, np.frombuffer(ids, np.uint8).reshape(count, 12), np.full(count, SHARED), zeros, zeros
    )


def with_rows(delta: Delta, base: State, session: PlainSession) -> Delta:
    now = {base[number].path: node for number, node in session.nodes.items() if number in base}
    rows = {path: found for path, chunks in delta.chunks.items() if (found := rows_of(now[path], chunks)) is not None}
    made = {}
    for path, one in delta.made.items():
        number = session.at(path)
        assert number is not None
        made[path] = Made(one.node, number, one.chunks, rows_of(session.nodes[number], one.chunks))
    return delta._replace(rows=rows, made=made)


def state_of(tree: ChangeSet, keys: dict[int, int], theirs: State, ours: PlainSession) -> State:
    """The tree as plain values, by numbers. keys: of nodes of theirs, by number"""
    numbers = {key: number for number, key in keys.items()}
    stored = {one.number: one for node in ours.nodes.values() for one in node.chunks.values()}
    state: State = {}
    for path in tree.at_and_below("/"):
        node, key = tree.get(path), tree.key_at(path)
        assert isinstance(node, NodeSnapshot) and key is not None
        number = numbers.get(key, key)
        chunks = dict(theirs[number].chunks) if number in theirs else {}
        change = tree.nodes.get(key)
        references = ChangedReferences(2) if change is None or change.references is None else change.references
        rows = references.selected(references.current())
        for chunk, kind, identity in zip(map(tuple, rows.coordinates.tolist()), rows.kinds, rows.ids, strict=True):
            if kind == REMOVED:
                chunks.pop(chunk, None)
            else:
                chunks[chunk] = stored[int.from_bytes(identity.tobytes(), "big")]
        value = node.attributes["value"] if node.attributes else 0  # type: ignore[call-overload, index]
        plain = PlainNode(path, None, node.array is not None, value, chunks=chunks)
        if node.array is not None:
            metadata = node.array.metadata
            plain = replace(plain, metadata=metadata.fill_value, shape=metadata.shape)
        state[number] = plain
    return state


def applied(base: State, ours: PlainSession, theirs: PlainSession, solver: str) -> State:
    """The rest of our changes if all conflicts are answered in this way."""
    mine, other = with_rows(delta_of(base, ours.nodes, ours.appended()), base, ours), delta_of(base, theirs.nodes)
    found = find_conflicts(mine, other, BEGAN, TIP)
    left, over = answered(mine, other, found, [solver] * len(found))  # type: ignore[list-item]
    tree = ChangeSet(Nodes({node.path: as_node(number, node) for number, node in theirs.nodes.items()}))
    keys = {number: tree.keys.of(node.path) for number, node in theirs.nodes.items()}
    numbers = {node.path: number for number, node in base.items()}
    source = ChangeSet(Nodes())
    source.pending = tree.pending
    apply(left, tree, source, lambda path: keys.get(numbers[path]), over=over)
    return state_of(tree, keys, theirs.nodes, ours)


@settings(max_examples=300, deadline=None)
@given(sides())
def test_random_changes_with_every_solver(drawn: tuple[State, PlainSession, PlainSession]) -> None:
    base, ours, theirs = drawn
    mine, other = delta_of(base, ours.nodes, ours.appended()), delta_of(base, theirs.nodes)
    found = find_conflicts(mine, other, BEGAN, TIP)
    appends = common_appends(base, ours, theirs)
    expected: dict[str, Outcome] = {}
    if not found:
        both = outcome(base, ours.nodes, unified(base, ours.nodes, theirs.nodes), appends)
        expected = {"theirs": both, "ours": both}
    else:
        expected["theirs"] = one_gives_way(base, ours.nodes, theirs.nodes, found, appends)
        if all("ours" in conflict.answers for conflict in found):
            expected["ours"] = other_gives_way(base, ours.nodes, theirs.nodes, found, appends)
    for solver, result in expected.items():
        state = applied(base, ours, theirs, solver)
        event(f"{solver}, {'solved' if found else 'without conflicts'}")
        # of which our append counts
        left = {at: one for at, one in appends.items() if at in state and state[at].shape != theirs.nodes[at].shape}
        assert shown(base, state, left) == result, (solver, found)


# --- refusals -----------------------------------------------------------------------------------------------------------------------------


def tree_of(*paths: str) -> ChangeSet:
    """Groups, and arrays at paths that end with a number."""
    nodes = [PlainNode(path, None, path[-1].isdigit(), shape=(4, 2)) for path in paths]
    return ChangeSet(Nodes({node.path: as_node(number, node) for number, node in enumerate(nodes, 1)}))


def made(*paths: str) -> dict[str, Made]:
    return {
        path: Made(as_node(0, PlainNode(path, None, path[-1].isdigit(), shape=(4, 2))), at + 1)
        for at, path in enumerate(paths)
    }


def attempt(tree: ChangeSet, delta: Delta, over: frozenset[str] = frozenset()) -> list[str]:
    apply(delta, tree, tree, tree.key_at, over=over)
    return tree.at_and_below("/")


@pytest.mark.parametrize(
    ("delta", "reason"),
    [
        (Delta(attributes={"/x": {"a": 1}}), "/x would be changed, but was removed"),
        (Delta(made=made("/g/1")), "/g/1 would be at the path of another node"),
        (Delta(moved={"/h": "/g"}), "/g would be at the path of another node"),
        (Delta(made=made("/n/1")), "/n/1 would have no group above it"),
        (Delta(made=made("/g/1/2")), "/g/1/2 would have no group above it"),
        (Delta(removed={"/g": False}), "/g/1 would have no group above it"),
        (Delta(moved={"/g": "/k"}), "/g/1 would have no group above it"),
        (Delta(moved={"/g/1": "/g/2", "/g": "/k"}), "/g/2 would have no group above it"),
        (Delta(metadata={"/g/1": MetadataChange(None)}), "/g/1 would get metadata that cannot be read"),
    ],
    ids=str,
)
def test_deltas_that_do_not_fit_the_tree_are_refused(delta: Delta, reason: str) -> None:
    with pytest.raises(ConflictError, match=reason):
        attempt(tree_of("/g", "/g/1", "/h"), delta)


def test_a_replaced_group_does_not_take_a_changed_node_along() -> None:
    delta = Delta(made=made("/g/1"), attributes={"/g/1/h": {"a": 1}})
    with pytest.raises(ConflictError, match="is below a node that is replaced"):
        attempt(tree_of("/g", "/g/1", "/g/1/h"), delta, frozenset({"/g/1"}))


def test_rows_beyond_the_end_are_refused() -> None:
    rows = rows_of(PlainNode("/1", None, True), ChunkDifference(columns([]), columns([])))
    assert rows is not None
    beyond = rows._replace(
        coordinates=columns([(2, 0)]),
        kinds=np.array([NATIVE], np.uint8),
        ids=np.zeros((1, 12), np.uint8),
        objects=np.zeros(1, np.int64),
        offsets=np.zeros(1, np.int64),
        lengths=np.zeros(1, np.int64),
    )
    delta = Delta(chunks={"/1": ChunkDifference(beyond.coordinates, columns([]))}, rows={"/1": beyond})
    with pytest.raises(ConflictError, match="beyond its end"):
        attempt(tree_of("/1"), delta)
    assert CHUNK == (2, 1)


def test_chains_and_swaps_need_no_order() -> None:
    tree = tree_of("/a", "/a/1", "/b", "/b/2", "/c")
    keys = {path: tree.key_at(path) for path in tree.at_and_below("/")}
    moved = {"/a": "/b", "/a/1": "/b/1", "/b": "/c", "/b/2": "/c/2", "/c": "/a"}
    assert attempt(tree, Delta(moved=moved)) == ["/a", "/b", "/b/1", "/c", "/c/2"]
    assert {moved[path]: key for path, key in keys.items()} == {path: tree.key_at(path) for path in moved.values()}
