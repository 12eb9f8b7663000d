"""The parts that a session touched, and whether two sets of them may conflict: plain rules, independent of frazil.testing.simulation.merged_changes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from frazil.testing.simulation.hierarchy import Act, Node, State

Uid = tuple[str, int]
Chunk = tuple[int, ...]


@dataclass
class Log:
    """The parts touched since some state.

    chunks  of arrays, by uid;  edges: those that appends wrote;  marks: "attributes", "shape", "append", "moved", "gone";  paths: of added or removed nodes"""

    chunks: dict[Uid, set[Chunk]] = field(default_factory=dict)
    edges: dict[Uid, set[Chunk]] = field(default_factory=dict)
    marks: dict[Uid, set[str]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def add(self, other: Log) -> None:
        for uid, chunks in other.chunks.items():
            self.chunks.setdefault(uid, set()).update(chunks)
        for uid, chunks in other.edges.items():
            self.edges.setdefault(uid, set()).update(chunks)
        for uid, marks in other.marks.items():
            self.marks.setdefault(uid, set()).update(marks)
        self.paths |= other.paths

    def touched(self) -> set[Uid]:
        return {*self.chunks, *self.marks, *self.edges}


def log_of(before: State, act: Act, after: State) -> Log:
    """The parts that one change touches."""
    log = Log()
    for path in before.keys() ^ after.keys():
        log.paths.add(path)
    old, new = ({node.uid: path for path, node in state.items()} for state in (before, after))
    for uid in old.keys() - new.keys():
        log.marks.setdefault(uid, set()).add("gone")
    for uid in old.keys() & new.keys():
        if old[uid] != new[uid]:
            log.marks.setdefault(uid, set()).add("moved")
            log.paths |= {old[uid], new[uid]}
    if act.name in ("attribute", "write", "undo", "append", "unappend", "resize"):
        node = before[act.path]
        if act.name == "attribute":
            log.marks[node.uid] = {"attributes"}
        else:
            _log_values(log, node, act)
    return log


def _log_values(log: Log, node: Node, act: Act) -> None:
    assert node.values is not None
    rest = [(0, extent) for extent in node.values.shape[1:]]
    if act.name in ("write", "undo"):
        log.chunks[node.uid] = chunks_of(act.box, node.chunk)
    elif act.name == "resize":
        if act.box[0][1] != len(node.values):
            log.marks[node.uid] = {"shape"}
    else:
        log.marks[node.uid] = {"append"} if act.name == "append" else {"append", "shape"}
        log.edges[node.uid] = chunks_of((*act.box, *rest), node.chunk)


def chunks_of(box: tuple[tuple[int, int], ...] | list[tuple[int, int]], chunk: Chunk) -> set[Chunk]:
    return set(
        itertools.product(*[range(low // step, -(-high // step)) for (low, high), step in zip(box, chunk, strict=True)])
    )


def shift_edges(log: Log, base: State, state: State) -> None:
    """After a rebase from base to state, in which appended rows may have moved behind others: all chunks after the old end count as theirs."""
    was = {node.uid: node.values for node in base.values()}
    for node in state.values():
        old = was.get(node.uid)
        if node.uid in log.edges and node.values is not None and old is not None:
            rest = [(0, extent) for extent in node.values.shape[1:]]
            log.edges[node.uid] |= chunks_of([(len(old), len(node.values)), *rest], node.chunk)


def is_at(act: Act, path: str) -> bool:
    """Whether a change is one of the node at a path, or puts a node below it."""
    if act.path == path or (act.name == "swap" and act.to == path):
        return True
    put = {"array": act.path, "group": act.path, "move": act.to}.get(act.name, "")
    return path != "" and put.startswith(f"{path}/")


def may_conflict(ours: Log, theirs: Log) -> bool:
    """Whether two sides touched the same thing, or places of which one is above the other."""
    for path in ours.paths:
        for other in theirs.paths:
            if path == other or path.startswith(other + "/") or other.startswith(path + "/"):
                return True
    return any(_meet(ours, theirs, uid) for uid in ours.touched() & theirs.touched())


def _meet(ours: Log, theirs: Log, uid: Uid) -> bool:
    mine, others = ours.marks.get(uid, set()), theirs.marks.get(uid, set())
    if "gone" in mine | others or mine & others & {"moved", "attributes"}:
        return True
    if "shape" in mine | others and (
        ours.chunks.get(uid)
        or theirs.chunks.get(uid)
        or {"shape", "append"} & mine & others
        or "append" in mine | others
    ):
        return True
    all_ours, all_theirs = ours.chunks.get(uid, set()), theirs.chunks.get(uid, set())
    if not ("append" in mine and "append" in others):
        all_ours, all_theirs = all_ours | ours.edges.get(uid, set()), all_theirs | theirs.edges.get(uid, set())
    return bool(all_ours & all_theirs)


def without_idle(log: Log, base: State, state: State) -> Log:
    """The log without unchanged nodes whose written chunks contain only fill values: a commit would not change them."""
    was, now = ({node.uid: (path, node) for path, node in one.items()} for one in (base, state))
    idle = set()
    for uid in log.touched() & was.keys() & now.keys():
        (path, old), (there, new) = was[uid], now[uid]
        if path != there or old.attributes != new.attributes:
            continue
        if old.values is None or new.values is None or not np.array_equal(old.values, new.values):
            continue
        if not any(_chunk(old, chunk).any() for chunk in log.chunks.get(uid, set())) and not log.edges.get(uid):
            idle.add(uid)
    kept = Log(paths=log.paths)
    for name in ("chunks", "edges", "marks"):
        getattr(kept, name).update({uid: found for uid, found in getattr(log, name).items() if uid not in idle})
    return kept


def _chunk(node: Node, chunk: Chunk) -> np.ndarray:
    assert node.values is not None
    return node.values[tuple(slice(at * step, (at + 1) * step) for at, step in zip(chunk, node.chunk, strict=True))]


def state_of(
    found: dict[str, tuple[np.ndarray | None, dict[str, object]]], theirs: State, ours: State, first: str
) -> State:
    """The observed nodes as a state: each node is one that a side has there, and has the observed kind."""
    state = dict[str, Node]()
    for path, (values, attributes) in found.items():
        sides = [ours, theirs] if first == "ours" else [theirs, ours]
        there = [side[path] for side in sides if path in side and (side[path].values is None) == (values is None)]
        fits = [node for node in there if values is None or np.array_equal(values, node.values)]
        taken = {node.uid for node in state.values()}
        nodes = [node for node in (*fits, *there) if node.uid not in taken]
        node = (
            nodes[0] if nodes else Node(("solved", len(state)), values, (1,) * (0 if values is None else values.ndim))
        )
        state[path] = node._replace(values=values, attributes=attributes)
    return state
