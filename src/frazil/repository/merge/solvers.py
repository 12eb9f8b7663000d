"""Solvers of conflicts: who decides whose change counts, and what is left of ours then. Pure. What conflicts are is in conflicts.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from frazil.errors import ConflictError, InvalidInputError
from frazil.record import Record
from frazil.repository.manifests.coordinates import among
from frazil.repository.merge.conflicts import Conflict, Taken
from frazil.repository.merge.delta import Delta
from frazil.repository.merge.difference import ChunkDifference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]

__all__ = ["Answer", "Answered", "Solver", "answered", "check_solver", "solve"]

Answer: TypeAlias = Literal["ours", "theirs", "fail"]
Solver: TypeAlias = Callable[[Conflict], Answer]

_NAMED: Final = ("ours", "theirs")
_TOLD: Final = 3  # conflicts in the message of an error


def check_solver(solver: object) -> None:
    """Raises InvalidInputError for what is neither the name of a solver nor a function."""
    if not (solver in {*_NAMED, "disjoint"} if isinstance(solver, str) else callable(solver)):
        raise InvalidInputError(
            f"there is no solver {solver!r}", hint='it is "disjoint", "ours", "theirs" or a function of one conflict'
        )


def solve(conflicts: Sequence[Conflict], solver: str | Solver) -> list[Taken]:
    """Whose change is taken, for each conflict. solver: "ours" or "theirs", "disjoint" for a failure on each, or a function that says "ours", "theirs" or "fail".

    Raises ConflictError, that holds those which are left: where it says "fail", or what cannot be (`Conflict.answers`). InvalidInputError for a solver that is
    none."""
    check_solver(solver)
    taken: list[Taken] = []
    left: list[Conflict] = []
    for conflict in conflicts:
        answer = solver if isinstance(solver, str) else solver(conflict)
        if answer == "ours" and answer in conflict.answers:
            taken.append("ours")
        elif answer == "theirs" and answer in conflict.answers:
            taken.append("theirs")
        elif answer in {*_NAMED, "fail"} or isinstance(solver, str):
            left.append(conflict)
        else:
            raise InvalidInputError(f'a solver says "ours", "theirs" or "fail", not {answer!r}', path=conflict.path)
    if left:
        raise _failure(left)
    return taken


def _failure(conflicts: Sequence[Conflict]) -> ConflictError:
    told = "; ".join([str(conflict) for conflict in conflicts[:_TOLD]])
    more = len(conflicts) - _TOLD
    count = "a conflict" if len(conflicts) == 1 else f"{len(conflicts)} conflicts"
    error = ConflictError(
        f"{count} with what others have committed since: {told}" + (f"; and {more} more" if more > 0 else ""),
        hint="make the change again from the newest state, or rebase with a solver",
    )
    error.conflicts = tuple(conflicts)
    return error


class Answered(Record):
    """What is left of a delta. over: its new paths, and paths of the base of nodes that it removed, at which what the other side has gives way, with all beneath"""

    delta: Delta
    over: frozenset[str] = frozenset()


def answered(ours: Delta, theirs: Delta, conflicts: Sequence[Conflict], taken: Sequence[Taken]) -> Answered:
    """What is left of ours. taken: for each conflict, whose change counts"""
    left = _Left(ours)
    for conflict, answer in zip(conflicts, taken, strict=True):
        left.take(conflict, answer)
    for path, found in ours.chunks.items():  # what both removed is removed
        if path in theirs.chunks and path in left.chunks:
            left.drop_chunks(path, found.removed[among(found.removed, theirs.chunks[path].removed)])
    return Answered(left.delta(ours), frozenset(left.over))


class _Left:
    """The parts of a delta, while some are given up."""

    def __init__(self, ours: Delta) -> None:
        self.sources = {new: old for old, new in ours.moved.items()}
        self.removed, self.moved, self.made = dict(ours.removed), dict(ours.moved), dict(ours.made)
        self.attributes, self.metadata = dict(ours.attributes), dict(ours.metadata)
        self.resized, self.appends = dict(ours.resized), dict(ours.appends)
        self.chunks, self.rows = dict(ours.chunks), dict(ours.rows)
        self.over: set[str] = set()

    def take(self, conflict: Conflict, answer: Taken) -> None:
        kind, path, chunks = conflict.kind, conflict.path, conflict.chunks
        if kind == "changed" and chunks is None:
            if answer == "ours":
                self.over.add(path)
            else:
                self.removed.pop(path, None)
            return
        if answer == "ours" and kind == "created":
            self.over.add(path)
        if path in self.made:
            if answer == "theirs":
                del self.made[path]
            return
        old = self.sources.get(path, path)
        if answer == "ours":
            if kind == "metadata":  # all of it stands, whatever else they changed
                self._give_up(old, self.resized, self.appends)
        elif kind in {"metadata", "changed"}:
            self._give_up(old, self.metadata, self.resized, self.appends, self.chunks, self.rows)
        elif chunks is not None:
            self.drop_chunks(old, chunks)
        elif kind == "attributes":
            self._give_up(old, self.attributes)
        elif kind == "deleted":
            self._give_up(old, *self._of_nodes())
        else:  # renamed, created, parent
            self._give_up(old, self.moved)

    def _of_nodes(self) -> list[dict[str, Any]]:
        every = (self.moved, self.attributes, self.metadata, self.resized, self.appends, self.chunks, self.rows)
        return list(every)

    def _give_up(self, old: str, *parts: dict[str, Any]) -> None:
        for part in parts:
            part.pop(old, None)

    def drop_chunks(self, old: str, chunks: Columns) -> None:
        found, rows = self.chunks.get(old), self.rows.get(old)
        if found is not None:
            self.chunks[old] = ChunkDifference(*[part[~among(part, chunks)] for part in found])
        if rows is not None:
            self.rows[old] = rows.pick(~among(rows.coordinates, chunks))

    def delta(self, ours: Delta) -> Delta:
        return ours._replace(
            removed=self.removed,
            moved=self.moved,
            made=self.made,
            attributes=self.attributes,
            metadata=self.metadata,
            resized=self.resized,
            appends=self.appends,
            chunks=self.chunks,
            rows=self.rows,
        )
