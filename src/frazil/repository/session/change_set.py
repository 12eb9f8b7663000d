"""The changes of a session: nodes under permanent keys, on top of those of its base snapshot. Paths are absolute. Pure.

Written chunks are in changed_references.py. Commits number the nodes in files."""

from __future__ import annotations

import itertools
import os
from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from frazil.base.arrays import Octets
from frazil.base.record import Record
from frazil.errors import InvalidInputError, NotFoundError
from frazil.formats.manifests import FileCheck
from frazil.formats.nodes import BrokenNode, Node, Nodes, NodeSnapshot, sort_key
from frazil.metadata.paths import ancestors
from frazil.repository.session.attributes import same_stored_attributes
from frazil.repository.session.changed_references import ChangedReferences, PendingBytes, count_fork
from frazil.repository.virtual.file_checks import distinct_location

ChunksByPath: TypeAlias = Mapping[str, frozenset[tuple[int, ...]]]  # coordinates of chunks of arrays

_IDENTITY_BYTES: Final = 16
_FEW_CHUNKS: Final = 64
_KEY_ROOM: Final = 32  # bits for the keys that one object assigns
_generations: Final = itertools.count(1)


class Append(Record):
    """An array that grew along one axis. old and new: its lengths, in elements"""

    axis: int
    old: int
    new: int


class NodeChange:
    """A node that the session changed.

    key         permanent; base: the node in the snapshot, None if it is new; node: the node now
    references  the changed chunks, or None
    shrunk      whether an axis became shorter, so that the change is more than an append
    appended    the total growth of the array by consecutive appends"""

    __slots__ = ("appended", "base", "key", "node", "references", "shrunk")

    def __init__(self, key: int, base: NodeSnapshot | None, node: NodeSnapshot) -> None:
        self.key, self.base, self.node = key, base, node
        self.references: ChangedReferences | None = None
        self.shrunk = False
        self.appended: Append | None = None

    def changed_references(self) -> ChangedReferences:
        """The changed chunks, to add to."""
        if self.references is None:
            self.references = ChangedReferences(rank_of(self.node))
        return self.references

    def append(self, append: Append) -> None:
        """Records that the array grew by an append."""
        if self.appended is None:
            self.appended = append
        elif (self.appended.axis, self.appended.new) == append[:2]:
            self.appended = self.appended._replace(new=append.new)

    def copy(self) -> NodeChange:
        other = NodeChange(self.key, self.base, self.node)
        other.references = None if self.references is None else self.references.copy()
        other.shrunk, other.appended = self.shrunk, self.appended
        return other


class NodeKeys:
    """Permanent keys of nodes: a handle keeps the key of its node through moves, commits, rebases and discards, and no key is used twice. The format matches
    the nodes of two snapshots. paths: in the base, by key, of the nodes that have a key"""

    __slots__ = ("_next", "_of", "paths")

    def __init__(self, paths: Mapping[int, str] = {}) -> None:  # it is never changed
        self._next = 0  # until a new key is needed, which most change sets of small commits never do
        self.paths = dict(paths)
        self._of = {path: key for key, path in paths.items()}

    def new(self) -> int:
        """A new key."""
        if not self._next:
            self._next = int.from_bytes(os.urandom(12), "big") << _KEY_ROOM
        self._next += 1
        return self._next

    def of(self, path: str) -> int:
        """The key of the node at a path of the base."""
        key = self._of.get(path)
        if key is None:
            key = self._of[path] = self.new()
            self.paths[key] = path
        return key

    def __reduce__(self) -> tuple[object, ...]:
        return NodeKeys, (self.paths,)


class ForkPoint(Record):
    """The changes of a session when it was forked. identity: of the changes, a random number;  nodes: copies of the changed nodes, by key;
    removed: keys of the removed nodes of the base;  count: rows of changed references that are set later have at least this number"""

    identity: bytes
    nodes: Mapping[int, NodeSnapshot]
    removed: frozenset[int]
    count: int  # type: ignore[assignment] # replaces a method of tuple that is not used


