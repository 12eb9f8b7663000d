"""Conflicts: each row of the table, solvers, and that changes without a conflict can be made in any order."""

from __future__ import annotations

import pickle
from itertools import count

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from frazil.errors import ConflictError, InvalidInputError
from frazil.repository.conflicts import (
    KINDS,
    Answer,
    Append,
    Conflict,
    Reads,
    append_of,
    check_solver,
    find_conflicts,
    solve,
)
from frazil.repository.difference import ChunkDifference, Difference, Resize
from tests.repository.plain_history import (
    BEGINNINGS,
    PATHS,
    Clash,
    PlainNode,
    PlainSession,
    State,
    agree,
    apply,
    begin,
    columns,
    difference_of,
    every_session,
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


# --- any two changes ----------------------------------------------------------------------------------------------------------------


def check(base: State, ours: PlainSession, theirs: PlainSession) -> list[Conflict]:
    """Without a conflict both orders have one outcome; and a conflict is told only where they have not."""
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
        session.not_appended.update(session.nodes)  # which of them appends is no longer the same question
    assert bool(conflicts_of(base, ours, theirs)) == bool(conflicts_of(base, theirs, ours))


@given(sides())
def test_what_conflicts_say(drawn: tuple[State, PlainSession, PlainSession]) -> None:
    base, ours, theirs = drawn
    found = conflicts_of(base, ours, theirs)
    kinds = list(KINDS)
    assert [(one.path, kinds.index(one.kind)) for one in found] == sorted(
        {(one.path, kinds.index(one.kind)) for one in found}
    )
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


# --- each row of the table --------------------------------------------------------------------------------------------------------------


def chunks(written: list[tuple[int, int]], removed: list[tuple[int, int]] | None = None) -> ChunkDifference:
    return ChunkDifference(columns(written), columns(removed or []))


def written(path: str, *some: tuple[int, int]) -> Difference:
    return Difference(chunks={path: chunks(list(some))})


def resized(path: str, old: tuple[int, int], new: tuple[int, int], *some: tuple[int, int]) -> Difference:
    """With chunks of 2 x 1 elements."""
    return Difference(resized={path: Resize(old, new, (2, 1))}, chunks={path: chunks(list(some))} if some else {})


REMOVED = Difference(removed=("/g", "/g/t"), arrays=frozenset({"/g/t"}))
MOVED = Difference(renamed=(("/g", "/h"), ("/g/t", "/h/t")), arrays=frozenset({"/h/t"}))
ELSEWHERE = Difference(renamed=(("/g", "/k"), ("/g/t", "/k/t")), arrays=frozenset({"/k/t"}))
METADATA = Difference(metadata=("/g/t",), arrays=frozenset({"/g/t"}))
ATTRIBUTES = Difference(attributes=("/g/t",), arrays=frozenset({"/g/t"}))
INSIDE = Difference(added=("/g/n",))
ANEW = Difference(added=("/g",), removed=("/g", "/g/t"))
AN_ARRAY = Difference(added=("/n",), arrays=frozenset({"/n"}))
A_GROUP = Difference(added=("/n",))
BENEATH = Difference(added=("/n/t",), arrays=frozenset({"/n/t"}))
HERE = Difference(renamed=(("/g", "/n"), ("/g/t", "/n/t")), arrays=frozenset({"/n/t"}))
W00, W10, W20 = (written("/g/t", (at, 0)) for at in range(3))
R00 = Difference(chunks={"/g/t": chunks([], [(0, 0)])})
SHRUNK, SHRUNK_MORE = resized("/g/t", (6, 2), (3, 2)), resized("/g/t", (6, 2), (1, 2))
GROWN = resized("/g/t", (3, 2), (5, 2), (1, 0), (2, 0))
GROWN_MORE = resized("/g/t", (3, 2), (9, 2), (1, 0), (2, 0), (3, 0))
APPEND = {"/g/t": Append(0, 3, 5)}

ROWS = [
    (REMOVED, REMOVED, []),
    (REMOVED, MOVED, ["changed /g", "changed /g/t"]),
    (REMOVED, ATTRIBUTES, ["changed /g/t"]),
    (REMOVED, METADATA, ["changed /g/t"]),
    (REMOVED, SHRUNK, ["changed /g/t"]),
    (REMOVED, W00, ["changed /g/t"]),
    (REMOVED, INSIDE, ["changed /g"]),
    (MOVED, REMOVED, ["deleted /h", "deleted /h/t"]),
    (MOVED, MOVED, []),
    (MOVED, ELSEWHERE, ["renamed /h", "renamed /h/t"]),
    (MOVED, INSIDE, ["renamed /h"]),
    (MOVED, Difference(attributes=("/g", "/g/t"), metadata=("/g/t",)), []),
    (MOVED, W00, []),
    (W00, MOVED, []),
    (Difference(renamed=(("/g/t", "/t"),), chunks={"/t": chunks([(0, 0)])}), W00, ["chunks /t [[0, 0]]"]),
    (W00, Difference(renamed=(("/g/t", "/t"),), chunks={"/t": chunks([(0, 0)])}), ["chunks /g/t [[0, 0]]"]),
    (ATTRIBUTES, REMOVED, ["deleted /g/t"]),
    (ATTRIBUTES, METADATA, []),
    (ATTRIBUTES, SHRUNK, []),
    (ATTRIBUTES, W00, []),
    (ATTRIBUTES, ATTRIBUTES, ["attributes /g/t"]),
    (METADATA, REMOVED, ["deleted /g/t"]),
    (METADATA, METADATA, ["metadata /g/t"]),
    (METADATA, SHRUNK, ["metadata /g/t"]),
    (METADATA, GROWN, ["metadata /g/t [[1, 0], [2, 0]]"]),
    (METADATA, W00, ["metadata /g/t [[0, 0]]"]),
    (METADATA, R00, ["metadata /g/t [[0, 0]]"]),
    (SHRUNK, REMOVED, ["deleted /g/t"]),
    (SHRUNK, SHRUNK, []),
    (SHRUNK, SHRUNK_MORE, ["metadata /g/t"]),
    (SHRUNK, METADATA, ["metadata /g/t"]),
    (SHRUNK, W00, []),
    (SHRUNK, W10, ["changed /g/t [[1, 0]]"]),  # of its two rows one is left
    (SHRUNK, W20, ["changed /g/t [[2, 0]]"]),
    (SHRUNK, R00, []),
    (GROWN, W00, []),
    (GROWN, W10, ["chunks /g/t [[1, 0]]"]),
    (GROWN, GROWN_MORE, []),
    (GROWN, resized("/g/t", (3, 2), (3, 4)), ["metadata /g/t"]),
    (GROWN, resized("/g/t", (3, 2), (5, 4), (2, 0)), ["metadata /g/t [[2, 0]]"]),
    (GROWN, resized("/g/t", (3, 2), (2, 2)), ["metadata /g/t"]),
    (W00, REMOVED, ["deleted /g/t"]),
    (W00, METADATA, ["metadata /g/t [[0, 0]]"]),
    (W00, SHRUNK, []),
    (W10, SHRUNK, ["deleted /g/t [[1, 0]]"]),
    (W20, SHRUNK, ["deleted /g/t [[2, 0]]"]),
    (W10, resized("/g/t", (6, 2), (3, 2), (1, 0)), ["deleted /g/t [[1, 0]]"]),
    (W00, W00, ["chunks /g/t [[0, 0]]"]),
    (W00, W10, []),
    (W00, R00, ["chunks /g/t [[0, 0]]"]),
    (R00, W00, ["chunks /g/t [[0, 0]]"]),
    (R00, R00, []),
    (R00, SHRUNK_MORE, []),
    (INSIDE, REMOVED, ["parent /g/n"]),
    (INSIDE, MOVED, ["parent /g/n"]),
    (INSIDE, INSIDE, ["created /g/n"]),
    (INSIDE, ANEW, ["parent /g/n"]),
    (ANEW, INSIDE, ["changed /g"]),
    (ANEW, ANEW, ["created /g"]),
    (Difference(removed=("/g", "/g/t"), added=("/g/n",)), REMOVED, []),
    (Difference(renamed=(("/g/t", "/u"),), added=("/g/t",), chunks={"/g/t": chunks([(0, 0)])}), W00, []),
    (AN_ARRAY, A_GROUP, ["created /n"]),
    (AN_ARRAY, BENEATH, ["parent /n"]),
    (BENEATH, AN_ARRAY, ["parent /n/t"]),
    (BENEATH, A_GROUP, []),
    (A_GROUP, BENEATH, []),
    (A_GROUP, HERE, ["created /n"]),
    (HERE, A_GROUP, ["created /n"]),
    (HERE, HERE, []),
    (HERE, AN_ARRAY, ["created /n", "parent /n/t"]),
    (Difference(added=("/n", "/n/t")), AN_ARRAY, ["created /n", "parent /n/t"]),
    (
        Difference(renamed=(("/a", "/b/a"),)),
        Difference(renamed=(("/b", "/a/b"),)),
        ["parent /b/a", "renamed /b/a"],
    ),
]  # fmt: skip


def told(found: list[Conflict]) -> list[str]:
    return sorted(f"{one.kind} {one.path}" + ("" if one.chunks is None else f" {one.chunks.tolist()}") for one in found)


@pytest.mark.parametrize(("ours", "theirs", "expected"), ROWS)
def test_the_table(ours: Difference, theirs: Difference, expected: list[str]) -> None:
    assert told(find_conflicts(ours, theirs, APPEND, None, BEGAN, TIP)) == expected


def test_an_append_is_what_the_session_says() -> None:
    assert told(find_conflicts(GROWN, GROWN_MORE, {}, None, BEGAN, TIP)) == ["metadata /g/t [[1, 0], [2, 0], [3, 0]]"]
    other = {"/g/t": Append(0, 3, 4)}  # not what the shapes say
    assert told(find_conflicts(GROWN, GROWN_MORE, other, None, BEGAN, TIP)) != []


def test_two_appends_leave_what_lies_before_them_to_be_compared() -> None:
    ours = resized("/t", (4, 2), (5, 2), (0, 0), (1, 0), (2, 0), (2, 1))
    theirs = resized("/t", (4, 2), (6, 2), (1, 0), (2, 0), (2, 1))
    assert told(find_conflicts(ours, theirs, {"/t": Append(0, 4, 5)}, None, BEGAN, TIP)) == ["chunks /t [[1, 0]]"]


def test_equal_results_are_no_conflict() -> None:
    asked = []

    def agreed(kind: str, ours: str, theirs: str) -> bool:
        asked.append((kind, ours, theirs))
        return True

    both = Difference(attributes=("/x",), metadata=("/y",), added=("/n",), chunks={"/y": chunks([(0, 0)])})
    other = Difference(
        renamed=(("/x", "/z"),), attributes=("/z",), metadata=("/y",), added=("/n",), chunks={"/y": chunks([(0, 1)])}
    )
    assert find_conflicts(both, other, {}, None, BEGAN, TIP, agree=agreed) == []
    assert sorted(asked) == [("attributes", "/x", "/z"), ("created", "/n", "/n"), ("metadata", "/y", "/y")]
    # arrays are never the same, nor is a group that was renamed to a place and one that was made there
    assert told(find_conflicts(AN_ARRAY, AN_ARRAY, {}, None, BEGAN, TIP, agree=agreed)) == ["created /n"]
    assert told(find_conflicts(HERE, A_GROUP, {}, None, BEGAN, TIP, agree=agreed)) == ["created /n"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((3, 2), (5, 2), Append(0, 3, 5)),
        ((3, 2), (3, 4), Append(1, 2, 4)),
        ((3, 2), (5, 4), None),
        ((3, 2), (2, 2), None),
        ((3, 2), (3, 2), None),
        ((3,), (3, 2), None),
        ((), (), None),
    ],
)
def test_what_an_append_is(old: tuple[int, ...], new: tuple[int, ...], expected: Append | None) -> None:
    assert append_of(old, new) == expected


