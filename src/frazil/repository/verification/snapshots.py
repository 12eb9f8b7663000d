"""Checks snapshots and their nodes, and collects the manifests and attribute files that they refer to. A node that did not change from one snapshot to the next
is checked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Final, TypeVar

from frazil.base.reports import counted
from frazil.errors import FormatError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.nodes import AttributesReference, BrokenNode, NodeFiles, Nodes, NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.repository.format import RepositoryFormat, Rules
from frazil.repository.maintenance.expired import has_expired
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.verification.histories import UNREADABLE, ReachedSnapshot
from frazil.repository.verification.report import Findings, Subject

_SNAPSHOTS: Final = 64  # read in one batch
MOST_LISTED: Final = 64  # the alpha library lists all ancestors in each snapshot

T = TypeVar("T")


class Use:
    """How snapshots use a manifest for an array.

    node      as in the snapshot at `subject`, where the grid is smallest
    grid      chunks along each dimension, the least in any snapshot
    extents   the boxes in which readers look into the manifest; empty if they always read it
    foreign   other programs write here, and may leave references that no reader uses"""

    __slots__ = ("extents", "foreign", "grid", "node", "subject")

    def __init__(self, node: NodeSnapshot, subject: Subject, grid: tuple[int, ...], *, foreign: bool) -> None:
        self.node, self.subject, self.grid, self.foreign = node, subject, grid, foreign
        self.extents: set[tuple[tuple[int, ...], ...]] = set()

    def narrow(self, node: NodeSnapshot, subject: Subject, grid: tuple[int, ...]) -> None:
        """Adds another snapshot, which has the array with this grid."""
        least = tuple(map(min, self.grid, grid))
        if least != self.grid:
            self.node, self.subject, self.grid = node, subject, least


class Expected:
    """What the nodes of all snapshots refer to.

    manifests   by id, then by id and rank of the array
    attributes  by id, then by location: where they are referred to
    disjoint    lists of manifests that may not share a chunk, by id and rank of the array and the ids of the list: where the list is used
    listed_manifests, listed_attributes  by id: a place that names the file, whether or not a node uses it
    ancestors   by id of a snapshot: those that its file lists, at most MOST_LISTED
    other_parents  snapshots whose files name another parent than their history, and that parent"""

    __slots__ = (
        "ancestors",
        "attributes",
        "disjoint",
        "listed_attributes",
        "listed_manifests",
        "manifests",
        "other_parents",
    )

    def __init__(self) -> None:
        self.manifests: dict[ObjectId, dict[tuple[int, int], Use]] = {}
        self.attributes: dict[ObjectId, dict[int, Subject]] = {}
        self.disjoint: dict[tuple[int, int, tuple[ObjectId, ...]], Subject] = {}
        self.listed_manifests: dict[ObjectId, Subject] = {}
        self.listed_attributes: dict[ObjectId, Subject] = {}
        self.ancestors: dict[ObjectId, Sequence[ObjectId]] = {}
        self.other_parents: dict[ReachedSnapshot, ObjectId] = {}

    def add(self, node: NodeSnapshot, subject: Subject, rules: Rules) -> None:
        """Adds the manifests and files that a node refers to."""
        if isinstance(node.attributes, AttributesReference):
            self.attributes.setdefault(node.attributes.id, {}).setdefault(node.attributes.location, subject)
            self.listed_attributes.setdefault(node.attributes.id, subject)
        if node.array is None:
            return
        grid = grid_of(node.array.metadata)
        ids = tuple(dict.fromkeys(manifest.id for manifest in node.array.manifests))
        if len(ids) > 1 and not rules.overlays:
            self.disjoint.setdefault((node.id, len(grid), ids), subject)
        for manifest in node.array.manifests:
            self.listed_manifests.setdefault(manifest.id, subject)
            uses = self.manifests.setdefault(manifest.id, {})
            use = uses.get((node.id, len(grid)))
            if use is None:
                use = uses[node.id, len(grid)] = Use(node, subject, grid, foreign=rules.foreign)
            else:
                use.narrow(node, subject, grid)
            if rules.extents:  # readers trust the boxes of manifests
                use.extents.add(manifest.extents)


def batches(
    read: Callable[[Sequence[ObjectId]], Sequence[T]], ids: Sequence[ObjectId], size: int
) -> Iterator[list[T | Exception]]:
    """Reads files in batches. If a file of a batch cannot be read, each is read alone, and its error takes its place. Raises StoreError."""
    for low in range(0, len(ids), size):
        part = ids[low : low + size]
        try:
            yield list(read(part))
        except UNREADABLE:
            yield [_read_one(read, single) for single in part]


def _read_one(read: Callable[[Sequence[ObjectId]], Sequence[T]], single: ObjectId) -> T | Exception:
    try:
        return read([single])[0]
    except UNREADABLE as error:
        return error


class _NodeFiles:
    """The files that the nodes of successive snapshots refer to: only nodes that differ from those of the snapshot before are read.

    _of     the files of each node, by path;  _counts: how many nodes refer to each manifest or attribute file"""

    __slots__ = ("_counts", "_of")

    def __init__(self) -> None:
        self._of: dict[str, NodeFiles] = {}
        self._counts: Counter[ObjectId] = Counter()

    def update(self, nodes: Nodes, paths: Iterable[str]) -> None:
        """Goes to the next snapshot. paths: nodes that may differ there"""
        for path in paths:
            for file in self._files(self._of.pop(path, NodeFiles())):
                self._counts[file] -= 1
            try:
                own = nodes.files_of(path)
            except FormatError:  # already reported
                continue
            self._of[path] = own
            self._counts.update(self._files(own))

    def beside(self, listed: Iterable[ObjectId]) -> list[ObjectId]:
        """The files that nodes refer to but are not in `listed`."""
        return sorted((+self._counts).keys() - set(listed))

    def _files(self, own: NodeFiles) -> tuple[ObjectId, ...]:
        return own.manifests if own.attributes is None else (*own.manifests, own.attributes)


class _Before:
    """The snapshot that was checked last: its nodes, whether another program wrote it, and the files its nodes refer to."""

    __slots__ = ("files", "foreign", "nodes")

    def __init__(self) -> None:
        self.nodes: Nodes | None = None
        self.foreign = False
        self.files = _NodeFiles()


def add_expectations(
    files: RepositoryFormat, snapshots: list[ReachedSnapshot], expected: Expected, found: Findings, progress: Progress
) -> None:
    """Reads and checks snapshots, and adds what they refer to. Raises StoreError."""
    ids = [snapshot.file for snapshot in snapshots]
    before = _Before()
    numbers = count()
    for values in batches(files.read_snapshots, ids, _SNAPSHOTS):
        for value, number in zip(values, numbers, strict=False):
            own = snapshots[number]
            if isinstance(value, Exception):
                assert isinstance(value, UNREADABLE)
                found.unreadable("snapshot", value, own.subject, files.key(f"snapshots/{encode_id(own.file)}"))
                continue
            _check(files, own, value, before, expected, found)
        progress("snapshots read", len(values))


def _check(
    files: RepositoryFormat,
    own: ReachedSnapshot,
    snapshot: Snapshot,
    before: _Before,
    expected: Expected,
    found: Findings,
) -> None:
    """Checks one snapshot, which then becomes `before`."""
    key = files.key(f"snapshots/{encode_id(own.file)}")
    if snapshot.metadata.id != own.file and not own.first:
        found.add("snapshot", f"it says that its id is {encode_id(snapshot.metadata.id)}", own.subject, key)
    nodes, rules = snapshot.nodes, files.rules(snapshot)
    every: Sequence[str] = list(nodes) if before.nodes is None else nodes.differing(before.nodes)
    before.files.update(nodes, every)
    if before.nodes is not None and before.foreign != rules.foreign:
        every = list(nodes)
    paths = [path for path in every if path in nodes]
    if paths:
        _check_ids(nodes, own, key, found)
    for path in paths:
        node, subject = nodes.get(path), own.subject._replace(path=path)
        if isinstance(node, BrokenNode):
            found.add("node", node.error.message, subject, key)
        elif node is not None:
            expected.add(node, subject, rules)
    _check_lists(files, own, snapshot, before.files, expected, found, foreign=rules.foreign)
    before.nodes, before.foreign = nodes, rules.foreign


def _check_lists(
    files: RepositoryFormat,
    own: ReachedSnapshot,
    snapshot: Snapshot,
    of_nodes: _NodeFiles,
    expected: Expected,
    found: Findings,
    *,
    foreign: bool,
) -> None:
    """Adds the files that a snapshot lists. Compares what it states twice: the files of its nodes, and its parent."""
    key, listed = files.key(f"snapshots/{encode_id(own.file)}"), files.listed(snapshot)
    for names, first_subjects in (
        (listed.manifests, expected.listed_manifests),
        (listed.attributes, expected.listed_attributes),
    ):
        for file in names:  # garbage collection keeps these even if no node uses them
            first_subjects.setdefault(file, own.subject)
    beside = [] if foreign else of_nodes.beside([*listed.manifests, *listed.attributes])
    if beside:
        text = f"the snapshot does not list {counted(len(beside), 'file')} that its nodes refer to, such as {encode_id(beside[0])}"
        found.add("list", text, own.subject, key)
    (parent,), (ancestors,) = listed.parents, listed.ancestors
    expected.ancestors[own.file] = ancestors[:MOST_LISTED]
    if parent is None or parent == own.parent or not (own.first or own.parent is not None):
        return
    if own.first and _has_expired(files, parent):
        return
    expected.other_parents[own] = parent


def _has_expired(files: RepositoryFormat, snapshot: ObjectId) -> bool:
    try:
        return has_expired(files, snapshot)
    except UNREADABLE:  # reported with the histories
        return False


def _check_ids(nodes: Nodes, own: ReachedSnapshot, key: str, found: Findings) -> None:
    """Finds paths and ids that several nodes share."""
    if len(nodes.stored.paths) != len(nodes.stored.entries):
        previous: set[str] = set()
        twice = {path for path in nodes.stored.paths if path in previous or previous.add(path)}  # type: ignore[func-returns-value]
        for path in sorted(twice):
            found.add("snapshot", "several nodes have this path", own.subject._replace(path=path), key)
    owners: dict[int, str] = {}
    for path in nodes:
        identity = nodes.id_of(path)
        if identity is not None and owners.setdefault(identity, path) != path:
            text = f"it has the same id, {identity}, as the node {owners[identity]}"
            found.add("snapshot", text, own.subject._replace(path=path), key)
