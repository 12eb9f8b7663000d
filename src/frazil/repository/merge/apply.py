"""`apply` makes the changes of a delta in a tree. No other function applies the changes of one change set to another.

Before, conflicts.py and solvers.py decide whether the delta conflicts with the present tree. Changes that do not fit are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from frazil.base.arrays import distinct
from frazil.base.record import Record
from frazil.errors import ConflictError
from frazil.repository.manifests.coordinates import grid_of, within
from frazil.repository.merge.delta import Delta, MetadataChange
from frazil.repository.session.attributes import Attributes, same_stored_attributes
from frazil.repository.session.change_set import ChangeSet, NodeChange, above
from frazil.repository.session.changed_references import PENDING, REMOVED, VIRTUAL, Rows


class Shift(Record):
    """Appended rows that are not whole chunks at their new place, and have to be copied.

    before  path of the array in the base. The whole delta of the session has its path in the session; the applied delta may lack moves
    key     of the array, in the tree
    axis    along which it grew;  old, new: range of the rows, in elements;  by: how far they move"""

    before: str
    key: int
    axis: int
    old: int
    new: int
    by: int


def apply(
    delta: Delta,
    tree: ChangeSet,
    source: ChangeSet,
    new_key: Callable[[str], int | None],
    *,
    over: frozenset[str] = frozenset(),
    behind: bool = True,
) -> list[Shift]:
    """Makes the changes of a delta in a tree, in phases: vacate, place, attributes and metadata, rows, validate. Returns the appends whose rows have to be
    copied.

    tree    changed in place: the caller passes a copy, and drops it if this raises
    source  has the pending bytes and locations that the rows of the delta refer to
    new_key  the key in the tree of a node of the base; None if it is gone
    over    paths where nodes of the tree are replaced (solvers.answered)
    behind  appends go after what the tree has grown by; else both grew to one shape

    Raises ConflictError if the changes cannot be made, because nodes are gone or the result is not a hierarchy; FormatError if a node cannot be read."""
    application = _Application(delta, tree, source, over, behind=behind)
    application.find(new_key)
    application.vacate()
    application.place()
    application.set_attributes_and_metadata()
    application.set_rows()
    application.validate()
    return application.shifts


class _Application:
    def __init__(self, delta: Delta, tree: ChangeSet, source: ChangeSet, over: frozenset[str], *, behind: bool) -> None:
        self.delta, self.tree, self.source, self.over, self.behind = delta, tree, source, over, behind
        self.keys: dict[str, int] = {}  # by paths of the base
        self.lifted: list[tuple[NodeChange, str]] = []
        self.vacated: set[str] = set()  # paths that had a node
        self.shifts: list[Shift] = []
        self.numbers: dict[tuple[int, int], int] = {}  # in the tree, by kinds of rows and numbers in the source

    def find(self, new_key: Callable[[str], int | None]) -> None:
        """Finds the nodes of the delta, before any of them moves."""
        for path in self.delta.touched():
            key = new_key(path)
            if key is not None:
                self.keys[path] = key
            elif path not in self.delta.removed:
                raise _refusal(self.delta.name(path), "would be changed, but was removed")

    def vacate(self) -> None:
        """Removes nodes that are removed, moved or replaced."""
        delta, tree = self.delta, self.tree
        clear = [path for path in self.over if path in delta.made or path in delta.moved.values()]
        for old, new in delta.moved.items():
            change = self._change(old)
            if change.node.path != new:
                self.vacated.add(change.node.path)
                tree.detach(change)
                self.lifted.append((change, new))
        for old in delta.removed:
            if old in self.keys:
                path = self._path(old)
                self._remove(path)
                if old in self.over:
                    clear.append(path)
        remaining = {key for old, key in self.keys.items() if old not in delta.removed}
        for top in clear:
            if self._is_group_in_both(top):
                continue
            for path in tree.at_and_below(top):
                if tree.key_at(path) in remaining:
                    raise _refusal(path, "would be changed, but is below a node that is replaced")
                self._remove(path)

    def _remove(self, path: str) -> None:
        self.vacated.add(path)
        self.tree.remove_one(path)

    def _is_group_in_both(self, path: str) -> bool:
        """Whether the delta adds a group where the tree has one, which stays."""
        new_node = self.delta.made.get(path)
        return (
            new_node is not None and not new_node.is_array and self.tree.has(path) and self.tree.is_array(path) is False
        )

    def place(self) -> None:
        """Adds moved and new nodes."""
        for change, path in self.lifted:
            self._require_free(path)
            self.tree.attach(change, path)
        for path, new_node in self.delta.made.items():
            if not self._is_group_in_both(path):
                self._require_free(path)
                if new_node.node is None:
                    raise _refusal(path, "would be created, and cannot be read")
                self.tree.add(new_node.node, new_node.key)
            elif path in self.over and new_node.node is not None:
                _set_attributes(self.tree.touch(path), new_node.node.attributes)

    def _require_free(self, path: str) -> None:
        if self.tree.has(path):
            raise _refusal(path, "would be at the path of another node")

    def set_attributes_and_metadata(self) -> None:
        for old, attributes in self.delta.attributes.items():
            _set_attributes(self._change(old), attributes)
        for old, metadata_change in self.delta.metadata.items():
            self._set_metadata(old, metadata_change, self._change(old))

    def _set_metadata(self, old: str, metadata_change: MetadataChange, change: NodeChange) -> None:
        metadata, array, append = metadata_change.new, change.node.array, metadata_change.append
        if metadata is None or array is None:
            raise _refusal(change.node.path, "would get metadata that cannot be read")
        if metadata_change.resize is not None:
            shape = list(metadata_change.resize.new)
            if append is not None:
                by = array.metadata.shape[append.axis] - append.old if self.behind else 0
                if by:
                    self.shifts.append(Shift(old, change.key, *append, by))
                append = append._replace(old=append.old + by, new=append.new + by)
                shape[append.axis] = append.new
            metadata = array.metadata.with_shape(tuple(shape))
        if any(now < then for now, then in zip(metadata.shape, array.metadata.shape, strict=True)):
            change.shrunk = True
        if append is None:
            change.appended = None
        elif metadata != array.metadata:
            change.append(append)
        change.node = change.node._replace(array=array._replace(metadata=metadata))

    # --- chunks ----------------------------------------------------------------------------------------------------------------------

    def set_rows(self) -> None:
        """Sets references. Appended rows that are not whole chunks are set only before the end of the base; `shifts` keeps these appends."""
        shifts, self.shifts = {shift.before: shift for shift in self.shifts}, []
        for old, rows in self.delta.rows.items():
            change = self._change(old)
            self._set_rows(change, self._shifted(rows, change, shifts[old]) if old in shifts else rows)
        for path, new_node in self.delta.made.items():
            if new_node.rows is not None:
                self._set_rows(self.tree.touch(path), new_node.rows)

    def _shifted(self, rows: Rows, change: NodeChange, shift: Shift) -> Rows:
        """The rows, with appended whole chunks moved to their new place."""
        assert change.node.array is not None
        chunk = change.node.array.metadata.chunk_shape[shift.axis]
        along = rows.coordinates[:, shift.axis]
        if shift.old % chunk or shift.by % chunk:
            self.shifts.append(shift)
            return rows.pick(along < shift.old // chunk)
        coordinates = rows.coordinates.copy()
        coordinates[along >= shift.old // chunk, shift.axis] += shift.by // chunk
        return rows._replace(coordinates=coordinates)

    def _set_rows(self, change: NodeChange, rows: Rows) -> None:
        if not len(rows.coordinates):
            return
        assert change.node.array is not None
        if not within(rows.coordinates[rows.kinds != REMOVED], grid_of(change.node.array.metadata)).all():
            raise _refusal(change.node.path, "would have chunks beyond its end")
        change.changed_references().set(self._renumbered(rows))

    def _renumbered(self, rows: Rows) -> Rows:
        """Rows of the source with the numbers of pending bytes and locations in the tree, if the two do not share them."""
        if self.source.pending is self.tree.pending:
            return rows
        objects = rows.objects.copy()
        for kind in (PENDING, VIRTUAL):
            of_kind = rows.kinds == kind
            for number in distinct(rows.objects[of_kind]).tolist():
                if (kind, number) not in self.numbers:
                    self.numbers[kind, number] = self._copy(kind, number)
                objects[of_kind & (rows.objects == number)] = self.numbers[kind, number]
        return rows._replace(objects=objects)

    def _copy(self, kind: int, number: int) -> int:
        """Copies a segment of pending bytes, or a location, from the source to the tree. Returns its number there."""
        if kind == PENDING:
            return self.tree.pending.append(self.source.pending.segments[number])
        text = self.source.locations[number]
        return self.tree.location(text, self.source.location_checks.get(text), self._location_numbers)

    @cached_property
    def _location_numbers(self) -> dict[str, int]:
        return {text: at for at, text in enumerate(self.tree.locations)}

    # --- the hierarchy ---------------------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Refuses a tree in which an added node has no group above it, or a node has lost its group."""
        tree = self.tree
        put = [change.node.path for change, _ in self.lifted] + list(self.delta.made)
        for path in put:
            for at in above(path):
                if tree.is_array(at) is not False if tree.has(at) else at != "/":
                    raise _refusal(path, "would have no group above it")
        closed = {path for path in self.vacated if not tree.has(path)} | {path for path in put if tree.is_array(path)}
        for path in (*tree.present(), *self._unchanged_below(closed)) if closed else ():
            if not closed.isdisjoint(above(path)):
                raise _refusal(path, "would have no group above it")

    def _unchanged_below(self, tops: set[str]) -> Iterator[str]:
        """The nodes of the base at and below some paths that the tree has not changed."""
        changed = {*self.tree.vanished(), *self.tree.present()}
        return (path for top in tops for path in self.tree.base.subtree(top) if path not in changed)

    def _path(self, old: str) -> str:
        path = self.tree.path_of(self.keys[old])
        assert path is not None, "where says where nodes are"
        return path

    def _change(self, old: str) -> NodeChange:
        return self.tree.touch(self._path(old))


def _set_attributes(change: NodeChange, attributes: Attributes) -> None:
    if not same_stored_attributes(change.node.attributes, attributes):
        change.node = change.node._replace(attributes=attributes)


def _refusal(path: str, reason: str) -> ConflictError:
    return ConflictError(
        f"these changes contradict each other: {path} {reason}",
        path=path,
        hint="give the same answer to conflicts of a group and of nodes in it",
    )
