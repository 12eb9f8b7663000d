"""Applies two sets of changes one after another, and gives way in conflicts, on the plain values of plain_history.py."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from frazil.repository.merge.conflicts import Conflict
from frazil.repository.session.change_set import Append, append_of
from tests.repository.plain_history import CHUNK, Clash, PlainNode, PlainSession, State, agree, reaches_out

Outcome: TypeAlias = "dict[str, object] | Clash"


def apply(base: State, mine: State, onto: State) -> State:
    """Applies one side's changes to the other's state. Raises Clash if that state differs from both the base and the result, or if the outcome is not a
    hierarchy."""
    result = dict(onto)
    for number, was in base.items():
        if number in mine:
            if was != mine[number]:
                result[number] = _merged(was, mine[number], onto.get(number))
        elif number in onto:
            if onto[number] != was:
                raise Clash(f"{was.path}: removed here, changed there")
            del result[number]
    result |= {number: node for number, node in mine.items() if number not in base}
    _check(base, mine, onto, result)
    return result


def unified(base: State, ours: State, theirs: State) -> State:
    """Their changes, with our numbers for equal groups that both created at one path."""
    made = {node.path: (number, node) for number, node in ours.items() if number not in base}
    same: dict[int | None, int] = {}
    for number, node in theirs.items():
        if number not in base and node.path in made:
            twin, other = made[node.path]
            if not node.is_array and not other.is_array and agree(node, other):
                same[number] = twin
    return {
        same.get(number, number): replace(node, parent=same.get(node.parent, node.parent))
        for number, node in theirs.items()
    }


def _merged(was: PlainNode, mine: PlainNode, there: PlainNode | None) -> PlainNode:
    if there is None:
        raise Clash(f"{was.path}: changed here, removed there")
    fields: dict[str, object] = {}
    for names in (("path",), ("parent",), ("attributes",), ("metadata", "shape")):
        before, ours, found = ([getattr(node, name) for name in names] for node in (was, mine, there))
        if before != ours:
            if found not in (before, ours):
                raise Clash(f"{was.path}: both changed {names}")
            fields |= zip(names, ours, strict=True)
    chunks = dict(there.chunks)
    for chunk in {*was.chunks, *mine.chunks}:
        if was.chunks.get(chunk) != mine.chunks.get(chunk):
            if there.chunks.get(chunk) not in (was.chunks.get(chunk), mine.chunks.get(chunk)):
                raise Clash(f"{was.path}: both changed {chunk}")
            if chunk in mine.chunks:
                chunks[chunk] = mine.chunks[chunk]
            else:
                chunks.pop(chunk, None)
    return replace(there, **fields, chunks=chunks)  # type: ignore[arg-type]


def _check(base: State, mine: State, onto: State, result: State) -> None:
    paths = [node.path for node in result.values()]
    if len(set(paths)) < len(paths):
        raise Clash("two nodes of one path")
    for number, node in result.items():
        parent = node.path.rpartition("/")[0]
        above = result.get(node.parent or 0)
        if parent and (above is None or above.is_array or above.path != parent):
            raise Clash(f"{node.path}: not in the group that it was made in")
        for chunk, stored in node.chunks.items():
            if reaches_out(chunk, stored, node.shape):
                raise Clash(f"{node.path}: {chunk} reaches beyond the end")
        if number in base and number in mine and number in onto:
            # chunks that one side changed are encoded with its metadata
            for one, other in ((mine, onto), (onto, mine)):
                kept = {base[number].metadata, one[number].metadata}
                if one[number].chunks != base[number].chunks and other[number].metadata not in kept:
                    raise Clash(f"{node.path}: chunks that were encoded otherwise")


def without_appends(base: State, mine: State, numbers: dict[int, Append]) -> State:
    """Without the rows appended to some arrays, and the chunks at the old end."""
    result = dict(mine)
    for number, (axis, old, _) in numbers.items():
        first, was = old // CHUNK[axis], base[number]
        chunks = {chunk: stored for chunk, stored in mine[number].chunks.items() if chunk[axis] < first}
        chunks |= {chunk: stored for chunk, stored in was.chunks.items() if chunk[axis] >= first}
        result[number] = replace(mine[number], shape=was.shape, chunks=chunks)
    return result


def given_up(base: State, mine: State, theirs: State, conflicts: list[Conflict]) -> State:
    """The rest of one side's changes if all conflicts are answered with "theirs"."""
    result = dict(mine)
    number_at = {node.path: number for number, node in mine.items()}
    for kind, path, chunks, *_ in conflicts:
        if kind == "changed" and chunks is None:
            number = next(number for number, node in base.items() if node.path == path and number not in mine)
            result[number] = base[number]
            continue
        number = number_at[path]
        if number not in base:  # created or parent
            result.pop(number, None)
            continue
        was, now = base[number], result.get(number)
        if kind == "deleted" and chunks is None:
            result.pop(number, None)
        elif now is None:
            pass  # already given up
        elif kind in {"created", "parent", "renamed"}:
            result[number] = replace(now, path=was.path, parent=was.parent)
        elif kind == "attributes":
            result[number] = replace(now, attributes=was.attributes)
        elif kind in {"chunks", "deleted"} and chunks is not None:
            given = {(row, column) for row, column in chunks.tolist()}
            kept = {chunk: stored for chunk, stored in now.chunks.items() if chunk not in given}
            kept |= {chunk: stored for chunk, stored in was.chunks.items() if chunk in given}
            result[number] = replace(now, chunks=kept)
        else:  # metadata, or chunks that were cut off
            result[number] = replace(now, metadata=was.metadata, shape=was.shape, chunks=was.chunks)
    # the content of a group of ours that was given up is in theirs
    twins = {
        number: next((other for other, there in theirs.items() if there.path == node.path), None)
        for number, node in mine.items()
        if number not in base and number not in result
    }
    return {number: replace(node, parent=twins.get(node.parent or 0, node.parent)) for number, node in result.items()}


