"""Pins: while a tag or a branch is pointed to a snapshot, a file under gc/pins/ names the snapshot, so that no collection removes it meanwhile.

A collection reads pins before refs. If it is unknown whether the tag was created, the pin stays. docs/design/072-garbage-collection.md shows that this is
safe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from frazil.base.arrays import among
from frazil.errors import CommitUnknownError, ConflictError, FormatError, FrazilError, NotFoundError, StoreError
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.format import RepositoryFormat
from frazil.repository.maintenance.condemned import KINDS, condemned_ids
from frazil.repository.maintenance.expired import expired_error, has_expired
from frazil.repository.maintenance.id_columns import id_column
from frazil.repository.maintenance.reachable import is_referenced, is_whole, reachable_from
from frazil.repository.maintenance.records import list_records, new_record, write_record


@contextmanager
def pinned(
    files: RepositoryFormat,
    snapshot: ObjectId,
    *,
    may_be_damaged: bool = False,
    is_unknown: Callable[[], bool] | None = None,
) -> Iterator[None]:
    """Protects a snapshot from collections while the block points a tag or a branch to it. Stores that cannot erase are never collected, and need no pin.

    may_be_damaged  allows an incomplete snapshot: a repair knows what is missing, and collections stop with an error there
    is_unknown      after an error: whether a ref may lead to the snapshot now, or later; None: the error tells

    Raises NotFoundError if the snapshot was removed, ConflictError if a running collection may be about to remove it, StoreError, ReadOnlyError."""
    can = files.store.capabilities
    if not (can.erasable and can.listable):
        yield
        return
    files.check_commits()
    name, stays = new_record("pins"), False
    try:
        write_record(files, name, {"snapshots": id_column([snapshot])})
        _require_kept(files, snapshot, may_be_damaged=may_be_damaged)
        stays = True
        yield
        stays = False
        files.erase([name])
    except BaseException as error:
        if not (stays and (_leaves_unknown(error) if is_unknown is None else is_unknown())):
            files.erase([name])
        raise


def _leaves_unknown(error: BaseException) -> bool:
    if isinstance(error, StoreError):
        return error.done is not False
    return isinstance(error, CommitUnknownError) or not isinstance(error, FrazilError)


def _require_kept(files: RepositoryFormat, snapshot: ObjectId, *, may_be_damaged: bool) -> None:
    """Refuses a snapshot that is gone, or may be about to be removed: one listing shows the lists and whether a collection is running, which may have marked
    before the pin."""
    records = list_records(files)
    if any(record.folder == "runs" for record in records):
        condemned = condemned_ids(files, [record for record in records if record.folder == "condemned"])
        is_condemned = among(id_column([snapshot]), condemned["snapshots"])[0]
        if not is_condemned and not _may_be_referenced(files, snapshot):
            # an old session may have written a snapshot that leads to objects condemned before
            found = reachable_from(files, snapshot)
            is_condemned = found is not None and any(
                among(getattr(found, kind), condemned[kind]).any() for kind in KINDS
            )
        # it may have been condemned before it was committed
        if is_condemned and not is_referenced(files, snapshot):
            raise ConflictError(
                f"the snapshot {encode_id(snapshot)}, or an object that it needs, is condemned as unreferenced, and a garbage collection is running",
                key=files.key(f"snapshots/{encode_id(snapshot)}"),
                hint="try again when the collection has ended; it may remove the snapshot",
            )
    key = files.key(f"snapshots/{encode_id(snapshot)}")
    if not files.store.uncached.exists(key):
        if has_expired(files, snapshot):
            raise expired_error(files, snapshot)
        raise NotFoundError("there is no such snapshot", key=key, hint="it may have been collected as garbage")
    if not may_be_damaged and not _may_be_referenced(files, snapshot) and not is_whole(files, snapshot):
        raise NotFoundError(
            "the snapshot is not complete: its commit was interrupted, or a garbage collection has removed some of it",
            key=key,
            hint="choose one in the history of a branch or a tag",
        )


def _may_be_referenced(files: RepositoryFormat, snapshot: ObjectId) -> bool:
    """Whether a ref leads to a snapshot; also True if this is unknown because a ref leads to damage: then collections stop with an error, and a repair needs
    tags and branches."""
    try:
        return is_referenced(files, snapshot)
    except FormatError:
        return True
