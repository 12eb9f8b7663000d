"""Before a session is committed that began long ago, or whose branch a garbage collection held meanwhile: whether one has condemned, or removed, chunk files that the session
wrote. What is condemned is written again under another id.

Another session need not look: what it wrote was condemned, if at all, so shortly before that it stays (docs/design/072-garbage-collection.md)."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from frazil.errors import ConflictError
from frazil.formats.ids import CRC_BYTES, ID_BYTES, encode_ids
from frazil.repository.maintenance.condemned import CHECK_AFTER, condemned_ids
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, among, distinct, id_column, join, octets
from frazil.repository.session.changed_references import NATIVE
from frazil.repository.session.transaction import Transaction

__all__ = ["check_written", "may_be_condemned"]

_AT_ONCE: Final = 4096  # chunk files that are looked up in one call


def may_be_condemned(transaction: Transaction) -> bool:
    """Whether a collection may remove what the session wrote. To be asked after the tip was read behind which it commits."""
    return transaction.age() >= CHECK_AFTER


def check_written(transaction: Transaction) -> None:
    """Writes again what is condemned of the chunk files that the session refers to. Whoever calls it holds the session's lock.

    Raises ConflictError where one is gone: the changes are to be made again; StoreError."""
    files = transaction.files
    if not files.store.capabilities.listable:
        return
    own = _chunk_files(transaction)
    if not len(own):
        return
    # in this order: a list is removed after what it names
    condemned = condemned_ids(files)["chunks"]
    again = own[among(own, condemned)]
    _require_there(transaction, own)
    if len(again):
        _write_again(transaction, again)


def _chunk_files(transaction: Transaction) -> Ids:
    """The chunk files that the references of the session name, sorted. Those of the snapshot, which the branch points to, are nobody's garbage."""
    parts = [NO_IDS]
    for change in transaction.changes:
        if change.references is not None:
            rows = change.references.selected(change.references.current())
            parts.append(distinct(id_column(rows.ids[rows.kinds == NATIVE])))
    return join(parts)


def _require_there(transaction: Transaction, own: Ids) -> None:
    files = transaction.files
    for low in range(0, len(own), _AT_ONCE):
        part = own[low : low + _AT_ONCE]
        keys = [files.key(f"chunks/{text}") for text in encode_ids(octets(part))]
        gone = np.flatnonzero(files.store.uncached.sizes(keys) < 0)
        if len(gone):
            raise ConflictError(
                f"a garbage collection has removed {len(gone)} of the chunk files that the session wrote, which was open for too long",
                key=keys[gone.item(0)],
                hint="discard the session and make the changes again; collect with a wait that is longer than the longest session",
            )


def _write_again(transaction: Transaction, condemned: Ids) -> None:
    """Copies chunk files under new ids, and lets the session refer to these."""
    files = transaction.files
    made = np.frombuffer(os.urandom(ID_BYTES * len(condemned)), np.uint8).reshape(-1, ID_BYTES).copy()
    made[:, -CRC_BYTES:] = octets(condemned)[:, -CRC_BYTES:]  # which may be the digest of the same bytes
    new = id_column(made)
    for low in range(0, len(condemned), _AT_ONCE):
        pairs = [condemned[low : low + _AT_ONCE], new[low : low + _AT_ONCE]]
        sources, names = [[files.key(f"chunks/{text}") for text in encode_ids(octets(part))] for part in pairs]
        sizes = files.store.uncached.copy_in(names, files.store.uncached, sources)
        if min(sizes) < 0:
            raise ConflictError(
                "a garbage collection has just removed a chunk file that the session wrote",
                key=sources[sizes.index(min(sizes))],
                hint="discard the session and make the changes again",
            )
    for change in transaction.changes:
        if change.references is not None:
            change.references.replace_files(condemned, new)
    transaction.changes.packs = []  # of which some have other ids now: what is given up, a collection removes
    transaction.state += 1