class ChangeSet:
    """Nodes by path, as the session sees them. The caller holds the session's lock.

    generation  unique among the change sets of this process
    removed     removed nodes of the base, by key: their paths in the base
    identity    by which forks know these changes; empty if there are no forks
    begun       of a fork: the changes that it began with"""

    def __init__(self, base: Nodes, keys: NodeKeys | None = None) -> None:
        self.base = base
        self.keys = NodeKeys() if keys is None else keys
        self.generation = next(_generations)
        self.nodes: dict[int, NodeChange] = {}
        self.removed: dict[int, str] = {}
        self.pending = PendingBytes()
        self.packs: list[Octets] = []  # ids of packs that were written: removed if all changes are discarded
        self.locations: list[str] = []  # of virtual chunks
        self.location_checks: dict[str, FileCheck] = {}
        self.identity = b""
        self.begun: ForkPoint | None = None
        self._paths: dict[str, int | None] = {}  # paths that differ from the base; None: removed

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self.generation, self.identity = next(_generations), b""  # its forks know the identity of the pickled object

    def leave_files(self) -> None:
        """Marks all chunk files written so far as shared: only garbage collection removes them."""
        self.packs = []
        for change in self:
            if change.references is not None:
                change.references.mark_shared()

    @property
    def is_empty(self) -> bool:
        """May be called without the lock."""
        if None in self._paths.values():  # a removed path of the base
            return False
        return not any(
            change.base is None
            or change.node != change.base
            or not same_stored_attributes(change.node.attributes, change.base.attributes)
            or (change.references is not None and change.references.count)
            for change in list(self.nodes.values())  # a copy, which other threads do not change
        )

    def few_chunks(self) -> ChunksByPath | None:
        """The chunks that were written or removed, if there are few and nothing else changed; else None."""
        if None in self._paths.values():
            return None
        found: dict[str, frozenset[tuple[int, ...]]] = {}
        remaining = _FEW_CHUNKS
        for change in self:
            references = change.references
            remaining -= 0 if references is None else references.count
            if change.node is not change.base or remaining < 0:
                return None
            if references is not None:
                found[change.node.path] = frozenset([tuple(chunk) for chunk in references.current_chunks().tolist()])
        return found

    # --- looking ---------------------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Node | None:
        """The node at a path, or None."""
        if path in self._paths:
            key = self._paths[path]
            return None if key is None else self.nodes[key].node
        return self.base.get(path)

    def document(self, path: str) -> tuple[bytes, bytes] | None:
        """The attributes and metadata of an unchanged node of the base, as from Nodes.document."""
        return None if path in self._paths else self.base.document(path)

    def has(self, path: str) -> bool:
        return self._paths[path] is not None if path in self._paths else path in self.base

    def key_at(self, path: str) -> int | None:
        """The key of the node at a path, or None."""
        if path in self._paths:
            return self._paths[path]
        return self.keys.of(path) if path in self.base else None

    def path_of(self, key: int) -> str | None:
        """The present path of the node with a key; None if it is gone."""
        change = self.nodes.get(key)
        if change is not None:
            return change.node.path
        return None if key in self.removed else self.keys.paths.get(key)

    def base_path(self, path: str) -> str:
        """The path in the base of the node at a path; for an empty path or a new node, the path that it would have in the group above it."""
        for at in (path, *reversed(above(path))):
            change = self.nodes.get(self._paths.get(at) or 0)
            if change is not None and change.base is not None:
                return change.base.path + path[len(at) :]
        return path

    def is_array(self, path: str) -> bool | None:
        """Whether the node at a path is an array; None if unknown."""
        if path in self._paths:
            node = self.get(path)
            return isinstance(node, NodeSnapshot) and node.array is not None
        return self.base.is_array(path)

    def at_and_below(self, path: str) -> list[str]:
        """The paths at and below a path, in order of their components."""
        found = [at for at in self.base.subtree(path) if at not in self._paths]
        start = "/" if path == "/" else f"{path}/"
        for at, key in self._paths.items():
            if key is not None and (at == path or at.startswith(start)):
                insort(found, at, key=sort_key)
        return found

    def children(self, path: str) -> list[str]:
        """Paths of the direct members of a group, sorted."""
        depth = 1 if path == "/" else path.count("/") + 1
        return [at for at in self.at_and_below(path) if at.count("/") == depth and at != path]

    def present(self) -> list[str]:
        """The paths of nodes that the session added or changed."""
        return [path for path, key in self._paths.items() if key is not None]

    def vanished(self) -> list[str]:
        """Paths of the base that have no node now."""
        return [path for path, key in self._paths.items() if key is None]

    def __iter__(self) -> Iterator[NodeChange]:
        return iter(self.nodes.values())

    # --- changing --------------------------------------------------------------------------------------------------------------------

    def touch(self, path: str) -> NodeChange:
        """The node at a path, to be changed. Raises NotFoundError, FormatError if it cannot be read."""
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
        change = NodeChange(self.keys.of(path), node, node)
        self.nodes[change.key] = change
        self._paths[path] = change.key
        return change

    def add(self, node: NodeSnapshot, key: int | None = None) -> NodeChange:
        """Adds a node at an empty path; the commit gives it a number. key: an existing key of the node"""
        change = NodeChange(self.keys.new() if key is None else key, None, node._replace(id=0))
        self.put(change)
        return change

    def put(self, change: NodeChange) -> None:
        """Gives a new node its path, at which nothing is."""
        self.nodes[change.key] = change
        self._paths[change.node.path] = change.key

    def take_bytes(self, change: NodeChange, other: ChangeSet) -> None:
        """Takes the chunks of a new node from another change set, which is no longer used."""
        if change.references is not None:
            change.references.move_pending(other.pending, self.pending)
        self.packs += other.packs

    def remove(self, path: str) -> list[NodeChange]:
        """Removes the nodes at and below a path. Returns the changes of these nodes, which are discarded."""
        return [change for at in self.at_and_below(path) if (change := self.remove_one(at)) is not None]

    def remove_one(self, path: str) -> NodeChange | None:
        """Removes the node at a path, but not the nodes below it. Returns its change, which is discarded."""
        key = self.key_at(path)
        assert key is not None
        change = self.nodes.pop(key, None)
        if change is None or change.base is not None:
            self.removed[key] = path if change is None or change.base is None else change.base.path
        self._forget(path)
        return change

    def move(self, path: str, to: str) -> None:
        """Moves a node and all nodes below it. Raises FormatError if one of them cannot be read."""
        changes = [self.touch(at) for at in self.at_and_below(path)]
        for change in changes:
            self.detach(change)
        for change in changes:
            self.attach(change, to + change.node.path[len(path) :])

    def detach(self, change: NodeChange) -> None:
        """Removes a node from its path. It has to be attached again."""
        self._forget(change.node.path)

    def attach(self, change: NodeChange, path: str) -> None:
        """Puts a detached node at an empty path."""
        change.node = change.node._replace(path=path)
        self._paths[path] = change.key

    def location(self, text: str, check: FileCheck | None, number_of: dict[str, int]) -> int:
        """The number of the location of virtual chunks with this check. `number_of` is a cache of the caller."""
        text = distinct_location(text, check, number_of, self.location_checks)
        number = number_of.get(text)
        if number is None:
            number = number_of[text] = len(self.locations)
            self.locations.append(text)
            if check is not None:
                self.location_checks[text] = check
        return number

    # --- other change sets -----------------------------------------------------------------------------------------------------------

    def discarded(self) -> ChangeSet:
        """An empty change set on the same base. A fork stays a fork, as if it had begun without changes."""
        other = ChangeSet(self.base, self.keys)
        if self.begun is not None:
            other.begun = ForkPoint(self.begun.identity, {}, frozenset(), 0)
        return other

    def committed(self, base: Nodes) -> ChangeSet:
        """An empty change set on the snapshot of these changes."""
        keys = self.keys.paths.keys() | self.nodes.keys()
        return ChangeSet(base, NodeKeys({key: path for key in keys if (path := self.path_of(key)) is not None}))

    def rebased(self, base: Nodes, new_path: Callable[[str], str | None]) -> ChangeSet:
        """An empty change set on another base, with the same keys, pending bytes and locations. new_path: the path in that base of a node of this one"""
        paths = {key: at for key, path in self.keys.paths.items() if (at := new_path(path)) is not None}
        other = ChangeSet(base, NodeKeys(paths))
        other.pending, other.locations, other.location_checks = self.pending, self.locations, self.location_checks
        other.packs = self.packs
        return other

    def follows(self, base: Nodes) -> ChangeSet | None:
        """The same changes on a base that differs only in other chunks, if they are of chunks alone, and none is removed: then each makes a difference there,
        too. Else None. This change set is no longer used."""
        other = self.rebased(base, lambda path: path)
        for change in self:
            node = base.get(change.node.path)
            if not isinstance(node, NodeSnapshot) or (change.references is not None and change.references.has_removed):
                return None
            other.nodes[change.key] = moved = NodeChange(change.key, node, node)
            other._paths[node.path], moved.references = change.key, change.references
        return other

    def copy(self) -> ChangeSet:
        """A copy with the same changes. Pending bytes are shared, as they are never changed."""
        other = ChangeSet(self.base, NodeKeys(self.keys.paths))
        other.nodes = {key: change.copy() for key, change in self.nodes.items()}
        other.removed, other._paths = dict(self.removed), dict(self._paths)
        other.pending, other.packs = self.pending.copy(), list(self.packs)
        other.locations, other.location_checks = list(self.locations), dict(self.location_checks)
        other.identity, other.begun = self.identity, self.begun
        return other

    def forked(self) -> ChangeSet:
        """A copy for a fork that begins now."""
        self.identity = self.identity or os.urandom(_IDENTITY_BYTES)
        nodes = {change.key: change.node for change in self}
        begun = ForkPoint(self.identity, nodes, frozenset(self.removed), count_fork())
        other = self.copy()
        other.identity, other.begun = b"", begun
        for change in other:
            if change.references is not None:
                change.references.inherit()
        return other

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
    """The append between two shapes; None if the change is not growth along one axis only."""
    if len(old) != len(new):
        return None
    axes = [axis for axis, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    return Append(axes[0], old[axes[0]], new[axes[0]]) if len(axes) == 1 and old[axes[0]] < new[axes[0]] else None


def above(path: str) -> list[str]:
    """The paths above a path, the root first."""
    return [f"/{at}" for at in ancestors(path[1:])]