# --- what was read ------------------------------------------------------------------------------------------------------------------------


def looked(base: State, ours: PlainSession, seen: list[int]) -> Reads:
    """A session that looked at some paths at its beginning, listed the groups there and read the first chunks of arrays; by the names that it has for them now."""
    nodes, listed, read = set(), set(), {}
    for at in seen:
        path = PATHS[at % len(PATHS)]
        number = next((number for number, node in base.items() if node.path == path), None)
        name = path
        if number is not None:
            name = ours.nodes[number].path if number in ours.nodes else path
            if base[number].is_array and at % 2:
                read[name] = columns([(0, 0), (at % 3, 1)])
            if not base[number].is_array:
                listed.add(name)
        if at % 3:
            nodes.add(name)
        if not at % 4:
            listed.add("/")
    return Reads(frozenset(nodes), frozenset(listed), read)


def seen_in(base: State, state: State, ours: PlainSession, reads: Reads) -> list[object]:
    """What a session that looks for the same sees in a state."""

    def before(name: str) -> str:
        number = next((number for number, node in ours.nodes.items() if node.path == name and number in base), None)
        return name if number is None else base[number].path

    by_path = {node.path: (number, node) for number, node in state.items()}
    found: list[object] = []
    for name in sorted(reads.nodes):
        number, node = by_path.get(before(name), (None, None))
        found.append(None if node is None else (number, node.attributes, node.metadata, node.shape))
    for name in sorted(reads.listed):
        path = "" if name == "/" else before(name)
        inside = [other for other in by_path if other.rpartition("/")[0] == path]
        found.append(sorted((other, by_path[other][0]) for other in inside))
    for name, read in sorted(reads.chunks.items()):
        _, node = by_path.get(before(name), (None, None))
        if node is not None:  # of one that was renamed, its chunks were read nonetheless
            found.append([node.chunks.get(tuple(chunk)) for chunk in read.tolist()])
    return found


