"""Snapshots and their nodes: what they say of themselves, and which manifests and attributes they expect. A node that did not change from one snapshot to the next is looked
at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.nodes import AttributesReference, BrokenNode, Nodes, NodeSnapshot
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.verification.histories import UNREADABLE, Seen
from frazil.repository.verification.report import Findings, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frazil.formats.snapshots import Snapshot
    from frazil.repository.format import RepositoryFormat, Rules
    from frazil.repository.maintenance.reachable import Progress

__all__ = ["Expected", "Use", "batches", "expectations"]

_SNAPSHOTS: Final = 64  # read in one batch

T = TypeVar("T")


class Use:
    """What snapshots say of an array in a manifest.

    node      as one snapshot has it, at `place`: that in which the grid is smallest
    grid      chunks along each dimension, the least that any snapshot has
    extents   the boxes that readers look into the manifest for; empty where they always do
    foreign   other programs write here, and may leave references that no reader uses"""

    __slots__ = ("extents", "foreign", "grid", "node", "place")

    def __init__(self, node: NodeSnapshot, place: Place, grid: tuple[int, ...], *, foreign: bool) -> None:
        self.node, self.place, self.grid, self.foreign = node, place, grid, foreign
        self.extents: set[tuple[tuple[int, ...], ...]] = set()

    def narrow(self, node: NodeSnapshot, place: Place, grid: tuple[int, ...]) -> None:
        """Another snapshot has the array in this grid."""
        least = tuple(map(min, self.grid, grid))
        if least != self.grid:
            self.node, self.place, self.grid = node, place, least


class Expected:
    """What the nodes of all snapshots refer to.

    manifests   by id, and there by id and rank of the array
    attributes  by id, and there by location: where it is expected
    disjoint    lists of manifests of which no two may have one chunk, by id and rank of the array and the ids of the list: where one stands
    listed      of manifests and attribute files, by id, a place that names it, whether or not a node uses it"""

    __slots__ = ("attributes", "disjoint", "listed_attributes", "listed_manifests", "manifests")

    def __init__(self) -> None:
        self.manifests: dict[ObjectId, dict[tuple[int, int], Use]] = {}
        self.attributes: dict[ObjectId, dict[int, Place]] = {}
        self.disjoint: dict[tuple[int, int, tuple[ObjectId, ...]], Place] = {}
        self.listed_manifests: dict[ObjectId, Place] = {}
        self.listed_attributes: dict[ObjectId, Place] = {}

    def add(self, node: NodeSnapshot, place: Place, rules: Rules) -> None:
        """What a node refers to."""
        if isinstance(node.attributes, AttributesReference):
            self.attributes.setdefault(node.attributes.id, {}).setdefault(node.attributes.location, place)
            self.listed_attributes.setdefault(node.attributes.id, place)
        if node.array is None:
            return
        grid = grid_of(node.array.metadata)
        ids = tuple(dict.fromkeys(manifest.id for manifest in node.array.manifests))
        if len(ids) > 1 and not rules.overlays:
            self.disjoint.setdefault((node.id, len(grid), ids), place)
        for manifest in node.array.manifests:
            self.listed_manifests.setdefault(manifest.id, place)
            uses = self.manifests.setdefault(manifest.id, {})
            use = uses.get((node.id, len(grid)))
            if use is None:
                use = uses[node.id, len(grid)] = Use(node, place, grid, foreign=rules.foreign)
            else:
                use.narrow(node, place, grid)
            if rules.extents:  # readers trust the boxes of manifests
                use.extents.add(manifest.extents)


def batches(
    read: Callable[[Sequence[ObjectId]], Sequence[T]], ids: Sequence[ObjectId], size: int
) -> Iterator[list[T | Exception]]:
    """Files in batches; where one of a batch cannot be read, each by itself: its error stands in its place. Raises StoreError."""
    for low in range(0, len(ids), size):
        part = ids[low : low + size]
        try:
            yield list(read(part))
        except UNREADABLE:
            yield [_one(read, single) for single in part]


def _one(read: Callable[[Sequence[ObjectId]], Sequence[T]], single: ObjectId) -> T | Exception:
    try:
        return read([single])[0]
    except UNREADABLE as error:
        return error


def expectations(files: RepositoryFormat, seen: list[Seen], found: Findings, progress: Progress) -> Expected:
    """Reads and checks snapshots; what they expect. Raises StoreError."""
    expected = Expected()
    ids = [snapshot.file for snapshot in seen]
    before: tuple[Nodes, bool] | None = None
    numbers = count()
    for values in batches(files.read_snapshots, ids, _SNAPSHOTS):
        for value, number in zip(values, numbers, strict=False):
            own = seen[number]
            if isinstance(value, Exception):
                assert isinstance(value, UNREADABLE)
                found.unreadable("snapshot", value, own.place, files.key(f"snapshots/{encode_id(own.file)}"))
                continue
            before = _check(files, own, value, before, expected, found)
        progress("snapshots read", len(values))
    return expected


def _check(
    files: RepositoryFormat,
    own: Seen,
    snapshot: Snapshot,
    before: tuple[Nodes, bool] | None,
    expected: Expected,
    found: Findings,
) -> tuple[Nodes, bool]:
    """Checks one snapshot. before: the nodes of the last, and whether other programs wrote it; the same of this one."""
    key = files.key(f"snapshots/{encode_id(own.file)}")
    if snapshot.metadata.id != own.file and not own.first:
        found.add("snapshot", f"it says that its id is {encode_id(snapshot.metadata.id)}", own.place, key)
    nodes, rules = snapshot.nodes, files.rules(snapshot)
    if before is None or before[1] != rules.foreign:
        paths: Sequence[str] = list(nodes)
    else:
        paths = [path for path in nodes.differing(before[0]) if path in nodes]
    if paths:
        _check_ids(nodes, own, key, found)
    for path in paths:
        node, place = nodes.get(path), own.place._replace(path=path)
        if isinstance(node, BrokenNode):
            found.add("node", node.error.message, place, key)
        elif node is not None:
            expected.add(node, place, rules)
    return nodes, rules.foreign


def _check_ids(nodes: Nodes, own: Seen, key: str, found: Findings) -> None:
    """Finds paths and ids that several nodes have."""
    if len(nodes.stored.paths) != len(nodes.stored.entries):
        known: set[str] = set()
        twice = {path for path in nodes.stored.paths if path in known or known.add(path)}  # type: ignore[func-returns-value]
        for path in sorted(twice):
            found.add("snapshot", "several nodes have this path", own.place._replace(path=path), key)
    owners: dict[int, str] = {}
    for path in nodes:
        identity = nodes.id_of(path)
        if identity is not None and owners.setdefault(identity, path) != path:
            text = f"it has the same id, {identity}, as the node {owners[identity]}"
            found.add("snapshot", text, own.place._replace(path=path), key)
