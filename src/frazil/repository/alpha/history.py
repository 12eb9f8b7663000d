"""Histories as the alpha format has them: each snapshot file lists its nearest ancestors. The walk along them, and the common ancestor of two.

Users look snapshots up by api/lookup.py. Which file a branch points to is found in branches.py."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, zip_longest
from typing import Final

from frazil.errors import FormatError, NotFoundError
from frazil.formats.alpha.refs import snapshot_key
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ALPHABET, ID_CHARACTERS, ObjectId, decode_id, encode_id
from frazil.repository.alpha.branches import read_first
from frazil.repository.alpha.file_cache import Files
from frazil.repository.format import MAIN, Ancestor
from frazil.repository.maintenance.expired import may_have_expired

__all__ = ["ancestry", "common_ancestor", "find_snapshots", "list_ids", "snapshot_file"]

_PAGE: Final = 64  # keys of a listing


# --- ancestors ---------------------------------------------------------------------------------------------------------------------------


def ancestry(files: Files, snapshot: ObjectId) -> Iterator[Ancestor]:
    """A snapshot and its ancestors, newest first. Further files are read where a history is bounded, as the walk comes to its end. It also ends where such a file is
    not there and has expired, or may have.

    Raises NotFoundError where the snapshot itself is not there; while walking, FormatError for files that make no sense or are missing, and for a history that comes back to
    itself."""
    return _walk(files, snapshot, files.snapshot(snapshot))


def _walk(files: Files, file: ObjectId, snapshot: SnapshotFile) -> Iterator[Ancestor]:
    own = snapshot.metadata._replace(id=file)
    while True:
        ids = {info.id for info in snapshot.history}
        if len(ids) < len(snapshot.history) or not ids.isdisjoint((file, snapshot.metadata.id)):
            raise FormatError("the history of a snapshot comes back to itself", key=files.key(snapshot_key(file)))
        infos = [own, *snapshot.history]
        for info, parent in pairwise(infos):
            yield Ancestor(info, parent.id)
        own = infos[-1]
        older = _continued(files, snapshot)
        if older is None:
            yield Ancestor(own, None)
            return
        file, snapshot = own.id, older


def _continued(files: Files, snapshot: SnapshotFile) -> SnapshotFile | None:
    """The oldest ancestor that a snapshot lists, where that has ancestors that it does not list."""
    if not snapshot.history or snapshot.total_parents <= len(snapshot.history):
        return None
    last = snapshot.history[-1].id
    try:
        older = files.snapshot(last)
    except NotFoundError as error:
        if may_have_expired(files, last):
            return None
        raise FormatError(
            f"the history of a snapshot is damaged: {encode_id(last)} is missing, and no record of an expiry names it",
            key=error.key,
            hint="restore it from a copy of the repository",
        ) from error
    if older.total_parents >= snapshot.total_parents:
        raise FormatError(
            f"a snapshot has {older.total_parents} ancestors, but one that comes after it has {snapshot.total_parents}: "
            "their history comes back to itself",
            key=files.key(snapshot_key(last)),
        )
    return older


def common_ancestor(files: Files, left: ObjectId, right: ObjectId) -> ObjectId | None:
    """The newest snapshot that is in the histories of both, which may be one of them; None where they have nothing in common. It is the id of a file where that is
    there still. Errors as those of ancestry."""
    last = files.snapshot(right)
    own = ({left, files.snapshot(left).metadata.id}, {right, last.metadata.id})
    if own[0] & own[1]:
        return left
    if left in [info.id for info in last.history]:  # as of nearly every rebase
        return left
    for commits in zip_longest(ancestry(files, left), ancestry(files, right)):
        for side, commit in enumerate(commits):
            if commit is None:
                continue
            if commit.snapshot in own[1 - side]:
                try:
                    return snapshot_file(files, commit.snapshot)
                except NotFoundError:
                    return commit.snapshot
            own[side].add(commit.snapshot)
    return None


# --- ids ---------------------------------------------------------------------------------------------------------------------------------


def snapshot_file(files: Files, snapshot: ObjectId) -> ObjectId:
    """The id of the file of a snapshot that a history names. It is the same, but for the first one of a repository that the alpha library made: that is what the first
    file of `main` points to. Raises NotFoundError."""
    if files.has_snapshot(snapshot):
        return snapshot
    first = _first_snapshot(files)
    if first is not None and first[1] == snapshot:
        return first[0]
    raise NotFoundError(
        "there is no such snapshot",
        key=files.key(snapshot_key(snapshot)),
        hint="the id is one of another repository, or the snapshot has expired",
    )


def find_snapshots(files: Files, start: str, most: int) -> list[ObjectId]:
    """Snapshot files whose ids begin so, as text in capital letters, at most `most`. Where there is none, the first one of a repository that the alpha library made,
    if the id that histories give it begins so. Errors as those of ancestry."""
    found = [text for text in list_ids(files, "snapshots", start, most) if text.startswith(start)]
    if found:
        return [decode_id(text) for text in found]
    first = _first_snapshot(files)
    return [first[0]] if first is not None and encode_id(first[1]).startswith(start) else []


def _first_snapshot(files: Files) -> tuple[ObjectId, ObjectId] | None:
    """The very first snapshot of a repository: the id of its file, and the one that histories give it. None where it cannot be told."""
    try:
        first = read_first(files, MAIN)
        if first is not None and first.snapshot is not None:
            return first.snapshot, files.snapshot(first.snapshot).metadata.id
    except (FormatError, NotFoundError):
        pass
    return None


def list_ids(files: Files, kind: str, after: str, limit: int) -> list[str]:
    """Ids, as text, of files of a kind, sorted, behind a text, at most `limit`. Foreign files are passed over; [] where the store cannot be listed."""
    folder, found = files.key(f"{kind}/"), list[str]()
    if not files.store.capabilities.listable:
        return found
    start: str | None = folder + after
    while start is not None and len(found) < limit:
        page = files.store.list_page(folder, start, limit=_PAGE)
        for name in [key[len(folder) :] for key in page.keys]:
            if len(name) == ID_CHARACTERS and not name.strip(ALPHABET) and encode_id(decode_id(name)) == name:
                found.append(name)
        start = page.next
    return found[:limit]
