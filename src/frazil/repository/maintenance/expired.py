"""The record of expired snapshots: ids of snapshots at which histories end. Expiry writes it before anything is removed (expiry.py), and it never changes."""

from __future__ import annotations

from frazil.base.arrays import Values, among
from frazil.errors import NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, id_column, id_list, join
from frazil.repository.maintenance.records import RepositoryFiles, list_records, new_record, read_records, write_record


def expired_ids(files: RepositoryFiles) -> Ids:
    """Every expired snapshot, sorted; empty if the store cannot list, so that histories continue to removed snapshots there. Raises StoreError, FormatError."""
    if not files.store.capabilities.listable:
        return join([])
    found = _read(files)
    return join([columns["snapshots"] for columns in found])  # type: ignore[misc] # a column of ids


def record_expired(files: RepositoryFiles, snapshots: Ids, ends: Ids = NO_IDS) -> None:
    """Records that snapshots have expired; on return, they have. Raises StoreError.

    ends  snapshots at which histories end: their files name no parent, and the parent is no longer known"""
    columns = {"snapshots": snapshots}
    write_record(files, new_record("expired"), columns | {"ends": ends} if len(ends) else columns)


def may_end(files: RepositoryFiles, *snapshots: ObjectId) -> bool:
    """Whether a record ends histories at one of these snapshots, whose list of ancestors is accepted as it is. Raises StoreError, FormatError."""
    if not files.store.capabilities.listable:
        return True
    return any(not {*snapshots}.isdisjoint(id_list(columns["ends"])) for columns in _read(files) if "ends" in columns)  # type: ignore[arg-type] # a column of ids


def _read(files: RepositoryFiles) -> list[dict[str, Values]]:
    return read_records(files, list_records(files, "expired"), ["snapshots"], may_have=["ends"])


def has_expired(files: RepositoryFiles, snapshot: ObjectId) -> bool:
    return bool(among(id_column([snapshot]), expired_ids(files))[0])


def may_have_expired(files: RepositoryFiles, snapshot: ObjectId) -> bool:
    """Whether a missing snapshot may have expired: it is in the records, or the store cannot list them."""
    return not files.store.capabilities.listable or has_expired(files, snapshot)


def find_expired(files: RepositoryFiles, start: str) -> ObjectId | None:
    """An expired snapshot whose id begins with this text, in capital letters."""
    return next((found for found in id_list(expired_ids(files)) if encode_id(found).startswith(start)), None)


def expired_error(files: RepositoryFiles, snapshot: ObjectId) -> NotFoundError:
    """The error for reading an expired snapshot."""
    return NotFoundError(
        f"the snapshot {encode_id(snapshot)} has expired: an expiry of this repository ended its history before that",
        key=files.key(f"snapshots/{encode_id(snapshot)}"),
        hint="repo.history() lists the snapshots that are left",
    )


def require_history(files: RepositoryFiles) -> None:
    """Raises NotFoundError if the common ancestor of two snapshots may have expired, as every history began with one snapshot."""
    if len(expired_ids(files)):
        raise NotFoundError(
            "the last snapshot that both histories have in common has expired",
            key=files.key("gc/expired/"),
            hint="choose older_than of expire() so that it keeps the snapshots that open sessions began from",
        )
