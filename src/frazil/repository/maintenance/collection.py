"""Garbage collection: it condemns objects that nothing refers to, and removes those that were condemned long enough ago.

docs/design/072-garbage-collection.md shows that no order of events loses an object; comments here mark the steps that this depends on. reachable.py finds the
reachable objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np

from frazil.base.arrays import among
from frazil.base.durations import largest_age, present
from frazil.base.record import Record
from frazil.errors import ConflictError, FormatError, InvalidInputError, StoreError
from frazil.formats.ids import encode_ids
from frazil.repository.format import COMMITTED, UNKNOWN, ObjectKind, RepositoryFormat, Tip
from frazil.repository.maintenance.condemned import (
    KINDS,
    SHORTEST_WAIT,
    WAIT,
    IdsByKind,
    condemned_ids,
    count_by_kind,
    no_ids,
    write_condemned,
)
from frazil.repository.maintenance.id_columns import NO_IDS, Ids, join, octets, without
from frazil.repository.maintenance.lost import lost_chunks
from frazil.repository.maintenance.marks import NO_MARKS, Marks, load_marks, save_marks
from frazil.repository.maintenance.object_listing import Listed, list_objects
from frazil.repository.maintenance.reachable import (
    Progress,
    Reachable,
    heads,
    mark,
    newest_tips,
    refuse_unread_refs,
)
from frazil.repository.maintenance.records import RecordFile, list_records, new_record, refuse_later, write_record
from frazil.repository.maintenance.report import Collected
from frazil.repository.maintenance.tips import record_tips, refuse_lost_tips
from frazil.repository.synced_tips import sync_tips
from frazil.stores.keys.names import COPY_JOURNAL

_HOLDS: Final = 64  # attempts per branch to take its next number before other writers
_BATCH: Final = 4096  # keys that are erased, or whose sizes are looked up, in one call
_MARKINGS: Final = 4  # markings until the missing chunk files are the same twice
# nanoseconds after which pins with an unknown outcome, and files of interrupted runs, are removed: no operation runs for so long
_LIFE: Final = 7 * WAIT
_VERIFY: Final = "nothing was removed; verify shows what is damaged, repair what can be repaired"
_RESTORE: Final = (
    "nothing was removed, as a damaged manifest may name another chunk file in its place; restore the file from a copy, or run verify and repair; "
    "accept_loss=True of a collection accepts the loss in this run, accept_loss=True of a repair in all later runs"
)


class _Clock(Record):
    """Ages by the clock of the store, ns. now: -1 if the store has no times; wait: the age at which a list is ripe, 0: at once"""

    now: int
    wait: int

    def is_past(self, record: RecordFile, life: int = 0) -> bool:
        """Whether a file is older than the wait and its life."""
        if not self.wait:
            return True
        return min(record.modified, self.now) >= 0 and self.now - record.modified >= max(self.wait, life)


def collect(
    files: RepositoryFormat, wait: int, progress: Progress, *, accept_loss: bool = False, dry_run: bool = False
) -> Collected:
    """Collects garbage. wait: nanoseconds from condemning to removal; 0: all unreachable objects are removed now, which is safe if no process writes.
    accept_loss: also while reachable chunk files are missing.

    If it is interrupted, the next collection continues. Raises InvalidInputError, ConflictError while a copy to this location is running, FormatError if
    something is damaged or missing (then nothing is removed), StoreError, ReadOnlyError."""
    if wait and wait < SHORTEST_WAIT:
        raise InvalidInputError(
            f"the wait must be at least {SHORTEST_WAIT // 60_000_000_000} minutes: a session must be able to detect that it may be too old",
            hint="if no process writes, now=True removes at once",
        )
    files.require()
    store = files.store
    store.require("listable")
    refuse_unread_refs(files)
    refuse_lost_tips(files)
    refuse_later(files, list_records(files))  # before anything is written there
    if store.capabilities.local:  # the newest file of a branch may be hidden by a link in its place
        for tip in heads(files):
            files.check_next(tip)
    if dry_run:
        # this clock may be wrong, but a dry run removes nothing
        try:
            return _collect(files, _Clock(time.time_ns(), wait), progress, None, accept_loss)
        except FormatError as error:
            error.hint = error.hint or _VERIFY
            raise
    files.check_commits()
    store.require("erasable")
    run = _Run(new_record("runs"))
    try:
        write_record(files, run.name, {})
        # a process that pins a snapshot either sees this file, or the collection sees its pin
        done = _collect(files, _store_time(files, run.name, wait), progress, run, accept_loss)
    except BaseException as error:
        if isinstance(error, FormatError):
            error.hint = error.hint or _VERIFY
        if not (run.removes and _removal_may_follow(files, error)):
            files.erase([run.name])
        raise
    files.erase([run.name])
    return done


class _Run:
    """A collection that removes. name: of its file, which is written after this is created;  removes: it is removing objects now"""

    __slots__ = ("_began", "name", "removes")

    def __init__(self, name: str) -> None:
        self.name, self.removes, self._began = name, False, present()

    def check_claim(self) -> None:
        """Refuses to continue if the process was suspended for so long, as on a sleeping machine, that other processes ignore its file."""
        if largest_age(self._began) > _LIFE // 2:
            raise StoreError("the collection took days, or was suspended", done=False, hint="collect again")


def _removal_may_follow(files: RepositoryFormat, error: BaseException) -> bool:
    """Whether a failed removal may still be done later. Then the file of the run stays, so that no process tags a snapshot that may be removed."""
    outcome_known = isinstance(error, StoreError) and error.done is not None
    return not (outcome_known or files.store.capabilities.direct)


def _store_time(files: RepositoryFormat, run: str, wait: int) -> _Clock:
    """The present time: when the store stored the file of this run."""
    now = next((record.modified for record in list_records(files, "runs") if record.name == run), -1)
    if now < 0 and wait:
        raise StoreError(
            f"{files.store} does not give the time of a file, so no file is known to be old enough to be removed",
            hint="if no process writes, now=True removes at once",
        )
    return _Clock(now, wait)


def _collect(
    files: RepositoryFormat, clock: _Clock, progress: Progress, run: _Run | None, accept_loss: bool
) -> Collected:
    records = list_records(files)
    copy_journals = _copy_journals(files, clock)
    lists = [record for record in records if record.folder == "condemned"]
    ripe = [record for record in lists if clock.is_past(record)]
    before = condemned_ids(files, [record for record in lists if record not in ripe])
    # listed before the refs are read: objects of a concurrent commit are not condemned
    details = not files.store.capabilities.direct  # else they cost a look-up of each file
    listed = {kind: list_objects(files, kind, details=details) for kind in KINDS}
    for kind, found in listed.items():
        progress(f"{kind} listed", len(found.ids))
    stored_marks = load_marks(files)
    given_up = None if accept_loss else partial(lost_chunks, files, records)
    reachable, marks, lost = _mark(files, stored_marks, listed, progress, given_up, saves=run is not None)
    dead = _dead(listed, reachable)
    old = condemned_ids(files, ripe) if clock.wait else no_ids()
    doomed = _condemned_among(dead, old) if clock.wait else dict(dead)
    held_branches = 0
    if run is not None and any(map(len, doomed.values())):
        # no commit that was sent before this can succeed after it; those that succeeded are marked now
        held_branches = _hold_branches(files)
        reachable, marks, lost = _mark(files, marks, listed, progress, given_up, saves=False, stored=False)
        dead = _dead(listed, reachable)
        doomed = _condemned_among(doomed, dead)
    sizes = {kind: _sizes(files, kind, doomed[kind], listed[kind]) for kind in KINDS}
    fresh = {kind: without(without(dead[kind], doomed[kind]), before[kind]) for kind in KINDS}
    fresh_bytes = sum(_sizes(files, kind, fresh[kind], listed[kind]) for kind in KINDS)
    leftovers = 0
    if run is not None:
        if not marks.equals(stored_marks):
            save_marks(files, marks)
        record_tips(files)
        _remove(files, doomed, run, progress)
        # before the old lists are removed: what another collection may be about to remove is always in a list
        write_condemned(files, _with_rescued(files, clock, run.name, fresh, old, listed, dead))
        # after their objects: a process that still sees the lists treats the objects as condemned, one that does not finds them gone
        _erase_records(files, ripe)
        leftovers = _remove_leftovers(files, records, clock, run.name, copy_journals)
    return Collected(
        dry_run=run is None,
        live={kind: len(listed[kind].ids) - len(dead[kind]) for kind in KINDS},
        removed=count_by_kind(doomed),
        removed_bytes=sum(sizes.values()),
        condemned=count_by_kind(fresh),
        condemned_bytes=fresh_bytes,
        waiting=count_by_kind(_condemned_among(dead, before)),
        leftovers=leftovers,
        held=held_branches,
        missing=lost,
    )


# --- reachable objects -----------------------------------------------------------------------------------------------------


def _mark(
    files: RepositoryFormat,
    marks: Marks,
    listed: dict[ObjectKind, Listed],
    progress: Progress,
    given_up: Callable[[], Ids] | None,
    *,
    saves: bool,
    stored: bool = True,
) -> tuple[Reachable, Marks, int]:
    """What is reachable, the marks to keep, and the number of reachable chunk files that do not exist. Raises FormatError if there are others than those given
    up (None: any may be missing): if letters of an id in a manifest have changed, the chunk file that it named looks unreachable. stored: whether the marks
    are those of an earlier collection."""
    lost, tries = NO_IDS, _MARKINGS
    while True:
        old = marks
        reachable, marks = mark(files, old, progress, saves=saves)
        before, lost = lost, _missing(files, listed["chunks"].ids, reachable.chunks)
        tries -= 1
        unknown = NO_IDS if given_up is None or not len(lost) else without(lost, given_up())
        known = not len(unknown) and not (stored and among(old.chunks, lost).any())
        if known or not tries or (not stored and among(lost, before).all()):
            break
        # the marks may be of a damaged manifest that was restored since; or a new commit was reset meanwhile, and another collection removed it
        marks, stored = NO_MARKS, False
    if len(unknown):
        (first,) = next(_names("chunks", unknown[:1]))
        raise FormatError(
            f"chunk files that branches or tags lead to are missing: {len(unknown):,}, the first is {first}",
            key=files.key(first),
            hint=_RESTORE,
        )
    return reachable, marks.without_chunks(lost), len(lost)


def _missing(files: RepositoryFormat, listed: Ids, reachable: Ids) -> Ids:
    """The reachable chunk files that do not exist, sorted. Those of commits after the listing are looked up."""
    missing_ids = without(reachable, listed)
    absent = [files.store.sizes([files.key(name) for name in names]) < 0 for names in _names("chunks", missing_ids)]
    return missing_ids[np.concatenate(absent)] if absent else missing_ids


# --- listed and dead objects -----------------------------------------------------------------------------------------------


def _dead(listed: dict[ObjectKind, Listed], reachable: Reachable) -> dict[ObjectKind, Ids]:
    return {kind: without(found.ids, getattr(reachable, kind)) for kind, found in listed.items()}


def _condemned_among(ids: IdsByKind, others: IdsByKind) -> dict[ObjectKind, Ids]:
    return {kind: ids[kind][among(ids[kind], others[kind])] for kind in KINDS}


def _names(kind: ObjectKind, ids: Ids) -> Iterator[list[str]]:
    """The names of objects, in batches."""
    for low in range(0, len(ids), _BATCH):
        yield [f"{kind}/{text}" for text in encode_ids(octets(ids[low : low + _BATCH]))]


def _sizes(files: RepositoryFormat, kind: ObjectKind, ids: Ids, listed: Listed) -> int:
    """The bytes of some of the listed objects, without those that cannot be looked up: they can still be removed."""
    if listed.sizes is not None:
        return int(listed.sizes[listed.ids.searchsorted(ids)].sum())
    total = 0
    for names in _names(kind, ids):
        keys = [files.key(name) for name in names]
        try:
            found = files.store.sizes(keys)
        except StoreError:
            found = np.array([_size(files, key) for key in keys], np.int64)
        total += int(found[found > 0].sum())
    return total


def _size(files: RepositoryFormat, key: str) -> int:
    with suppress(StoreError):
        return int(files.store.sizes([key])[0])
    return 0


def _with_rescued(
    files: RepositoryFormat,
    clock: _Clock,
    run: str,
    fresh: IdsByKind,
    old: IdsByKind,
    listed: dict[ObjectKind, Listed],
    dead: IdsByKind,
) -> IdsByKind:
    """The objects to condemn now. While another collection is running, also formerly condemned objects that are reachable again, as the other one may have
    marked before they were. Otherwise a pin that only this collection has seen would allow a tag on objects that the other one removes."""
    runs = list_records(files, "runs") if any(map(len, old.values())) else []
    if all(record.name == run or clock.is_past(record, _LIFE) for record in runs):
        return fresh
    rescued = {kind: without(found.ids, dead[kind]) for kind, found in listed.items()}
    again = _condemned_among(rescued, old)
    return {kind: join([fresh[kind], again[kind]]) for kind in KINDS}


# --- changes --------------------------------------------------------------------------------------------------------------------------


def _hold_branches(files: RepositoryFormat) -> int:
    """Takes the next number of every branch, with its present snapshot. Returns the number of branches. Raises StoreError if the outcome is unknown.

    For sessions that know their age, a commit with that number is enough. But sessions with a wrong clock only check if they see that their branch was held."""
    tips = newest_tips(files)
    sync_tips(files, [tip for tip in tips if tip.deleted])  # the others are synced with the next file
    held = [tip for tip in tips if not tip.deleted]
    for first in held:
        tip: Tip | None = first
        for _ in range(_HOLDS):
            if tip is None or tip.deleted:
                break
            outcome = files.hold(tip).outcome
            if outcome == UNKNOWN:
                raise StoreError(
                    f"whether the branch {tip.branch!r} got its next number is not known: the answer was lost",
                    key=files.key("refs/"),
                    hint="collect again; nothing was removed",
                )
            if outcome == COMMITTED:
                break
            tip = files.read_tip(tip.branch)
    return len(held)


def _remove(files: RepositoryFormat, doomed: IdsByKind, run: _Run, progress: Progress) -> None:
    """Removes objects, those that refer to others first. Raises StoreError; then no remaining object has lost an object it refers to."""
    if not any(map(len, doomed.values())):
        return
    files.memory.forget()
    run.removes = True
    for kind in KINDS:
        for names in _names(kind, doomed[kind]):
            run.check_claim()
            files.store.erase_immutable([files.key(name) for name in names])
            progress(f"{kind} removed", len(names))
    run.removes = False


def _erase_records(files: RepositoryFormat, records: list[RecordFile]) -> None:
    if records:
        files.store.erase_values([files.key(record.name) for record in records])


def _copy_journals(files: RepositoryFormat, clock: _Clock) -> list[str]:
    """The keys of journals of copies that ended long ago. Raises ConflictError for a copy that may be running."""
    key = files.key(COPY_JOURNAL)
    store = files.store
    page = store.list_page(files.prefix, key[:-1], delimited=True, details=True, limit=1)
    if not len(page.keys) or page.keys[0] != key or page.modified is None:
        return []
    if not clock.is_past(RecordFile(COPY_JOURNAL, page.modified.item(0), 0)):
        raise ConflictError(
            "a copy to this location is running, and its objects may be unreferenced until it ends",
            key=key,
            hint="let the copy finish; if no process writes, now=True collects anyway",
        )
    return [key]


def _remove_leftovers(
    files: RepositoryFormat, records: list[RecordFile], clock: _Clock, run: str, copy_journals: list[str]
) -> int:
    """Removes files that are no longer needed. Returns their number."""
    stale = [
        record for record in records if record.folder == "runs" and record.name != run and clock.is_past(record, _LIFE)
    ]
    stale += [record for record in records if record.folder == "pins" and clock.is_past(record, _LIFE)]
    _erase_records(files, stale)
    if copy_journals:
        files.store.erase_values(copy_journals)
    before = max(clock.now - clock.wait, 0)
    return len(stale) + len(copy_journals) + files.store.erase_leftovers(files.prefix, before)
