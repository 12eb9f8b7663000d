"""Branches, tags and histories: which snapshots are to be checked. Each is named once, however many refs lead to it."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from frazil.base.record import Record
from frazil.errors import AccessError, DataError, FormatError, FrazilError, InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.format import RepositoryFormat, Tip
from frazil.repository.maintenance.expired import expired_ids
from frazil.repository.maintenance.id_columns import id_list
from frazil.repository.maintenance.live_snapshots import own_parent
from frazil.repository.maintenance.tips import lost_text, lost_tips
from frazil.repository.verification.report import Findings, Subject

# no other StoreError: if the store cannot be read, nothing is known about its files
UNREADABLE: tuple[type[FrazilError], ...] = (DataError, NotFoundError, InvalidInputError, AccessError)


class ReachedSnapshot(Record):
    """A snapshot that a ref leads to. file: its id; first: it has no parent; parent: the id of its parent as histories have it, None if that was not read"""

    file: ObjectId
    ref: str
    first: bool
    parent: ObjectId | None = None

    @property
    def subject(self) -> Subject:
        return Subject(self.ref, encode_id(self.file))


def read_refs(files: RepositoryFormat, found: Findings) -> tuple[int, list[tuple[str, ObjectId]]]:
    """The number of branches and tags, and the snapshots that the readable ones point to, with "branch NAME" or "tag NAME". Raises StoreError."""
    branches, tags = files.read_branches(), files.read_tags()
    number = len(branches) + len(tags)
    tips: list[tuple[str, ObjectId]] = []
    known: dict[str, Tip] = {}
    for name, tip in branches.items():
        if isinstance(tip, FrazilError):
            found.unreadable("ref", tip, Subject(f"branch {name}"))
        elif tip.deleted:
            number -= 1
        else:
            known[name] = tip
            _check_next(files, tip, found)
            tips.append((f"branch {name}", tip.snapshot))
    for name, target in tags.items():
        if isinstance(target, FrazilError):
            found.unreadable("ref", target, Subject(f"tag {name}"))
        else:
            tips.append((f"tag {name}", target))
    for unread in files.unread_refs():
        text = "it is not a branch or a tag: move it away"
        if unread.no_file:
            text = "no file in its folder is read: restore its files, or remove the folder"
        elif unread.name:
            text = "it is not read, as letters of its name are in another case: rename it"
        found.add("ref", text, Subject(unread.name), unread.key)
    with suppress(*UNREADABLE):  # a damaged record is reported with the other files of collections
        for tip in lost_tips(files, known):
            subject = Subject(f"branch {tip.branch}", encode_id(tip.snapshot))
            found.add("ref", lost_text(tip), subject, files.tip_key(tip))
    return number, tips


def _check_next(files: RepositoryFormat, tip: Tip, found: Findings) -> None:
    try:
        files.check_next(tip)
    except UNREADABLE as error:
        subject = Subject(f"branch {tip.branch}")
        found.add(
            "ref", f"it can no longer be changed, and garbage cannot be collected: {error.message}", subject, error.key
        )


def walk_histories(files: RepositoryFormat, tips: list[tuple[str, ObjectId]], found: Findings) -> list[ReachedSnapshot]:
    """The snapshots that refs lead to, newest first, each once. Raises StoreError."""
    try:
        expired = set(id_list(expired_ids(files)))
    except UNREADABLE as error:
        found.unreadable("expiry", error, Subject())
        expired = set()
    reached: dict[ObjectId, ReachedSnapshot] = {}
    for ref, start in tips:
        try:
            _walk(files, ref, start, expired, reached)
        except NotFoundError as error:
            at_tip = start not in reached
            text = (
                "it points to a snapshot that is not there"
                if at_tip
                else "an ancestor is missing, and no record of an expiry names it"
            )
            found.unreadable(
                "ref" if at_tip else "history", type(error)(text, key=error.key), Subject(ref, encode_id(start))
            )
        except UNREADABLE as error:
            own = own_parent(files, start) if isinstance(error, FormatError) else None
            if start not in reached and own is not None:  # its whole list is wrong
                reached[start] = ReachedSnapshot(start, ref, False, own)
            found.unreadable("history" if start in reached else "snapshot", error, Subject(ref, encode_id(start)))
            last = next(reversed(reached.values()), None)
            if last is not None and last.ref == ref and last.parent is not None:
                _walk_readable(files, ref, last.parent, expired, reached)
    return list(reached.values())


def walk_on(
    files: RepositoryFormat, named: dict[ObjectId, str], earlier: list[ReachedSnapshot]
) -> list[ReachedSnapshot]:
    """The unknown snapshots that are reached from ids that other snapshots name as parents but no history contains. named: the ref that led to each id. Files
    that cannot be read are skipped: the contradiction is already a problem. Raises StoreError."""
    try:
        expired = set(id_list(expired_ids(files)))
    except UNREADABLE:
        expired = set()
    reached = {snapshot.file: snapshot for snapshot in earlier}
    for start, ref in named.items():
        _walk_readable(files, ref, start, expired, reached)
    return list(reached.values())[len(earlier) :]


def tips_alone(files: RepositoryFormat, tips: list[tuple[str, ObjectId]], found: Findings) -> list[ReachedSnapshot]:
    """The snapshots that refs point to, each once. Raises StoreError."""
    reached: dict[ObjectId, ReachedSnapshot] = {}
    for ref, start in tips:
        try:
            files.snapshot(start)
        except NotFoundError as error:
            text = "it points to a snapshot that is not there"
            found.unreadable("ref", NotFoundError(text, key=error.key), Subject(ref, encode_id(start)))
            continue
        except UNREADABLE as error:
            found.unreadable("snapshot", error, Subject(ref, encode_id(start)))
            continue
        if start not in reached:
            reached[start] = ReachedSnapshot(start, ref, is_first(files, start))
    return list(reached.values())


def check_own_history(files: RepositoryFormat, file: ObjectId, ref: str, found: Findings) -> None:
    """Compares the history in a snapshot file with the stored snapshots: a commit on top copies that history, and later files hide the fault. Raises
    StoreError."""
    with suppress(*UNREADABLE):  # other checks report these
        fault = files.history_fault(file)
        if fault is not None:
            key = files.key(f"snapshots/{encode_id(file)}")
            found.unreadable("history", FormatError(fault, key=key), Subject(ref, encode_id(file)))


def is_first(files: RepositoryFormat, snapshot: ObjectId) -> bool:
    """Whether a snapshot has no parent. Only then may its id differ from the id of its file."""
    try:
        return len(list(islice(files.ancestors(snapshot), 2))) == 1
    except UNREADABLE:
        return False


def _walk(
    files: RepositoryFormat, ref: str, start: ObjectId, expired: set[ObjectId], reached: dict[ObjectId, ReachedSnapshot]
) -> None:
    """Follows a history until it reaches an expired snapshot, or a known one with the same parent."""
    if start in reached:
        return
    for ancestor in files.ancestors(start):
        at = ancestor.snapshot
        if ancestor.parent is None and at != start and at not in reached:
            at = files.snapshot_id(at)  # histories may know the oldest by another id
        if at not in reached:
            reached[at] = ReachedSnapshot(at, ref, ancestor.parent is None, ancestor.parent)
        elif ancestor.parent in (None, reached[at].parent):
            return
        if ancestor.parent in expired:
            return


def _walk_readable(
    files: RepositoryFormat, ref: str, start: ObjectId, expired: set[ObjectId], reached: dict[ObjectId, ReachedSnapshot]
) -> None:
    """Follows the readable part of a history that already has a reported problem."""
    with suppress(*UNREADABLE):
        _walk(files, ref, files.snapshot_id(start), expired, reached)
