"""Conflicts between what a session changed and what others committed since it began, as values; and solvers of them. Pure.

What may not meet what is a table in docs/design/014-conflicts.md. Changes of which none conflict can be made in any order, with one outcome (appends to one array
alone come one behind the other). What is done with an answer is the rebase's to do; how differences are made is in difference.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from frazil.errors import ConflictError, InvalidInputError
from frazil.record import Record
from frazil.repository.manifests.coordinates import among, sorted_coordinates
from frazil.repository.merge.node_paths import Places, Side
from frazil.repository.session.change_set import Append, append_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.ids import ObjectId
    from frazil.repository.merge.difference import ChunkDifference, Difference, Resize

    Columns = NDArray[np.int64]

__all__ = [
    "KINDS",
    "Answer",
    "Conflict",
    "Reads",
    "Solver",
    "check_solver",
    "find_conflicts",
    "solve",
]

Answer: TypeAlias = Literal["ours", "theirs", "fail"]
Taken: TypeAlias = Literal["ours", "theirs"]

# what happened, and the same where it is about chunks
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "created": ("both made a node at this path", ""),
    "deleted": ("they removed what this session changed", "they cut off chunks that this session wrote"),
    "changed": ("this session removed what they changed", "this session cut off chunks that they wrote"),
    "metadata": ("both changed its metadata or shape", "one changed its metadata or shape, the other chunks"),
    "attributes": ("both changed its attributes", ""),
    "chunks": ("both changed the same chunks", "both changed the same chunks"),
    "renamed": ("both renamed it, to different paths", ""),
    "parent": ("what they have above or beneath this path leaves no place for it", ""),
    "read": ("what this session read of it has changed", "chunks that this session read have changed"),
}
_BOTH: Final[frozenset[Taken]] = frozenset({"ours", "theirs"})
_THEIRS: Final[frozenset[Taken]] = frozenset({"theirs"})
_NONE: Final[frozenset[Taken]] = frozenset()
_NAMED: Final = ("ours", "theirs")
_TOLD: Final = 3  # conflicts in the message of an error, and chunks of each


class Reads(Record):
    """What a session looked at, by the paths that nodes have in it now; of those that it removed, that they had.

    nodes: also paths where nothing was; listed: groups whose members were listed; chunks: int64[n, d], the coordinates of those that were read, or found missing"""

    nodes: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    chunks: Mapping[str, Columns] = {}


class Conflict(Record):
    """One node in which two changes meet.

    kind         of KINDS
    path         as the session has it; of what it removed, as it was
    chunks       int64[n, d], sorted: the chunks in question; None where it is about the node itself
    ours, theirs the snapshot that the session began from, and the one that holds what others did
    answers      what a solver can say to it beside "fail"; of several that go together (a group and what is in it) the same"""

    kind: str
    path: str
    chunks: Columns | None
    ours: ObjectId
    theirs: ObjectId
    answers: frozenset[Taken] = _BOTH

    @property
    def text(self) -> str:
        """What happened, in words."""
        return KINDS[self.kind][self.chunks is not None]

    def __str__(self) -> str:
        if self.chunks is None:
            return f"{self.path}: {self.text}"
        told = ", ".join([str(tuple(chunk)) for chunk in self.chunks[:_TOLD].tolist()])
        more = len(self.chunks) - _TOLD
        return f"{self.path}: {self.text}: {told}" + (f" and {more} more" if more > 0 else "")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conflict):
            return NotImplemented
        if self.chunks is None or other.chunks is None:
            same = self.chunks is other.chunks
        else:
            same = np.array_equal(self.chunks, other.chunks)
        return same and self[:2] == other[:2] and self[3:] == other[3:]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self[:2], self[3:]))


Solver: TypeAlias = Callable[[Conflict], Answer]
Agree: TypeAlias = Callable[[str, str, str], bool]


# --- solving -------------------------------------------------------------------------------------------------------------------------


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


# --- finding -------------------------------------------------------------------------------------------------------------------------


def find_conflicts(
    ours: Difference,
    theirs: Difference,
    appended: Mapping[str, Append],
    reads: Reads | None,
    began: ObjectId,
    tip: ObjectId,
    *,
    agree: Agree | None = None,
) -> list[Conflict]:
    """Where two changes of one state meet, sorted by path: what a session did (ours), and what was committed since it began (theirs). Both differences say
    renames by node.

    appended   arrays (our paths) that the session did nothing to the shape of but append; theirs are seen by their shapes
    reads      for serializable sessions: what they looked at
    began, tip snapshots, for the conflicts to name
    agree      whether both made the same of a node: called with "created" (two groups of one path), "metadata" or "attributes", our path and theirs; None: never"""
    return _Meeting(ours, theirs, appended, agree or _never).conflicts(reads, began, tip)


def _never(*_: str) -> bool:
    return False


class _Meeting:
    """Two sides that began from one state."""

    __slots__ = ("agree", "appended", "found", "ours", "theirs")

    def __init__(self, ours: Difference, theirs: Difference, appended: Mapping[str, Append], agree: Agree) -> None:
        self.ours, self.theirs, self.appended, self.agree = Side(ours), Side(theirs), appended, agree
        # by path, kind, and whether it is about chunks
        self.found: dict[tuple[str, str, bool], tuple[Columns | None, frozenset[Taken]]] = {}

    def conflicts(self, reads: Reads | None, began: ObjectId, tip: ObjectId) -> list[Conflict]:
        nodes = [(kind, old) for old in self.ours.touched() & self.theirs.touched() for kind in self._node(old)]
        places = Places(self.ours, self.theirs, self._tell_place, lambda path: self.agree("created", path, path))
        places.find(nodes)
        if reads is not None:
            self._reads(reads)
        order = list(KINDS)
        found = sorted(self.found.items(), key=lambda item: (item[0][0], order.index(item[0][1]), item[0][2]))
        return [Conflict(kind, path, chunks, began, tip, answers) for (path, kind, _), (chunks, answers) in found]

    def _tell(self, kind: str, path: str, chunks: Columns | None = None, answers: frozenset[Taken] = _BOTH) -> None:
        if chunks is None or len(chunks):
            key = path, kind, chunks is not None
            _, known = self.found.get(key, (None, answers))
            self.found[key] = chunks, answers & known

    def _tell_place(self, kind: str, path: str, /, *, ours_may_stay: bool = True) -> None:
        self._tell(kind, path, None, _BOTH if ours_may_stay else _THEIRS)

    # --- one node ------------------------------------------------------------------------------------------------------------------

    def _node(self, old: str) -> Iterator[str]:
        """A node that both touched. Gives the kinds of conflicts that are about its place, for others to tell."""
        ours, theirs = self.ours, self.theirs
        name = ours.name(old)
        if old in theirs.gone or old in ours.gone:
            if old not in ours.gone:
                self._tell("deleted", name, answers=_THEIRS)
            elif old not in theirs.gone:
                yield "changed"
            return
        if old in ours.moved and old in theirs.moved and ours.moved[old] != theirs.moved[old]:
            yield "renamed"
        if old in ours.attributes and old in theirs.attributes and not self._agreed("attributes", old):
            self._tell("attributes", name)
        self._form(old)

    def _agreed(self, kind: str, old: str) -> bool:
        return self.agree(kind, self.ours.name(old), self.theirs.name(old))

    def _form(self, old: str) -> None:
        """Metadata and shapes, and chunks, which lean on them."""
        ours, theirs, name = self.ours, self.theirs, self.ours.name(old)
        our_form = old in ours.metadata or old in ours.resized
        their_form = old in theirs.metadata or old in theirs.resized
        left_out: Columns | None = None
        if our_form and their_form:
            append = self._common_append(old)
            if append is not None:
                self._chunks(old, behind=(append.axis, append.old // ours.resized[old].chunk_shape[append.axis]))
            elif self._same_form(old):
                self._chunks(old)
            else:
                chunks = _all_chunks(theirs.chunks[old]) if old in theirs.chunks else None
                self._tell("metadata", name, chunks, _BOTH if chunks is None else _THEIRS)
            return
        if old in ours.metadata or old in theirs.metadata:
            other = theirs if our_form else ours
            if old in other.chunks:
                self._tell("metadata", name, _all_chunks(other.chunks[old]), _THEIRS)
            return
        if old in ours.resized and old in theirs.chunks:
            written = theirs.chunks[old].written
            left_out = written[_is_cut(ours.resized[old], written)]
            self._tell("changed", name, left_out, _THEIRS)
        if old in theirs.resized and old in ours.chunks:
            written = ours.chunks[old].written
            left_out = written[_is_cut(theirs.resized[old], written)]
            self._tell("deleted", name, left_out, _THEIRS)
        self._chunks(old, left_out)

    def _common_append(self, old: str) -> Append | None:
        """Our append, where they appended along the same axis."""
        if old not in self.ours.resized or old not in self.theirs.resized:
            return None
        ours = append_of(*self.ours.resized[old][:2])
        theirs = append_of(*self.theirs.resized[old][:2])
        if ours is None or theirs is None or ours != self.appended.get(self.ours.name(old)):
            return None
        return ours if ours.axis == theirs.axis else None

    def _same_form(self, old: str) -> bool:
        ours, theirs = self.ours.resized.get(old), self.theirs.resized.get(old)
        if ours is None and theirs is None:
            return self._agreed("metadata", old)
        return ours is not None and theirs is not None and ours.new == theirs.new

    def _chunks(self, old: str, left_out: Columns | None = None, behind: tuple[int, int] | None = None) -> None:
        """Chunks that both wrote, or one wrote and the other removed; but some, and those from a place along an axis on."""
        ours, theirs = self.ours.chunks.get(old), self.theirs.chunks.get(old)
        if ours is None or theirs is None:
            return
        told = np.concatenate(
            [
                ours.written[among(ours.written, theirs.written) | among(ours.written, theirs.removed)],
                ours.removed[among(ours.removed, theirs.written)],
            ]
        )
        if left_out is not None:
            told = told[~among(told, left_out)]
        if behind is not None:
            axis, first = behind
            told = told[told[:, axis] < first]
        self._tell("chunks", self.ours.name(old), sorted_coordinates(told))

    # --- reads -----------------------------------------------------------------------------------------------------------------------

    def _reads(self, reads: Reads) -> None:
        theirs = self.theirs
        changed = {*theirs.gone, *theirs.moved, *theirs.metadata, *theirs.attributes, *theirs.resized}
        seen = {name for old in changed for name in self._names(old)} | theirs.placed
        for path in reads.nodes & seen:
            self._tell("read", path, None, _NONE)
        for path in reads.listed & self._changed_groups():
            self._tell("read", path, None, _NONE)
        for path, read in reads.chunks.items():
            if (path, "read", False) not in self.found:
                self._read_chunks(path, self.ours.sources.get(path, path), read)

    def _read_chunks(self, path: str, old: str, read: Columns) -> None:
        theirs = self.theirs
        if old in theirs.gone or old in theirs.metadata:
            self._tell("read", path, None, _NONE)
            return
        changed = np.zeros(len(read), np.bool_)
        if old in theirs.chunks:
            changed |= among(read, _all_chunks(theirs.chunks[old]))
        if old in theirs.resized:
            changed |= _is_cut(theirs.resized[old], read)
        self._tell("read", path, sorted_coordinates(read[changed]), _NONE)

    def _names(self, old: str) -> set[str]:
        return {old, self.ours.name(old), self.theirs.name(old)}

    def _changed_groups(self) -> set[str]:
        """All names of the groups that have other members on their side."""
        theirs = self.theirs
        left = {_parent(path) for path in chain(theirs.gone, theirs.moved)}
        entered = {_parent(path) for path in theirs.placed}
        groups = {name for group in left for name in self._names(group)}
        for group in entered:
            groups |= {group, *self._names(theirs.source(group) or group)}
        return groups


def _all_chunks(difference: ChunkDifference) -> Columns:
    return sorted_coordinates(np.concatenate(difference))


def _is_cut(resize: Resize, chunks: Columns) -> NDArray[np.bool_]:
    """Which chunks of an array a resize cuts off, or into."""
    cut = np.zeros(len(chunks), np.bool_)
    for axis, (old, new, length) in enumerate(zip(*resize, strict=True)):
        if new < old:
            cut |= (chunks[:, axis] + 1) * length > new
    return cut


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