def overruled(base: State, mine: State, theirs: State, conflicts: list[Conflict]) -> State:
    """The rest of their changes if all conflicts are answered with "ours"."""
    result = dict(theirs)
    number_at = {node.path: number for number, node in mine.items()}
    their_number_at = {node.path: number for number, node in theirs.items()}

    def drop_new(path: str) -> None:
        for number, node in theirs.items():
            if number not in base and (node.path + "/").startswith(path + "/"):
                result.pop(number, None)

    for kind, path, chunks, *_ in conflicts:
        if kind == "changed":
            number = next(number for number, node in base.items() if node.path == path and number not in mine)
            drop_new(theirs[number].path)
            result[number] = base[number]
            continue
        number = number_at[path]
        if kind == "created":
            twin = their_number_at.get(path)
            if twin is None or twin in base:
                continue
            if number in base or mine[number].is_array or theirs[twin].is_array:
                drop_new(path)
            elif twin in result:
                result[twin] = replace(result[twin], attributes=mine[number].attributes)
        elif number in base:
            was, now = base[number], result[number]
            if kind in {"renamed", "parent"}:
                result[number] = replace(now, path=was.path, parent=was.parent)
            elif kind == "attributes":
                result[number] = replace(now, attributes=was.attributes)
            elif kind == "metadata":
                result[number] = replace(now, metadata=was.metadata, shape=was.shape)
            elif chunks is not None:
                given = {(row, column) for row, column in chunks.tolist()}
                kept = {chunk: stored for chunk, stored in now.chunks.items() if chunk not in given}
                kept |= {chunk: stored for chunk, stored in was.chunks.items() if chunk in given}
                result[number] = replace(now, chunks=kept)
    return result


def common_appends(base: State, ours: PlainSession, theirs: PlainSession) -> dict[int, Append]:
    """Arrays to which both appended along one axis, without other changes of their metadata."""
    found = {}
    for number, was in base.items():
        if number in ours.nodes and number in theirs.nodes:
            our_node, their_node = ours.nodes[number], theirs.nodes[number]
            mine, other = ours.appended().get(our_node.path), append_of(was.shape, their_node.shape)
            metadata = {was.metadata, our_node.metadata, their_node.metadata}
            if mine is not None and other is not None and mine.axis == other.axis and len(metadata) == 1:
                found[number] = mine
    return found


def outcome(base: State, mine: State, onto: State, appends: dict[int, Append]) -> Outcome:
    """The result by path, without appended rows."""
    try:
        state = apply(base, without_appends(base, mine, appends), onto)
    except Clash as clash:
        return clash
    return shown(base, state, appends)


def shown(base: State, state: State, appends: dict[int, Append]) -> Outcome:
    """A state by path, without appended rows."""
    state = without_appends(base, state, appends)
    return {
        node.path: (node.is_array, node.attributes, node.metadata, node.shape, node.chunks) for node in state.values()
    }


def one_gives_way(
    base: State, mine: State, theirs: State, found: list[Conflict], appends: dict[int, Append]
) -> Outcome:
    """The result if all conflicts are answered with "theirs"."""
    left = given_up(base, mine, theirs, [one for one in found if "theirs" in one.answers])
    appends = {
        number: append
        for number, append in appends.items()
        if number in left and left[number].shape != base[number].shape
    }
    return outcome(base, left, unified(base, left, theirs), appends)


def other_gives_way(
    base: State, mine: State, theirs: State, found: list[Conflict], appends: dict[int, Append]
) -> Outcome:
    """The result if all conflicts are answered with "ours"."""
    left = overruled(base, mine, theirs, found)
    return outcome(
        base, mine, unified(base, mine, left), {number: append for number, append in appends.items() if number in left}
    )
