"""A whole verification except decoding chunks: first refs, then the objects they lead to, then the listing, so that a concurrent commit causes no problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from frazil.base.record import Record
from frazil.errors import AccessError, InvalidInputError, NotFoundError
from frazil.formats.ids import ObjectId, encode_id, encode_ids
from frazil.repository.format import ObjectKind, RepositoryFormat
from frazil.repository.maintenance.id_columns import Ids, id_column, join, octets, without
from frazil.repository.maintenance.object_listing import list_objects
from frazil.repository.maintenance.reachable import Progress
from frazil.repository.verification.collection_files import check_collection_files
from frazil.repository.verification.digests import check_digests
from frazil.repository.verification.histories import (
    UNREADABLE,
    ReachedSnapshot,
    check_own_history,
    read_refs,
    tips_alone,
    walk_histories,
    walk_on,
)
from frazil.repository.verification.parents import check_parents
from frazil.repository.verification.references import ChunkFiles, References
from frazil.repository.verification.report import Findings, Problem, Subject, Verification
from frazil.repository.verification.snapshots import Expected, add_expectations
from frazil.repository.verification.virtual_files import VirtualFiles
from frazil.stores.keys.names import COPY_JOURNAL


class Checked(Record):
    """The findings, the snapshots that branches and tags point to, with "branch NAME" or "tag NAME", and the listed chunk files.

    wrong_lists  snapshots with a wrong list of ancestors: the problem of each
    contradicted  these, and snapshots whose files name another parent than later ones"""

    found: Verification
    tips: tuple[tuple[str, ObjectId], ...]
    chunk_files: ChunkFiles
    wrong_lists: Mapping[ObjectId, Problem]
    contradicted: frozenset[ObjectId]


class Depth(Record):
    """How much is checked, besides the snapshots that branches and tags point to.

    history        their ancestors
    digests        threads that compare chunk files with their digests; 0: none
    virtual_files  checks files elsewhere; None: they are not contacted"""

    history: bool = True
    digests: int = 0
    virtual_files: VirtualFiles | None = None


FILES: Final = Depth()


def check(files: RepositoryFormat, progress: Progress, depth: Depth = FILES) -> Checked:
    """Checks a repository. files: with an empty cache (RepositoryFormat.uncached).

    Raises NotFoundError and FormatError if there is no repository of this format, InvalidInputError if it has no digests to compare, StoreError."""
    found = Findings()
    _find_copy(files, found)
    files.store.require("listable")
    check_collection_files(files, found)
    refs, tips = read_refs(files, found)
    snapshots = walk_histories(files, tips, found) if depth.history else tips_alone(files, tips, found)
    for start, ref in {start: ref for ref, start in reversed(tips)}.items():
        check_own_history(files, start, ref, found)
    expected = Expected()
    new = snapshots
    while new:
        add_expectations(files, new, expected, found, progress)
        named = {parent: own.ref for own, parent in expected.other_parents.items()}
        new = walk_on(files, named, snapshots) if depth.history and named else []
        snapshots += new
    wrong_lists = check_parents(files, tips, expected, found)
    _check_attributes(files, expected, found)
    chunk_files = list_chunk_files(files, progress)
    checked = References(files, chunk_files, found, depth.virtual_files)
    checked.check_all(expected, progress)
    checked.check_disjoint(expected)
    if depth.digests:
        _require_digests(files, snapshots)
        check_digests(files, chunk_files, depth.digests, progress)
        if chunk_files.read_faults.any():
            of_digests = Findings()
            References(files, chunk_files, of_digests).check_all(expected, progress)
            found.problems += [problem for problem in of_digests.problems if problem.kind in {"digest", "access"}]
    _find_changed(files, snapshots, found)
    orphans: dict[ObjectKind, Ids] = {}
    if depth.history:
        orphans = {
            "snapshots": _orphans(files, "snapshots", [snapshot.file for snapshot in snapshots]),
            "attributes": _orphans(files, "attributes", expected.listed_attributes),
            "manifests": _orphans(files, "manifests", expected.listed_manifests),
            "chunks": chunk_files.ids[~chunk_files.used],
        }
    return Checked(
        Verification(
            refs=refs,
            snapshots=len(snapshots),
            manifests=len(expected.listed_manifests),
            attributes=len(expected.listed_attributes),
            references=checked.references,
            chunks=int(chunk_files.used.sum()),
            virtual=checked.virtual,
            strays=checked.strays,
            orphans={kind: len(ids) for kind, ids in orphans.items()},
            orphan_ids={kind: id_texts(ids) for kind, ids in orphans.items()},
            decoded=None,
            problems=tuple(found.problems),
        ),
        tuple(tips),
        chunk_files,
        wrong_lists,
        frozenset((*wrong_lists, *(reached.file for reached in expected.other_parents))),
    )


def _find_copy(files: RepositoryFormat, found: Findings) -> None:
    """Reports a copy to this location that is not complete. Raises as `check`; the error names the copy if it has not written the branches yet."""
    key = files.key(COPY_JOURNAL)
    is_copy = files.store.exists(key)
    try:
        files.require()
    except NotFoundError as error:
        if is_copy:
            error.message = "this is an incomplete copy of a repository: the copy was interrupted or is running, and its branches are not copied yet"
            error.key, error.hint = key, "copy again, which continues the copy"
        raise
    if is_copy:
        text = "a copy to this location is running or was interrupted; what it has not copied is missing"
        found.add("copy", text, Subject(), key)


def _require_digests(files: RepositoryFormat, snapshots: list[ReachedSnapshot]) -> None:
    for snapshot in snapshots:
        try:
            if not files.rules(files.snapshot(snapshot.file)).digests:
                raise InvalidInputError(
                    "this repository has no digests of chunk files",
                    hint='Repository.create(..., chunk_digests="crc32c") makes one that has; decode=True looks at the chunks themselves',
                )
        except UNREADABLE as error:
            if isinstance(error, InvalidInputError):
                raise
            continue
        return


def list_chunk_files(files: RepositoryFormat, progress: Progress) -> ChunkFiles:
    """The listing of chunk files. It is read after refs and snapshots, so that it contains the files of concurrent commits. Raises StoreError."""
    listed = list_objects(files, "chunks", details=True)
    progress("chunks listed", len(listed.ids))
    return ChunkFiles(listed)


def problems_of(
    files: RepositoryFormat, snapshot: ReachedSnapshot, chunk_files: ChunkFiles, progress: Progress
) -> tuple[Problem, ...]:
    """What is wrong with one snapshot and all that it refers to. Of its history, only what its own file states is checked. Raises StoreError."""
    found = Findings()
    check_own_history(files, snapshot.file, snapshot.ref, found)
    expected = Expected()
    add_expectations(files, [snapshot], expected, found, progress)
    check_parents(files, [], expected, found)
    _check_attributes(files, expected, found)
    checked = References(files, chunk_files, found)
    checked.check_all(expected, progress)
    checked.check_disjoint(expected)
    _find_changed(files, [snapshot], found)
    return tuple(found.problems)


def _find_changed(files: RepositoryFormat, snapshots: list[ReachedSnapshot], found: Findings) -> None:
    """Finds the snapshots that have other bytes than were written, unless a problem of the same file says more."""
    known = {problem.key for problem in found.problems}
    for snapshot in snapshots:
        key = files.key(f"snapshots/{encode_id(snapshot.file)}")
        if files.is_changed(snapshot.file) and key not in known:
            found.add("snapshot", "it has other bytes than were written", snapshot.subject, key)


def _check_attributes(files: RepositoryFormat, expected: Expected, found: Findings) -> None:
    """Reads the attribute files, at each location that a node refers to; and those that are only listed."""
    for file, listed in expected.listed_attributes.items():
        key = files.key(f"attributes/{encode_id(file)}")
        for location, subject in expected.attributes.get(file, {0: listed}).items():
            try:
                files.attributes(file, location)
            except (NotFoundError, AccessError) as error:
                found.unreadable("attributes", error, listed, key)
            except UNREADABLE as error:
                found.add("attributes", error.message, subject, error.key or key)


def _orphans(files: RepositoryFormat, kind: ObjectKind, needed: Iterable[ObjectId]) -> Ids:
    return without(list_objects(files, kind, details=False).ids, join([id_column(list(needed))]))


def id_texts(ids: Ids) -> tuple[str, ...]:
    return tuple(encode_ids(octets(ids)))
