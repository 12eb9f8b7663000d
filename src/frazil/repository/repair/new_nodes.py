"""The commit that repairs one snapshot: older states replace its damaged nodes. It writes nothing, and reads only through its arguments."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from frazil.base.record import Record
from frazil.base.reports import counted
from frazil.formats.ids import ObjectId, decode_id, encode_id
from frazil.formats.json_values import Json
from frazil.formats.nodes import AttributesReference, BrokenNode, NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.repository.format import ArrayPlacement, NewCommit, RepositoryFormat
from frazil.repository.manifests.coordinates import grid_of, no_coordinates
from frazil.repository.repair.array_references import Rebuilt, read_pieces, rebuild
from frazil.repository.repair.former_snapshots import FormerSnapshots
from frazil.repository.repair.report import REPAIR, Consents, Entry
from frazil.repository.verification.histories import UNREADABLE
from frazil.repository.verification.references import ChunkFiles
from frazil.repository.verification.report import Problem
from frazil.stores.values import Columns

_OF_REFERENCES = ("reference", "misplaced", "missing", "range", "digest", "decode")


class Plan(Record):
    """commit: None if nothing can be repaired by a commit; what it repairs; what is lost; is_visible: whether readers see some of it; is_older: whether they
    would see data of older snapshots beside those of this one"""

    commit: NewCommit | None
    repaired: tuple[Entry, ...]
    lost: tuple[Entry, ...]
    is_visible: bool
    is_older: bool


class _Damage:
    """The problems of one snapshot, by what they affect.

    files        ids of manifests and attribute files that cannot be used
    paths        nodes whose references have problems
    beyond       nodes with references outside of their grid, which are dropped when their references are written again
    undecodable  chunks that cannot be decoded, by path
    lists        whether the lists of files lack files of nodes
    history      whether the list of ancestors is wrong"""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.files: set[ObjectId] = set()
        self.paths: set[str] = set()
        self.beyond: set[str] = set()
        self.undecodable: dict[str, Columns] = {}
        self.lists = any(problem.kind == "list" for problem in problems)
        self.history = any(problem.kind == "history" for problem in problems)
        for problem in problems:
            if problem.kind in ("manifest", "attributes") and problem.key is not None:
                self.files.add(decode_id(problem.key.rpartition("/")[2]))
            if problem.kind in (*_OF_REFERENCES, "manifest"):
                self.paths.add(problem.path)
            if problem.kind == "reference":
                self.beyond.add(problem.path)
            if problem.kind == "decode" and problem.chunks is not None:
                before = self.undecodable.get(problem.path, problem.chunks[:0])
                self.undecodable[problem.path] = np.concatenate([before, problem.chunks])


def plan_commit(
    files: RepositoryFormat,
    ref: str,
    base_id: ObjectId,
    base: Snapshot,
    problems: Sequence[Problem],
    former: FormerSnapshots,
    chunk_files: ChunkFiles,
    consents: Consents,
    parent: ObjectId | None = None,
) -> Plan:
    """The commit that repairs a snapshot. parent: its parent, if its own list of ancestors is wrong. Raises StoreError."""
    plan = _Planning(files, ref, base, _Damage(problems), former, chunk_files, consents)
    for path in base.nodes:
        node = base.nodes.get(path)
        if isinstance(node, BrokenNode):
            plan.replace_node(node)
        elif node is not None:
            plan.repair_node(node)
    unused = plan.unused_files()
    if unused:
        text = f"no longer listed: {counted(len(unused), 'damaged file')} that no node needs"
        plan.hidden.append(Entry("node", text, ref))
    if plan.damage.lists:
        plan.hidden.append(Entry("node", "the lists of the files that nodes refer to are rebuilt", ref))
    if parent is not None:
        text = f"its list of ancestors is rebuilt, with {encode_id(parent)} as its parent"
        plan.repaired.append(Entry("history", text, ref))
    elif plan.damage.history and not consents.history:
        text = "its list of ancestors is wrong, and no file shows what came before it; history=True lets its history end there"
        plan.lost.append(Entry("history", text, ref))
    is_visible = bool(plan.repaired or plan.lost)
    is_older = any(entry.kind != "history" for entry in plan.repaired)
    plan.repaired += plan.hidden
    if not plan.nodes and not unused and not plan.damage.lists and parent is None:
        return Plan(None, tuple(plan.repaired), tuple(plan.lost), is_visible, is_older)
    message = f"repair of {', '.join(list(plan.nodes)[:3]) or 'the lists of a snapshot'}{', ...' if len(plan.nodes) > 3 else ''}"
    commit = NewCommit(
        base_id, base, plan.nodes, plan.arrays, frozenset(), message, _properties(base_id, plan.repaired, plan.lost),
        time.time_ns(), relists=True, base_parent=parent,
    )  # fmt: skip
    return Plan(commit, tuple(plan.repaired), tuple(plan.lost), is_visible, is_older)


def _properties(base_id: ObjectId, repaired: Sequence[Entry], lost: Sequence[Entry]) -> Mapping[str, Json]:
    """The properties that describe the repair of a snapshot in the history."""
    return {
        REPAIR: {
            "snapshot": encode_id(base_id),
            "repaired": [str(entry) for entry in repaired],
            "lost": [str(entry) for entry in lost],
        }
    }


class _Planning:
    """The nodes and arrays that the commit changes."""

    def __init__(
        self,
        files: RepositoryFormat,
        ref: str,
        base: Snapshot,
        damage: _Damage,
        former: FormerSnapshots,
        chunk_files: ChunkFiles,
        consents: Consents,
    ) -> None:
        self._files, self._ref, self._base, self.damage = files, ref, base, damage
        self._former, self._chunk_files, self._consents = former, chunk_files, consents
        self.nodes: dict[str, NodeSnapshot | None] = {}
        self.arrays: list[ArrayPlacement] = []
        self.repaired: list[Entry] = []
        self.lost: list[Entry] = []
        self.hidden: list[Entry] = []

    def repair_node(self, node: NodeSnapshot) -> None:
        repaired = node
        if isinstance(node.attributes, AttributesReference) and not self._can_read(node.attributes):
            repaired = self._with_attributes(node)
        is_damaged = node.array is not None and (
            node.path in self.damage.paths
            or not self.damage.files.isdisjoint(manifest.id for manifest in node.array.manifests)
        )
        rebuilt = self._rebuilt(node) if is_damaged else None
        self._keep(repaired, node, rebuilt)

    def unused_files(self) -> set[ObjectId]:
        """Damaged files that the snapshot lists but no node uses."""
        used: set[ObjectId] = set()
        for path in self._base.nodes:
            node = self._base.nodes.get(path)
            if isinstance(node, BrokenNode):
                return set()
            if node is not None and node.array is not None:
                used.update(manifest.id for manifest in node.array.manifests)
            if node is not None and isinstance(node.attributes, AttributesReference):
                used.add(node.attributes.id)
        return self.damage.files - used

    def _keep(self, repaired: NodeSnapshot, node: NodeSnapshot, rebuilt: Rebuilt | None) -> None:
        """Adds a node to the commit if it has changed. rebuilt: its references, if they were rebuilt"""
        written = None if rebuilt is None else rebuilt.written
        if repaired is not node or written is not None:
            self.nodes[repaired.path] = repaired
        if written is None:
            return
        assert repaired.array is not None
        self.nodes[repaired.path] = repaired._replace(array=repaired.array._replace(manifests=()))
        grid = grid_of(repaired.array.metadata)
        none = no_coordinates(len(grid))
        self.arrays.append(ArrayPlacement(repaired.id, len(grid), grid, (), written, none, repaired.path))

    # --- references

    def _rebuilt(self, node: NodeSnapshot) -> Rebuilt:
        assert node.array is not None
        grid = grid_of(node.array.metadata)
        pieces = read_pieces(self._files, node, grid, self._files.rules(self._base), self._chunk_files)
        undecodable = self.damage.undecodable.get(node.path, no_coordinates(len(grid)))
        rebuilt = rebuild(
            node,
            pieces,
            self._former.references(node),
            undecodable,
            self._consents,
            rewrite=node.path in self.damage.beyond,
        )
        self._add_entries(node.path, rebuilt)
        return rebuilt

    def _add_entries(self, path: str, rebuilt: Rebuilt) -> None:
        for snapshot, chunks in rebuilt.restored:
            if snapshot is None:
                text = "references of a manifest that comes after a damaged one, which may be older than those of the damaged one"
                self.repaired.append(Entry("chunks", text, self._ref, path, "", chunks))
            else:
                text = "references as an older snapshot has them: what was committed after it is lost"
                self.repaired.append(Entry("chunks", text, self._ref, path, encode_id(snapshot), chunks))
        if len(rebuilt.hidden):
            text = "references that newer ones hide, and whose bytes are missing, are left out"
            self.hidden.append(Entry("chunks", text, self._ref, path, "", rebuilt.hidden))
        for text, lost in rebuilt.lost:
            self.lost.append(Entry("chunks", text, self._ref, path, "", lost))

    # --- attributes and nodes

    def _can_read(self, attributes: AttributesReference) -> bool:
        try:
            self._files.attributes(attributes.id, attributes.location)
        except UNREADABLE:
            return False
        return True

    def _attributes(self, node: NodeSnapshot) -> Mapping[str, Json] | None:
        """The attributes of a node. Raises the errors of UNREADABLE."""
        if isinstance(node.attributes, AttributesReference):
            return self._files.attributes(node.attributes.id, node.attributes.location)
        return node.attributes

    def _with_attributes(self, node: NodeSnapshot) -> NodeSnapshot:
        """A node with its attributes from the newest snapshot in which they can be read."""
        for file, _, older in self._former.nodes(node.path, node.id):
            try:
                attributes = self._attributes(older)
            except UNREADABLE:
                continue
            text = "attributes as an older snapshot has them: what was committed after it is lost"
            self.repaired.append(Entry("attributes", text, self._ref, node.path, encode_id(file)))
            return node._replace(attributes=attributes)
        text = "its attributes are damaged, and no older snapshot has any"
        self.lost.append(Entry("attributes", text, self._ref, node.path))
        return node._replace(attributes={}) if self._consents.accept_loss else node

    def replace_node(self, broken: BrokenNode) -> None:
        """Replaces a node that cannot be read by its newest readable state."""
        used_ids = {self._base.nodes.id_of(path) for path in self._base.nodes if path != broken.path}
        for file, snapshot, older in self._former.nodes(broken.path, broken.id):
            if older.id in used_ids:
                continue
            node = older._replace(path=broken.path)
            try:
                attributes = self._attributes(node)
            except UNREADABLE:
                continue
            rebuilt = None
            if node.array is not None:
                grid = grid_of(node.array.metadata)
                pieces = read_pieces(self._files, older, grid, self._files.rules(snapshot), self._chunk_files)
                rebuilt = rebuild(
                    node, pieces, self._former.references(node), no_coordinates(len(grid)), self._consents, rewrite=True
                )
                if rebuilt.written is None:
                    continue
                self._add_entries(node.path, rebuilt)
            text = "the node as an older snapshot has it: what was committed after it is lost"
            self.repaired.append(Entry("node", text, self._ref, broken.path, encode_id(file)))
            self._keep(node._replace(attributes=attributes), older, rebuilt)
            return
        self.lost.append(Entry("node", "it is damaged, and no older snapshot has it", self._ref, broken.path))
        if self._consents.accept_loss:
            self.nodes[broken.path] = None
