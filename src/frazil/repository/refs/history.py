"""What came before: the ancestors of a snapshot, the snapshot of a name or of a time, the common ancestor of two.

Histories lie in snapshot files, each of which lists its nearest ancestors. Which file a branch points to is found in branches.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.formats.alpha.refs import snapshot_key
from frazil.formats.alpha.snapshots import Snapshot, SnapshotInfo
from frazil.formats.ids import ALPHABET, ID_CHARACTERS, ObjectId, decode_id, encode_id
from frazil.formats.times import parse_time
from frazil.record import Record
from frazil.repository.files.file_cache import Files
from frazil.repository.files.properties import commit_metadata
from frazil.repository.refs.branches import MAIN, read_first, read_tag, read_tip

if TYPE_CHECKING:
    from frazil.formats.msgpack import Json

__all__ = [
    "Commit",
    "Found",
    "ancestry",
    "as_of",
    "common_ancestor",
    "lookup",
    "lookup_snapshot",
    "snapshot_file",
]

FoundKind: TypeAlias = Literal["tag", "branch", "snapshot"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST: Final = 4  # characters of an id that name a snapshot
_TOLD: Final = 4  # snapshots that an error names
_PAGE: Final = 64  # keys of a listing
_ALIKE: Final = str.maketrans("OIL", "011")  # letters that Crockford's base 32 reads as digits


class Commit:
    """One snapshot of a history. Equal to another of the same id, parent, message and time; pickles.

    snapshot    its id; of the oldest one, where the library of the alpha made the repository, it is not the id of a file (see snapshot_file)
    parent      the id of the one before as text; None for the oldest, and where the one before is not known any more
    message     what was said at the commit
    written_ns  when, in nanoseconds since 1970 in UTC"""

    __slots__ = ("_files", "message", "parent", "snapshot", "written_ns")

    def __init__(self, files: Files, info: SnapshotInfo, parent: ObjectId | None) -> None:
        self._files: Final = files
        self.snapshot: Final = info.id
        self.parent: Final = None if parent is None else encode_id(parent)
        self.message: Final = info.message
        self.written_ns: Final = info.written_at

    @property
    def id(self) -> str:
        """The id as text, 20 characters."""
        return encode_id(self.snapshot)

    @property
    def written_at(self) -> datetime:
        """When it was committed, in UTC, cut to microseconds."""
        try:
            return _EPOCH + timedelta(microseconds=self.written_ns // 1000)
        except OverflowError:  # the year 0, which files can have
            return datetime.min.replace(tzinfo=UTC)

    @property
    def metadata(self) -> Mapping[str, Json]:
        """What else was said at the commit, read from its file when it is asked for; empty where the file is not there any more."""
        try:
            return commit_metadata(self._files.snapshot(self.snapshot))
        except NotFoundError:
            pass
        try:
            return commit_metadata(self._files.snapshot(snapshot_file(self._files, self.snapshot)))
        except NotFoundError:
            return {}

    def __eq__(self, other: object) -> bool:
        return self._told() == other._told() if isinstance(other, Commit) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._told())

    def __reduce__(self) -> tuple[object, ...]:
        parent = None if self.parent is None else decode_id(self.parent)
        return Commit, (self._files, SnapshotInfo(self.snapshot, self.written_ns, self.message), parent)

    def __repr__(self) -> str:
        return f"<Commit {self.id} {self.written_at:%Y-%m-%d %H:%M:%S} {self.message!r}>"

    def _told(self) -> tuple[ObjectId, str | None, str, int]:
        return self.snapshot, self.parent, self.message, self.written_ns


class Found(Record):
    """What a name stands for. snapshot: the id of its file; name: of the tag or branch, or the whole id as text"""

    snapshot: ObjectId
    kind: FoundKind
    name: str


# --- ancestors ---------------------------------------------------------------------------------------------------------------------------


def ancestry(files: Files, snapshot: ObjectId) -> Iterator[Commit]:
    """A snapshot and its ancestors, newest first. Further files are read where a history is bounded, as the walk comes to its end; an ancestor whose file is not
    there is told from what its descendants say, and the walk ends where nobody tells more.

    Raises NotFoundError where the snapshot itself is not there; while walking, FormatError for files that make no sense, and for a history that comes back to
    itself."""
    return _walk(files, snapshot, files.snapshot(snapshot))


def _walk(files: Files, file: ObjectId, snapshot: Snapshot) -> Iterator[Commit]:
    own = snapshot.metadata._replace(id=file)
    while True:
        _check_history(files, file, snapshot)
        infos = [own, *snapshot.history]
        for info, parent in pairwise(infos):
            yield Commit(files, info, parent.id)
        own = infos[-1]
        older = _continued(files, snapshot)
        if older is None:
            yield Commit(files, own, None)
            return
        file, snapshot = own.id, older


def _continued(files: Files, snapshot: Snapshot) -> Snapshot | None:
    """The oldest ancestor that a snapshot lists, where that has ancestors that it does not list."""
    if not snapshot.history or snapshot.total_parents <= len(snapshot.history):
        return None
    last = snapshot.history[-1].id
    try:
        older = files.snapshot(last)
    except NotFoundError:
        return None
    if older.total_parents >= snapshot.total_parents:
        raise FormatError(
            f"a snapshot has {older.total_parents} ancestors, but one that comes after it has {snapshot.total_parents}: "
            "their history comes back to itself",
            key=files.key(snapshot_key(last)),
        )
    return older


def _check_history(files: Files, file: ObjectId, snapshot: Snapshot) -> None:
    ids = {info.id for info in snapshot.history}
    if len(ids) < len(snapshot.history) or not ids.isdisjoint((file, snapshot.metadata.id)):
        raise FormatError("the history of a snapshot comes back to itself", key=files.key(snapshot_key(file)))


def snapshot_file(files: Files, snapshot: ObjectId) -> ObjectId:
    """The id of the file of a snapshot that a history names: the same, but for the first one of a repository that the library of the alpha made. That is found
    by the first file of `main`. Raises NotFoundError."""
    if files.has_snapshot(snapshot):
        return snapshot
    first = _first_snapshot(files)
    if first is not None and files.snapshot(first).metadata.id == snapshot:
        return first
    raise NotFoundError(
        "there is no such snapshot",
        key=files.key(snapshot_key(snapshot)),
        hint="the id is one of another repository, or the snapshot has expired",
    )


def _first_snapshot(files: Files) -> ObjectId | None:
    """The file of the very first snapshot of a repository, None where it cannot be told."""
    try:
        first = read_first(files, MAIN)
        if first is not None and first.snapshot is not None:
            files.snapshot(first.snapshot)
            return first.snapshot
    except (FormatError, NotFoundError):
        pass
    return None


def common_ancestor(files: Files, left: ObjectId, right: ObjectId) -> ObjectId | None:
    """The newest snapshot that is in the histories of both, which may be one of them; None where they have nothing in common.

    It is the id of a file where that is there still. Errors as those of ancestry."""
    own = ({left, files.snapshot(left).metadata.id}, {right, files.snapshot(right).metadata.id})
    if own[0] & own[1]:
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


# --- by time -----------------------------------------------------------------------------------------------------------------------------


def as_of(files: Files, snapshot: ObjectId, time: datetime | str) -> ObjectId:
    """The file of the newest snapshot, of this one and its ancestors, that was written at a time or before it.

    time  a datetime with a zone, which stands for the whole of its microsecond; or a text of RFC 3339, such as "2024-10-13T18:53:45Z"
    Raises InvalidInputError for what is no time; NotFoundError where all are younger, and where that snapshot has expired."""
    limit = _nanoseconds(time)
    oldest: Commit | None = None
    for commit in ancestry(files, snapshot):
        if commit.written_ns <= limit:
            return snapshot_file(files, commit.snapshot)
        oldest = commit
    since = "" if oldest is None else f": the oldest, {oldest.id}, was written at {oldest.written_at.isoformat()}"
    raise NotFoundError(f"there is no snapshot as old as {time}{since}")


def _nanoseconds(time: datetime | str) -> int:
    if isinstance(time, datetime) and time.utcoffset() is not None:
        return (time - _EPOCH) // timedelta(microseconds=1) * 1000 + 999
    found = parse_time(time) if isinstance(time, str) else None
    if found is None:
        raise InvalidInputError(
            f"a time must have a zone, found {time!r}",
            hint='give a datetime with tzinfo, or a text such as "2024-10-13T18:53:45Z"',
        )
    return found


# --- by name -----------------------------------------------------------------------------------------------------------------------------


def lookup(files: Files, text: str) -> Found:
    """The snapshot of a tag, else of a branch, else of an id, else of the one id that begins so (4 characters or more; capital or small letters, O for 0, I and L
    for 1).

    Raises NotFoundError; InvalidInputError where several ids begin so, and for a text that names nothing; FormatError for a reference file that makes no sense."""
    snapshot = read_tag(files, text)
    if snapshot is not None:
        return Found(snapshot, "tag", text)
    tip = read_tip(files, text)
    if tip is not None and not tip.deleted:
        return Found(tip.snapshot, "branch", text)
    found = _by_id(files, text)
    if found is not None:
        return Found(found, "snapshot", encode_id(found))
    deleted = "" if tip is None else ", and the branch of this name is deleted"
    raise NotFoundError(
        f"no tag, branch or snapshot is called {text!r}{deleted}",
        key=files.key("refs/"),
        hint=f"of the id of a snapshot {_SHORTEST} characters or more will do",
    )


def lookup_snapshot(files: Files, text: str) -> ObjectId:
    """The file of the snapshot of an id, or of the one id that begins so, whatever branches and tags are called. Errors as those of lookup."""
    found = _by_id(files, text) if isinstance(text, str) else None
    if found is None:
        raise NotFoundError(
            f"there is no snapshot {text!r}",
            key=files.key("snapshots/"),
            hint=f"of the id of a snapshot {_SHORTEST} characters or more will do; repo.lookup finds those of branches and tags",
        )
    return found


def _by_id(files: Files, text: str) -> ObjectId | None:
    start = text.upper().translate(_ALIKE) if text.isascii() else ""
    if not _SHORTEST <= len(start) <= ID_CHARACTERS or start.strip(ALPHABET):
        return None
    if len(start) == ID_CHARACTERS:
        try:
            return snapshot_file(files, decode_id(start))
        except NotFoundError:
            return None
    found = _starting(files, start)
    if len(found) > 1:
        more = " and more" if len(found) > _TOLD else ""
        raise InvalidInputError(
            f"several snapshots begin with {text!r}: {', '.join(found[:_TOLD])}{more}",
            hint="give more characters of the id",
        )
    if found:
        return decode_id(found[0])
    first = _first_snapshot(files)
    return first if first is not None and encode_id(files.snapshot(first).metadata.id).startswith(start) else None


def _starting(files: Files, start: str) -> list[str]:
    """Ids of snapshot files that begin so, no more than one beyond those that an error names. Foreign files are passed over."""
    folder = files.key("snapshots/")
    found: list[str] = []
    if not files.store.capabilities.listable:
        return found
    after = folder + start  # which is shorter than any name that is wanted
    while True:
        keys = files.store.list_keys(folder, after, _PAGE)
        for key in keys:
            name = key[len(folder) :]
            if not name.startswith(start) or len(found) > _TOLD:
                return found
            if len(name) == ID_CHARACTERS and not name.strip(ALPHABET) and encode_id(decode_id(name)) == name:
                found.append(name)
        if len(keys) < _PAGE:
            return found
        after = keys[-1]
