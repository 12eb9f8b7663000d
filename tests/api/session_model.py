"""A hierarchy as a plain dict, and what sessions do to it: the model of test_session_model.py. Nothing of frazil is used to say what is right."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import frazil

NAMES = ("a", "b", "c")
PATHS = (*NAMES, *(f"{one}/{other}" for one in ("a", "c") for other in NAMES))
KINDS: dict[str, dict[str, object]] = {
    "inline": {"shape": (7,), "chunks": (3,), "dtype": "i4", "fill_value": 0},
    "sharded": {"shape": (6, 5), "chunks": (2, 2), "shards": (4, 4), "dtype": "i2", "fill_value": 0},
    "scalar": {"shape": (), "dtype": "i8", "fill_value": 0},
    "packed": {"shape": (3, 600), "chunks": (1, 600), "dtype": "u1", "fill_value": 0, "codecs": ["bytes"]},
    "empty": {"shape": (0, 2), "chunks": (2, 2), "dtype": "i4", "fill_value": 0},
}
OPERATIONS = (
    "group",
    "array",
    "array",
    "remove",
    "move",
    "write",
    "write",
    "write",
    "attribute",
    "resize",
    "append",
    "append",
)
_fresh = itertools.count()


@dataclass
class Node:
    """values: None for a group; chunk: shape of what is stored as one"""

    uid: int
    values: np.ndarray | None = None
    chunk: tuple[int, ...] = ()
    attributes: dict[str, object] = field(default_factory=dict)


State = dict[str, Node]  # by path; "" is the root


@dataclass
class Log:
    """What was done since a session began. chunks: of arrays by uid; marks: "attributes", "shape", "append", "moved", "gone"; paths: where nodes came or went"""

    chunks: dict[int, set[tuple[int, ...]]] = field(default_factory=dict)
    edges: dict[int, set[tuple[int, ...]]] = field(default_factory=dict)
    marks: dict[int, set[str]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def mark(self, uid: int, what: str) -> None:
        self.marks.setdefault(uid, set()).add(what)

    def add(self, other: Log) -> None:
        for mine, others in ((self.chunks, other.chunks), (self.edges, other.edges), (self.marks, other.marks)):
            for uid, found in others.items():
                mine.setdefault(uid, set()).update(found)  # type: ignore[arg-type]
        self.paths |= other.paths

    def touched(self) -> set[int]:
        return {*self.chunks, *self.marks, *self.edges}


@dataclass
class Side:
    """A session as the model sees it."""

    base: State
    state: State
    log: Log


def begin(state: State) -> Side:
    return Side(state, copy.deepcopy(state), Log())


def above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def free(state: State, path: str) -> bool:
    """Whether a node can be put there."""
    return path not in state and not any(up in state and state[up].values is not None for up in above(path))


def chunks_of(box: list[tuple[int, int]], chunk: tuple[int, ...]) -> set[tuple[int, ...]]:
    return set(
        itertools.product(*[range(low // step, -(-high // step)) for (low, high), step in zip(box, chunk, strict=True)])
    )


# --- doing things ----------------------------------------------------------------------------------------------------------------------


def act(root: frazil.Group, side: Side, operation: tuple[str, int, int, int]) -> bool:
    """Does one thing to a session and to the model; whether there was anything to do."""
    name, first, second, value = operation
    return _ACTS[name](root, side, first, second, value)


def _put(side: Side, path: str, node: Node) -> None:
    for at in (*above(path), path):
        if at not in side.state:
            side.state[at] = node if at == path else Node(next(_fresh))
            side.log.paths.add(at)


def _group(root: frazil.Group, side: Side, first: int, _: int, __: int) -> bool:
    path = PATHS[first % len(PATHS)]
    if not free(side.state, path):
        return False
    root.create_group(path)
    _put(side, path, Node(next(_fresh)))
    return True


def _array(root: frazil.Group, side: Side, first: int, second: int, value: int) -> bool:
    path, kind = PATHS[first % len(PATHS)], KINDS[list(KINDS)[second % len(KINDS)]]
    if not free(side.state, path):
        return False
    array = root.create_array(path, **kind)  # type: ignore[arg-type]
    shape, outer = kind["shape"], kind.get("shards", kind.get("chunks", ()))
    values = np.zeros(shape, kind["dtype"])  # type: ignore[call-overload]
    if value % 3:
        values[...] = value
        array[...] = value
    _put(side, path, Node(next(_fresh), values, outer))  # type: ignore[arg-type]
    return True


def _remove(root: frazil.Group, side: Side, first: int, _: int, __: int) -> bool:
    paths = sorted(path for path in side.state if path)
    if not paths:
        return False
    path = paths[first % len(paths)]
    del root[path]
    for at in [at for at in side.state if at == path or at.startswith(path + "/")]:
        side.log.mark(side.state.pop(at).uid, "gone")
        side.log.paths.add(at)
    return True


def _move(root: frazil.Group, side: Side, first: int, second: int, _: int) -> bool:
    paths = sorted(path for path in side.state if path)
    to = PATHS[second % len(PATHS)]
    if not paths or not free(side.state, to):
        return False
    path = paths[first % len(paths)]
    if to.startswith(path + "/"):
        return False
    root.move(path, to)
    for at in list(above(to)):
        if at not in side.state:
            _put(side, at, Node(next(_fresh)))
    for at in sorted(at for at in side.state if at == path or at.startswith(path + "/")):
        node = side.state.pop(at)
        side.state[to + at[len(path) :]] = node
        side.log.mark(node.uid, "moved")
        side.log.paths |= {at, to + at[len(path) :]}
    return True


def _picked(side: Side, number: int, rank: int = 0) -> tuple[str, Node] | None:
    arrays = sorted(
        (path, node.uid) for path, node in side.state.items() if node.values is not None and node.values.ndim >= rank
    )
    if not arrays:
        return None
    path = arrays[number % len(arrays)][0]
    return path, side.state[path]


def _write(root: frazil.Group, side: Side, first: int, second: int, value: int) -> bool:
    found = _picked(side, first)
    if found is None or found[1].values is None or not found[1].values.size:
        return False
    path, node = found
    box = []
    for extent in node.values.shape:  # type: ignore[union-attr]
        low = second % extent
        second //= 3
        box.append((low, min(extent, low + 1 + second % extent)))
    where = tuple(slice(*part) for part in box)
    node.values[where] = value  # type: ignore[index]
    root[path][where] = value  # type: ignore[index]
    side.log.chunks.setdefault(node.uid, set()).update(chunks_of(box, node.chunk))
    return True


def _attribute(root: frazil.Group, side: Side, first: int, second: int, value: int) -> bool:
    paths = sorted(side.state)
    path = paths[first % len(paths)]
    name, said = NAMES[second % 3], "x" * (value % 60) if value % 2 else value
    node = root[path] if path else root
    node.attrs[name] = said
    side.state[path].attributes[name] = said
    side.log.mark(side.state[path].uid, "attributes")
    return True


def _resize(root: frazil.Group, side: Side, first: int, second: int, _: int) -> bool:
    found = _picked(side, first, rank=1)
    if found is None or found[1].values is None:
        return False
    path, node = found
    old = found[1].values
    shape = (second % 12, *old.shape[1:])
    root[path].resize(shape)  # type: ignore[union-attr]
    node.values = np.zeros(shape, old.dtype)
    kept = min(shape[0], old.shape[0])
    node.values[:kept] = old[:kept]
    if shape != old.shape:
        side.log.mark(node.uid, "shape")
    return True


def _append(root: frazil.Group, side: Side, first: int, second: int, value: int) -> bool:
    found = _picked(side, first, rank=1)
    if found is None or found[1].values is None or found[1].values.shape[0] > 20:
        return False
    path, node = found
    old = found[1].values
    rows = np.full((1 + second % 5, *old.shape[1:]), value).astype(old.dtype)
    root[path].append(rows)  # type: ignore[union-attr]
    node.values = np.concatenate([old, rows])
    side.log.mark(node.uid, "append")
    box = [(old.shape[0], old.shape[0] + len(rows)), *((0, extent) for extent in old.shape[1:])]
    side.log.edges.setdefault(node.uid, set()).update(chunks_of(box, node.chunk))
    return True


_ACTS = {"group": _group, "array": _array, "remove": _remove, "move": _move, "write": _write, "attribute": _attribute, "resize": _resize, "append": _append}  # fmt: skip


# --- meeting ---------------------------------------------------------------------------------------------------------------------------


def may_conflict(ours: Log, theirs: Log) -> bool:
    """Whether two sides touched the same thing, or places of which one is above the other."""
    for path in ours.paths:
        for other in theirs.paths:
            if path == other or path.startswith(other + "/") or other.startswith(path + "/"):
                return True
    for uid in ours.touched() & theirs.touched():
        mine, others = ours.marks.get(uid, set()), theirs.marks.get(uid, set())
        if "gone" in mine | others or mine & others & {"moved", "attributes"}:
            return True
        if "shape" in mine | others and (
            ours.chunks.get(uid)
            or theirs.chunks.get(uid)
            or {"shape", "append"} & mine & others
            or ("append" in mine | others)
        ):
            return True
        all_ours, all_theirs = ours.chunks.get(uid, set()), theirs.chunks.get(uid, set())
        if not ("append" in mine and "append" in others):
            all_ours, all_theirs = all_ours | ours.edges.get(uid, set()), all_theirs | theirs.edges.get(uid, set())
        if all_ours & all_theirs:
            return True
    return False


def merge(side: Side, theirs: State) -> State:
    """What a session changed, on top of what the branch has now: node by node, element by element. Right where nothing conflicts."""
    base = {node.uid: (path, node) for path, node in side.base.items()}
    mine = {node.uid: (path, node) for path, node in side.state.items()}
    others = {node.uid: (path, node) for path, node in theirs.items()}
    merged: State = {}
    for uid, (path, node) in others.items():
        if uid in base and uid not in mine:
            continue
        if uid in mine and uid in base:
            if mine[uid][0] != base[uid][0]:
                path = mine[uid][0]
            node = _merge_nodes(base[uid][1], mine[uid][1], node, resized="shape" in side.log.marks.get(uid, set()))
        assert path not in merged
        merged[path] = copy.deepcopy(node)
    for uid, (path, node) in mine.items():
        if uid not in base and not (path in merged and node.values is None and merged[path].values is None):
            assert path not in merged
            merged[path] = copy.deepcopy(node)
    return merged


def _merge_nodes(base: Node, mine: Node, other: Node, *, resized: bool) -> Node:
    attributes = mine.attributes if mine.attributes != base.attributes else other.attributes
    if base.values is None or mine.values is None or other.values is None:
        return Node(other.uid, None, (), attributes)
    old, ours, theirs = base.values, mine.values, other.values
    if not resized and _grew(old, ours) and _grew(old, theirs):
        values = np.concatenate([theirs, ours[len(old) :]])
        where = tuple(slice(0, extent) for extent in old.shape)
        values[where] = np.where(ours[where] != old, ours[where], theirs[where])
        return Node(other.uid, values, mine.chunk, attributes)
    shape = ours.shape if ours.shape != old.shape else theirs.shape
    values = np.zeros(shape, old.dtype)
    for source, last in ((theirs, False), (ours, True)):
        where = tuple(slice(0, min(pair)) for pair in zip(source.shape, shape, strict=True))
        fresh = np.ones(source.shape, bool)
        if last:
            common = tuple(slice(0, min(pair)) for pair in zip(source.shape, old.shape, strict=True))
            fresh[common] = source[common] != old[common]
        values[where] = np.where(fresh[where], source[where], values[where])
    return Node(other.uid, values, mine.chunk, attributes)


def _grew(old: np.ndarray, new: np.ndarray) -> bool:
    return bool(old.ndim) and new.shape[1:] == old.shape[1:] and new.shape[0] > old.shape[0]


# --- looking ---------------------------------------------------------------------------------------------------------------------------


def check(root: frazil.Group, state: State) -> None:
    """A session shows what the model has."""
    found = {"": root, **dict(root.members(None))}
    assert sorted(found) == sorted(state)
    for path, node in state.items():
        one = found[path]
        assert dict(one.attrs) == node.attributes, path
        if node.values is None:
            assert isinstance(one, frazil.Group), path
        else:
            assert isinstance(one, frazil.Array), path
            assert one.shape == node.values.shape, path
            np.testing.assert_array_equal(one[...], node.values, err_msg=path)
