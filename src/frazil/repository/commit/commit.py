"""Committing: from what a session changed to files, in the order chunks, attribute file, manifests and snapshot, branch file; and the three outcomes.

What goes into which manifest is decided in placement.py; following a branch that moved is in rebase.py."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import CommitUnknownError, ConflictError, InvalidInputError, StoreError
from frazil.formats.alpha import manifests as columns_of
from frazil.formats.alpha.manifests import Manifest, node_manifest
from frazil.formats.alpha.nodes import AttributesReference, ManifestReference, Nodes, NodeSnapshot
from frazil.formats.alpha.refs import attributes_key, manifest_key, snapshot_key
from frazil.formats.alpha.snapshots import FileInfo, Snapshot, SnapshotInfo
from frazil.formats.ids import ObjectId, encode_id, new_id
from frazil.formats.msgpack import Json, pack
from frazil.record import Record
from frazil.repository.files.freedoms import HISTORY, has_own_manifests, next_node, with_flag, with_own_manifests
from frazil.repository.files.properties import commit_properties
from frazil.repository.manifests.coordinates import grid_of
from frazil.repository.manifests.placement import ArrayPlacement, Placed, Placing
from frazil.repository.manifests.shared_manifests import check_references, mixed_up_nodes
from frazil.repository.refs.branches import COMMITTED, UNKNOWN, Tip, check_commits, look_ahead, put_next
from frazil.repository.session.change_set import ChangeSet, NodeChange, rank_of
from frazil.repository.session.changed_references import NATIVE, PENDING, REMOVED, VIRTUAL
from frazil.repository.session.pending_chunks import PackingOrder, place_pending
from frazil.repository.session.transaction import Transaction
from frazil.repository.session.written_files import Intent
from frazil.repository.virtual.file_checks import with_checks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = NDArray[np.int64]
    Octets = NDArray[np.uint8]

__all__ = ["Attempt", "attempt_commit", "settle"]

_WRITTEN_KINDS: Final = np.array([columns_of.INLINE, columns_of.NATIVE, columns_of.VIRTUAL, 0], np.uint8)
_FUTURE: Final = 1  # nanoseconds between commits of which one seems to be older than its parent


class Attempt(Record):
    """committed: the snapshot that the branch has now; None: somebody else was quicker, and `tip` is what the branch says now."""

    committed: ObjectId | None
    tip: Tip | None


def attempt_commit(
    transaction: Transaction,
    message: str,
    properties: Mapping[str, Json],
    *,
    allow_empty: bool = False,
    order: PackingOrder | None = None,
) -> Attempt:
    """Writes everything and then, if nobody has, the next file of the branch. Afterwards the session goes on from what it committed; where somebody was
    quicker it keeps everything, and may be rebased.

    Raises InvalidInputError where nothing was changed, CommitUnknownError where the answer was lost and cannot be read back (nothing is removed then), StoreError."""
    with transaction.lock:
        transaction.require_writable()
        tip = transaction.tip
        if tip is None:
            raise InvalidInputError("a fork is not committed", hint="merge it into the session that it came from")
        check_commits(transaction.files)
        ahead = settle(transaction)
        if transaction.tip is not tip:
            return Attempt(transaction.base_id, transaction.tip)
        if transaction.changes.is_empty and not allow_empty:
            raise InvalidInputError("there is nothing to commit", hint="allow_empty=True commits all the same")
        if ahead is not None:
            return Attempt(None, ahead)
        files, changes = transaction.files, transaction.changes
        place_pending(changes, files, packing=transaction.packing, order=order)
        finals, following = _final_ids(transaction)
        placed = _place(transaction, finals)
        identity = new_id(os.urandom)
        snapshot, attribute_file = _snapshot(transaction, placed, finals, following, identity, message, properties)
        intent = Intent(identity, tip, transaction.state, _names(placed, identity, attribute_file))
        written = files.write_snapshot(identity, snapshot, placed.files)
        transaction.written.intents = (
            *transaction.written.intents,
            intent,
        )  # before anything can be sent that may commit it
        return _advance(transaction, intent, written)


def _advance(transaction: Transaction, intent: Intent, written: Snapshot) -> Attempt:
    """Writes the branch file of an intent. Whatever is raised, the intent stays until its outcome is known."""
    try:
        outcome, found = put_next(transaction.files, intent.tip, intent.snapshot)
    except StoreError:  # the store is sure that nothing was written; an earlier intent may be there all the same
        transaction.written.lost([intent])
        raise
    if outcome == UNKNOWN or found is None:
        raise _unknown(transaction, intent)
    if outcome == COMMITTED:
        _go_on(transaction, intent, written, found)
        return Attempt(intent.snapshot, found)
    if _decide(transaction, found) is None:  # an earlier one of this session arrived late
        return Attempt(transaction.base_id, transaction.tip)
    return Attempt(None, found)


def _unknown(transaction: Transaction, intent: Intent) -> CommitUnknownError:
    error = CommitUnknownError(
        f"whether the commit to {intent.tip.branch!r} happened is not known: the store's answer was lost",
        key=transaction.files.key(f"snapshots/{encode_id(intent.snapshot)}"),
        hint="commit again without changing anything, which finds out, or discard the session; nothing was removed",
    )
    error.snapshot = encode_id(intent.snapshot)
    return error


# --- manifests -------------------------------------------------------------------------------------------------------------------------


class _PlacedArrays(Record):
    """changes: the arrays that were placed; placed: where their references go; dropped: manifests of arrays that are gone"""

    changes: Sequence[NodeChange]
    placed: Placed
    dropped: frozenset[ObjectId]

    @property
    def files(self) -> tuple[tuple[ObjectId, Manifest], ...]:
        return self.placed.files


def _place(transaction: Transaction, finals: Mapping[int, int]) -> _PlacedArrays:
    """Which manifests there will be."""
    changes, freedoms = transaction.changes, transaction.freedoms
    touched = [change for change in changes if change.references is not None and change.references.count]
    if not freedoms and not has_own_manifests(transaction.base):
        touched += _sharing_arrays(changes, {change.key for change in touched})
    arrays = [_array_placement(changes, change, finals) for change in touched]
    placing = Placing(arrays, freedoms=freedoms, trusted=freedoms)
    wanted = placing.wanted()
    loaded = dict(zip(wanted, transaction.files.manifests(wanted), strict=True))
    if not freedoms:
        _check_loaded(transaction, touched, arrays, loaded)
    placed = placing.place(loaded, lambda: new_id(os.urandom))
    gone: set[ObjectId] = set()
    for key in changes.removed:
        node = transaction.base.nodes.get(changes.removed[key])
        if isinstance(node, NodeSnapshot) and node.array is not None:
            gone |= {manifest.id for manifest in node.array.manifests}
    return _PlacedArrays(touched, placed, frozenset(gone))


def _sharing_arrays(changes: ChangeSet, known: set[int]) -> list[NodeChange]:
    """The other arrays that may share manifests in a compatible repository, changed or not; `known`: the keys of those that are not asked for."""
    bases = [changes.base.get(path) for path in changes.untouched()]
    unchanged = [NodeChange(node.id, node, node) for node in bases if isinstance(node, NodeSnapshot)]
    return [
        change
        for change in (*changes, *unchanged)
        if change.key not in known
        and change.base is not None
        and change.base.array is not None
        and change.base.array.manifests
    ]


def _check_loaded(
    transaction: Transaction,
    changes: Sequence[NodeChange],
    arrays: Sequence[ArrayPlacement],
    loaded: Mapping[ObjectId, Manifest],
) -> None:
    """Refuses to carry on references that the alpha library mixed up. Of an array that is written whole there are none."""
    mixed_up = {identity: mixed_up_nodes(manifest) for identity, manifest in loaded.items()}
    for change, array in zip(changes, arrays, strict=True):
        if change.base is None or change.base.array is None or array.written.size == prod(array.grid):
            continue
        grid = grid_of(change.base.array.metadata)
        for reference in array.manifests:
            key = transaction.files.key(manifest_key(reference.id))
            manifest, mixed = loaded[reference.id], mixed_up[reference.id]
            check_references(manifest, mixed, change.base.id, grid, key, change.base.path)


def _array_placement(changes: ChangeSet, change: NodeChange, finals: Mapping[int, int]) -> ArrayPlacement:
    """The references of one array, as a manifest holds them, and the chunks that are gone."""
    references, node = change.changed_references(), change.node
    assert node.array is not None
    metadata = node.array.metadata
    grid = grid_of(metadata)
    rows = references.selected(references.current())
    kept = (rows.coordinates < np.array(grid, np.int64)).all(axis=1) & (rows.kinds != REMOVED)
    removed = rows.coordinates[~kept]
    if len(removed):
        rows = rows.pick(kept)
    native, pending, virtual = rows.kinds == NATIVE, rows.kinds == PENDING, rows.kinds == VIRTUAL
    parts: list[Octets] = []
    offsets = rows.offsets
    if pending.any():
        segments, where = _distinct(rows.objects[pending])
        parts = [changes.pending.segments[number] for number in segments]
        if len(parts) > 1:
            offsets = offsets.copy()
            offsets[pending] += np.cumsum([0, *[part.size for part in parts]])[where]
    names: list[str] = []
    locations = None
    if virtual.any():
        numbers, place = _distinct(rows.objects[virtual])
        names = [changes.locations[number] for number in numbers]
        locations = np.full(len(virtual), -1, np.int32)
        locations[virtual] = place
    checks = {name: changes.location_checks[name] for name in names if name in changes.location_checks}
    number = written_node(finals, change)
    inline = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.uint8), *parts])
    written = node_manifest(
        number, rows.coordinates, _WRITTEN_KINDS[rows.kinds], rows.ids * native[:, None], offsets, rows.lengths,
        inline=inline.data, locations=locations, names=names,
        flags=with_checks(columns_of.NO_FLAGS, checks) if checks else columns_of.NO_FLAGS,
    )  # fmt: skip
    manifests = () if change.base is None or change.base.array is None else change.base.array.manifests
    return ArrayPlacement(number, rank_of(node), grid, manifests, written, removed, node.path)


def _distinct(numbers: Columns) -> tuple[list[int], Columns]:
    """The numbers, each once, and for each which; there is at least one."""
    if (numbers == numbers[0]).all():
        return [numbers.item(0)], np.zeros(len(numbers), np.int64)
    distinct, where = np.unique(numbers, return_inverse=True)
    return distinct.tolist(), where


def _final_ids(transaction: Transaction) -> tuple[dict[int, int], int | None]:
    """The ids of new nodes by their keys, and the lowest id that no node will have had; None where that is what the last snapshot said, as no node came or went."""
    changes = transaction.changes
    new = [change.key for change in changes if change.is_new]
    if not new and not changes.removed:
        return {}, None
    first = next_node(transaction.base)
    return {key: first + at for at, key in enumerate(new)}, first + len(new)


def written_node(finals: Mapping[int, int], change: NodeChange) -> int:
    """The id that a node has in the new snapshot."""
    return finals[change.key] if change.base is None else change.base.id


# --- the snapshot ------------------------------------------------------------------------------------------------------------------------


def _snapshot(
    transaction: Transaction,
    placed: _PlacedArrays,
    finals: Mapping[int, int],
    following: int | None,
    identity: ObjectId,
    message: str,
    properties: Mapping[str, Json],
) -> tuple[Snapshot, ObjectId | None]:
    """The new snapshot, and the attribute file that was written for it."""
    base, freedoms = transaction.base, transaction.freedoms
    lists = {
        change.key: references for change, references in zip(placed.changes, placed.placed.references, strict=True)
    }
    changed: dict[str, NodeSnapshot | None] = {}
    for path in transaction.changes.vanished():
        changed[path] = None
    for change in (*transaction.changes, *placed.changes):
        changed[change.node.path] = _final_node(change, finals, lists)
    attribute_file = _separate_attributes(transaction, changed)
    nodes = base.nodes.changed(changed)
    manifests = _listed(base, nodes, placed)
    history = (base.metadata, *base.history)
    written_at = max(time.time_ns(), base.metadata.written_at + _FUTURE)
    attribute_files = _attribute_files(base, nodes, changed, attribute_file)
    kept, flags = commit_properties(base, properties)
    if not freedoms:
        flags = with_own_manifests(flags, identity)
    snapshot = Snapshot(
        SnapshotInfo(identity, written_at, message),
        min(transaction.started_at, written_at),
        history[:HISTORY] if freedoms else history,
        base.total_parents + 1,
        manifests,
        attribute_files,
        with_flag(flags, following) if freedoms and following is not None else flags,
        kept,
        nodes,
    )
    return snapshot, attribute_file


def _final_node(
    change: NodeChange, finals: Mapping[int, int], lists: Mapping[int, tuple[ManifestReference, ...]]
) -> NodeSnapshot:
    node = change.node._replace(id=written_node(finals, change))
    if change.key in lists and node.array is not None:
        node = node._replace(array=node.array._replace(manifests=lists[change.key]))
    return node


def _separate_attributes(transaction: Transaction, changed: dict[str, NodeSnapshot | None]) -> ObjectId | None:
    """Moves attributes that are large to a file of their own, where that was asked for, and others can do without; its id."""
    limit = transaction.options.attribute_limit if transaction.freedoms else None
    large = [
        node
        for node in changed.values()
        if limit is not None
        and node is not None
        and isinstance(node.attributes, Mapping)
        and len(pack(node.attributes)) > limit
    ]
    if not large:
        return None
    identity = new_id(os.urandom)
    transaction.files.write_attributes(identity, [dict(node.attributes) for node in large])  # type: ignore[arg-type]
    for at, node in enumerate(large):
        changed[node.path] = node._replace(attributes=AttributesReference(identity, at))
    return identity


def _listed(base: Snapshot, nodes: Nodes, placed: _PlacedArrays) -> tuple[FileInfo, ...]:
    """The manifests of the snapshot: those before, without those that no array lists any more, and the new ones."""
    gone = _unused(placed.placed.unlisted | placed.dropped, nodes)
    return (
        *(info for info in base.manifest_files if info.id not in gone),
        *(FileInfo(file) for file, _ in placed.files),
    )


def _attribute_files(
    base: Snapshot, nodes: Nodes, changed: Mapping[str, NodeSnapshot | None], new: ObjectId | None
) -> tuple[FileInfo, ...]:
    if not base.attribute_files:
        return () if new is None else (FileInfo(new),)
    before = [base.nodes.get(path) for path in changed]
    dropped = {
        node.attributes.id
        for node in before
        if isinstance(node, NodeSnapshot) and isinstance(node.attributes, AttributesReference)
    }
    gone = _unused(dropped, nodes)
    kept = [info for info in base.attribute_files if info.id not in gone]
    return tuple(kept) if new is None else (*kept, FileInfo(new))


def _unused(ids: Iterable[ObjectId], nodes: Nodes) -> set[ObjectId]:
    """Those that no node names. An id is text that nothing else looks like, so the bytes of all nodes are searched, and none is decoded."""
    asked = set(ids)
    if not asked:
        return asked
    data = nodes.encoded()
    return {identity for identity in asked if encode_id(identity).encode() not in data}


# --- before and afterwards ---------------------------------------------------------------------------------------------------------------


def settle(transaction: Transaction) -> Tip | None:
    """Reads the branch file after the session's tip. Returns what it says, None where it is not there.

    That file decides about all commits whose outcome was not known. Where one of them happened, the session goes on from it, and its tip is another one.
    Raises ConflictError where it happened and something was changed since, and where the branch was removed and made anew; FormatError, StoreError."""
    tip = transaction.tip
    if tip is None:
        return None
    if transaction.written.intents:
        tip = transaction.written.intents[0].tip  # an interrupt may have come when the session had its new tip already
    ahead = look_ahead(transaction.files, tip)
    return ahead if ahead is None or not transaction.written.intents else _decide(transaction, ahead)


def _decide(transaction: Transaction, found: Tip) -> Tip | None:
    """What `found`, the tip after that of all intents, says about them. None where one of them happened and the session goes on from it."""
    happened = next((intent for intent in transaction.written.intents if intent.snapshot == found.snapshot), None)
    if happened is None:
        transaction.written.lost(transaction.written.intents)
        return found
    if happened.state != transaction.state and transaction.base_id != happened.snapshot:
        raise ConflictError(
            "the commit whose answer was lost did happen, and something was changed after it",
            key=transaction.files.key(f"snapshots/{encode_id(happened.snapshot)}"),
            hint="discard the session, and make the later changes again in a new one",
        )
    _go_on(transaction, happened, transaction.files.snapshot(happened.snapshot), found)
    return None


def _go_on(transaction: Transaction, intent: Intent, snapshot: Snapshot, tip: Tip) -> None:
    """The session goes on from what it committed. An interrupt between any two steps leaves the intent, and the next commit takes them again."""
    if transaction.base_id != intent.snapshot:
        changes = transaction.changes.committed(snapshot.nodes)
        transaction.begin(intent.snapshot, snapshot, changes, same=True, tip=tip)
    transaction.tips[tip.branch] = tip
    others = [one for one in transaction.written.intents if one is not intent]
    transaction.written.intents = ()
    transaction.written.lost(others)
    transaction.forget_reads()
    transaction.written.sweep()


def _names(placed: _PlacedArrays, identity: ObjectId, attribute_file: ObjectId | None) -> tuple[str, ...]:
    """The files that a commit writes for itself alone."""
    names = [manifest_key(file) for file, _ in placed.files]
    names.append(snapshot_key(identity))
    return tuple(names) if attribute_file is None else (*names, attributes_key(attribute_file))
