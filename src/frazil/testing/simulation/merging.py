"""Two sets of changes made one after the other, on the plain hierarchies of hierarchy.py: what a commit holds that was rebased without a conflict.

The rules are those of docs/design/014-conflicts.md. Where they say that two changes conflict, there is no outcome here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from frazil.record import Record
from frazil.testing.simulation.hierarchy import Act, Node, State, acted

if TYPE_CHECKING:
    from frazil.testing.simulation.hierarchy import Uid, Values

__all__ = ["Side", "merged", "outcomes"]


class Side(Record):
    """What a session did.

    base, state         where it began, and what it shows now
    appended, resized   arrays that acts of these names changed: one that did both may count as an append or not"""

    base: State
    state: State
    appended: frozenset[Uid] = frozenset()
    resized: frozenset[Uid] = frozenset()

    def after(self, act: Act, maker: str, number: int) -> Side:
        """The side when one more change is made; maker, number as for `acted`."""
        side = self._replace(state=acted(self.state, act, maker, number))
        if act.name == "append":
            return side._replace(appended=self.appended | {self.state[act.path].uid})
        if act.name in ("resize", "unappend"):
            return side._replace(resized=self.resized | {self.state[act.path].uid})
        return side

    def began(self) -> Side:
        """A side that begins where this one is."""
        return Side(self.state, self.state)


def outcomes(side: Side, tips: Sequence[State]) -> Iterator[dict[str, Node]]:
    """What a commit may hold whose branch went through `tips` since the session began, the last of them its parent: any of the others may have been
    rebased to on the way."""
    if not tips:
        yield dict(side.state)
        return
    for count in range(len(tips)):
        for between in combinations(tips[:-1], count):
            yield from _along(side, [*between, tips[-1]])


def _along(side: Side, tips: Sequence[State]) -> Iterator[dict[str, Node]]:
    for state in merged(side, tips[0]):
        if len(tips) == 1:
            yield state
        else:
            yield from _along(side._replace(base=tips[0], state=state), tips[1:])


def merged(side: Side, theirs: State) -> Iterator[dict[str, Node]]:
    """What may come out where a side meets another state, if nothing conflicts: one outcome, or some where an array was both appended to and resized."""
    unclear = sorted(side.appended & side.resized)
    for choice in product((True, False), repeat=len(unclear)):
        appended = (side.appended - side.resized) | {uid for uid, said in zip(unclear, choice, strict=True) if said}
        state = _merged(side, theirs, appended)
        if state is not None:
            yield state


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
                path = now
            attributes = own.attributes if own.attributes != was.attributes else node.attributes
            node = node._replace(attributes=attributes)
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
        there = found.get(path)
        if there is None:
            found[path] = node
        elif node.values is not None or there.values is not None or node.attributes != there.attributes:
            return None
    return found


def _values(was: Values, own: Values, theirs: Values, *, appends: bool) -> Values | None:
    """The values of an array that two sides changed; None where its shapes conflict."""
    if appends and _grew(was, own) and _grew(was, theirs):
        made = np.concatenate([theirs, own[len(was) :]])
        return _laid_over(made, was, own[: len(was)])
    if own.shape != was.shape and theirs.shape not in (was.shape, own.shape):
        return None
    made = np.zeros(own.shape if own.shape != was.shape else theirs.shape, was.dtype)
    common = _common(made, theirs)
    made[common] = theirs[common]
    return _laid_over(made, was, own)


def _laid_over(made: Values, was: Values, own: Values) -> Values:
    """`made`, with all elements that are other in `own` than they were (0 beyond the end)."""
    before = np.zeros(own.shape, was.dtype)
    common = _common(before, was)
    before[common] = was[common]
    within = _common(made, own)
    made[within] = np.where(own[within] != before[within], own[within], made[within])
    return made


def _common(one: Values, other: Values) -> tuple[slice, ...]:
    return tuple(slice(0, min(extents)) for extents in zip(one.shape, other.shape, strict=True))


def _grew(was: Values, now: Values) -> bool:
    return now.shape[1:] == was.shape[1:] and len(now) > len(was)
