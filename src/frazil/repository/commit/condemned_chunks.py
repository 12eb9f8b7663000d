"""Checks, before the commit of a session that began long ago or whose branch a garbage collection held meanwhile, whether a collection has condemned or removed
chunk files that the session wrote. Condemned files are copied to new ids.

Newer sessions need no such check: a collection condemned their files so recently, if at all, that it does not remove them yet
(docs/design/072-garbage-collection.md). But the whole repository may have been replaced by an older copy."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from frazil.base.arrays import among, distinct
from frazil.base.reports import counted
from frazil.errors import ConflictError
from frazil.formats.ids import CRC_BYTES, ID_BYTES, encode_ids
from frazil.repository.maintenance.condemned import CHECK_AFTER, condemned_ids
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, id_column, join, octets
from frazil.repository.session.changed_references import NATIVE
from frazil.repository.session.transaction import Transaction

_BATCH: Final = 4096  # chunk files that are looked up in one call
_RESTORED_WITHIN: Final = 1_000_000_000  # nanoseconds


def may_be_condemned(transaction: Transaction) -> bool:
    """Whether a collection may remove what the session wrote. Call it after reading the tip that the commit follows."""
    return transaction.age() >= CHECK_AFTER


def check_written(transaction: Transaction) -> None:
    """Writes again the condemned chunk files that the session refers to. The caller holds the session's lock.

    Raises ConflictError if a file was removed and the changes have to be made again; StoreError."""
    files = transaction.files
    if not files.store.capabilities.listable:
        return
    own = _chunk_files(transaction)
    if not len(own):
        return
    # in this order: a list is removed after the objects it names
    condemned = condemned_ids(files)["chunks"]
    again = own[among(own, condemned)]
    _require_existing(transaction, own)
    if len(again):
        _write_again(transaction, again)


def check_outermost(transaction: Transaction) -> None:
    """Looks up the chunk files that the session wrote first and last, in each array, if that costs no request. A repository that was restored from a copy of an
    earlier time does not have both, unless the session wrote before the copy and after the restoration; and the commit would refer to lost chunks. Sessions of
    a second are left out: a restoration takes longer. Raises as check_written."""
    if not transaction.files.store.capabilities.direct or transaction.age() < _RESTORED_WITHIN:
        return
    for change in transaction.changes:
        if change.references is not None:
            files = change.references.outermost_files()
            if len(files):
                _require_existing(transaction, distinct(id_column(files)))


def _chunk_files(transaction: Transaction) -> Ids:
    """The chunk files that the session's own references name, sorted. Those of the base snapshot are never garbage, as the branch points to it."""
    parts = [NO_IDS]
    for change in transaction.changes:
        if change.references is not None:
            rows = change.references.selected(change.references.current())
            parts.append(distinct(id_column(rows.ids[rows.kinds == NATIVE])))
    return join(parts)


def _require_existing(transaction: Transaction, own: Ids) -> None:
    files = transaction.files
    for low in range(0, len(own), _BATCH):
        part = own[low : low + _BATCH]
        keys = [files.key(f"chunks/{text}") for text in encode_ids(octets(part))]
        missing = np.flatnonzero(files.store.uncached.sizes(keys) < 0)
        if len(missing):
            raise ConflictError(
                f"the session wrote {counted(len(missing), 'chunk file')} that cannot be found: a garbage collection removed what it wrote, as it was open for too long, "
                "the repository was replaced by an older copy, or a fork wrote to a copy of a store in memory",
                key=keys[missing.item(0)],
                hint="discard the session and make the changes again; collect with a wait that is longer than the longest session, and let workers of other "
                "processes write to a folder or a bucket",
            )


def _write_again(transaction: Transaction, condemned: Ids) -> None:
    """Copies chunk files to new ids, and changes the session's references to these."""
    files = transaction.files
    new_ids = np.frombuffer(os.urandom(ID_BYTES * len(condemned)), np.uint8).reshape(-1, ID_BYTES).copy()
    new_ids[:, -CRC_BYTES:] = octets(condemned)[:, -CRC_BYTES:]  # these may be the digest, which stays the same
    new = id_column(new_ids)
    for low in range(0, len(condemned), _BATCH):
        pairs = [condemned[low : low + _BATCH], new[low : low + _BATCH]]
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
    transaction.changes.packs = []  # some have other ids now; a collection removes them if the session is discarded
    transaction.state += 1
