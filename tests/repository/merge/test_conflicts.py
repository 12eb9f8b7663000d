"""Conflicts: each row of the table, reads, and solvers."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repository.plain_history import (
    PATHS,
    PLAIN,
    PlainSession,
    State,
    columns,
    delta_of,
    sides,
)

from frazil.errors import ConflictError, InvalidInputError
from frazil.formats.nodes import ArrayData, NodeSnapshot
from frazil.repository.merge.conflicts import KINDS, Conflict, find_conflicts
from frazil.repository.merge.delta import Delta, Made, MetadataChange
from frazil.repository.merge.difference import ChunkDifference, Difference, Resize
from frazil.repository.merge.solvers import Answer, check_solver, solve
from frazil.repository.session.change_set import Append, append_of
from frazil.repository.session.read_log import Reads

BEGAN, TIP = b"b" * 12, b"t" * 12


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
    (REMOVED, ATTRIBUTES, ["changed /g", "changed /g/t"]),
    (REMOVED, METADATA, ["changed /g", "changed /g/t"]),
    (REMOVED, SHRUNK, ["changed /g", "changed /g/t"]),
    (REMOVED, W00, ["changed /g", "changed /g/t"]),
    (REMOVED, INSIDE, ["changed /g"]),
    (MOVED, REMOVED, ["deleted /h", "deleted /h/t"]),
    (MOVED, MOVED, []),
    (MOVED, ELSEWHERE, ["renamed /h", "renamed /h/t"]),
    (MOVED, INSIDE, ["parent /h", "parent /h/t"]),
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
    (SHRUNK, W10, ["changed /g/t [[1, 0]]"]),  # of its two rows one remains
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
    (ANEW, INSIDE, ["changed /g", "created /g"]),
    (ANEW, ANEW, ["created /g"]),
    (Difference(removed=("/g", "/g/t"), added=("/g/n",)), REMOVED, []),
    (Difference(renamed=(("/g/t", "/u"),), added=("/g/t",), chunks={"/g/t": chunks([(0, 0)])}), W00, []),
    (AN_ARRAY, A_GROUP, ["created /n"]),
    (AN_ARRAY, BENEATH, ["parent /n"]),
    (BENEATH, AN_ARRAY, ["parent /n/t"]),
    (BENEATH, A_GROUP, []),
    (A_GROUP, BENEATH, []),
    (A_GROUP, HERE, ["created /n"]),
    (HERE, A_GROUP, ["created /n", "parent /n/t"]),
    (HERE, HERE, []),
    (HERE, AN_ARRAY, ["created /n", "parent /n/t"]),
    (Difference(added=("/n", "/n/t")), AN_ARRAY, ["created /n", "parent /n/t"]),
    (
        Difference(renamed=(("/a", "/b/a"),)),
        Difference(renamed=(("/b", "/a/b"),)),
        ["parent /b/a"],
    ),
]  # fmt: skip


def delta(
    difference: Difference, side: int, appends: dict[str, Append] | None = None, reads: Reads | None = None
) -> Delta:
    """The content of a difference, as a delta: all values are those of one side."""
    sources = {new: old for old, new in difference.renamed}
    value = {"side": side}

    def made(path: str) -> Made:
        array = ArrayData(PLAIN) if path in difference.arrays else None
        return Made(NodeSnapshot(0, path, value, array), None, difference.chunks.get(path))

    metadata = {
        sources.get(path, path): MetadataChange(PLAIN._replace(fill_value=side)) for path in difference.metadata
    }
    for path, one in difference.resized.items():
        change = MetadataChange(PLAIN._replace(shape=one.new), one, (appends or {}).get(path))
        metadata[sources.get(path, path)] = change
    return Delta(
        removed={path: path in difference.arrays for path in difference.removed},
        moved=dict(difference.renamed),
        made={path: made(path) for path in difference.added},
        arrays=frozenset([sources.get(path, path) for path in difference.arrays if path not in difference.added]),
        attributes={sources.get(path, path): value for path in difference.attributes},
        metadata=metadata,
        chunks={
            sources.get(path, path): found for path, found in difference.chunks.items() if path not in difference.added
        },
        reads=reads,
    )


def meet(
    ours: Difference, theirs: Difference, appends: dict[str, Append] | None = None, reads: Reads | None = None
) -> list[Conflict]:
    return find_conflicts(delta(ours, 1, appends, reads), delta(theirs, 2), BEGAN, TIP)


def texts(found: list[Conflict]) -> list[str]:
    return sorted(f"{one.kind} {one.path}" + ("" if one.chunks is None else f" {one.chunks.tolist()}") for one in found)


@pytest.mark.parametrize(("ours", "theirs", "expected"), ROWS)
def test_the_table(ours: Difference, theirs: Difference, expected: list[str]) -> None:
    assert texts(meet(ours, theirs, APPEND)) == expected


def test_conflicts_that_ours_can_solve() -> None:
    def answers(ours: Difference, theirs: Difference) -> list[str]:
        found = meet(ours, theirs, APPEND)
        assert all("theirs" in one.answers for one in found)
        return [f"{one.kind} {one.path}" for one in found if "ours" in one.answers]

    every = [(ours, theirs) for ours, theirs, expected in ROWS if expected]
    for ours, theirs in every:
        for one in meet(ours, theirs, APPEND):
            if one.kind == "deleted" or (one.chunks is not None and one.kind in {"changed", "metadata"}):
                assert one.answers == {"theirs"}
            elif one.kind in {"chunks", "attributes", "metadata", "renamed"}:
                assert one.answers == {"ours", "theirs"}
    assert answers(REMOVED, INSIDE) == ["changed /g"]
    assert answers(REMOVED, Difference(renamed=(("/t", "/g/n"),))) == []  # which we did not move
    assert answers(REMOVED, W00) == ["changed /g", "changed /g/t"]
    assert answers(ANEW, INSIDE) == ["created /g", "changed /g"]
    assert answers(MOVED, INSIDE) == answers(INSIDE, REMOVED) == answers(BENEATH, AN_ARRAY) == []
    assert answers(AN_ARRAY, A_GROUP) == ["created /n"]
    assert answers(AN_ARRAY, HERE) == []
    assert answers(HERE, A_GROUP) == ["created /n", "parent /n/t"]
    assert answers(MOVED, ELSEWHERE) == ["renamed /h", "renamed /h/t"]


def test_an_append_is_what_the_session_says() -> None:
    assert texts(meet(GROWN, GROWN_MORE)) == ["metadata /g/t [[1, 0], [2, 0], [3, 0]]"]


def test_two_appends_leave_what_lies_before_them_to_be_compared() -> None:
    ours = resized("/t", (4, 2), (5, 2), (0, 0), (1, 0), (2, 0), (2, 1))
    theirs = resized("/t", (4, 2), (6, 2), (1, 0), (2, 0), (2, 1))
    assert texts(meet(ours, theirs, {"/t": Append(0, 4, 5)})) == ["chunks /t [[1, 0]]"]


def test_equal_results_are_no_conflict() -> None:
    def equal(ours: Difference, theirs: Difference) -> list[str]:
        return texts(find_conflicts(delta(ours, 1), delta(theirs, 1), BEGAN, TIP))

    both = Difference(attributes=("/x",), metadata=("/y",), added=("/n",), chunks={"/y": chunks([(0, 0)])})
    other = Difference(
        renamed=(("/x", "/z"),), attributes=("/z",), metadata=("/y",), added=("/n",), chunks={"/y": chunks([(0, 1)])}
    )
    assert equal(both, other) == []
    assert texts(meet(both, other)) == ["attributes /x", "created /n", "metadata /y [[0, 1]]"]
    # arrays are never the same, nor is a group that was renamed to a place and one that was created there
    assert equal(AN_ARRAY, AN_ARRAY) == ["created /n"]
    assert equal(HERE, A_GROUP) == ["created /n", "parent /n/t"]


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
def test_definition_of_an_append(old: tuple[int, ...], new: tuple[int, ...], expected: Append | None) -> None:
    assert append_of(old, new) == expected


# --- reads --------------------------------------------------------------------------------------------------------------------------------


def looked(base: State, ours: PlainSession, seen: list[int]) -> Reads:
    """A session that first looked at some paths, listed the groups there and read the first chunks of arrays; by its current names for them."""
    nodes, listed, read = set(), set(), {}
    for at in seen:
        path = PATHS[at % len(PATHS)]
        number = next((number for number, node in base.items() if node.path == path), None)
        name = path
        if number is not None:
            name = ours.nodes[number].path if number in ours.nodes else path
            if base[number].is_array and at % 2:
                read[path] = columns([(0, 0), (at % 3, 1)])
            if not base[number].is_array:
                listed.add(name)
        if at % 3:
            nodes.add(name)
        if not at % 4:
            listed.add("/")
    return Reads(frozenset(nodes), frozenset(listed), read)


def seen_in(base: State, state: State, ours: PlainSession, reads: Reads) -> list[object]:
    """What a session that reads the same sees in a state."""

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
    for path, read in sorted(reads.chunks.items()):
        number = next((number for number, node in base.items() if node.path == path), None)
        node = None if number is None else state.get(number)  # it was the same node, at any path
        found.append(None if node is None else [node.chunks.get(tuple(chunk)) for chunk in read.tolist()])
    return found


@settings(max_examples=200, deadline=None)
@given(sides(), st.lists(st.integers(0, 47), min_size=1, max_size=4))
def test_reads_are_the_same_if_no_conflict_is_found(
    drawn: tuple[State, PlainSession, PlainSession], seen: list[int]
) -> None:
    base, ours, theirs = drawn
    reads = looked(base, ours, seen)
    found = find_conflicts(delta_of(base, ours.nodes, None, reads), delta_of(base, theirs.nodes), BEGAN, TIP)
    if not found:
        assert seen_in(base, theirs.nodes, ours, reads) == seen_in(base, base, ours, reads)


def of_reads(theirs: Difference, reads: Reads, ours: Difference | None = None) -> list[str]:
    return texts(meet(ours or Difference(), theirs, None, reads))


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
    # by the names in the session
    renamed = Reads(frozenset({"/h/t"}), frozenset({"/h"}), {"/g/t": columns([(0, 0)])})
    assert of_reads(W00, renamed, MOVED) == ["read /h/t [[0, 0]]"]
    assert of_reads(Difference(removed=("/g/t",)), renamed, Difference(renamed=(("/g", "/h"),))) == [
        "read /g/t",
        "read /h",
    ]
    assert of_reads(ATTRIBUTES, renamed, MOVED) == ["read /h/t"]
    assert of_reads(INSIDE, Reads(listed=frozenset({"/h"})), MOVED) == ["parent /h", "parent /h/t", "read /h"]


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


def test_answers_that_a_solver_may_give() -> None:
    every = list(KINDS)
    for possible in ({"ours", "theirs"}, {"theirs"}, set()):
        one = conflict(every.pop())._replace(answers=frozenset(possible))
        for answer in ("ours", "theirs"):
            for solver in (answer, lambda _, choice=answer: choice):
                if answer in possible:
                    assert solve([one], solver) == [answer]
                else:
                    with pytest.raises(ConflictError, match=one.path):
                        solve([one], solver)


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
        ' Hint: make the change again from the newest state; or rebase="ours" or rebase="theirs" takes one side'
    )
    assert str(many[4]) == "/4: both changed the same chunks: (0, 0), (1, 0), (2, 0) and 2 more"
    again = pickle.loads(pickle.dumps(failure.value))
    assert list(again.conflicts) == many and str(again) == str(failure.value)
    with pytest.raises(ConflictError, match=r"^a conflict with what others .*: /t: both changed its attributes\. "):
        solve([conflict("attributes")], "disjoint")


@pytest.mark.parametrize("wrong", [None, "mine", "", 5, [], {}], ids=repr)
def test_invalid_solvers_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="solver"):
        check_solver(wrong)
    for known in ("disjoint", "ours", "theirs", len):
        check_solver(known)
