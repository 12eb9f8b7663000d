"""Writes the changes of a session, points the branch to them, and finds out which of the three outcomes a commit had.

The format writes the objects (repository/format.py); merge/rebase.py follows a branch that moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.errors import (
    CommitUnknownError,
    ConflictError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    StoreError,
)
from frazil.formats import manifests as columns_of
from frazil.formats.ids import ObjectId, encode_id, encode_ids
from frazil.formats.json_values import Json
from frazil.formats.nodes import NodeSnapshot
from frazil.formats.snapshots import Snapshot
from frazil.repository.commit.condemned_chunks import check_outermost, check_written, may_be_condemned
from frazil.repository.format import COMMITTED, TAKEN, UNKNOWN, ArrayPlacement, EncodedCommit, NewCommit, Tip
from frazil.repository.manifests.coordinates import grid_of, no_coordinates
from frazil.repository.session.change_set import ChangeSet, NodeChange, rank_of
from frazil.repository.session.changed_references import NATIVE, PENDING, REMOVED, VIRTUAL, distinct_numbers
from frazil.repository.session.pending_chunks import PackingOrder, store_pending
from frazil.repository.session.transaction import Transaction
from frazil.repository.session.written_files import Intent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil._kernel import Buffer
    from frazil.formats.manifests import Manifest
    from frazil.repository.format import RepositoryFormat
    from frazil.repository.session.changed_references import Rows

_WRITTEN_KINDS: Final = np.array([columns_of.INLINE, columns_of.NATIVE, columns_of.VIRTUAL, 0], np.uint8)


def attempt_commit(
    transaction: Transaction,
    message: str,
    properties: Mapping[str, Json],
    *,
    allow_empty: bool = False,
    order: PackingOrder | None = None,
    reusable: dict[str, Buffer] | None = None,
    durable: bool = True,
) -> ObjectId | None:
    """Writes everything, and then points the branch to the new snapshot if the branch has not moved. Returns the new snapshot, which becomes the base of the
    session; None if the branch has moved: then the session keeps its changes, and may be rebased.

    reusable  the bytes, by name, of the files that the last attempt left; replaced by those of this attempt if the branch has moved. The caller removes the
              files at the end. None: no attempt follows, and no files are left
    durable   False: the files need not be synced, even in a repository that syncs its files
    Raises InvalidInputError if nothing was changed, CommitUnknownError if the outcome is unknown (then nothing is removed), ConflictError as `resolve_intents`,
    StoreError."""
    with transaction.lock:
        transaction.whole_changes.wait()
        transaction.require_writable()
        tip = transaction.tip
        if tip is None:
            raise InvalidInputError("a fork is not committed", hint="merge it into the session that it came from")
        files = transaction.files
        files.check_commits()
        has_moved = resolve_intents(transaction)
        if transaction.tip is not tip:
            return transaction.base_id
        if transaction.changes.is_empty and not allow_empty:
            raise InvalidInputError("there is nothing to commit", hint="allow_empty=True commits without changes")
        if has_moved:
            return None
        if may_be_condemned(transaction):
            check_written(transaction)
            if reusable:  # manifests of an earlier attempt may be condemned, too
                files.erase(reusable)
                reusable.clear()
        else:
            check_outermost(transaction)
        if not durable:
            files = files.unsynced()
        branches, packs = transaction.branches, transaction.changes.packs
        count = len(packs)
        try:
            store_pending(
                transaction.changes, files, packing=transaction.packing, digests=transaction.rules.digests, order=order
            )
        finally:
            if not durable:  # if the attempt fails, the session keeps its chunk files
                branches.note_unsynced(files.key(f"chunks/{text}") for ids in packs[count:] for text in encode_ids(ids))
        commit = files.encode_commit(_new_commit(transaction, message, properties, reusable or {}))
        intent = Intent(commit.id, tip, transaction.state, commit.files)
        # recorded before a request is sent that may commit it
        transaction.written.intents = (*transaction.written.intents, intent)
        if reusable:
            files.erase(reusable.keys() - intent.files)
            reusable.clear()  # the caller must not remove the files of the intent
        if durable:
            branches.sync(files.store)  # the files that the commit refers to
            return _advance(transaction, files, intent, commit, reusable)
        own = list(map(files.key, intent.files))
        # noted before another session can see the commit and refer to it
        branches.note_unsynced([*own, files.tip_key(tip._replace(sequence=tip.sequence + 1))], exist=False)
        try:
            return _advance(transaction, files, intent, commit, reusable)
        finally:
            branches.note_unsynced(own)  # they are there now, or never will be


def write_waiting(transaction: Transaction, order: PackingOrder | None) -> None:
    """Writes the chunks that are in memory before the session has its turn to commit, so that sessions write theirs at the same time. Raises StoreError."""
    with transaction.lock:
        if transaction.tip is not None and not transaction.written.intents:
            changes, files, rules = transaction.changes, transaction.files, transaction.rules
            store_pending(changes, files, packing=transaction.packing, digests=rules.digests, order=order)


def follow_held(transaction: Transaction) -> bool:
    """If the branch moved without a new snapshot, as when a garbage collection takes the next number: the session follows it, without a rebase."""
    with transaction.lock:
        if transaction.tip is None or transaction.written.intents:
            return False
        try:
            tip = transaction.files.tip(transaction.tip.branch, transaction.tip)
        except NotFoundError:
            return False
        if tip.snapshot != transaction.base_id:
            return False
        follow(transaction, tip)
        return True


def follow(transaction: Transaction, tip: Tip) -> None:
    """Makes another tip, with the same snapshot, the base of the session."""
    if tip != transaction.tip:
        transaction.needs_check = True
        transaction.tip = tip


def moved_by_commits(transaction: Transaction, tip: Tip) -> bool:
    """Whether the branch reached a tip from that of the session by commits only, so that no collection held it in between."""
    assert transaction.tip is not None
    count = tip.sequence - transaction.tip.sequence
    return transaction.files.ancestor_at(tip.snapshot, count) == transaction.base_id


def _advance(
    transaction: Transaction,
    files: RepositoryFormat,
    intent: Intent,
    commit: EncodedCommit,
    reusable: dict[str, Buffer] | None,
) -> ObjectId | None:
    """Writes the commit of an intent, and points the branch to it. If an error is raised, the intent stays until its outcome is known."""
    try:
        outcome, found = files.advance(intent.tip, commit)
    except (StoreError, FormatError) as error:  # a FormatError: something is in the place of a file (replaced_files.py)
        if getattr(error.__cause__ or error, "done", None) is False:  # an earlier intent may still have been committed
            transaction.written.lost([intent], may_be_named=may_be_condemned(transaction))
        raise
    if outcome == UNKNOWN or found is None:
        raise _unknown(transaction, intent)
    if outcome == COMMITTED:
        _go_on(transaction, intent, commit.snapshot, found)
        return intent.snapshot
    may_be_named = may_be_condemned(transaction)
    if reusable is not None and not may_be_named:
        reusable.update(commit.reusable)
    transaction.written.lost([intent], reusable or (), may_be_named=may_be_named)
    if transaction.written.intents:
        resolve_intents(transaction)
    # the tip differs if an earlier commit of this session arrived late
    return None if transaction.tip is intent.tip else transaction.base_id


def _unknown(transaction: Transaction, intent: Intent) -> CommitUnknownError:
    error = CommitUnknownError(
        f"whether the commit to {intent.tip.branch!r} happened is not known: the store's answer was lost",
        key=transaction.files.key(f"snapshots/{encode_id(intent.snapshot)}"),
        hint="commit again without changing anything, which finds out, or discard the session; nothing was removed",
    )
    error.snapshot = encode_id(intent.snapshot)
    return error


# --- the new commit -------------------------------------------------------------------------------------------------------------------


def _new_commit(
    transaction: Transaction, message: str, properties: Mapping[str, Json], reusable: Mapping[str, Buffer]
) -> NewCommit:
    """The changes of a session, in the form that the format takes."""
    changes, base = transaction.changes, transaction.base
    new = 0
    nodes: dict[str, NodeSnapshot | None] = dict.fromkeys(changes.vanished())
    arrays: list[ArrayPlacement] = []
    for change in changes:
        new -= change.base is None
        number = new if change.base is None else change.base.id
        nodes[change.node.path] = change.node._replace(id=number)
        # a shrink through a document removes no chunks: their references must go, or they come back when the array grows
        if (change.references is not None and change.references.count) or (change.shrunk and change.base is not None):
            arrays.append(_array_placement(changes, change, number))
    removed = [base.nodes.get(path) for path in changes.removed.values()]
    removed_arrays = [node.array for node in removed if isinstance(node, NodeSnapshot) and node.array is not None]
    unlisted = frozenset([manifest.id for array in removed_arrays for manifest in array.manifests])
    began, limit = transaction.started_at, transaction.options.attribute_limit
    return NewCommit(transaction.base_id, base, nodes, arrays, unlisted, message, properties, began, limit, reusable)


def _array_placement(changes: ChangeSet, change: NodeChange, number: int) -> ArrayPlacement:
    """The references of one array, in the form of a manifest, and its removed chunks. The format sets the id of the node in the manifest."""
    references, node = change.changed_references(), change.node
    assert node.array is not None
    metadata = node.array.metadata
    grid = grid_of(metadata)
    manifests = () if change.base is None or change.base.array is None else change.base.array.manifests
    rows = references.selected(references.current())
    written = _one_written(changes, rows, grid, number) if len(rows.kinds) == 1 else None
    if written is not None:
        removed = no_coordinates(len(grid))
        return ArrayPlacement(number, rank_of(node), grid, manifests, written, removed, node.path)
    inside = (rows.coordinates < np.array(grid, np.int64)).all(axis=1) & (rows.kinds != REMOVED)
    removed = rows.coordinates[~inside]
    if len(removed):
        rows = rows.pick(inside)
    native, pending, virtual = rows.kinds == NATIVE, rows.kinds == PENDING, rows.kinds == VIRTUAL
    parts: list[NDArray[np.uint8]] = []
    offsets = rows.offsets
    if pending.any():
        segments, segment_of = distinct_numbers(rows.objects[pending])
        parts = [changes.pending.segments[number] for number in segments]
        if len(parts) > 1:
            offsets = offsets.copy()
            offsets[pending] += np.cumsum([0, *[part.size for part in parts]])[segment_of]
    names: list[str] = []
    locations = None
    if virtual.any():
        numbers, position = distinct_numbers(rows.objects[virtual])
        names = [changes.locations[number] for number in numbers]
        locations = np.full(len(virtual), -1, np.int32)
        locations[virtual] = position
    checks = {name: changes.location_checks[name] for name in names if name in changes.location_checks}
    inline = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.uint8), *parts])
    written = columns_of.node_manifest(
        0, rows.coordinates, _WRITTEN_KINDS[rows.kinds], rows.ids * native[:, None], offsets, rows.lengths,
        inline=inline.data, locations=locations, names=names,
        checks=checks,
    )  # fmt: skip
    return ArrayPlacement(number, rank_of(node), grid, manifests, written, removed, node.path)


def _one_written(changes: ChangeSet, rows: Rows, grid: tuple[int, ...], number: int) -> Manifest | None:
    """A fast path for a small commit with one chunk, written by this session; None if the chunk was removed, or is in a file elsewhere."""
    kind = rows.kinds.item(0)
    if kind not in (NATIVE, PENDING) or any(
        at >= count for at, count in zip(rows.coordinates[0].tolist(), grid, strict=True)
    ):
        return None
    inline = changes.pending.segments[rows.objects.item(0)].data if kind == PENDING else b""
    return columns_of.node_manifest(
        max(number, 0), rows.coordinates, rows.kinds, rows.ids, rows.offsets, rows.lengths, inline=inline
    )


def resolve_intents(transaction: Transaction) -> bool:
    """Finds out the outcome of commits whose outcome is unknown, and whether the branch has moved. If one of the commits happened, it becomes the base of the
    session, which gets another tip.

    Raises ConflictError if one happened and the session was changed since, and if the branch was removed and created again; CommitUnknownError if one happened
    and a crash of the machine may still lose it; FormatError, StoreError."""
    tip = transaction.tip
    if tip is None:
        return False
    intents = {intent.snapshot: intent for intent in transaction.written.intents}
    if (done := intents.get(transaction.base_id)) is not None:  # an interrupt came after it became the base
        _end_intents(transaction, done, tip)  # reads and the age stay: they may be of what the session did since
        intents = {}
    if not intents:
        later = transaction.files.moved(tip)
        if later is None:
            return False
        transaction.branches.tips[tip.branch] = transaction.branches.latest(later)
        return True
    outcome, found = transaction.files.was_committed(tip, intents.keys())
    if outcome == TAKEN:
        transaction.written.lost(intents.values(), may_be_named=may_be_condemned(transaction))
        return True
    if found is None:
        return False
    intent = intents[found.snapshot]
    if outcome == UNKNOWN:  # it happened, but a crash may still lose it
        raise _unknown(transaction, intent)
    if intent.state != transaction.state:
        raise ConflictError(
            "the commit whose answer was lost did happen, and something was changed after it",
            key=transaction.files.key(f"snapshots/{encode_id(intent.snapshot)}"),
            hint="discard the session, and make the later changes again in a new one",
        )
    _go_on(transaction, intent, transaction.files.snapshot(intent.snapshot), found)
    return False


def _go_on(transaction: Transaction, intent: Intent, snapshot: Snapshot, tip: Tip) -> None:
    """Makes the session's commit its new base. If an interrupt stops this, the intent stays, and resolve_intents repeats the steps: of an intent that is
    already the base, no file may be removed."""
    if transaction.base_id != intent.snapshot:
        chunks = transaction.changes.few_chunks()
        if chunks is not None:
            transaction.branches.note_chunks(transaction.base_id, intent.snapshot, chunks)
        changes = transaction.changes.committed(snapshot.nodes)
        transaction.begin(intent.snapshot, snapshot, changes, same=True, tip=tip)
    _end_intents(transaction, intent, tip)
    transaction.forget_reads()
    transaction.restart_age()
    transaction.written.sweep()


def _end_intents(transaction: Transaction, happened: Intent, tip: Tip) -> None:
    """Ends the intents of a session of which one happened: the files of the others may be removed."""
    transaction.branches.tips[tip.branch] = tip
    others = [other for other in transaction.written.intents if other is not happened]
    transaction.written.intents = ()
    transaction.written.lost(others, may_be_named=may_be_condemned(transaction))