@settings(max_examples=200, deadline=None)
@given(sides(), st.lists(st.integers(0, 47), min_size=1, max_size=4))
def test_what_was_read_has_not_changed_where_none_is_told(
    drawn: tuple[State, PlainSession, PlainSession], seen: list[int]
) -> None:
    base, ours, theirs = drawn
    reads = looked(base, ours, seen)
    found = find_conflicts(
        difference_of(base, ours.nodes), difference_of(base, theirs.nodes), {}, reads, BEGAN, TIP, agree=lambda *_: True
    )
    if not found:
        assert seen_in(base, theirs.nodes, ours, reads) == seen_in(base, base, ours, reads)


def of_reads(theirs: Difference, reads: Reads, ours: Difference | None = None) -> list[str]:
    return told(find_conflicts(ours or Difference(), theirs, {}, reads, BEGAN, TIP))


def test_reads() -> None:
    node, group, root = Reads(frozenset({"/g/t"})), Reads(listed=frozenset({"/g"})), Reads(listed=frozenset({"/"}))
    read = Reads(chunks={"/g/t": columns([(0, 0), (2, 0)])})
    for theirs in (REMOVED, MOVED, METADATA, ATTRIBUTES, SHRUNK):
        assert of_reads(theirs, node) == ["read /g/t"]
    assert of_reads(W00, node) == of_reads(INSIDE, node) == []
    assert of_reads(Difference(added=("/g/t",)), node) == ["read /g/t"]
    assert of_reads(INSIDE, group) == ["read /g"]
    assert of_reads(Difference(renamed=(("/g/t", "/g/u"),)), group) == ["read /g"]
    assert of_reads(Difference(renamed=(("/g/t", "/t"),)), group) == ["read /g"]
    assert of_reads(ATTRIBUTES, group) == of_reads(W00, group) == of_reads(A_GROUP, group) == []
    assert of_reads(A_GROUP, root) == of_reads(MOVED, root) == ["read /"]
    assert of_reads(INSIDE, root) == []
    assert of_reads(W00, read) == of_reads(R00, read) == ["read /g/t [[0, 0]]"]
    assert of_reads(SHRUNK, read) == ["read /g/t [[2, 0]]"]
    assert of_reads(W10, read) == of_reads(GROWN_MORE, Reads(chunks={"/g/t": columns([(0, 0)])})) == []
    assert of_reads(METADATA, read) == of_reads(REMOVED, read) == ["read /g/t"]
    # by the names that the session has
    renamed = Reads(frozenset({"/h/t"}), frozenset({"/h"}), {"/h/t": columns([(0, 0)])})
    assert of_reads(W00, renamed, MOVED) == ["read /h/t [[0, 0]]"]
    assert of_reads(Difference(removed=("/g/t",)), renamed, Difference(renamed=(("/g", "/h"),))) == ["read /h"]
    assert of_reads(ATTRIBUTES, renamed, MOVED) == ["read /h/t"]
    assert of_reads(INSIDE, Reads(listed=frozenset({"/h"})), MOVED) == ["read /h", "renamed /h"]


