"""Marking: every object that a branch, a tag or a pin leads to, in sorted columns. It reads, and writes only its marks (marks.py). The histories are followed
in live_snapshots.py.

A missing object is damage and ends marking with an error: a collection must not remove what may be the only remaining data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from frazil.base.arrays import among, distinct
from frazil.base.record import Record
from frazil.errors import FormatError, FrazilError, NotFoundError, StoreError
from frazil.formats.ids import ObjectId
from frazil.formats.manifests import NATIVE, Manifest
from frazil.repository.format import MAIN, Ancestor, Box, RepositoryFormat, Tip
from frazil.repository.maintenance.condemned import KINDS
from frazil.repository.maintenance.expired import expired_ids
from frazil.repository.maintenance.id_columns import Ids, id_column, id_list, join, without
from frazil.repository.maintenance.live_snapshots import LiveSnapshots, is_same
from frazil.repository.maintenance.marks import NO_MARKS, Marks, save_marks
from frazil.repository.maintenance.object_listing import list_objects
from frazil.repository.maintenance.records import list_records, read_records
from frazil.repository.manifests.boxes import read_extents
from frazil.repository.manifests.manifest_parts import require_box

Progress: TypeAlias = "Callable[[str, int], object]"
T = TypeVar("T")

_TRIES: Final = 4
_MANIFESTS: Final = 16
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


def _pinned(files: RepositoryFormat) -> list[ObjectId]:
    """The snapshots of pins. One that is gone or incomplete is skipped: the process that pins it will see that, too."""
    pins = read_records(files, list_records(files, "pins"), ["snapshots"])
    found = [snapshot for columns in pins for snapshot in id_list(columns["snapshots"])]  # type: ignore[arg-type] # a column of ids
    return [snapshot for snapshot in dict.fromkeys(found) if is_whole(files, snapshot)]


def reachable_from(files: RepositoryFormat, snapshot: ObjectId) -> Reachable | None:
    """All that a snapshot and its ancestors lead to; None if one of the snapshots or manifests is missing or damaged. Raises StoreError."""
    files = files.uncached()
    try:
        return _mark(files, NO_MARKS, expired_ids(files), [snapshot], _ignore_progress, saves=False)[0]
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
    return _lead_to(files, tips, snapshot) or _lead_to(files, list(tagged(files).values()), snapshot)


def _lead_to(files: RepositoryFormat, starts: Sequence[ObjectId], snapshot: ObjectId) -> bool:
    """Whether a snapshot is in the histories of some, which are followed at the same pace, as most are looked for near the tips. If it is in none, and one is
    damaged, the files of snapshots decide, as in a collection: it may go on there. Raises FormatError if it does not."""
    ids, followed, is_damaged = expired_ids(files), set[ObjectId](), False
    expired = set(id_list(ids))
    waiting, chains = list(dict.fromkeys(starts)), list[Iterator[Ancestor]]()
    while waiting or chains:
        if waiting:
            new, waiting = waiting[: (count := files.read_ahead(waiting))], waiting[count:]
            chains += [_ancestors(files, start) for start in new]
        remaining = []
        for chain in chains:
            try:
                found = next(chain, None)
            except (NotFoundError, FormatError):
                is_damaged = True
                continue
            if found is None or found.snapshot in followed:
                continue
            followed.add(found.snapshot)
            if found.snapshot == snapshot or (found.parent is None and is_same(files, found.snapshot, snapshot)):
                return True
            if found.parent not in expired:
                remaining.append(chain)
        chains = remaining
    if not is_damaged:
        return False
    live = LiveSnapshots(files, starts, NO_MARKS, ids)
    for _ in live.read():
        """Only the snapshots count."""
    return bool(among(id_column([snapshot]), live.columns()[0])[0])


def _ancestors(files: RepositoryFormat, start: ObjectId) -> Iterator[Ancestor]:
    """As RepositoryFormat.ancestors, but a missing snapshot is an error of the first step."""
    yield from files.ancestors(start)


def mark(files: RepositoryFormat, marks: Marks, progress: Progress, *, saves: bool) -> tuple[Reachable, Marks]:
    """Everything that refs and pins lead to, and the marks to keep. saves: whether marks may be saved meanwhile.

    Raises FormatError for damaged or missing objects, StoreError."""
    files = files.uncached()  # compares digests: chunks that only a replaced manifest refers to would be garbage
    tries = _TRIES
    while True:
        starts, expired = roots(files), expired_ids(files)
        tries -= 1
        try:
            return _mark(files, marks, expired, starts, progress, saves=saves)
        except FormatError:
            # after a long time, a ref may have moved, and the objects of its former snapshot may be gone
            if not tries or (roots(files) == starts and len(expired_ids(files)) == len(expired)):
                raise


def _mark(
    files: RepositoryFormat,
    marks: Marks,
    expired: Ids,
    starts: Sequence[ObjectId],
    progress: Progress,
    *,
    saves: bool,
) -> tuple[Reachable, Marks]:
    live = LiveSnapshots(files, starts, marks, expired)
    manifests, attributes = [marks.manifests], [marks.attributes]
    boxes: dict[ObjectId, set[Box]] = {}
    for found in live.read():
        manifests.append(id_column(found.manifests))
        attributes.append(id_column(found.attributes))
        for manifest, own in found.boxes.items():
            boxes.setdefault(manifest, set()).update(own)
        progress("snapshots read", len(found.ancestors))
    snapshots, parents = live.columns()
    if not among(marks.snapshots, snapshots).all():
        # some are unreachable now: it is unknown which manifests they shared
        return _mark(files, marks.without_snapshots(), expired, starts, progress, saves=saves)
    all_manifests = join(manifests)
    marks = marks._replace(
        snapshots=snapshots, parents=parents, manifests=all_manifests, attributes=join(attributes)
    ).only(all_manifests)
    marks = _read_manifests(files, marks, boxes, progress, saves=saves)
    reachable = Reachable(snapshots, marks.attributes, all_manifests, marks.chunks_of(all_manifests))
    # marks have only one parent for each snapshot
    return reachable, marks if live.are_consistent else marks.without_snapshots()


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
