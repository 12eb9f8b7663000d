"""The scan behind statistics: every snapshot that a branch or tag leads to, every manifest that these list, and the listing.

Chunk files are numbered in the order of the listing. Together they form one range of addresses, so a span of a chunk file is two numbers, and all spans are
columns."""

from __future__ import annotations

from itertools import count
from typing import Final

import numpy as np

from frazil.base.arrays import distinct, offsets_of
from frazil.base.reports import counted
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import INLINE, NATIVE, VIRTUAL, Manifest, rows_of_node
from frazil.formats.nodes import AttributesReference, Nodes, NodeSnapshot
from frazil.formats.snapshots import Snapshot, SnapshotInfo
from frazil.repository.format import RepositoryFormat
from frazil.repository.inspection.listing import Everything, list_everything
from frazil.repository.maintenance.id_columns import id_column
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.verification.histories import UNREADABLE, ReachedSnapshot, read_refs, walk_histories
from frazil.repository.verification.report import Findings, Subject
from frazil.repository.verification.snapshots import batches
from frazil.stores.values import Columns

_SNAPSHOTS: Final = 64  # read in one batch
_MANIFESTS: Final = 16
_WAITING: Final = 2**20  # rows that are collected before they are sorted into the others
NO_OWNER: Final = -1


class Scan:
    """The result of one pass over a repository.

    commits    snapshots that refs lead to, parents first;  infos: the metadata of each, None if it cannot be read
    manifests, attributes   the number of the first commit that lists each
    paths      of arrays, by number;  inline, virtual: bytes of chunks of each array
    spans      int64[n, 4], sorted: address of the first byte, of the byte after the last, number of the array and of the commit that refers to it first
    starts     int64[f + 1]: the address at which each chunk file begins;  file_commit, file_array: what refers to each first, NO_OWNER if nothing does"""

    def __init__(self, files: RepositoryFormat, progress: Progress) -> None:
        """files: with an empty cache (RepositoryFormat.uncached). Raises NotFoundError, FormatError if there is no repository of this format; StoreError."""
        files.require()
        files.store.require("listable")
        self._files, self._progress, self.found = files, progress, Findings()
        _, self.tips = read_refs(files, self.found)
        self.commits = _parents_first(walk_histories(files, self.tips, self.found))
        self.infos: list[SnapshotInfo | None] = []
        self.manifests: dict[ObjectId, int] = {}
        self.attributes: dict[ObjectId, int] = {}
        self._uses: dict[ObjectId, dict[int, str]] = {}  # by manifest: paths by ids of nodes
        self._read_snapshots()
        self.listed: Everything = list_everything(files, progress)
        sizes = self.listed.objects["chunks"].sizes
        assert sizes is not None
        self.starts = offsets_of(sizes)
        self.file_commit, self.file_array = (np.full(len(sizes), NO_OWNER, np.int64) for _ in range(2))
        self.paths: list[str] = []
        self._numbers: dict[str, int] = {}
        self.inline: list[int] = []
        self.virtual: list[int] = []
        self.spans = np.zeros((0, 4), np.int64)
        self._waiting: list[Columns] = []
        self._read_manifests()

    # --- snapshots -----------------------------------------------------------------------------------------------------------------

    def _read_snapshots(self) -> None:
        before: Nodes | None = None
        numbers = count()
        for values in batches(self._files.read_snapshots, [commit.file for commit in self.commits], _SNAPSHOTS):
            for value, number in zip(values, numbers, strict=False):
                own = self.commits[number]
                if isinstance(value, Exception):
                    assert isinstance(value, UNREADABLE)
                    key = self._files.key(f"snapshots/{encode_id(own.file)}")
                    self.found.unreadable("snapshot", value, own.subject, key)
                    self.infos.append(None)
                    continue
                self.infos.append(value.metadata)
                self._add_nodes(value, before, number)
                before = value.nodes
            self._progress("snapshots read", len(values))

    def _add_nodes(self, snapshot: Snapshot, before: Nodes | None, number: int) -> None:
        """Adds the files of the nodes that differ from those of the snapshot before."""
        nodes = snapshot.nodes
        paths = list(nodes) if before is None else [path for path in nodes.differing(before) if path in nodes]
        for path in paths:
            node = nodes.get(path)
            if not isinstance(node, NodeSnapshot):
                if node is not None:
                    subject = self.commits[number].subject._replace(path=path)
                    self.found.add("node", node.error.message, subject)
                continue
            if isinstance(node.attributes, AttributesReference):
                self.attributes.setdefault(node.attributes.id, number)
            for manifest in () if node.array is None else node.array.manifests:
                self.manifests.setdefault(manifest.id, number)
                self._uses.setdefault(manifest.id, {})[node.id] = path
        listed = self._files.listed(snapshot)  # garbage collection keeps these even if no node uses them
        for names, first_users in ((listed.manifests, self.manifests), (listed.attributes, self.attributes)):
            for file in names:
                first_users.setdefault(file, number)

    # --- manifests -----------------------------------------------------------------------------------------------------------------

    def _read_manifests(self) -> None:
        """Reads every manifest once, in the order of the commits that wrote them."""
        ids = sorted(self.manifests, key=self.manifests.__getitem__)
        numbers = count()
        for values in batches(self._files.manifests, ids, _MANIFESTS):
            for value, number in zip(values, numbers, strict=False):
                file = ids[number]
                commit = self.manifests[file]
                if isinstance(value, Exception):
                    assert isinstance(value, UNREADABLE)
                    key = self._files.key(f"manifests/{encode_id(file)}")
                    self.found.unreadable("manifest", value, self.commits[commit].subject, key)
                else:
                    self._add_manifest(file, value, commit)
            self._progress("manifests read", len(values))
        self._sort_spans()

    def array(self, path: str) -> int:
        """The number of an array."""
        if path not in self._numbers:
            self._numbers[path] = len(self.paths)
            self.paths.append(path)
            self.inline.append(0)
            self.virtual.append(0)
        return self._numbers[path]

    def _add_manifest(self, file: ObjectId, manifest: Manifest, commit: int) -> None:
        owners = np.full(manifest.size, NO_OWNER, np.int64)
        for node, path in self._uses.get(file, {}).items():
            owners[rows_of_node(manifest, node)] = self.array(path)
        if (owners == NO_OWNER).any():
            owners[owners == NO_OWNER] = self.array("")
        for kind, sums in ((INLINE, self.inline), (VIRTUAL, self.virtual)):
            rows = np.flatnonzero(manifest.kinds == kind)
            for owner in distinct(owners[rows]).tolist():
                sums[owner] += int(manifest.lengths[rows[owners[rows] == owner]].sum())
        rows = np.flatnonzero(manifest.kinds == NATIVE)
        listed, ids = self.listed.objects["chunks"].ids, id_column(manifest.ids[rows])
        at = np.minimum(listed.searchsorted(ids), max(len(listed) - 1, 0))
        exists = listed[at] == ids if len(listed) else np.zeros(len(ids), np.bool_)
        if not exists.all():
            count, key = int((~exists).sum()), self._files.key(f"manifests/{encode_id(file)}")
            self.found.add(
                "missing",
                f"{counted(count, 'reference')} to chunk files that are not there",
                self._location(commit),
                key,
            )
        at, rows = at[exists], rows[exists]
        low = self.starts[at] + np.clip(manifest.offsets[rows], 0, self.starts[at + 1] - self.starts[at])
        high = np.minimum(low + np.maximum(manifest.lengths[rows], 0), self.starts[at + 1])
        new = np.flatnonzero(self.file_commit[at] == NO_OWNER)[::-1]  # reversed: the first of several rows counts
        self.file_commit[at[new]], self.file_array[at[new]] = commit, owners[rows[new]]
        self._waiting.append(np.stack([low, high, owners[rows], np.full(len(rows), commit)], axis=1))
        if sum(map(len, self._waiting)) > _WAITING:
            self._sort_spans()

    def _location(self, commit: int) -> Subject:
        return self.commits[commit].subject

    def _sort_spans(self) -> None:
        """Sorts the collected rows into the spans. Of equal spans the first stays, which belongs to the earliest commit."""
        every = np.concatenate([self.spans, *self._waiting])
        self._waiting = []
        every = every[np.lexsort((every[:, 1], every[:, 0]))]  # stable
        first_of_run = np.ones(len(every), np.bool_)
        first_of_run[1:] = (every[1:, :2] != every[:-1, :2]).any(axis=1)
        self.spans = every[first_of_run]

    def new_bytes(self) -> Columns:
        """int64[n]: the bytes of each span that no earlier span has. Their sum is the number of distinct bytes in all spans."""
        low, high = self.spans[:, 0], self.spans[:, 1]
        reached = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(high)[:-1]]) if len(high) else high
        return np.maximum(high - np.maximum(low, reached), 0)


def _parents_first(snapshots: list[ReachedSnapshot]) -> list[ReachedSnapshot]:
    """Reorders snapshots that come ref by ref, newest first: those of the first ref come first, oldest first. Each is named once."""
    by_ref: dict[str, list[ReachedSnapshot]] = {}
    for snapshot in snapshots:
        by_ref.setdefault(snapshot.ref, []).append(snapshot)
    return [snapshot for group in by_ref.values() for snapshot in reversed(group)]
