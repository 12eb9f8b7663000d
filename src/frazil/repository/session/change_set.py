"""What a session changed: nodes under keys of its own, over those of the snapshot that it began from. Pure; what chunks it wrote is in changed_references.py.

A node of the snapshot has its id as its key, a new one a negative number: ids of new nodes are final when they are committed. Paths are absolute."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from frazil.errors import InvalidInputError, NotFoundError
from frazil.formats.alpha.attributes import same_json
from frazil.formats.alpha.nodes import AttributesReference, BrokenNode, Node, Nodes, NodeSnapshot
from frazil.record import Record
from frazil.repository.session.changed_references import ChangedReferences, PendingBytes
from frazil.repository.virtual.file_checks import FileCheck, distinct_location

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Append",
    "ChangeSet",
    "NodeChange",
    "above",
    "append_of",
    "kept_attributes",
    "rank_of",
    "same_node",
]


class Append(Record):
    """An array that grew along one axis. old and new: its lengths, in elements"""

    axis: int
    old: int
    new: int


class NodeChange:
    """A node that the session touched. key: its own; base: as it was in the snapshot, None where it is new; node: as it is now; references: chunks that were
    changed, None where none were; shrunk: an axis became shorter, so that what was written is no mere append; appended: how far the array grew by appends"""

    __slots__ = ("appended", "base", "key", "node", "references", "shrunk")

    def __init__(self, key: int, base: NodeSnapshot | None, node: NodeSnapshot) -> None:
        self.key, self.base, self.node = key, base, node
        self.references: ChangedReferences | None = None
        self.shrunk = False
        self.appended: Append | None = None

    @property
    def is_new(self) -> bool:
        return self.base is None

    def changed_references(self) -> ChangedReferences:
        """The chunks that were changed, to add to."""
        if self.references is None:
            self.references = ChangedReferences(rank_of(self.node))
        return self.references

    def copy(self) -> NodeChange:
        other = NodeChange(self.key, self.base, self.node)
        other.references = None if self.references is None else self.references.copy()
        other.shrunk, other.appended = self.shrunk, self.appended
        return other


class ChangeSet:
    """Nodes by path, as the session sees them. Whoever uses one holds the session's lock."""

    def __init__(self, base: Nodes, next_key: int = -1) -> None:
        self.base = base
        self.nodes: dict[int, NodeChange] = {}
        self.removed: dict[int, str] = {}  # nodes of the base that are gone, and where they were
        self.pending = PendingBytes()
        self.packs: list[
            NDArray[np.uint8]
        ] = []  # ids of the packs that were written: they go when all changes are given up
        self.locations: list[str] = []  # of virtual chunks
        self.location_checks: dict[str, FileCheck] = {}
        self.next_key = next_key
        self.identity = b""  # what forks know these changes by; nobody forked them where it is empty
        self.origin = b""  # of a fork, the identity of what it was made from
        self.begun: dict[int, NodeSnapshot] = {}  # of a fork, the nodes that it began with
        self.begun_rows: dict[int, int] = {}  # and how many rows each array's changes had in the parent
        self.begun_removed: frozenset[int] = frozenset()
        self._paths: dict[str, int | None] = {}  # what is not as in the base; None: nothing is there now

    def leave_files(self) -> None:
        """From now on others refer to the chunk files that were written so far: they are nobody's to remove, but garbage collection's."""
        self.packs = []
        for change in self:
            if change.references is not None:
                change.references.share_files()

    @property
    def is_empty(self) -> bool:
        if None in self._paths.values():  # a path of the base where nothing is now
            return False
        return not any(
            change.is_new
            or not same_node(change.node, change.base)
            or (change.references is not None and change.references.count)
            for change in self.nodes.values()
        )

    def get(self, path: str) -> Node | None:
        """The node at a path, None where there is none."""
        if path in self._paths:
            key = self._paths[path]
            return None if key is None else self.nodes[key].node
        return self.base.get(path)

    def document(self, path: str) -> tuple[bytes, bytes] | None:
        """The attributes and metadata of a node of the base that was not changed, as Nodes.document gives them."""
        return None if path in self._paths else self.base.document(path)

    def has(self, path: str) -> bool:
        return self._paths[path] is not None if path in self._paths else path in self.base

    def key_at(self, path: str) -> int | None:
        """The key of the node that is there; None where there is none, or where not even its id can be read."""
        if path in self._paths:
            return self._paths[path]
        return self.base.id_of(path)

    def is_array(self, path: str) -> bool | None:
        """Whether the node that is there is an array; None where it cannot be told."""
        if path in self._paths:
            node = self.get(path)
            return isinstance(node, NodeSnapshot) and node.array is not None
        return self.base.is_array(path)

    def touch(self, path: str) -> NodeChange:
        """The node at a path, to be changed. Raises NotFoundError, FormatError for one that cannot be read."""
        if path in self._paths:
            key = self._paths[path]
            if key is None:
                raise NotFoundError("the node is gone", path=path, hint="it was removed in this session")
            return self.nodes[key]
        node = self.base.get(path)
        if node is None:
            raise NotFoundError("there is no array or group", path=path)
        if isinstance(node, BrokenNode):
            raise node.error
        change = NodeChange(node.id, node, node)
        self.nodes[node.id] = change
        self._paths[path] = node.id
        return change

    def add(self, node: NodeSnapshot) -> NodeChange:
        """A new node, where nothing is; its id is for the commit to say."""
        change = NodeChange(self.next_key, None, node._replace(id=0))
        self.nodes[change.key] = change
        self._paths[node.path] = change.key
        self.next_key -= 1
        return change

    def at_and_below(self, path: str) -> list[str]:
        """The paths at and beneath a path, in order of their components."""
        found = [at for at in self.base.subtree(path) if at not in self._paths]
        start = "/" if path == "/" else f"{path}/"
        for at, key in self._paths.items():
            if key is not None and (at == path or at.startswith(start)):
                insort(found, at, key=_components)
        return found

    def children(self, path: str) -> list[str]:
        """Paths of the direct members of a group, sorted."""
        depth = 1 if path == "/" else path.count("/") + 1
        return [at for at in self.at_and_below(path) if at.count("/") == depth and at != path]

    def remove(self, path: str) -> list[NodeChange]:
        """Removes what is at a path and beneath; the changes that were made to it and are given up."""
        dropped = []
        for at in self.at_and_below(path):
            key = self._paths.get(at)
            if key is None:
                node = self.base.get(at)
                if node is not None and node.id is not None:
                    self.removed[node.id] = at
            else:
                change = self.nodes.pop(key)
                dropped.append(change)
                if change.base is not None:
                    self.removed[key] = change.base.path
            self._forget(at)
        return dropped

    def move(self, path: str, to: str) -> None:
        """Gives a node, and those beneath it, other paths. Raises FormatError where one of them cannot be read."""
        changes = [self.touch(at) for at in self.at_and_below(path)]
        for change in changes:
            self._forget(change.node.path)
        for change in changes:
            moved = to + change.node.path[len(path) :]
            change.node = change.node._replace(path=moved)
            self._paths[moved] = change.key

    def drop(self, key: int, path: str | None) -> None:
        """Removes one node, but nothing beneath it, if it is there. path: where the base has it, None for a new one."""
        change = self.nodes.pop(key, None)
        if change is None and (path is None or key in self.removed):
            return
        if path is not None:
            self.removed[key] = path
        self._forget(path if change is None else change.node.path)  # type: ignore[arg-type] # one of them is there

    def vanish(self, path: str) -> None:
        """Removes what the base has at a path, if that is there still; also what cannot be read, and has no key."""
        if path not in self._paths and self.base.id_of(path) is None:
            self._forget(path)

    def rename(self, paths: Mapping[int, str]) -> None:
        """Gives nodes that were changed other paths by their keys, all at once: they may take each other's. Nothing beneath them goes along."""
        for key in paths:
            self._forget(self.nodes[key].node.path)
        for key, path in paths.items():
            self.nodes[key].node = self.nodes[key].node._replace(path=path)
            self._paths[path] = key

    def untouched(self) -> Iterator[str]:
        """Paths of the base that this session did not change."""
        return (path for path in self.base if path not in self._paths)

    def vanished(self) -> list[str]:
        """Paths of the base where nothing is now."""
        return [path for path, key in self._paths.items() if key is None]

    def location(self, text: str, check: FileCheck | None, known: dict[str, int]) -> int:
        """The number of the location of virtual chunks that rest on this check; `known` is what the caller remembers of them."""
        text = distinct_location(text, check, known, self.location_checks)
        number = known.get(text)
        if number is None:
            number = known[text] = len(self.locations)
            self.locations.append(text)
            if check is not None:
                self.location_checks[text] = check
        return number

    def rebased(self, base: Nodes) -> ChangeSet:
        """An empty change set over another base, which goes on with keys, pending bytes and locations."""
        other = ChangeSet(base, self.next_key)
        other.pending, other.locations, other.location_checks = self.pending, self.locations, self.location_checks
        other.packs = self.packs
        return other

    def copy(self) -> ChangeSet:
        """Another one with the same changes. Bytes that wait are shared, as nobody changes them."""
        other = ChangeSet(self.base, self.next_key)
        other.nodes = {key: change.copy() for key, change in self.nodes.items()}
        other.removed, other._paths = dict(self.removed), dict(self._paths)
        other.pending, other.packs = self.pending.copy(), list(self.packs)
        other.locations, other.location_checks = list(self.locations), dict(self.location_checks)
        other.identity, other.origin = self.identity, self.origin
        other.begun, other.begun_rows, other.begun_removed = self.begun, self.begun_rows, self.begun_removed
        return other

    def put(self, change: NodeChange) -> None:
        """Takes a change over from another change set."""
        base = change.base
        # where it was something else may have been put already
        if base is not None and base.path != change.node.path and self._paths.get(base.path) in (None, change.key):
            self._forget(base.path)
        self.removed.pop(change.key, None)
        self.nodes[change.key] = change
        self._paths[change.node.path] = change.key

    def __iter__(self) -> Iterator[NodeChange]:
        return iter(self.nodes.values())

    def _forget(self, path: str) -> None:
        if path in self.base:
            self._paths[path] = None
        else:
            self._paths.pop(path, None)


