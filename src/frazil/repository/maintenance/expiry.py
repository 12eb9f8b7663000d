"""Expiry shortens histories: it records which snapshots have expired, and removes nothing. Later collections remove the objects that only these led to
(collection.py).

No file is rewritten: histories end where the record ends them (expired.py), and branch files stay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from frazil.base.record import Record
from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.format import MAIN, Ancestor, RepositoryFormat
from frazil.repository.maintenance.expired import expired_ids, record_expired
from frazil.repository.maintenance.id_columns import id_column, id_list, join
from frazil.repository.maintenance.live_snapshots import is_same, names_wrong_parent, own_parent
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
    FormatError and NotFoundError for damaged histories, StoreError, ReadOnlyError."""
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
    tips, tags = heads(files), tagged(files)
    if not dry_run:
        sync_tips(files, tips)
    expired_branches = [
        tip
        for tip in tips
        if policy.branches_too and tip.branch != MAIN and _is_old(files, tip.snapshot, policy.older_than)
    ]
    expired_tags = [
        (name, snapshot)
        for name, snapshot in tags.items()
        if not policy.keep_tagged and _is_old(files, snapshot, policy.older_than)
    ]
    names = tuple(name for name, _ in expired_tags), tuple(tip.branch for tip in expired_branches)
    gone_tags, gone_branches = map(set, names)
    starts = [(tip.snapshot, 0 if tip.branch in gone_branches else policy.keep_last) for tip in tips]
    starts += [(snapshot, 0 if name in gone_tags else _ONE) for name, snapshot in tags.items()]
    parents = _Parents(files, before)
    while True:
        histories = [_history(parents, start, before, policy.older_than, keep) for start, keep in starts]
        if parents.settle():
            break
    remaining = {snapshot for history in histories for snapshot in history.ids[: history.kept]}
    expired = list(
        dict.fromkeys(at for history in histories for at in history.ids[history.kept :] if at not in remaining)
    )
    if not dry_run:
        # refs first: one that cannot be deleted, or has moved, keeps its history
        for name, snapshot in expired_tags:
            files.delete_tag(name, snapshot)
        for tip in expired_branches:
            files.delete_branch(tip.branch, tip.snapshot)
        if expired:
            record_expired(files, join([id_column(_with_file_ids(files, expired))]))
    return Expired(dry_run, tuple(map(encode_id, expired)), len(remaining), *names)


class _Parents:
    """The histories of several refs. If two name different parents of a snapshot, its own file counts: what a wrong list leaves out would expire."""

    __slots__ = ("_contradicted", "_expired", "_files", "_listed", "_own")

    def __init__(self, files: RepositoryFormat, expired: set[ObjectId]) -> None:
        self._files, self._expired = files, expired
        self._listed: dict[ObjectId, ObjectId] = {}
        self._own: dict[ObjectId, ObjectId] = {}
        self._contradicted: set[ObjectId] = set()

    def history(self, start: ObjectId) -> Iterator[Ancestor]:
        """As RepositoryFormat.ancestors."""
        at: ObjectId | None = start
        passed: set[ObjectId] = set()
        while at is not None and at not in passed:
            passed.add(at)
            following: ObjectId | None = None
            for found in self._files.ancestors(at):
                yield found
                own, parent = self._own.get(found.snapshot), found.parent
                if own is not None and not is_same(self._files, own, parent):
                    following = None if own in self._expired else own
                    break
                if own is None and parent is not None:
                    listed = self._listed.setdefault(found.snapshot, parent)
                    if not is_same(self._files, listed, parent):
                        self._contradicted.add(found.snapshot)
            at = following

    def settle(self) -> bool:
        """Whether the histories that were followed agree. Otherwise they are to be followed again. Raises FormatError if it is unknown which is right."""
        for snapshot in self._contradicted:
            own = own_parent(self._files, snapshot)
            if own is None or names_wrong_parent(self._files, snapshot):
                raise FormatError(
                    f"two histories name different parents of {encode_id(snapshot)}, whose file does not show which is right",
                    key=self._files.key(f"snapshots/{encode_id(snapshot)}"),
                    hint="verify shows more; nothing has expired",
                )
            self._own[snapshot] = own if own in self._expired else self._files.snapshot_id(own)
        settled = not self._contradicted
        self._contradicted, self._listed = set(), {}
        return settled


def _history(parents: _Parents, start: ObjectId, before: set[ObjectId], older_than: int, keep: int) -> _History:
    """The history of a ref. The first snapshot that is too old, and all before it, are not kept. keep: how many are kept at any age; 0: the ref expires"""
    ids: list[ObjectId] = []
    remaining: int | None = None if keep else 0
    for number, found in zip(count(), parents.history(start), strict=False):
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
