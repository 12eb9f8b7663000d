"""Conflicts between what one side changed and what another changed since their common base, as values. Pure.

docs/design/014-conflicts.md has the table of conflicts. Changes without a conflict can be made in any order, with one result (of two appends to one array one
comes after the other). solvers.py solves conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from frazil.base.arrays import Flags
from frazil.base.record import Record, by_value
from frazil.errors import ConflictError, one_line
from frazil.formats.ids import ObjectId
from frazil.repository.manifests.coordinates import among, sorted_coordinates
from frazil.repository.merge.delta import Delta
from frazil.repository.merge.difference import Resize
from frazil.repository.merge.path_conflicts import Side, path_conflicts
from frazil.repository.session.attributes import same_stored_attributes
from frazil.repository.session.change_set import Append, above, append_of
from frazil.repository.session.read_log import Reads
from frazil.stores.values import Columns

Taken: TypeAlias = Literal["ours", "theirs"]

# the text of each kind, for a node and for chunks
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "created": ("both created a node at this path", ""),
    "deleted": ("the others removed what this session changed", "the others cut off chunks that this session wrote"),
    "changed": ("this session removed what the others changed", "this session cut off chunks that the others wrote"),
    "metadata": ("both changed its metadata or shape", "one changed its metadata or shape, the other chunks"),
    "attributes": ("both changed its attributes", ""),
    "chunks": ("both changed the same chunks", "both changed the same chunks"),
    "renamed": ("both renamed it, to different paths", ""),
    "parent": ("a node of the others above or below this path conflicts with it", ""),
    "read": ("what this session read of it has changed", "chunks that this session read have changed"),
}
_BOTH: Final[frozenset[Taken]] = frozenset({"ours", "theirs"})
_THEIRS: Final[frozenset[Taken]] = frozenset({"theirs"})
_NONE: Final[frozenset[Taken]] = frozenset()
_LISTED: Final = 3  # conflicts in the message of an error, and chunks of each


@by_value
class Conflict(Record):
    """A conflict about one node.

    kind          of KINDS
    path          the path of the node in the session; the former path of a node that the session removed
    chunks        int64[n, d], sorted: the chunks of the conflict; None if it is about the node itself
    ours, theirs  the base snapshot of the session, and the snapshot with the changes of others
    answers       the possible answers of a solver besides "fail"; linked conflicts (a group and its members) need the same answer"""

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
            return one_line(f"{self.path}: {self.text}")
        listed = ", ".join([str(tuple(chunk)) for chunk in self.chunks[:_LISTED].tolist()])
        more = len(self.chunks) - _LISTED
        return one_line(f"{self.path}: {self.text}: {listed}") + (f" and {more} more" if more > 0 else "")


def conflict_error(message: str, conflicts: Sequence[Conflict], hint: str) -> ConflictError:
    """The error for some conflicts, with a message that lists the first."""
    listed = "; ".join([str(conflict) for conflict in conflicts[:_LISTED]])
    more = len(conflicts) - _LISTED
    error = ConflictError(f"{message}: {listed}" + (f"; and {more} more" if more > 0 else ""), hint=hint)
    error.conflicts = tuple(conflicts)
    return error


def find_conflicts(ours: Delta, theirs: Delta, began: ObjectId, tip: ObjectId) -> list[Conflict]:
    """Conflicts of two deltas of one base, and of what ours has read, sorted by path. In theirs, growth along one axis counts as an append; in ours, what the
    session records. began, tip: the two snapshots, for the conflicts"""
    return _Comparison(ours, theirs).conflicts(began, tip)


class _Comparison:
    """Two deltas of one base. found: by path, kind, and whether it is about chunks: these chunks, and possible answers"""

    def __init__(self, ours: Delta, theirs: Delta) -> None:
        self.ours, self.theirs = ours, theirs
        self.our_paths, self.their_paths = Side(ours), Side(theirs)
        self.found: dict[tuple[str, str, bool], tuple[Columns | None, frozenset[Taken]]] = {}

    def conflicts(self, began: ObjectId, tip: ObjectId) -> list[Conflict]:
        nodes = [(kind, old) for old in self.ours.touched() & self.theirs.touched() for kind in self._compare(old)]
        for kind, path, ours_may_stay in path_conflicts(self.our_paths, self.their_paths, nodes):
            self._add(kind, path, None, _BOTH if ours_may_stay else _THEIRS)
        if self.ours.reads is not None:
            self._compare_reads(self.ours.reads)
        order = list(KINDS)
        found = sorted(self.found.items(), key=lambda item: (item[0][0], order.index(item[0][1]), item[0][2]))
        return [Conflict(kind, path, chunks, began, tip, answers) for (path, kind, _), (chunks, answers) in found]

    def _add(self, kind: str, path: str, chunks: Columns | None = None, answers: frozenset[Taken] = _BOTH) -> None:
        if chunks is None or len(chunks):
            key = path, kind, chunks is not None
            _, earlier = self.found.get(key, (None, answers))
            self.found[key] = chunks, answers & earlier

    def _compare(self, old: str) -> Iterator[str]:
        """Compares a node that both changed. Yields the kinds of conflicts about its place."""
        ours, theirs = self.ours, self.theirs
        name = ours.name(old)
        if old in theirs.removed or old in ours.removed:
            if old not in ours.removed:
                self._add("deleted", name, answers=_THEIRS)
            elif old not in theirs.removed:
                yield "changed"
            return
        if old in ours.moved and old in theirs.moved and ours.moved[old] != theirs.moved[old]:
            yield "renamed"
        both = old in ours.attributes and old in theirs.attributes
        if both and not same_stored_attributes(ours.attributes[old], theirs.attributes[old]):
            self._add("attributes", name)
        self._compare_metadata(old, name)

    def _compare_metadata(self, old: str, name: str) -> None:
        """Compares metadata and shapes, and chunks, which depend on them."""
        ours, theirs = self.ours, self.theirs
        our_resize, their_resize = ours.resize(old), theirs.resize(old)
        if old in ours.metadata and old in theirs.metadata:
            append = self._common_append(old)
            if append is not None and our_resize is not None:
                self._compare_chunks(old, behind=(append.axis, append.old // our_resize.chunk_shape[append.axis]))
            elif self._same_metadata(old):
                self._compare_chunks(old)
            else:
                chunks = theirs.chunks[old].every if old in theirs.chunks else None
                self._add("metadata", name, chunks, _BOTH if chunks is None else _THEIRS)
            return
        if (old in ours.metadata and our_resize is None) or (old in theirs.metadata and their_resize is None):
            other = theirs if old in ours.metadata else ours
            if old in other.chunks:
                self._add("metadata", name, other.chunks[old].every, _THEIRS)
            return
        cut: Columns | None = None
        for resize, other, kind in ((our_resize, theirs, "changed"), (their_resize, ours, "deleted")):
            if resize is not None and old in other.chunks:
                written = other.chunks[old].written
                cut = written[_is_resized_away(resize, written)]
                self._add(kind, name, cut, _THEIRS)
        self._compare_chunks(old, cut)

    def _common_append(self, old: str) -> Append | None:
        """Our append, if both appended along the same axis."""
        ours, their_resize = self.ours.metadata[old].append, self.theirs.resize(old)
        theirs = None if their_resize is None else append_of(their_resize.old, their_resize.new)
        return ours if ours is not None and theirs is not None and ours.axis == theirs.axis else None

    def _same_metadata(self, old: str) -> bool:
        ours, theirs = self.ours.metadata[old], self.theirs.metadata[old]
        if ours.resize is not None and theirs.resize is not None:
            return ours.resize.new == theirs.resize.new
        return ours.resize is theirs.resize and ours.new is not None and ours.new == theirs.new

    def _compare_chunks(self, old: str, cut: Columns | None = None, behind: tuple[int, int] | None = None) -> None:
        """Compares chunks that both wrote, or one wrote and the other removed. cut: chunks that are in conflict already; behind: axis and number of the first
        chunk that is ignored"""
        ours, theirs = self.ours.chunks.get(old), self.theirs.chunks.get(old)
        if ours is None or theirs is None:
            return
        both = np.concatenate(
            [
                ours.written[among(ours.written, theirs.written) | among(ours.written, theirs.removed)],
                ours.removed[among(ours.removed, theirs.written)],
            ]
        )
        if cut is not None:
            both = both[~among(both, cut)]
        if behind is not None:
            axis, first = behind
            both = both[both[:, axis] < first]
        self._add("chunks", self.ours.name(old), sorted_coordinates(both))

    def _compare_reads(self, reads: Reads) -> None:
        theirs = self.theirs
        changed = {*theirs.removed, *theirs.moved, *theirs.metadata, *theirs.attributes}
        changed_paths = {name for old in changed for name in self._names(old)} | self.their_paths.placed
        for path in (reads.nodes & changed_paths) | (reads.listed & self._changed_groups()):
            self._add("read", path, None, _NONE)
        for old in {*reads.arrays, *reads.chunks}:
            name = self.ours.name(old)
            if (name, "read", False) not in self.found:
                self._compare_read_chunks(name, old, None if old in reads.arrays else reads.chunks[old])

    def _compare_read_chunks(self, path: str, old: str, read: Columns | None) -> None:
        """Compares an array of which chunks were read; None: all, including their number."""
        theirs, resize = self.theirs, self.theirs.resize(old)
        if old in theirs.removed or (old in theirs.metadata and (read is None or resize is None)):
            self._add("read", path, None, _NONE)
            return
        changed = theirs.chunks[old].every if old in theirs.chunks else None
        if read is not None:
            is_changed = np.zeros(len(read), np.bool_) if changed is None else among(read, changed)
            if resize is not None:
                is_changed |= _is_resized_away(resize, read)
            changed = sorted_coordinates(read[is_changed])
        if changed is not None:
            self._add("read", path, changed, _NONE)

    def _names(self, old: str) -> set[str]:
        return {old, self.ours.name(old), self.theirs.name(old)}

    def _changed_groups(self) -> set[str]:
        """All names of the groups whose members differ on their side."""
        theirs = self.their_paths
        changed_groups = {group for path in (*theirs.removed, *theirs.moved) for group in above(path)[-1:]}
        entered = {group for path in theirs.placed for group in above(path)[-1:]}
        groups = {name for group in changed_groups for name in self._names(group)}
        for group in entered:
            groups |= {group, *self._names(theirs.source(group) or group)}
        return groups


def _is_resized_away(resize: Resize, chunks: Columns) -> Flags:
    """Which chunks of an array a resize removes or shortens."""
    cut = np.zeros(len(chunks), np.bool_)
    for axis, (old, new, length) in enumerate(zip(*resize, strict=True)):
        if new < old:
            cut |= (chunks[:, axis] + 1) * length > new
    return cut
