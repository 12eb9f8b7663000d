"""A hierarchy as plain values, and random changes of it. plain_merge.py applies two sets of changes one after another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count, product

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from numpy.typing import NDArray

from frazil.formats.alpha.zarr_metadata import NamedConfiguration, ZarrArrayMetadata
from frazil.formats.nodes import ArrayData, NodeSnapshot
from frazil.repository.merge.delta import Delta, Made, MetadataChange
from frazil.repository.merge.difference import ChunkDifference, Resize
from frazil.repository.session.change_set import Append, append_of
from frazil.repository.session.read_log import Reads

CHUNK = (2, 1)  # elements of a chunk along each axis
PLAIN = ZarrArrayMetadata((4, 4), "int32", CHUNK, "Slash", 0, (NamedConfiguration("bytes", {"endian": "little"}),))
PATHS = ["/a", "/b", "/c", "/a/a", "/a/b", "/b/a", "/b/b", "/a/b/a"]  # few, so that the changes of two sides overlap

Chunk = tuple[int, int]


@dataclass(frozen=True)
class Stored:
    """A chunk. metadata and shape: of the array when it was written; number: unique for each write"""

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
    """Two changes that cannot be applied one after another."""


# --- changes --------------------------------------------------------------------------------------------------------------------------


class PlainSession:
    """Changes to a state, as a session makes them. Impossible changes are skipped."""

    def __init__(self, base: State, numbers: count[int]) -> None:
        self.base, self.nodes, self.numbers = base, dict(base), numbers
        self.not_appended: set[int] = set()  # arrays whose shape changed by other operations

    def at(self, path: str) -> int | None:
        return next((number for number, node in self.nodes.items() if node.path == path), None)

    def below(self, path: str) -> list[int]:
        return [number for number, node in self.nodes.items() if (node.path + "/").startswith(path + "/")]

    def above(self, path: str) -> int | None:
        """The group above a path, created if missing; raises Clash if there is an array."""
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
        """Chunks outside are erased, and chunks at the edge are cut."""
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
        """Writes every chunk with new elements."""
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
        """One change; the numbers select the operation and its arguments."""
        every = sorted(self.nodes)
        arrays = [number for number in every if self.nodes[number].is_array]
        if name == "create":
            self.create(PATHS[first % len(PATHS)], second % 2 == 0, 1 + third % 5)
        elif name in {"rename", "remove", "attributes"} and every:
            number = every[first % len(every)]
            if name == "rename":
                self.rename(self.nodes[number].path, PATHS[second % len(PATHS)])
            elif name == "remove":
                self.remove(self.nodes[number].path)
            else:
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
            elif name == "append":
                self.append(number, second % 4 // 3, 1 + third % 3)

    def run(self, steps: list[tuple[str, int, int, int]]) -> None:
        for step in steps:
            before = dict(self.nodes)
            try:
                self.step(*step)
            except Clash:
                self.nodes = before

    def has_replaced_a_group(self) -> bool:
        """Whether a node is at its old path, but its group was replaced by another one: in this model, which identifies groups by number, it has moved."""
        both = [(node, self.nodes[number]) for number, node in self.base.items() if number in self.nodes]
        return any(was.path == now.path and was.parent != now.parent for was, now in both)

    def appended(self) -> dict[str, Append]:
        """Arrays that grew only by appends, by their paths."""
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
    """Whether some elements of a chunk, as it was written, are outside of a shape."""
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


def begin(nodes: list[PlainNode], made: count[int], chunks: list[Chunk]) -> State:
    """An initial state, and the chunks of its arrays, if these are in their grids."""
    first = PlainSession({}, made)
    for node in nodes:
        number = first.put(node)
        for chunk in chunks if node.is_array else ():
            first.write(number, chunk)
    return first.nodes


# changes that a session may make together, besides single steps
TOGETHER: list[list[tuple[str, int, int, int]]] = [
    [("remove", 0, 0, 0), ("create", 0, 1, 0)],
    [("remove", 0, 0, 0), ("create", 0, 0, 0)],
    [("remove", 0, 0, 0), ("create", 4, 0, 0)],
    [("remove", 1, 0, 0), ("create", 4, 0, 4)],
    [("rename", 0, 2, 0), ("create", 0, 1, 0)],
    [("rename", 0, 2, 0), ("create", 0, 0, 0)],
    [("rename", 0, 2, 0), ("write", 0, 0, 0)],
    [("rename", 1, 2, 0), ("remove", 0, 0, 0)],
    [("rename", 1, 2, 0), ("remove", 0, 0, 0), ("create", 4, 0, 0)],
    [("create", 2, 1, 0), ("rename", 0, 2, 0), ("attributes", 1, 1, 0)],
    [("metadata", 0, 1, 0), ("write", 0, 0, 0)],
    [("metadata", 0, 1, 0), ("resize", 0, 1, 1)],
    [("metadata", 0, 1, 0), ("append", 0, 0, 1)],
    [("resize", 0, 1, 1), ("append", 0, 0, 6)],
    [("append", 0, 0, 0), ("write", 0, 0, 0)],
    [("append", 0, 0, 0), ("append", 0, 3, 0)],
    [("append", 0, 0, 0), ("erase", 0, 0, 0)],
    [("attributes", 0, 1, 0), ("rename", 0, 2, 0)],
]


def every_session(base: State, made: count[int]) -> list[PlainSession]:
    """The changes of one session in a step, or in several combined ones; only one of equivalent ones."""
    single = [
        *[("create", path, kind, 0) for path in range(len(PATHS)) for kind in range(2)],
        *[("rename", node, path, 0) for node in range(len(base)) for path in range(len(PATHS))],
        *[("remove", node, 0, 0) for node in range(len(base))],
        *[("attributes", node, value, 0) for node in range(len(base)) for value in (1, 2)],
        *[(name, 0, row, column) for name in ("write", "erase") for row, column in ((0, 0), (0, 1), (1, 0), (2, 1))],
        *[("metadata", 0, value, 0) for value in (1, 2)],
        *[("resize", 0, row, column) for row, column in ((0, 1), (1, 1), (3, 1), (5, 1), (6, 1), (4, 0), (4, 2))],
        *[("append", 0, axis, by) for axis in (0, 3) for by in (0, 2)],
    ]
    sessions = []
    outcomes: list[object] = [base]
    for steps in [*[[step] for step in single], *TOGETHER]:
        session = PlainSession(base, made)
        session.run(steps)
        outcome = {node.path: (number in base and number, node) for number, node in session.nodes.items()}
        if session.nodes != base and outcome not in outcomes:
            sessions.append(session)
            outcomes.append(outcome)
    return sessions


@st.composite
def sides(draw: st.DrawFn) -> tuple[State, PlainSession, PlainSession]:
    """A state, and two sessions that changed it."""
    made = count(1)
    chunks = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), unique=True))
    base = begin(draw(st.sampled_from(BEGINNINGS)), made, chunks)
    ours, theirs = PlainSession(base, made), PlainSession(base, made)
    ours.run(draw(histories))
    theirs.run(draw(histories))
    assume(
        not ours.has_replaced_a_group() and not theirs.has_replaced_a_group() and not in_different_groups(ours, theirs)
    )
    return base, ours, theirs


def in_different_groups(ours: PlainSession, theirs: PlainSession) -> bool:
    """Whether both moved a node to one path, but one of them into an existing group and the other into a replaced one: in this model, these are two places."""
    base = ours.base
    both = [
        (ours.nodes[number], theirs.nodes[number]) for number in base if number in ours.nodes and number in theirs.nodes
    ]
    return any(
        one.path == other.path and one.parent != other.parent and (one.parent in base or other.parent in base)
        for one, other in both
    )


# --- what changed ---------------------------------------------------------------------------------------------------------------------


def columns(chunks: list[Chunk]) -> NDArray[np.int64]:
    return np.array(sorted(chunks), np.int64).reshape(len(chunks), len(CHUNK))


def as_node(number: int, node: PlainNode) -> NodeSnapshot:
    """A node as stored in a snapshot."""
    metadata = PLAIN._replace(shape=node.shape, fill_value=node.metadata)
    array = ArrayData(metadata) if node.is_array else None
    return NodeSnapshot(number, node.path, {"value": node.attributes} if node.attributes else None, array)


def delta_of(old: State, new: State, appended: dict[str, Append] | None = None, reads: Reads | None = None) -> Delta:
    """The changes of a state, by the numbers of its nodes. appended: by the current paths of arrays"""
    both = {number: (old[number], node) for number, node in new.items() if number in old}
    made = {number: node for number, node in new.items() if number not in old}
    chunks = {was.path: found for was, now in both.values() if (found := chunks_of(was, now)) is not None}
    shapes = {
        was.path: (was, now) for was, now in both.values() if (was.shape, was.metadata) != (now.shape, now.metadata)
    }
    delta = Delta(
        removed={node.path: node.is_array for number, node in old.items() if number not in new},
        moved={was.path: now.path for was, now in both.values() if was.path != now.path},
        made={
            node.path: Made(as_node(0, node), None, chunks_of(PlainNode("", None, True), node))
            for node in made.values()
        },
        attributes={
            was.path: as_node(0, now).attributes for was, now in both.values() if was.attributes != now.attributes
        },
        metadata={
            path: metadata_change(was, now, (appended or {}).get(now.path)) for path, (was, now) in shapes.items()
        },
        chunks=chunks,
        reads=reads,
    )
    arrays = {was.path for was, _ in both.values() if was.is_array}
    return delta._replace(arrays=frozenset(arrays & delta.touched()))


def metadata_change(was: PlainNode, now: PlainNode, append: Append | None) -> MetadataChange:
    new = PLAIN._replace(shape=now.shape, fill_value=now.metadata)
    if was.metadata != now.metadata:
        return MetadataChange(new)
    return MetadataChange(new, Resize(was.shape, now.shape, CHUNK), append)


def chunks_of(was: PlainNode, now: PlainNode) -> ChunkDifference | None:
    written = [chunk for chunk, stored in now.chunks.items() if was.chunks.get(chunk) != stored]
    removed = [chunk for chunk in was.chunks if chunk not in now.chunks]
    return ChunkDifference(columns(written), columns(removed)) if written or removed else None


def agree(ours: PlainNode, theirs: PlainNode) -> bool:
    """Whether two groups that were created at one path are the same."""
    return ours.attributes == theirs.attributes