# --- solvers --------------------------------------------------------------------------------------------------------------------------------


def conflict(kind: str, path: str = "/t", *some: tuple[int, int]) -> Conflict:
    return Conflict(kind, path, columns(list(some)) if some else None, BEGAN, TIP)


def test_named_solvers() -> None:
    found = [conflict("chunks", "/t", (0, 0)), conflict("attributes")]
    assert solve(found, "ours") == ["ours", "ours"]
    assert solve(found, "theirs") == ["theirs", "theirs"]
    assert solve([], "disjoint") == []
    with pytest.raises(ConflictError) as failure:
        solve(found, "disjoint")
    assert list(failure.value.conflicts) == found
    with pytest.raises(InvalidInputError, match=r'no solver .best.*"disjoint", "ours", "theirs"'):
        solve(found, "best")


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_answered(kind: str) -> None:
    for one in (conflict(kind), conflict(kind, "/t", (0, 0))):
        for answer in ("ours", "theirs"):
            if answer in one.answers:
                assert solve([one], answer) == solve([one], lambda _, said=answer: said) == [answer]  # type: ignore[misc]
            else:
                for solver in (answer, lambda _, said=answer: said):
                    with pytest.raises(ConflictError, match=one.path):
                        solve([one], solver)
    assert conflict("metadata", "/t", (0, 0)).answers == conflict("changed", "/t", (0, 0)).answers == {"theirs"}
    assert conflict("read").answers == set()
    assert conflict("parent").answers == conflict("deleted").answers == {"theirs"}