def rank_of(node: NodeSnapshot) -> int:
    """Dimensions of an array. Raises InvalidInputError for a group."""
    if node.array is None:
        raise InvalidInputError("a group has no chunks", path=node.path)
    return len(node.array.metadata.shape)


def append_of(old: Sequence[int], new: Sequence[int]) -> Append | None:
    """The append that leads from one shape to another; None where it is none: along one axis alone, and only growing."""
    if len(old) != len(new):
        return None
    axes = [axis for axis, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    return Append(axes[0], old[axes[0]], new[axes[0]]) if len(axes) == 1 and old[axes[0]] < new[axes[0]] else None


def above(path: str) -> list[str]:
    """The paths above a path, the root first."""
    if path == "/":
        return []
    parts = path.split("/")
    return ["/", *["/".join(parts[:count]) for count in range(2, len(parts))]]


def _components(path: str) -> list[str]:
    return path.split("/")[1:] if path != "/" else [""]


def same_node(left: NodeSnapshot, right: NodeSnapshot | None) -> bool:
    """Whether two nodes are the same, their attributes as JSON."""
    return right is not None and left == right and kept_attributes(left, right)


def kept_attributes(left: NodeSnapshot, right: NodeSnapshot) -> bool:
    """Whether two nodes have the same attributes, as JSON; of those in files only the places are looked at."""
    ours, theirs = left.attributes, right.attributes
    if isinstance(ours, AttributesReference) or isinstance(theirs, AttributesReference):
        return ours == theirs
    return ours is theirs or same_json(ours or {}, theirs or {})
