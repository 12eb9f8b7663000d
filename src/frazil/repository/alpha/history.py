"""Histories in the alpha format: each snapshot file lists its nearest ancestors. The walk along them, and the common ancestor of two.

api/lookup.py looks up snapshots for users. branches.py finds the file that a branch points to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Final

from frazil.errors import FormatError, NotFoundError
from frazil.formats.alpha.refs import snapshot_key
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ALPHABET, ID_CHARACTERS, ObjectId, decode_id, encode_id
from frazil.formats.snapshots import SnapshotInfo
from frazil.repository.alpha.branches import read_first
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.snapshot_flags import has_freedoms
from frazil.repository.format import MAIN, Ancestor
from frazil.repository.maintenance.expired import may_end, may_have_expired

_PAGE: Final = 64  # keys of a listing


# --- ancestors ---------------------------------------------------------------------------------------------------------------------------


def ancestry(files: Files, snapshot: ObjectId) -> Iterator[Ancestor]:
    """A snapshot and its ancestors, newest first. Further snapshot files are read at the end of each list of ancestors if a history is bounded, or if a list is
    too short. The walk also ends if such a file does not exist and has expired, or may have.

    Raises NotFoundError if the snapshot itself does not exist; while walking, FormatError for invalid or missing files, for a cyclic history,
    and, after the last known ancestor, for a history that does not end at the first snapshot of the repository."""
    return _walk(files, snapshot, files.snapshot(snapshot))


def _walk(files: Files, file: ObjectId, snapshot: SnapshotFile) -> Iterator[Ancestor]:
    infos = [snapshot.metadata._replace(id=file), *snapshot.history]
    walked = {file, snapshot.metadata.id}
    while True:
        is_cycle = False
        for number, info in enumerate(infos[1:], 1):
            is_cycle = info.id in walked
            if is_cycle and not may_end(files, file):
                raise FormatError(
                    "the history of a snapshot is a cycle",
                    key=files.key(snapshot_key(file)),
                    hint="verify shows what is damaged, repair what can be repaired",
                )
            if is_cycle:
                infos = infos[:number]
                break
            walked.add(info.id)
        for info, parent in pairwise(infos):
            yield Ancestor(info, parent.id)
        own = infos[-1]
        is_whole = len(snapshot.history) >= snapshot.total_parents
        if is_cycle or (is_whole and _may_be_first_snapshot(files, own.id, snapshot)):
            yield Ancestor(own, None)
            return
        older = _continued(files, infos[-2:])
        if not older:
            yield Ancestor(own, None)
            if older is not None and not may_end(files, own.id):
                raise FormatError(
                    f"a history ends too early: {encode_id(own.id)} names no snapshot before it, but is not the first of the repository",
                    key=files.key(snapshot_key(own.id)),
                    hint="verify shows what is damaged, repair what can be repaired",
                )
            return
        file, infos = own.id, [own, *older]
        snapshot = files.snapshot(own.id)


def _continued(files: Files, last: Sequence[SnapshotInfo]) -> Sequence[SnapshotInfo] | None:
    """The ancestors of the oldest ancestor known so far: from its own file or, if that lists none, from the file of its child. None if its file is gone
    and may have expired. last: child and oldest ancestor, or the oldest ancestor alone if it has no child"""
    own = last[-1].id
    if len(last) == 1:
        return ()
    try:
        older = files.snapshot(own)
    except NotFoundError as error:
        if may_have_expired(files, own):
            return None
        raise FormatError(
            f"the history of a snapshot is damaged: {encode_id(own)} is missing, and no record of an expiry names it",
            key=error.key,
            hint="restore it from a copy of the repository",
        ) from error
    if older.history:
        return older.history
    if older.total_parents == 0 and _may_be_first_snapshot(files, own, older):
        return None
    try:
        listed = files.snapshot(last[0].id).history
    except NotFoundError:
        return ()
    return [info for at, info in enumerate(listed) if at and own in [before.id for before in listed[:at]]]


def _may_be_first_snapshot(files: Files, named: ObjectId, lists_it: SnapshotFile) -> bool:
    """Whether a snapshot in a history may be the first of the repository, where all histories end; also if this is unknown. The first file of `main` points to
    it."""
    if named == files.first:
        return True
    try:
        first = read_first(files, MAIN)
    except FormatError:
        return True
    if first is None or first.snapshot is None:
        return True
    if named == first.snapshot:
        files.first = named
        return True
    if has_freedoms(lists_it):
        return False
    try:  # in the alpha library, the id of the first snapshot differs from that of its file
        return named == files.snapshot(first.snapshot).metadata.id
    except (NotFoundError, FormatError):
        return True


def history_fault(files: Files, file: ObjectId) -> str | None:
    """As RepositoryFormat.history_fault."""
    snapshot = files.snapshot(file)
    listed, total = snapshot.history, snapshot.total_parents
    last = listed[-1].id if listed else file
    if may_end(files, file):
        return None
    if len(listed) >= total:
        if _may_be_first_snapshot(files, last, snapshot) or may_end(files, *[info.id for info in listed]):
            return None  # commits on a snapshot whose list was accepted have copied it
        return f"its list of ancestors ends with {encode_id(last)}, which is not the first snapshot of the repository"
    return None if listed else f"it names none of its {total} ancestors"


def common_ancestor(files: Files, left: ObjectId, right: ObjectId) -> ObjectId | None:
    """The newest snapshot in both histories, which may be one of the two; None if they share none. It is the id of a file if the file
    still exists. Raises as ancestry."""
    last = files.snapshot(right)
    own = ({left, files.snapshot(left).metadata.id}, {right, last.metadata.id})
    if own[0] & own[1]:
        return left
    if (
        ancestor_at(files, right, last.total_parents - files.snapshot(left).total_parents) == left
    ):  # the case of most rebases
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


def ancestor_at(files: Files, file: ObjectId, steps: int) -> ObjectId | None:
    """As RepositoryFormat.ancestor_at, from the lists of ancestors: each file that is read skips a whole list."""
    visited: set[ObjectId] = set()
    while steps > 0 and file not in visited:  # a damaged list may be cyclic
        visited.add(file)
        try:
            history = files.snapshot(file).history
        except (NotFoundError, FormatError):
            return None
        if steps <= len(history):
            return history[steps - 1].id
        if not history:
            return None
        file, steps = history[-1].id, steps - len(history)
    return file if steps == 0 else None


# --- ids ---------------------------------------------------------------------------------------------------------------------------------


def snapshot_file(files: Files, snapshot: ObjectId) -> ObjectId:
    """The id of the file of a snapshot in a history. It is the same id, except for the first snapshot of a repository that the alpha library created: the first
    file of `main` points to its file. Raises NotFoundError."""
    if files.has_snapshot(snapshot):
        return snapshot
    first = _first_snapshot(files)
    if first is not None and first[1] == snapshot:
        return first[0]
    raise NotFoundError(
        "there is no such snapshot",
        key=files.key(snapshot_key(snapshot)),
        hint="the id is one of another repository, the snapshot has expired, or it is lost: verify shows whether a branch or tag leads to it",
    )


def find_snapshots(files: Files, start: str, most: int) -> list[ObjectId]:
    """At most `most` snapshot files whose ids begin with this text, in capital letters. If there is none, the first one of a repository that the alpha library
    created, if its id in histories begins so. Raises as ancestry."""
    found = [text for text in list_ids(files, "snapshots", start, most) if text.startswith(start)]
    if found:
        return [decode_id(text) for text in found]
    first = _first_snapshot(files)
    return [first[0]] if first is not None and encode_id(first[1]).startswith(start) else []


def _first_snapshot(files: Files) -> tuple[ObjectId, ObjectId] | None:
    """The first snapshot of a repository: the id of its file, and its id in histories. None if unknown."""
    try:
        first = read_first(files, MAIN)
        if first is not None and first.snapshot is not None:
            return first.snapshot, files.snapshot(first.snapshot).metadata.id
    except (FormatError, NotFoundError):
        pass
    return None


def list_ids(files: Files, kind: str, after: str, limit: int) -> list[str]:
    """At most `limit` ids of files of a kind, as text, sorted, after a text. Foreign files are skipped; [] if the store cannot be listed."""
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