def test_a_function_as_a_solver() -> None:
    found = [conflict("chunks", "/a", (0, 0)), conflict("attributes", "/b"), conflict("metadata", "/c")]
    answers: dict[str, Answer] = {"chunks": "ours", "attributes": "theirs", "metadata": "fail"}
    with pytest.raises(ConflictError) as failure:
        solve(found, lambda one: answers[one.kind])
    assert list(failure.value.conflicts) == found[2:]
    assert solve(found[:2], lambda one: answers[one.kind]) == ["ours", "theirs"]
    with pytest.raises(InvalidInputError, match="not 'mine'"):
        solve(found, lambda _: "mine")  # type: ignore[arg-type, return-value]


def test_the_error_names_the_first_few() -> None:
    many = [conflict("chunks", f"/{at}", *[(row, 0) for row in range(at + 1)]) for at in range(5)]
    with pytest.raises(ConflictError) as failure:
        solve(many, "disjoint")
    assert str(failure.value) == (
        "5 conflicts with what others have committed since: /0: both changed the same chunks: (0, 0);"
        " /1: both changed the same chunks: (0, 0), (1, 0); /2: both changed the same chunks: (0, 0), (1, 0), (2, 0); and 2 more."
        " Hint: make the change again from the newest state, or rebase with a solver"
    )
    assert str(many[4]) == "/4: both changed the same chunks: (0, 0), (1, 0), (2, 0) and 2 more"
    again = pickle.loads(pickle.dumps(failure.value))
    assert list(again.conflicts) == many and str(again) == str(failure.value)
    with pytest.raises(ConflictError, match=r"^a conflict with what others .*: /t: both changed its attributes\. "):
        solve([conflict("attributes")], "disjoint")


@pytest.mark.parametrize("wrong", [None, "mine", "", 5, [], {}], ids=repr)
def test_what_is_no_solver(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="solver"):
        check_solver(wrong)
    for known in ("disjoint", "ours", "theirs", len):
        check_solver(known)
