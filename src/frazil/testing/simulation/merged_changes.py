"""Two sets of changes made one after the other, on the plain hierarchies of hierarchy.py: the content of a commit that was rebased without a conflict.

The rules are those of docs/design/014-conflicts.md. If two changes conflict according to them, there is no outcome here. The end of the file has the required
remains of two sides after a solver solved their conflicts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from frazil.base.record import Record
from frazil.testing.simulation.hierarchy import Act, Node, State, above, acted

if TYPE_CHECKING:
    from frazil.base.arrays import Values
    from frazil.testing.simulation.hierarchy import Found, Uid


class Side(Record):
    """The changes of a session.

    base, state         the states before and after them
    appended, resized   arrays that acts of these names changed: an array with both may count as appended or not"""

    base: State
    state: State
    appended: frozenset[Uid] = frozenset()
    resized: frozenset[Uid] = frozenset()

    def after(self, act: Act, maker: str, number: int) -> Side:
        """The side after one more change; maker, number as for `acted`."""
        side = self._replace(state=acted(self.state, act, maker, number))
        if act.name == "append":
            return side._replace(appended=self.appended | {self.state[act.path].uid})
        if act.name in ("resize", "unappend"):
            return side._replace(resized=self.resized | {self.state[act.path].uid})
        return side

    def began(self) -> Side:
        """A side that begins at the state of this one."""
        return Side(self.state, self.state)


def outcomes(side: Side, paths: Iterable[Sequence[State]]) -> Iterator[dict[str, Node]]:
    """The possible contents of a commit. paths: states that the session may have been rebased to, one after the other, the last of them the parent of the
    commit"""
    for path in paths:
        yield from _merged_along(side, path)


def _merged_along(side: Side, tips: Sequence[State]) -> Iterator[dict[str, Node]]:
    if not tips:
        yield dict(side.state)
        return
    for state in merged(side, tips[0]):
        yield from _merged_along(side._replace(base=tips[0], state=state), tips[1:])


def merged(side: Side, theirs: State) -> Iterator[dict[str, Node]]:
    """The possible results of a side on another state, if nothing conflicts: one, or several if an array was both appended to and resized, or if a node was
    made again as it was."""
    twins = _twins(side.base, theirs)
    for own in [side, _renamed(side, twins)] if twins else [side]:
        unclear = sorted(own.appended & own.resized)
        for choice in product((True, False), repeat=len(unclear)):
            appended = (own.appended - own.resized) | {uid for uid, adds in zip(unclear, choice, strict=True) if adds}
            state = _merged(own, theirs, appended)
            if state is not None:
                yield state


def _twins(base: State, theirs: State) -> dict[Uid, Uid]:
    """Nodes that the other side lost in a reset, and made again with the same content at the same path, by their former uids: in the files of a repository they
    may be equal to the former ones."""
    former, present = {node.uid for node in base.values()}, {node.uid for node in theirs.values()}
    pairs = [(base[path], node) for path, node in theirs.items() if path in base and node.uid not in former]
    return {
        was.uid: now.uid
        for was, now in pairs
        if was.uid not in present and was.attributes == now.attributes and _same(was.values, now.values)
    }


def _renamed(side: Side, twins: Mapping[Uid, Uid]) -> Side:
    """The side with other uids of some nodes."""
    base, state = (
        {path: node._replace(uid=twins.get(node.uid, node.uid)) for path, node in hierarchy.items()}
        for hierarchy in (side.base, side.state)
    )
    changed = [frozenset(twins.get(uid, uid) for uid in uids) for uids in (side.appended, side.resized)]
    return Side(base, state, *changed)


def _merged(side: Side, theirs: State, appended: frozenset[Uid]) -> dict[str, Node] | None:
    base = {node.uid: (path, node) for path, node in side.base.items()}
    mine = {node.uid: (path, node) for path, node in side.state.items()}
    found: dict[str, Node] = {}
    for path, node in theirs.items():
        if node.uid in base and node.uid not in mine:
            continue  # removed here
        if node.uid in mine and node.uid in base:
            (before, was), (now, own) = base[node.uid], mine[node.uid]
            if now != before:
                if path not in (before, now):
                    return None
                path = now
            if own.attributes != was.attributes:
                if node.attributes not in (was.attributes, own.attributes):
                    return None
                node = node._replace(attributes=own.attributes)
            if was.values is not None and own.values is not None and node.values is not None:
                values = _values(was.values, own.values, node.values, appends=node.uid in appended)
                if values is None:
                    return None
                node = node._replace(values=values)
        if path in found:
            return None
        found[path] = node
    for path, node in side.state.items():
        if node.uid in base:
            continue
        theirs_node = found.get(path)
        if theirs_node is None:
            found[path] = node
        elif node.values is not None or theirs_node.values is not None or node.attributes != theirs_node.attributes:
            return None
    groups = {path for path, node in found.items() if node.values is None}
    return found if all(up in groups for path in found for up in above(path)) else None


def _values(was: Values, own: Values, theirs: Values, *, appends: bool) -> Values | None:
    """The values of an array that two sides changed; None if its shapes conflict."""
    if appends and _grew(was, own) and _grew(was, theirs):
        joined = np.concatenate([theirs, own[len(was) :]])
        return _with_changes(joined, was, own[: len(was)])
    if own.shape != was.shape and theirs.shape not in (was.shape, own.shape):
        return None
    joined = np.zeros(own.shape if own.shape != was.shape else theirs.shape, was.dtype)
    common = _common(joined, theirs)
    joined[common] = theirs[common]
    return _with_changes(joined, was, own)


def _with_changes(values: Values, was: Values, own: Values) -> Values:
    """`values`, with all elements that differ between `own` and `was` (0 beyond the end)."""
    before = np.zeros(own.shape, was.dtype)
    common = _common(before, was)
    before[common] = was[common]
    within = _common(values, own)
    values[within] = np.where(own[within] != before[within], own[within], values[within])
    return values


def _common(first: Values, other: Values) -> tuple[slice, ...]:
    return tuple(slice(0, min(extents)) for extents in zip(first.shape, other.shape, strict=True))


def _grew(was: Values, now: Values) -> bool:
    return now.shape[1:] == was.shape[1:] and len(now) > len(was)


# --- merges, cherry-picks and reverts ----------------------------------------------------------------------------------------------------


def side_between(old: State, new: State, maker: str, *, appends: bool) -> Side:
    """The changes from one state to another. Growth counts as an append, except in a revert; new nodes are made again, with uids of `maker`."""
    uids = frozenset(node.uid for node in old.values())
    state = {
        path: node if node.uid in uids else node._replace(uid=(f"{maker} again", number))
        for number, (path, node) in enumerate(new.items())
    }
    return Side(old, state, uids if appends else frozenset())


def by_path(side: Side, theirs: State) -> Side:
    """A side whose nodes are those at the same paths of the other one (docs/design/083-merging.md), without new arrays that are there, too."""
    side = _renamed(side, same_paths(side.base, theirs))
    known = {node.uid for node in side.base.values()}

    def is_there(path: str, node: Node) -> bool:
        other = theirs.get(path)
        if node.values is None or other is None or other.values is None or {node.uid, other.uid} & known:
            return False
        return (
            node.values.dtype == other.values.dtype
            and _same(node.values, other.values)
            and node.attributes == other.attributes
        )

    return side._replace(state={path: node for path, node in side.state.items() if not is_there(path, node)})


def replayed_along(side: Side, tips: Sequence[State]) -> Iterator[dict[str, Node]]:
    """The possible contents of a merge, a cherry-pick or a revert of these changes behind the first of some tips, which was then rebased to the others."""
    own = by_path(side, tips[0])
    for state in merged(own, tips[0]):
        if tips[1:]:
            yield from replayed_along(own._replace(base=tips[0], state=state), tips[1:])
        else:
            yield state


def same_paths(base: State, theirs: State) -> dict[Uid, Uid]:
    """Nodes that the other side made again at their path, of the same kind and rank: their uids there."""
    former, present = {node.uid for node in base.values()}, {node.uid for node in theirs.values()}
    pairs = [(base[path], node) for path, node in theirs.items() if path in base and node.uid not in former]
    return {was.uid: now.uid for was, now in pairs if was.uid not in present and _rank(was) == _rank(now)}


def _rank(node: Node) -> int | None:
    return None if node.values is None else node.values.ndim


# --- answered conflicts ------------------------------------------------------------------------------------------------------------------


def lost(base: State, state: State, other: State, found: Found, spared: Collection[str]) -> Iterator[str]:
    """The changes of a side, from base to state, that are not in what was found. other: the other side, which may have moved nodes that this one changed;
    spared: paths that are not checked, with all paths above and beneath them"""
    was, now = ({node.uid: (path, node) for path, node in hierarchy.items()} for hierarchy in (base, state))
    elsewhere = {node.uid: path for path, node in other.items()}
    for uid, (path, old) in was.items():
        if uid not in now and path in found and not _is_related(path, spared):
            if not any(side[path].uid != uid for side in (state, other) if path in side):
                yield f"{path} was removed, and is there"
        elif uid in now:
            new_path, new = now[uid]
            if new_path == path and elsewhere.get(uid) in found:
                new_path = elsewhere[uid]
            if not _is_related(path, spared) and not _is_related(new_path, spared):
                yield from _lost_of(path, old, new_path, new, found)
    for uid, (path, new) in now.items():
        if uid not in was and not _is_related(path, spared):
            if path not in found:
                yield f"{path} was made, and is not there"
            elif new.values is not None and not _same(new.values, found[path][0]):
                yield f"{path} was made, and holds something else"


def paths_of(paths: Collection[str], *states: State) -> set[str]:
    """All paths, in any of the states, of nodes that are at one of `paths` in one of the states."""
    uids = {state[path].uid for state in states for path in paths if path in state}
    return {*paths, *(path for state in states for path, node in state.items() if node.uid in uids)}


def moved(paths: Collection[str], base: State, state: State) -> set[str]:
    """The paths, of those given, of nodes that have another path in the base."""
    was = {node.uid: path for path, node in base.items()}
    return {path for path in paths if path in state and was.get(state[path].uid, path) != path}


def _lost_of(path: str, old: Node, new_path: str, new: Node, found: Found) -> Iterator[str]:
    if path == new_path and old.attributes == new.attributes and _same(old.values, new.values):
        return
    if path != new_path and new_path not in found:
        yield f"{path} was moved to {new_path}, and is not there"
    elif new_path in found:
        values, attributes = found[new_path]
        if new.attributes not in (old.attributes, attributes):
            yield f"attributes of {new_path} were set to {dict(new.attributes)}, and are {attributes}"
        if (
            old.values is not None
            and new.values is not None
            and values is not None
            and values.ndim == new.values.ndim
            and not _has_changes(old.values, new.values, values)
        ):
            yield f"values of {new_path} were changed to {new.values.tolist()}, and are {values.tolist()}"


def _has_changes(old: Values, new: Values, found: Values) -> bool:
    """Whether the changes from old to new are in what was found: elements at their positions, appended rows at any later position."""
    common = tuple(slice(0, min(extents)) for extents in zip(old.shape, new.shape, found.shape, strict=True))
    changed = old[common] != new[common]
    if (found[common][changed] != new[common][changed]).any():
        return False
    if len(new) < len(old):
        return len(found) <= max(len(old), len(new))
    rows = new[len(old) :]
    starts = range(min(len(old), len(found)), len(found) - len(rows) + 1)
    # rows of only the fill value may come from a resize, which writes nothing: both sides may grow an array to one shape
    return not rows.any() or any(np.array_equal(found[at : at + len(rows)], rows) for at in starts)


def _same(first: Values | None, other: Values | None) -> bool:
    return first is other if first is None or other is None else np.array_equal(first, other)


def _is_related(path: str, spared: Collection[str]) -> bool:
    return any(
        path == other or path.startswith(other + "/") or other.startswith(path + "/") or not other for other in spared
    )


def state_of(found: Found, ours: State, theirs: State) -> State | None:
    """What was found, as a state; None if it is not clear which node of the two sides is at a path."""
    state: dict[str, Node] = {}
    for path, (values, attributes) in found.items():
        nodes = {side[path].uid: side[path] for side in (ours, theirs) if path in side}
        node = nodes.popitem()[1] if len(nodes) == 1 else None
        if node is None or (node.values is None) != (values is None):
            return None
        state[path] = node._replace(values=values, attributes=attributes)
    return state if len({node.uid for node in state.values()}) == len(state) else None
