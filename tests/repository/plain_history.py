"""A hierarchy as plain values, random changes of it, and what it means to make two sets of changes one after the other: the reference for conflicts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count, product

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil.repository.conflicts import Append, append_of
from frazil.repository.difference import ChunkDifference, Difference, Resize

CHUNK = (2, 1)  # elements of a chunk along each axis
PATHS = ["/a", "/b", "/c", "/a/a", "/a/b", "/b/a", "/b/b", "/a/b/a"]  # few, so that two sides meet

Chunk = tuple[int, int]


@dataclass(frozen=True)
class Stored:
    """A chunk. metadata and shape: of the array when it was written; number: no two writes have the same"""

    number: int
    metadata: int
    shape: tuple[int, int]


@dataclass(frozen=True)
class PlainNode:
    """array: None for a group; parent: the group above, by its number"""

    path: str
    parent: int | None
    is_array: bool
    attributes: int = 0
    metadata: int = 0
    shape: tuple[int, int] = (0, 0)
    chunks: dict[Chunk, Stored] = field(default_factory=dict)


State = dict[int, PlainNode]  # by a number that stays with the node


class Clash(Exception):
    """Two changes that cannot be made one after the other."""


# --- changes --------------------------------------------------------------------------------------------------------------------------


class PlainSession:
    """Changes to a state, as a session makes them. Whatever cannot be done is not done."""

    def __init__(self, base: State, numbers: count[int]) -> None:
        self.base, self.nodes, self.numbers = base, dict(base), numbers
        self.not_appended: set[int] = set()  # arrays whose shape changed otherwise

    def at(self, path: str) -> int | None:
        return next((number for number, node in self.nodes.items() if node.path == path), None)

    def below(self, path: str) -> list[int]:
        return [number for number, node in self.nodes.items() if (node.path + "/").startswith(path + "/")]

    def above(self, path: str) -> int | None:
        """The group above a path, made where it is not; raises Clash where there is an array."""
        parent = path.rpartition("/")[0]
        if not parent:
            return None
        found = self.at(parent)
        if found is None:
            return self.put(PlainNode(parent, self.above(parent), False))
        if self.nodes[found].is_array:
            raise Clash(parent)
        return found

    def put(self, node: PlainNode) -> int:
        number = next(self.numbers)
        self.nodes[number] = node
        return number

    def change(self, number: int, **fields: object) -> None:
        self.nodes[number] = replace(self.nodes[number], **fields)  # type: ignore[arg-type]

    def create(self, path: str, is_array: bool, size: int) -> None:
        if self.at(path) is None:
            self.put(PlainNode(path, self.above(path), is_array, shape=(size, 2) if is_array else (0, 0)))

    def remove(self, path: str) -> None:
        for number in self.below(path):
            del self.nodes[number]

    def rename(self, path: str, to: str) -> None:
        number = self.at(path)
        if number is not None and self.at(to) is None and not (to + "/").startswith(path + "/"):
            self.change(number, parent=self.above(to))
            for inside in self.below(path):
                self.change(inside, path=to + self.nodes[inside].path[len(path) :])

    def write(self, number: int, chunk: Chunk) -> None:
        node = self.nodes[number]
        if all(at < size for at, size in zip(chunk, grid(node.shape), strict=True)):
            stored = Stored(next(self.numbers), node.metadata, node.shape)
            self.change(number, chunks={**node.chunks, chunk: stored})

    def erase(self, number: int, chunk: Chunk) -> None:
        left = dict(self.nodes[number].chunks)
        left.pop(chunk, None)
        self.change(number, chunks=left)

    def resize(self, number: int, shape: tuple[int, int]) -> None:
        """What is outside is erased, and cut from chunks at the edge."""
        node = self.nodes[number]
        if shape == node.shape:
            return
        self.not_appended.add(number)
        self.change(number, shape=shape)
        for chunk, stored in node.chunks.items():
            if not all(at < size for at, size in zip(chunk, grid(shape), strict=True)):
                self.erase(number, chunk)
            elif reaches_out(chunk, stored, shape):
                self.write(number, chunk)

    def append(self, number: int, axis: int, by: int) -> None:
        """Every chunk that the new elements are in is written."""
        shape = list(self.nodes[number].shape)
        old = shape[axis]
        shape[axis] += by
        began = self.base[number].shape if number in self.base else (0, 0)
        if shape[1 - axis] != began[1 - axis]:
            self.not_appended.add(number)
        self.change(number, shape=tuple(shape))
        for chunk in product(*map(range, grid(shape))):
            if chunk[axis] >= old // CHUNK[axis]:
                self.write(number, chunk)

    def step(self, name: str, first: int, second: int, third: int) -> None:
        """One change; the numbers say of what and how."""
        arrays = sorted(number for number, node in self.nodes.items() if node.is_array)
        path = PATHS[first % len(PATHS)]
        if name in {"create", "rename", "remove", "attributes"}:
            known = [node.path for _, node in sorted(self.nodes.items(), key=lambda item: item[0])]
            there = known[first % len(known)] if known else "/a"
            if name == "create":
                self.create(path, second % 2 == 0, 1 + third % 5)
            elif name == "rename":
                self.rename(there, PATHS[second % len(PATHS)])
            elif name == "remove":
                self.remove(there)
            elif (number := self.at(there)) is not None:
                self.change(number, attributes=second % 3)
        elif arrays:
            number = arrays[first % len(arrays)]
            if name == "write":
                self.write(number, (second % 3, third % 2))
            elif name == "erase":
                self.erase(number, (second % 3, third % 2))
            elif name == "metadata":
                self.change(number, metadata=second % 3)
            elif name == "resize":
                self.resize(number, (1 + second % 7, 1 + third % 3))
            else:
                self.append(number, second % 4 // 3, 1 + third % 3)

    def run(self, steps: list[tuple[str, int, int, int]]) -> None:
        for step in steps:
            before = dict(self.nodes)
            try:
                self.step(*step)
            except Clash:
                self.nodes = before

    def appended(self) -> dict[str, Append]:
        """Arrays that grew by appends alone, by their paths."""
        found = {}
        for number, node in self.nodes.items():
            if number in self.base and number not in self.not_appended:
                append = append_of(self.base[number].shape, node.shape)
                if append is not None:
                    found[node.path] = append
        return found


def grid(shape: tuple[int, ...] | list[int]) -> list[int]:
    return [-(-size // length) for size, length in zip(shape, CHUNK, strict=True)]


def reaches_out(chunk: Chunk, stored: Stored, shape: tuple[int, int]) -> bool:
    """Whether the elements of a chunk, as it was written, are not all within a shape."""
    return any(
        min((at + 1) * length, was) > now
        for at, length, was, now in zip(chunk, CHUNK, stored.shape, shape, strict=True)
    )


numbers = st.integers(0, 7)
step_names = ("create", "rename", "remove", "attributes", "write", "write", "erase", "metadata", "resize", "append")
steps = st.tuples(st.sampled_from(step_names), numbers, numbers, numbers)
histories = st.lists(steps, min_size=1, max_size=4)
BEGINNINGS = [
    [PlainNode("/a", None, False), PlainNode("/a/b", 1, True, shape=(5, 2)), PlainNode("/b", None, False)],
    [PlainNode("/a", None, False), PlainNode("/a/b", 1, False), PlainNode("/a/b/a", 2, True, shape=(4, 2))],
    [PlainNode("/b", None, True, shape=(3, 2))],
    [],
]


@st.composite
def sides(draw: st.DrawFn) -> tuple[State, PlainSession, PlainSession]:
    """A state, and two sessions that changed it."""
    made = count(1)
    first = PlainSession({}, made)
    for node in draw(st.sampled_from(BEGINNINGS)):
        number = first.put(node)
        if node.is_array:
            for chunk in draw(st.sets(st.sampled_from(list(product(*map(range, grid(node.shape))))))):
                first.write(number, chunk)
    base = dict(first.nodes)
    ours, theirs = PlainSession(base, made), PlainSession(base, made)
    ours.run(draw(histories))
    theirs.run(draw(histories))
    return base, ours, theirs


# --- what changed ---------------------------------------------------------------------------------------------------------------------


def columns(chunks: list[Chunk]) -> NDArray[np.int64]:
    return np.array(sorted(chunks), np.int64).reshape(len(chunks), len(CHUNK))


def difference_of(old: State, new: State) -> Difference:
    """What became of a state, by the numbers of its nodes."""
    both = [(old[number], node) for number, node in new.items() if number in old]
    gone = [node for number, node in old.items() if number not in new]
    made = [node for number, node in new.items() if number not in old]
    chunks = {}
    for was, now in [*both, *[(PlainNode("", None, True), node) for node in made]]:
        written = [chunk for chunk, stored in now.chunks.items() if was.chunks.get(chunk) != stored]
        removed = [chunk for chunk in was.chunks if chunk not in now.chunks]
        if written or removed:
            chunks[now.path] = ChunkDifference(columns(written), columns(removed))
    difference = Difference(
        added=tuple(sorted([node.path for node in made])),
        removed=tuple(sorted([node.path for node in gone])),
        renamed=tuple(sorted([(was.path, now.path) for was, now in both if was.path != now.path])),
        metadata=tuple(sorted([now.path for was, now in both if was.metadata != now.metadata])),
        attributes=tuple(sorted([now.path for was, now in both if was.attributes != now.attributes])),
        chunks=chunks,
        resized={
            now.path: Resize(was.shape, now.shape, CHUNK)
            for was, now in both
            if was.shape != now.shape and was.metadata == now.metadata
        },
    )
    arrays = {node.path: node.is_array for state in (old, new) for node in state.values()}
    told = {*difference.paths, *difference.removed}
    return difference._replace(arrays=frozenset([path for path in told if arrays[path]]))


def agree(kind: str, ours: PlainNode, theirs: PlainNode) -> bool:
    """Whether two nodes are the same in what conflicts ask for."""
    if kind in {"attributes", "created"}:
        return ours.attributes == theirs.attributes
    return (ours.metadata, ours.shape) == (theirs.metadata, theirs.shape)


# --- one after the other --------------------------------------------------------------------------------------------------------------


def apply(base: State, mine: State, onto: State) -> State:
    """What one side did, done to the other's state. Raises Clash where that has something else than the base, and not what is to be there, or where the outcome
    is no hierarchy."""
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
    """Theirs, with our numbers for equal groups that both made at one path."""
    made = {node.path: (number, node) for number, node in ours.items() if number not in base}
    same: dict[int | None, int] = {}
    for number, node in theirs.items():
        if number not in base and node.path in made:
            twin, other = made[node.path]
            if not node.is_array and not other.is_array and agree("created", node, other):
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
        before, wanted, found = ([getattr(node, name) for name in names] for node in (was, mine, there))
        if before != wanted:
            if found not in (before, wanted):
                raise Clash(f"{was.path}: both changed {names}")
            fields |= zip(names, wanted, strict=True)
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
            # chunks that one side changed are encoded as its metadata says
            for one, other in ((mine, onto), (onto, mine)):
                kept = {base[number].metadata, one[number].metadata}
                if one[number].chunks != base[number].chunks and other[number].metadata not in kept:
                    raise Clash(f"{node.path}: chunks that were encoded otherwise")


def without_appends(base: State, mine: State, numbers: dict[int, Append]) -> State:
    """Without what was appended to some arrays, and the chunks at the old end."""
    result = dict(mine)
    for number, (axis, old, _) in numbers.items():
        first, was = old // CHUNK[axis], base[number]
        chunks = {chunk: stored for chunk, stored in mine[number].chunks.items() if chunk[axis] < first}
        chunks |= {chunk: stored for chunk, stored in was.chunks.items() if chunk[axis] >= first}
        result[number] = replace(mine[number], shape=was.shape, chunks=chunks)
    return result
