"""Finds snapshots by name and by time, in repositories of every format (repository/format.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from frazil.array.interface import html_table
from frazil.base.arrays import among
from frazil.errors import FrazilError, InvalidInputError, NotFoundError, one_line, shown
from frazil.formats.ids import ALPHABET, ID_CHARACTERS, ObjectId, decode_id, encode_id
from frazil.formats.snapshots import SnapshotInfo
from frazil.formats.times import parse_time
from frazil.metadata.extensions import suggestion
from frazil.repository.format import Ancestor, RepositoryFormat
from frazil.repository.maintenance.expired import expired_error, expired_ids, find_expired
from frazil.repository.maintenance.id_columns import Ids, id_column

if TYPE_CHECKING:
    from frazil.formats.json_values import Json

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST: Final = 4  # least characters of an id that name a snapshot
_HINT: Final = f"the first {_SHORTEST} characters or more of a snapshot id are enough"
_MAX_PRINTED: Final = 10  # snapshots that a history prints
_AT_ONCE: Final = 64  # snapshots that are read in one batch
_MAX_LISTED: Final = 4  # the most snapshots that an error names
_SIMILAR_LETTERS: Final = str.maketrans("OIL", "011")  # letters that Crockford's base 32 reads as digits


class Commit:
    """One snapshot of a history. Equal to another of the same id, parent, message and time; pickles.

    snapshot    its id; for the oldest snapshot of a repository that the alpha library made, this is not the id of a file
    parent      the id of the snapshot before as text; None for the oldest, and if the snapshot before has expired
    message     of the commit
    written_ns  nanoseconds since 1970 in UTC"""

    __slots__ = ("_made", "message", "parent", "snapshot", "written_ns")

    def __init__(self, files: RepositoryFormat, info: SnapshotInfo, parent: ObjectId | None) -> None:
        self._made: Final = (files, info, parent)
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
        except OverflowError:  # the year 0, which is possible in files
            return datetime.min.replace(tzinfo=UTC)

    @property
    def metadata(self) -> Mapping[str, Json]:
        """The metadata of the commit, read on first use; empty where its snapshot no longer exists."""
        return self._made[0].commit_metadata(self.snapshot)

    def __eq__(self, other: object) -> bool:
        return self._made[1:] == other._made[1:] if isinstance(other, Commit) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made[1:])

    def __reduce__(self) -> tuple[object, ...]:
        return Commit, self._made

    def __repr__(self) -> str:
        return f"<Commit {self.id} {self.written_at:%Y-%m-%d %H:%M:%S} {self.message!r}>"


def with_metadata(found: Sequence[Commit]) -> Iterator[Commit]:
    """Commits of one repository, in their order, whose metadata are read in batches."""
    at = 0
    while at < len(found):
        batch = found[at : at + _AT_ONCE]
        count = batch[0]._made[0].read_ahead([commit.snapshot for commit in batch])
        yield from batch[:count]
        at += count


class History(Iterator[Commit]):
    """A snapshot and its ancestors, newest first. An iterator; it prints, and notebooks show it, from its beginning."""

    __slots__ = ("_commits", "_made")

    def __init__(self, files: RepositoryFormat, snapshot: ObjectId) -> None:
        self._made: Final = (files, snapshot)
        self._commits = commits(files, snapshot)

    def __next__(self) -> Commit:
        return next(self._commits)

    def __repr__(self) -> str:
        lines: list[str] = []
        try:
            for number, commit in enumerate(islice(commits(*self._made), _MAX_PRINTED + 1)):
                lines.append("..." if number == _MAX_PRINTED else repr(commit))
        except FrazilError as error:
            lines.append(one_line(f"<what follows cannot be read: {error}>"))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        found = list(islice(commits(*self._made), html_table.MOST_ROWS + 1))
        rows = [(commit.id, f"{commit.written_at:%Y-%m-%d %H:%M:%S} UTC", commit.message) for commit in found]
        is_whole = len(rows) <= html_table.MOST_ROWS
        return html_table.table("frazil history", rows[: html_table.MOST_ROWS], more=0 if is_whole else None)


def commits(files: RepositoryFormat, snapshot: ObjectId) -> Iterator[Commit]:
    """A snapshot and those before it, newest first, up to the first that has expired. Errors as in RepositoryFormat.ancestors."""
    return _commits(files, files.ancestors(snapshot))


def _commits(files: RepositoryFormat, ancestors: Iterator[Ancestor]) -> Iterator[Commit]:
    expired: Ids | None = None
    for found in ancestors:
        parent = found.parent
        if parent is not None:
            expired = expired_ids(files) if expired is None else expired
            if len(expired) and among(id_column([parent]), expired)[0]:
                parent = None
        yield Commit(files, found.info, parent)
        if parent is None:
            return


# --- by time -----------------------------------------------------------------------------------------------------------------------------


def as_of(files: RepositoryFormat, snapshot: ObjectId, time: datetime | str) -> ObjectId:
    """The file of the newest snapshot, among this one and its ancestors, that was written at a time or before it.

    time  a datetime with a zone, which covers its whole microsecond; or a text of RFC 3339, such as "2024-10-13T18:53:45Z"
    Raises InvalidInputError for an invalid time; NotFoundError where all are younger, and where that snapshot has expired."""
    limit = nanoseconds(time)
    oldest: Commit | None = None
    for commit in commits(files, snapshot):
        if commit.written_ns <= limit:
            return files.snapshot_id(commit.snapshot)
        oldest = commit
    since = "" if oldest is None else f": the oldest, {oldest.id}, was written at {oldest.written_at.isoformat()}"
    raise NotFoundError(
        f"there is no snapshot as old as {time}{since}", hint="repo.history() lists the snapshots and their times"
    )


def nanoseconds(time: datetime | str) -> int:
    """A time as given by a user, in nanoseconds since 1970. Raises InvalidInputError for an invalid time."""
    if isinstance(time, datetime) and time.utcoffset() is not None:
        return (time - _EPOCH) // timedelta(microseconds=1) * 1000 + 999
    found = parse_time(time) if isinstance(time, str) else None
    if found is None:
        raise InvalidInputError(
            f"{shown(time)} is not a time with a zone",
            hint='give a datetime with tzinfo, or a text such as "2024-10-13T18:53:45Z"',
        )
    return found


# --- by name -----------------------------------------------------------------------------------------------------------------------------


def lookup(files: RepositoryFormat, text: str) -> ObjectId:
    """The snapshot of a tag, else of a branch, else of an id, else of the only id with this beginning (4 characters or more; capital or small letters, O for 0,
    I and L for 1). Returns the id of its file.

    Raises NotFoundError, also where there is no repository; InvalidInputError where several ids have this beginning, and for a text that cannot be a name;
    FormatError for a damaged reference file."""
    tagged = files.tag(text)
    if tagged is not None:
        return tagged
    tip = files.read_tip(text)
    if tip is not None and not tip.deleted:
        return tip.snapshot
    found = _by_id(files, text)
    if found is None:
        _refuse_expired(files, text)
        files.require()
        deleted = "" if tip is None else ", and the branch of this name is deleted"
        raise NotFoundError(
            f"no tag, branch or snapshot is called {text!r}{deleted}",
            key=files.key("refs/"),
            hint=_name_hint(files, text),
        )
    return found


def lookup_snapshot(files: RepositoryFormat, text: str) -> ObjectId:
    """As lookup, for ids only, even if a branch or tag has this name."""
    found = _by_id(files, text) if isinstance(text, str) else None
    if found is None:
        _refuse_expired(files, text)
        files.require()
        hint = _name_hint(files, text) if whole_id(text) else f"{_HINT}; repo.lookup finds those of branches and tags"
        raise NotFoundError(f"there is no snapshot {text!r}", key=files.key("snapshots/"), hint=hint)
    return found


def whole_id(text: object) -> ObjectId | None:
    """The id that a text is, in full; None for any other."""
    start = _id_start(text) if isinstance(text, str) else None
    return decode_id(start) if start is not None and len(start) == ID_CHARACTERS else None


def _id_start(text: str) -> str | None:
    """The beginning of an id as in names of files; None for any other text."""
    start = text.upper().translate(_SIMILAR_LETTERS) if text.isascii() else ""
    return None if not _SHORTEST <= len(start) <= ID_CHARACTERS or start.strip(ALPHABET) else start


def _by_id(files: RepositoryFormat, text: str) -> ObjectId | None:
    start = _id_start(text)
    if start is None:
        return None
    if (whole := whole_id(text)) is not None:
        try:
            return files.snapshot_id(whole)
        except NotFoundError:
            return None
    found = files.find_snapshots(start, _MAX_LISTED + 1)
    if len(found) > 1:
        more = " and more" if len(found) > _MAX_LISTED else ""
        raise InvalidInputError(
            f"several snapshots begin with {text!r}: {', '.join(map(encode_id, found[:_MAX_LISTED]))}{more}",
            hint="give more characters of the id",
        )
    return found[0] if found else None


def _refuse_expired(files: RepositoryFormat, text: object) -> None:
    """Raises NotFoundError where a text is the id of an expired snapshot, or its beginning."""
    start = _id_start(text) if isinstance(text, str) else None
    expired = None if start is None else find_expired(files, start)
    if expired is not None:
        raise expired_error(files, expired)


# --- hints in errors ---------------------------------------------------------------------------------------------------------------------


def branch_hint(files: RepositoryFormat, name: str) -> str | None:
    """The hint for a name that no branch has: it may be that of a tag or snapshot, or mistyped. None where this cannot be determined."""
    try:
        if name in files.tags():
            return f"{name!r} is a tag: readonly_session(tag={name!r}) reads it, create_branch(name, {name!r}) or `frazil repo branch ... --at {name}` begins a branch there"
        if (found := _by_id(files, name)) is not None:
            snapshot = encode_id(found)
            return f"{name!r} is a snapshot: readonly_session(snapshot={snapshot!r}) reads it, create_branch(name, {snapshot!r}) begins a branch there"
        return suggestion(name, files.branches()) or "repo.branches, or `frazil repo branch`, lists them"
    except FrazilError:
        return None


def tag_hint(files: RepositoryFormat, name: str) -> str | None:
    """As branch_hint, for a name that no tag has."""
    try:
        branches = files.branches()
        return (
            f"{name!r} is a branch: readonly_session({name!r}) reads it"
            if name in branches
            else suggestion(name, files.tags()) or "repo.tags lists them"
        )
    except FrazilError:
        return None


def _name_hint(files: RepositoryFormat, name: str) -> str:
    """As branch_hint, for a name that no branch, tag or snapshot has."""
    if whole_id(name):
        return "the id is one of another repository, or the snapshot is lost: verify shows whether a branch or tag leads to it"
    try:
        return (
            suggestion(name, [*files.tags(), *files.branches()])
            or f"`frazil repo branch` and `frazil repo tag` list the names, as repo.branches and repo.tags do; {_HINT}"
        )
    except FrazilError:
        return _HINT
