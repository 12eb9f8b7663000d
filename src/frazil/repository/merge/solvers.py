"""Solvers of conflicts: they decide which side's change is used, and what remains of ours. Pure. conflicts.py defines conflicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

from frazil.base.reports import counted
from frazil.errors import InvalidInputError
from frazil.repository.manifests.coordinates import among
from frazil.repository.merge.conflicts import Conflict, Taken, conflict_error
from frazil.repository.merge.delta import Delta, MetadataChange
from frazil.repository.merge.difference import ChunkDifference
from frazil.stores.values import Columns

Answer: TypeAlias = Literal["ours", "theirs", "fail"]
Solver: TypeAlias = Callable[[Conflict], Answer]

_NAMED: Final = ("ours", "theirs")
_OF_NODES: Final = ("moved", "attributes", "metadata", "chunks", "rows")  # of nodes of the base that stay
_DROPPED: Final = {  # of these, what is dropped for a conflict of each kind; for other kinds the move
    "attributes": ("attributes",),
    "metadata": ("metadata", "chunks", "rows"),
    "changed": ("metadata", "chunks", "rows"),
    "deleted": _OF_NODES,
}


def check_solver(solver: object) -> None:
    """Raises InvalidInputError for anything but the name of a solver or a function."""
    if not (solver in {*_NAMED, "disjoint"} if isinstance(solver, str) else callable(solver)):
        raise InvalidInputError(
            f"there is no solver {solver!r}",
            hint='it must be "disjoint", "ours", "theirs" or a function of one conflict',
        )


def solve(conflicts: Sequence[Conflict], solver: str | Solver) -> list[Taken]:
    """Which side's change is taken, for each conflict. solver: "ours", "theirs", "disjoint" (fails at any conflict), or a function that returns "ours",
    "theirs" or "fail"

    Raises ConflictError with the conflicts whose answer is "fail" or impossible (`Conflict.answers`); InvalidInputError for an invalid
    solver or answer."""
    check_solver(solver)
    choices: list[Taken] = []
    unsolved: list[Conflict] = []
    for conflict in conflicts:
        answer = solver if isinstance(solver, str) else solver(conflict)
        if not isinstance(solver, str) and answer not in (*_NAMED, "fail"):
            raise InvalidInputError(
                f'a solver must return "ours", "theirs" or "fail", not {answer!r}', path=conflict.path
            )
        if answer in conflict.answers:
            choices.append(answer)
        else:
            unsolved.append(conflict)
    if unsolved:
        count = "a conflict" if len(unsolved) == 1 else counted(len(unsolved), "conflict")
        raise conflict_error(f"{count} with what others have committed since", unsolved, hint_for(unsolved))
    return choices


def hint_for(conflicts: Sequence[Conflict], argument: str = "rebase") -> str:
    """What to do about conflicts: it names the solvers that answer all of them. argument: that takes a solver"""
    sides = [f'{argument}="{name}"' for name in _NAMED if all(name in conflict.answers for conflict in conflicts)]
    again = "make the change again from the newest state"
    return f"{again}; or {' or '.join(sides)} takes one side" if sides else again


def answered(
    ours: Delta, theirs: Delta, conflicts: Sequence[Conflict], choices: Sequence[Taken]
) -> tuple[Delta, frozenset[str]]:
    """What remains of ours, and the paths whose nodes of the other side are replaced, with all below: new paths, and former paths of nodes that ours removes.

    choices  for each conflict: the side whose change is used"""
    remaining = _Left(ours)
    for conflict, answer in zip(conflicts, choices, strict=True):
        remaining.take(conflict, answer)
    for path, found in ours.chunks.items():  # what both removed is removed
        if path in theirs.chunks and path in remaining.parts["chunks"]:
            remaining.drop_chunks(path, found.removed[among(found.removed, theirs.chunks[path].removed)])
    return ours._replace(**remaining.parts), frozenset(remaining.over)


class _Left:
    """The parts of a delta, by their names, while some of it is dropped. over: as for `answered`"""

    def __init__(self, ours: Delta) -> None:
        self.sources = {new: old for old, new in ours.moved.items()}
        self.parts: dict[str, Any] = {name: dict(getattr(ours, name)) for name in ("removed", "made", *_OF_NODES)}
        self.over: set[str] = set()

    def take(self, conflict: Conflict, answer: Taken) -> None:
        kind, path, chunks = conflict.kind, conflict.path, conflict.chunks
        is_removal = kind == "changed" and chunks is None
        old = self.sources.get(path, path)
        if answer == "ours":
            if is_removal or kind == "created":
                self.over.add(path)
            elif kind == "metadata" and old in self.parts["metadata"]:  # all of it stays, whatever theirs changed
                self.parts["metadata"][old] = MetadataChange(self.parts["metadata"][old].new)
        elif is_removal:
            self.parts["removed"].pop(path, None)
        elif path in self.parts["made"]:
            del self.parts["made"][path]
        elif chunks is not None and kind not in {"metadata", "changed"}:
            self.drop_chunks(old, chunks)
        else:
            for name in _DROPPED.get(kind, ("moved",)):
                self.parts[name].pop(old, None)

    def drop_chunks(self, old: str, chunks: Columns) -> None:
        found, rows = self.parts["chunks"].get(old), self.parts["rows"].get(old)
        if found is not None:
            self.parts["chunks"][old] = ChunkDifference(*[part[~among(part, chunks)] for part in found])
        if rows is not None:
            self.parts["rows"][old] = rows.pick(~among(rows.coordinates, chunks))
