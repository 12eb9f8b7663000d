"""Expiry shortens histories: it records which snapshots have expired, and removes nothing. Later collections remove the objects that only these led to
(collection.py).

No file is rewritten: histories end where the record ends them (expired.py), and branch files stay."""

from __future__ import annotations

from itertools import count
from typing import Final

from frazil.base.record import Record
from frazil.errors import InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.format import MAIN, RepositoryFormat
from frazil.repository.maintenance.expired import expired_ids, record_expired
from frazil.repository.maintenance.id_columns import id_column, id_list, join
from frazil.repository.maintenance.reachable import heads, refuse_unread_refs, tagged
from frazil.repository.maintenance.report import Expired
from frazil.repository.maintenance.tips import refuse_lost_tips
from frazil.repository.synced_tips import sync_tips


class Policy(Record):
    """What expires.

    older_than    ns since 1970: snapshots that were written before that
    keep_last     number of snapshots that are kept of each branch at any age; 1 or more
    keep_tagged   tags and their snapshots are kept
    branches_too  branches with an older tip are deleted, except `main`"""

    older_than: int
    keep_last: int = 1
    keep_tagged: bool = True
    branches_too: bool = False


class _History(Record):
    """What one ref leads to, newest first, without snapshots that expired before. kept: how many of the ids are kept"""

    ids: list[ObjectId]
    kept: int


_ONE: Final = 1


def expire(files: RepositoryFormat, policy: Policy, *, dry_run: bool = False) -> Expired:
    """Expires the snapshots of all branches that are too old by the policy, except those that other branches or tags keep. Raises InvalidInputError,
    FormatError for damaged histories, StoreError, ReadOnlyError."""
    if policy.keep_last < 1:
        raise InvalidInputError("keep_last must be 1 or more: a branch points to its last snapshot", hint="keep_last=1")
    files.require()
    if not policy.keep_tagged and not files.deletes_tags:
        raise InvalidInputError(
            "tags cannot be deleted once created, in the format of this repository (Icechunk specification, Tags)",
            hint="a tag keeps its own snapshot, and nothing before that",
        )
    if not dry_run:
        files.check_commits()
    refuse_unread_refs(files)
    refuse_lost_tips(files)
    before = set(id_list(expired_ids(files)))
    expired_branches, expired_tags = [], []
    histories: list[_History] = []
    tips = heads(files)
    if not dry_run:
        sync_tips(files, tips)
    for tip in tips:
        history = _history(files, tip.snapshot, before, policy.older_than, policy.keep_last)
        if policy.branches_too and tip.branch != MAIN and _is_old(files, tip.snapshot, policy.older_than):
            expired_branches.append(tip)
            history = history._replace(kept=0)
        histories.append(history)
    for name, snapshot in tagged(files).items():
        history = _history(files, snapshot, before, policy.older_than, _ONE)
        if not policy.keep_tagged and _is_old(files, snapshot, policy.older_than):
            expired_tags.append((name, snapshot))
            history = history._replace(kept=0)
        histories.append(history)
    remaining = {snapshot for history in histories for snapshot in history.ids[: history.kept]}
    expired = list(
        dict.fromkeys(at for history in histories for at in history.ids[history.kept :] if at not in remaining)
    )
    if not dry_run:
        if expired:
            record_expired(files, join([id_column(_with_file_ids(files, expired))]))
        for name, snapshot in expired_tags:
            files.delete_tag(name, snapshot)
        for tip in expired_branches:
            files.delete_branch(tip.branch, tip.snapshot)
    names = tuple(name for name, _ in expired_tags), tuple(tip.branch for tip in expired_branches)
    return Expired(dry_run, tuple(map(encode_id, expired)), len(remaining), *names)


def _history(files: RepositoryFormat, start: ObjectId, before: set[ObjectId], older_than: int, keep: int) -> _History:
    """The history of a ref. The first snapshot that is too old, and all before it, are not kept."""
    ids: list[ObjectId] = []
    remaining: int | None = None
    for number, found in zip(count(), files.ancestors(start), strict=False):
        if number and found.snapshot in before:
            break
        if remaining is None and number >= keep and found.info.written_at < older_than:
            remaining = number
        ids.append(found.snapshot)
    return _History(ids, len(ids) if remaining is None else remaining)


def _is_old(files: RepositoryFormat, snapshot: ObjectId, older_than: int) -> bool:
    return files.snapshot(snapshot).metadata.written_at < older_than


def _with_file_ids(files: RepositoryFormat, snapshots: list[ObjectId]) -> list[ObjectId]:
    """Snapshots by their ids in histories, and also by those of their files if these differ, as for the first ones."""
    found = list(snapshots)
    for snapshot in snapshots[-1:]:
        try:
            found.append(files.snapshot_id(snapshot))
        except NotFoundError:
            continue
    return found
