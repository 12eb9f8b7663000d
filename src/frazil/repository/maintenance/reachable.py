"""Marking: every object that a branch, a tag or a pin leads to, in sorted columns. It reads, and writes only its marks (marks.py).

A missing object is damage and ends marking with an error: a collection must not remove what may be the only remaining data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

from frazil.base.arrays import among, distinct
from frazil.base.record import Record
from frazil.errors import AccessError, FormatError, FrazilError, NotFoundError, StoreError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import NATIVE, Manifest
from frazil.repository.format import MAIN, Box, Referenced, RepositoryFormat, Tip
from frazil.repository.maintenance.condemned import KINDS
from frazil.repository.maintenance.expired import expired_ids, may_end
from frazil.repository.maintenance.id_columns import Ids, id_column, id_list, join, without
from frazil.repository.maintenance.marks import NO_MARKS, Marks, save_marks
from frazil.repository.maintenance.object_listing import list_objects
from frazil.repository.maintenance.records import list_records, read_records
from frazil.repository.manifests.boxes import read_extents
from frazil.repository.manifests.manifest_parts import require_box

Progress: TypeAlias = "Callable[[str, int], object]"
T = TypeVar("T")

_TRIES: Final = 4
_SNAPSHOTS: Final = 64  # read in one batch
_LISTED: Final = 8  # ancestors in the list of a snapshot that are looked at: as many as Frazil writes
_MANIFESTS: Final = 16
_FEW_TIPS: Final = 8  # whose histories are followed one snapshot at a time; each begins with a request
_NEAR: Final = 128  # snapshots that are visited so
_SAVED: Final = 2**20  # chunk files that are marked between two saves of the marks; an interrupt loses no more


class Reachable(Record):
    """All that refs lead to, each column sorted."""

    snapshots: Ids
    attributes: Ids
    manifests: Ids
    chunks: Ids


def heads(files: RepositoryFormat) -> list[Tip]:
    """The tips of all branches that are not deleted. Raises FormatError, StoreError."""
    return [tip for tip in newest_tips(files) if not tip.deleted]


def newest_tips(files: RepositoryFormat) -> list[Tip]:
    """As heads, with those of deleted branches. StoreError if the store does not list `main`: all objects would seem to be garbage."""
    tips = _readable(files.read_branches())
    if MAIN not in tips:
        raise StoreError(
            "the branch 'main' exists, but the store does not list it",
            hint="check the server, and proxies before it, and try again; nothing was removed",
        )
    return list(tips.values())


def refuse_unread_refs(files: RepositoryFormat) -> None:
    """Raises FormatError for a branch or tag that is not read because letters of its name are in another case, or its folder has only other files: what it
    leads to would be garbage."""
    for unread in files.unread_refs():
        if unread.no_file:
            raise FormatError(
                f"the {unread.name} is not read: its folder has files, but none of a {unread.name.split()[0]}",
                key=unread.key,
                hint="restore its files, as refs/branch.NAME/ZZZZZZZZ.json or refs/tag.NAME/ref.json, or remove the folder; nothing was removed",
            )
        if unread.name:
            raise FormatError(
                f"the {unread.name} is not read: letters of the name of its folder or file are in another case",
                key=unread.key,
                hint="rename it, as in refs/branch.NAME/ZZZZZZZZ.json or refs/tag.NAME/ref.json; nothing was removed",
            )


def tagged(files: RepositoryFormat) -> dict[str, ObjectId]:
    """The snapshot that each tag points to, by name. Raises FormatError, StoreError."""
    return _readable(files.read_tags())


def _readable(refs: Mapping[str, T | FrazilError]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, target in refs.items():
        if isinstance(target, FrazilError):
            raise target
        found[name] = target
    return found


def roots(files: RepositoryFormat) -> list[ObjectId]:
    """The snapshots that refs and pins point to. Pins come first: a pin is only removed after its tag was created."""
    found = [*_pinned(files), *(tip.snapshot for tip in heads(files)), *tagged(files).values()]
    return list(dict.fromkeys(found))


def own_parent(files: RepositoryFormat, snapshot: ObjectId) -> ObjectId | None:
    """The parent that the file of a snapshot names, whatever else is in it; None if it names none or cannot be read. Raises StoreError."""
    with suppress(NotFoundError, FormatError):
        (named,) = files.listed(files.snapshot(snapshot)).parents
        return named
    return None


def is_same(files: RepositoryFormat, one: ObjectId, other: ObjectId | None) -> bool:
    """Whether two ids in histories name one snapshot, as the first of a repository may have two. Raises StoreError."""
    if one == other or other is None:
        return one == other
    with suppress(NotFoundError, FormatError, AccessError):
        return files.snapshot_id(one) == files.snapshot_id(other)
    return False


def names_wrong_parent(files: RepositoryFormat, snapshot: ObjectId) -> bool:
    """Whether the first snapshot in a list of ancestors is wrong, as the rest of the list shows: the right one may be named nowhere else. False for a list that
    a record of an expiry accepts. Raises StoreError."""
    with suppress(NotFoundError, FormatError):
        (listed,) = files.listed(files.snapshot(snapshot)).ancestors
        parent, before, oldest = (*listed, None, None, None)[:3]
        if parent == snapshot:
            return not may_end(files, snapshot)
        if parent is None or before is None:
            return False
        if files.listed(files.snapshot(before)).parents != [oldest]:
            return False
        (others,) = files.listed(files.snapshot(parent)).ancestors
        is_first = not others and files.history_fault(parent) is None
        is_elsewhere = bool(others) and others[0] != before and oldest not in others[:3]
        return (is_first or is_elsewhere) and not may_end(files, snapshot)
    return False


class _Ancestry:
    """The parents of snapshots, each looked up once. Expired ancestors do not count.

    A parent is known from the lists of ancestors in later snapshots until the file of the snapshot itself is read, which then counts. What only lists name is
    kept, too, if it exists: one of the two is wrong."""

    def __init__(self, files: RepositoryFormat, marks: Marks, expired: Ids) -> None:
        self._files = files
        self._parents: dict[ObjectId, ObjectId | None] = {
            snapshot: parent if any(parent) else None
            for snapshot, parent in zip(id_list(marks.snapshots), id_list(marks.parents), strict=True)
        }
        self._names: dict[ObjectId, ObjectId] = {}  # ids in histories that differ from those of files
        self._expired = set(id_list(expired))
        self._nearest: dict[ObjectId, tuple[ObjectId, ObjectId]] = {}  # the first two in each list that was read
        self._live: dict[ObjectId, ObjectId] = {}
        self.others: dict[ObjectId, None] = {}  # further snapshots that lists name
        self._short: dict[
            ObjectId, FormatError
        ] = {}  # histories that end too early, unless another file continues them

    def parent(self, snapshot: ObjectId) -> ObjectId | None:
        """The parent of a snapshot; None if it has none, or it has expired. Raises FormatError if something is missing."""
        if snapshot not in self._parents:
            self._walk(snapshot)
        parent = self._parents[snapshot]
        if parent is None or parent in self._expired:
            return None
        return self._names.get(parent, parent)

    def add_list(self, snapshot: ObjectId, listed: Sequence[ObjectId]) -> None:
        """Adds what the file of a live snapshot says about its ancestors. Raises FormatError if its parent does not exist."""
        if not listed:
            if (
                self._parents[snapshot] is not None and self._files.history_fault(snapshot) is None
            ):  # the first snapshot
                self._keep(self._parents[snapshot])
                self._parents[snapshot] = None
            return
        self._add_own(snapshot, listed[0])
        if len(listed) > 1:
            self._nearest[snapshot] = listed[0], listed[1]
        for named in listed[1:_LISTED]:
            if named in self._expired:
                return
            file = named if named in self._live else self._file(named)
            if file is not None and file not in self._live:
                self.others[file] = None

    def refuse_wrong_parents(self) -> None:
        """Raises FormatError if a snapshot names a wrong parent, as the rest of its list shows: its right parent may be named nowhere else."""
        for snapshot, (parent, before) in self._nearest.items():
            if parent in self._expired and before in self._expired:  # the history ends here
                continue
            if self._parents.get(parent) != before and names_wrong_parent(self._files, snapshot):
                raise FormatError(
                    f"a snapshot names {encode_id(parent)} as its parent, which the rest of its list of ancestors does not follow",
                    key=self._files.key(f"snapshots/{encode_id(snapshot)}"),
                    hint="verify shows more, and repair what can be done; nothing was removed",
                )

    def _add_own(self, snapshot: ObjectId, named: ObjectId) -> None:
        self._short.pop(snapshot, None)
        recorded = self._parents[snapshot]
        if named == recorded:
            return
        file = None if named in self._expired else self._file(named)
        if file is None and named not in self._expired:
            raise FormatError(
                f"a history contains a snapshot, but not {encode_id(named)}, which that snapshot names as its parent",
                key=self._files.key(f"snapshots/{encode_id(snapshot)}"),
                hint="verify shows more; nothing was removed",
            )
        self._parents[snapshot] = named
        if file is None or recorded is None or file != self._names.get(recorded, recorded):
            self._keep(recorded)

    def _keep(self, named: ObjectId | None) -> None:
        """Keeps a snapshot that only lists name or, if it does not exist, the next one in the list."""
        passed: set[ObjectId] = set()
        while named is not None and named not in self._expired and named not in passed:
            file = self._file(named)
            if file is not None:
                self.others[file] = None
                return
            passed.add(named)
            named = self._parents.get(named)

    def _file(self, named: ObjectId) -> ObjectId | None:
        if named not in self._names:
            with suppress(NotFoundError):
                self._names[named] = self._files.snapshot_id(named)
        return self._names.get(named)

    def _walk(self, start: ObjectId) -> None:
        """Follows a history as far as it is unknown. If a list leads to damage, the file of the last snapshot itself shows where the history continues."""
        last: ObjectId | None = None
        try:
            for found in self._files.ancestors(start):
                at = found.snapshot
                if found.parent is None and at != start:  # the oldest may have another id in histories
                    self._names[at] = at = self._files.snapshot_id(at)
                if at in self._parents:
                    if found.parent is not None and at in self._short:
                        del self._short[at]
                        self._parents[at] = found.parent
                    elif found.parent != self._parents[at]:
                        self._keep(found.parent)
                    break
                self._parents[at], last = found.parent, at
                if found.parent in self._expired:
                    break
        except NotFoundError as error:
            raise _missing(self._files, start, error) from error
        except FormatError as error:
            self._walk_on(start if last is None else last, error)

    def _walk_on(self, last: ObjectId, error: FormatError) -> None:
        """Continues a walk that ended with an error behind a snapshot."""
        own = own_parent(self._files, last)
        if last not in self._parents:  # its whole list is wrong
            if own is None:
                raise error
            self._parents[last] = own
        if own is not None:
            self._add_own(last, own)
        following = self._parents[last]
        if following is None:
            self._short[last] = error
        elif following not in self._parents and following not in self._expired:
            self._walk(following)

    def live(self, starts: Sequence[ObjectId]) -> tuple[Ids, Ids]:
        """The snapshots that some lead to, including themselves, sorted; and the parent of each, even if it has expired. Raises FormatError."""
        live = self._live = dict[ObjectId, ObjectId]()
        waiting = list(starts)
        while waiting:
            if len(waiting) == len(starts) or len(waiting) % _SNAPSHOTS == 0:
                self._files.read_ahead([at for at in reversed(waiting[-_SNAPSHOTS:]) if at not in self._parents])
            at: ObjectId | None = waiting.pop()
            while at is not None and at not in live:
                following = self.parent(at)
                parent = self._parents[at]  # even if it has expired: marks do not outlive the record of that
                live[at] = b"\0" * len(at) if parent is None else self._names.get(parent, parent)
                at = following
            if not waiting:
                waiting = [other for other in self.others if other not in live]
        for error in self._short.values():
            raise error
        snapshots = id_column(list(live))
        order = snapshots.argsort()
        return snapshots[order], id_column(list(live.values()))[order]


def _missing(files: RepositoryFormat, snapshot: ObjectId, error: NotFoundError) -> FormatError:
    return FormatError(
        f"the history of {encode_id(snapshot)} is damaged: {error.message}, and no record of an expiry names it",
        key=error.key or files.key(f"snapshots/{encode_id(snapshot)}"),
        hint="restore it from a copy; nothing was removed",
    )


def _pinned(files: RepositoryFormat) -> list[ObjectId]:
    """The snapshots of pins. One that is gone or incomplete is skipped: the process that pins it will see that, too."""
    pins = read_records(files, list_records(files, "pins"), ["snapshots"])
    found = [snapshot for columns in pins for snapshot in id_list(columns["snapshots"])]  # type: ignore[arg-type] # a column of ids
    return [snapshot for snapshot in dict.fromkeys(found) if is_whole(files, snapshot)]


def reachable_from(files: RepositoryFormat, snapshot: ObjectId) -> Reachable | None:
    """All that a snapshot and its ancestors lead to; None if one of the snapshots or manifests is missing or damaged. Raises StoreError."""
    files = files.uncached()
    try:
        ancestry = _Ancestry(files, NO_MARKS, expired_ids(files))
        return _mark(files, NO_MARKS, ancestry, [snapshot], _ignore_progress, saves=False)[0]
    except (NotFoundError, FormatError):
        return None


def is_whole(files: RepositoryFormat, snapshot: ObjectId) -> bool:
    """Whether everything exists that a snapshot and its ancestors lead to. It does not if a commit was interrupted, or a collection has removed something:
    maybe only chunk files that an old session wrote and that were condemned before it wrote the snapshot. Raises StoreError."""
    found = reachable_from(files, snapshot)
    if found is None:
        return False
    return all(
        among(ids, list_objects(files, kind, details=False).ids).all()
        for kind in KINDS
        if len(ids := getattr(found, kind))
    )


def _ignore_progress(stage: str, count: int) -> None:
    """No progress."""


def is_referenced(files: RepositoryFormat, snapshot: ObjectId) -> bool:
    """Whether a branch or a tag leads to a snapshot. Reads no other refs if `main` points to it, no history if another branch does, and no tags if a branch
    leads to it. Raises FormatError, StoreError."""
    main = files.read_tip(MAIN)
    if main is not None and main.snapshot == snapshot and not main.deleted:
        return True
    tips = [tip.snapshot for tip in heads(files)]
    if snapshot in tips:
        return True
    expired = expired_ids(files)
    if len(tips) <= _FEW_TIPS and _is_near(files, tips, snapshot, set(id_list(expired))):
        return True
    wanted, ancestry = id_column([snapshot]), _Ancestry(files, NO_MARKS, expired)
    if among(wanted, ancestry.live(tips)[0])[0]:
        return True
    return bool(among(wanted, ancestry.live(list(tagged(files).values()))[0])[0])


def _is_near(
    files: RepositoryFormat, tips: Iterable[ObjectId], snapshot: ObjectId, expired: Collection[ObjectId]
) -> bool:
    """Whether a snapshot is found among the newest of the histories of some, all followed at the same pace up to damage. False decides nothing."""
    seen: set[ObjectId] = set()
    chains = [files.ancestors(tip) for tip in dict.fromkeys(tips)]
    while chains and len(seen) < _NEAR:
        remaining = []
        for chain in chains:
            with suppress(NotFoundError, FormatError):
                found = next(chain, None)
                if found is not None and found.snapshot == snapshot:
                    return True
                if found is not None and found.snapshot not in seen and found.parent not in expired:
                    seen.add(found.snapshot)
                    remaining.append(chain)
        chains = remaining
    return False


def mark(files: RepositoryFormat, marks: Marks, progress: Progress, *, saves: bool) -> tuple[Reachable, Marks]:
    """Everything that refs and pins lead to, and the marks to keep. saves: whether marks may be saved meanwhile.

    Raises FormatError for damaged or missing objects, StoreError."""
    files = files.uncached()  # compares digests: chunks that only a replaced manifest refers to would be garbage
    tries = _TRIES
    while True:
        starts, expired = roots(files), expired_ids(files)
        tries -= 1
        try:
            return _mark(files, marks, _Ancestry(files, marks, expired), starts, progress, saves=saves)
        except FormatError:
            # after a long time, a ref may have moved, and the objects of its former snapshot may be gone
            if not tries or (roots(files) == starts and len(expired_ids(files)) == len(expired)):
                raise


def _mark(
    files: RepositoryFormat,
    marks: Marks,
    ancestry: _Ancestry,
    starts: Sequence[ObjectId],
    progress: Progress,
    *,
    saves: bool,
) -> tuple[Reachable, Marks]:
    snapshots, parents = ancestry.live(starts)
    progress("snapshots", len(snapshots))
    base = marks
    if not among(
        marks.snapshots, snapshots
    ).all():  # some are unreachable now: it is unknown which manifests they shared
        base = marks._replace(manifests=marks.manifests[:0], attributes=marks.attributes[:0], snapshots=snapshots[:0])
    manifests, attributes = [base.manifests], [base.attributes]
    boxes: dict[ObjectId, set[Box]] = {}
    read, missing = base.snapshots, dict[ObjectId, NotFoundError]()
    while len(new := id_list(without(snapshots, read))):
        for low in range(0, len(new), _SNAPSHOTS):
            part = new[low : low + _SNAPSHOTS]
            part, found, gone = _referenced(files, part)
            missing |= gone
            for snapshot, listed in zip(part, found.ancestors, strict=True):
                if files.is_changed(snapshot):
                    raise FormatError(
                        "a snapshot has other bytes than were written",
                        key=files.key(f"snapshots/{encode_id(snapshot)}"),
                    )
                ancestry.add_list(snapshot, listed)
            manifests.append(id_column(found.manifests))
            attributes.append(id_column(found.attributes))
            for manifest, own in found.boxes.items():
                boxes.setdefault(manifest, set()).update(own)
            progress("snapshots read", len(part))
        read = snapshots
        snapshots, parents = ancestry.live(starts)  # with the parents that only these files name
        for snapshot in missing.keys() & set(id_list(snapshots)) if missing else ():  # others were only in wrong lists
            raise _missing(files, snapshot, missing[snapshot])
    ancestry.refuse_wrong_parents()
    all_manifests = join(manifests)
    marks = marks._replace(
        snapshots=snapshots, parents=parents, manifests=all_manifests, attributes=join(attributes)
    ).only(all_manifests)
    marks = _read_manifests(files, marks, boxes, progress, saves=saves)
    reachable = Reachable(snapshots, marks.attributes, all_manifests, marks.chunks_of(all_manifests))
    # marks have only one parent for each snapshot
    return reachable, marks.without_snapshots() if ancestry.others else marks


def _referenced(
    files: RepositoryFormat, snapshots: list[ObjectId]
) -> tuple[list[ObjectId], Referenced, dict[ObjectId, NotFoundError]]:
    """The snapshots of which there is a file, what they refer to, and the errors of the others."""
    missing: dict[ObjectId, NotFoundError] = {}
    while True:
        try:
            return snapshots, files.referenced(snapshots), missing
        except NotFoundError as error:
            before = len(missing)
            for snapshot in snapshots:
                try:
                    files.snapshot_id(snapshot)
                except NotFoundError as of_this:
                    missing[snapshot] = of_this
            if len(missing) == before:
                raise _missing(files, snapshots[0], error) from error
            snapshots = [snapshot for snapshot in snapshots if snapshot not in missing]


def _read_manifests(
    files: RepositoryFormat,
    marks: Marks,
    boxes: Mapping[ObjectId, Collection[Box]],
    progress: Progress,
    *,
    saves: bool,
) -> Marks:
    """Reads the manifests that are not known yet. Raises FormatError for one with other references than its boxes in the snapshots say: chunks that only the
    replaced manifest refers to would be garbage."""
    new = without(marks.manifests, distinct(marks.read))
    read: list[Ids] = []
    chunks: list[Ids] = []
    waiting = 0
    for low in range(0, len(new), _MANIFESTS):
        part = new[low : low + _MANIFESTS]
        try:
            found = files.manifests(id_list(part))
        except NotFoundError as error:
            raise FormatError(
                error.message, key=error.key, hint="restore it from a copy; nothing was removed"
            ) from error
        for identity, manifest in zip(id_list(part), found, strict=True):
            for node, rank, extents in boxes.get(identity, ()):
                require_box(manifest, node, rank, read_extents(extents, rank), identity)
        read.append(part)
        chunks += map(chunk_files, found)
        waiting += sum(map(len, chunks[-len(found) :]))
        progress("manifests read", len(part))
        if saves and waiting >= _SAVED:
            marks, read, chunks, waiting = marks.with_chunks(read, chunks), [], [], 0
            save_marks(files, marks.without_snapshots())  # snapshots are saved only with all their manifests
    return marks.with_chunks(read, chunks) if read else marks


def chunk_files(manifest: Manifest) -> Ids:
    """The distinct chunk files that a manifest refers to."""
    return distinct(id_column(manifest.ids[manifest.kinds == NATIVE]))
