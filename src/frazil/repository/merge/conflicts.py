"""Conflicts between what one side changed and what another changed since their common base, as values. Pure.

What may not meet what is a table in docs/design/014-conflicts.md. Changes of which none conflict can be made in any order, with one outcome (appends to one array
alone come one behind the other). Who decides, and what is left of one side then, is in solvers.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from frazil.formats.alpha.attributes import same_json
from frazil.formats.alpha.nodes import AttributesReference
from frazil.record import Record
from frazil.repository.files.attributes import Attributes
from frazil.repository.manifests.coordinates import among, sorted_coordinates
from frazil.repository.merge.delta import Delta
from frazil.repository.merge.places import Places, Side
from frazil.repository.session.change_set import Append, append_of
from frazil.repository.session.read_log import Reads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.formats.ids import ObjectId
    from frazil.repository.merge.difference import ChunkDifference, Resize

    Columns = NDArray[np.int64]

__all__ = ["KINDS", "Conflict", "Taken", "find_conflicts"]

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
_TOLD: Final = 3  # conflicts in the message of an error, and chunks of each


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


# --- finding -------------------------------------------------------------------------------------------------------------------------


def find_conflicts(ours: Delta, theirs: Delta, began: ObjectId, tip: ObjectId) -> list[Conflict]:
    """Where two changes of one base meet, sorted by path: ours, and theirs. Ours tells its appends; of theirs, growth along one axis is taken for one. Of ours, what was
    read counts, too.

    began, tip  snapshots, for the conflicts to name"""
    return _Meeting(ours, theirs).conflicts(began, tip)


class _Meeting:
    """Two deltas of one base."""

    __slots__ = ("found", "our_places", "ours", "their_places", "theirs")

    def __init__(self, ours: Delta, theirs: Delta) -> None:
        self.ours, self.theirs = ours, theirs
        self.our_places, self.their_places = Side(ours), Side(theirs)
        # by path, kind, and whether it is about chunks
        self.found: dict[tuple[str, str, bool], tuple[Columns | None, frozenset[Taken]]] = {}

    def conflicts(self, began: ObjectId, tip: ObjectId) -> list[Conflict]:
        nodes = [(kind, old) for old in self.ours.touched() & self.theirs.touched() for kind in self._node(old)]
        Places(self.our_places, self.their_places, self._tell_place, self._is_same_group).find(nodes)
        if self.ours.reads is not None:
            self._reads(self.ours.reads)
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

    def _is_same_group(self, path: str) -> bool:
        """Whether both made the same group at a path."""
        ours, theirs = self.ours.made[path].node, self.theirs.made[path].node
        return ours is not None and theirs is not None and _same_attributes(ours.attributes, theirs.attributes)

    # --- one node ------------------------------------------------------------------------------------------------------------------

    def _node(self, old: str) -> Iterator[str]:
        """A node that both touched. Gives the kinds of conflicts that are about its place, for others to tell."""
        ours, theirs = self.ours, self.theirs
        name = ours.name(old)
        if old in theirs.removed or old in ours.removed:
            if old not in ours.removed:
                self._tell("deleted", name, answers=_THEIRS)
            elif old not in theirs.removed:
                yield "changed"
            return
        if old in ours.moved and old in theirs.moved and ours.moved[old] != theirs.moved[old]:
            yield "renamed"
        if (
            old in ours.attributes
            and old in theirs.attributes
            and not _same_attributes(ours.attributes[old], theirs.attributes[old])
        ):
            self._tell("attributes", name)
        self._form(old)

    def _form(self, old: str) -> None:
        """Metadata and shapes, and chunks, which lean on them."""
        ours, theirs, name = self.ours, self.theirs, self.ours.name(old)
        our_form, their_form = old in ours.metadata, old in theirs.metadata
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
        if (our_form and old not in ours.resized) or (their_form and old not in theirs.resized):
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
        ours = self.ours.appends.get(old)
        if ours is None or old not in self.theirs.resized:
            return None
        theirs = append_of(*self.theirs.resized[old][:2])
        return ours if theirs is not None and ours.axis == theirs.axis else None

    def _same_form(self, old: str) -> bool:
        ours, theirs = self.ours.resized.get(old), self.theirs.resized.get(old)
        if ours is None and theirs is None:
            return self.ours.metadata[old] is not None and self.ours.metadata[old] == self.theirs.metadata[old]
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
        changed = {*theirs.removed, *theirs.moved, *theirs.metadata, *theirs.attributes}
        seen = {name for old in changed for name in self._names(old)} | self.their_places.placed
        for path in reads.nodes & seen:
            self._tell("read", path, None, _NONE)
        for path in reads.listed & self._changed_groups():
            self._tell("read", path, None, _NONE)
        for old in reads.arrays:
            name = self.ours.name(old)
            if old in theirs.removed or old in theirs.metadata:
                self._tell("read", name, None, _NONE)
            elif old in theirs.chunks and (name, "read", False) not in self.found:
                self._tell("read", name, _all_chunks(theirs.chunks[old]), _NONE)
        for old, read in reads.chunks.items():
            name = self.ours.name(old)
            if (name, "read", False) not in self.found and (name, "read", True) not in self.found:
                self._read_chunks(name, old, read)

    def _read_chunks(self, path: str, old: str, read: Columns) -> None:
        theirs = self.theirs
        if old in theirs.removed or (old in theirs.metadata and old not in theirs.resized):
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
        theirs = self.their_places
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


def _same_attributes(left: Attributes, right: Attributes) -> bool:
    """Whether attributes are the same JSON; of those that lie in files only the places are looked at."""
    if isinstance(left, AttributesReference) or isinstance(right, AttributesReference):
        return left == right
    return same_json(left or {}, right or {})


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
