"""What a repair does to branches: a commit on a tip, a new branch, or a branch that goes back. Each is one atomic change; existing files stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from frazil import _kernel
from frazil.base.arrays import among
from frazil.errors import CommitUnknownError, ConflictError, FrazilError
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.manifests import Manifest
from frazil.repository.format import COMMITTED, UNKNOWN, EncodedCommit, RepositoryFormat, Tip
from frazil.repository.maintenance.condemned import condemned_ids
from frazil.repository.maintenance.id_columns import id_list, join
from frazil.repository.maintenance.pins import pinned
from frazil.repository.maintenance.reachable import Progress, chunk_files
from frazil.repository.maintenance.records import list_records
from frazil.repository.repair.report import REPAIR
from frazil.repository.verification.histories import UNREADABLE, ReachedSnapshot
from frazil.repository.verification.references import ChunkFiles
from frazil.repository.verification.verify import problems_of


def last_complete(
    files: RepositoryFormat, ids: Iterable[ObjectId], chunk_files: ChunkFiles, progress: Progress
) -> ObjectId | None:
    """The first of some snapshots in which nothing is damaged or missing. Raises StoreError."""
    for file in ids:
        if not problems_of(files, ReachedSnapshot(file, "", False), chunk_files, progress):
            return file
    return None


def commit_behind(files: RepositoryFormat, tip: Tip, commit: EncodedCommit, listed: ChunkFiles) -> bool:
    """Writes a commit and points a branch to it; False if the branch has moved: then all files of the commit are removed. listed: the chunk files that existed.

    Raises ConflictError if a garbage collection removes what the commit refers to, FormatError if its records cannot be read, CommitUnknownError,
    StoreError."""
    try:
        _require_kept(files, commit, listed)
    except FrazilError:
        files.erase(commit.files)
        raise
    outcome, _ = files.advance(tip, commit)
    if outcome == UNKNOWN:
        raise _unknown(files, tip.branch)
    if outcome != COMMITTED:
        files.erase(commit.files)
    return outcome == COMMITTED


def _require_kept(files: RepositoryFormat, commit: EncodedCommit, listed: ChunkFiles) -> None:
    """Refuses manifests of a commit that refer to chunk files which a running collection may remove, or which were removed since they were listed: no ref
    protects files of former tips or of old sessions (commit/condemned_chunks.py). A collection that begins later holds the branch before it removes anything:
    then the commit fails, or is marked. Call it after reading the tip that the commit follows."""
    named = join([chunk_files(content) for _, _, content in commit.new if isinstance(content, Manifest)])
    # in this order: a list is removed after the objects it names
    records = list_records(files)
    lists = [record for record in records if record.folder == "condemned"]
    is_running = any(record.folder == "runs" for record in records)
    condemned = named[among(named, condemned_ids(files, lists if is_running else [])["chunks"])]
    existing = named[among(named, listed.ids)]
    missing_ids = existing[
        files.store.uncached.sizes([_chunk_key(files, chunk_id) for chunk_id in id_list(existing)]) < 0
    ]
    for lost in (*id_list(condemned), *id_list(missing_ids)):
        raise ConflictError(
            "a garbage collection removes a chunk file that the repair would refer to",
            key=_chunk_key(files, lost),
            hint="let the collection end, and repair again; if none is running, one was killed: remove its file under gc/runs/ first",
        )


def _chunk_key(files: RepositoryFormat, chunk: ObjectId) -> str:
    return files.key(f"chunks/{encode_id(chunk)}")


def move_back(files: RepositoryFormat, tip: Tip, snapshot: ObjectId) -> None:
    """Points a branch to an older snapshot, even if its tip cannot be read. Raises ConflictError if it has moved, CommitUnknownError, StoreError."""
    with pinned(files, snapshot, may_be_damaged=True):
        outcome, _ = files.restore_branch(tip, snapshot)
        if outcome == UNKNOWN:
            raise _unknown(files, tip.branch)
        if outcome != COMMITTED:
            raise ConflictError(
                f"another process changed the branch {tip.branch!r} while it was repaired", hint="repair it again"
            )


def branch_name(ref: str, end: str) -> str:
    """The name of a branch for the repaired state of a branch or tag. Characters that some programs cannot open are replaced, and a checksum is added."""
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in ref)
    if plain != ref:
        plain += f"-{_kernel.crc32c(ref.encode()):08x}"
    return f"{plain}-{end}"


def keeps_damage(files: RepositoryFormat, tip: Tip) -> bool:
    """Whether a branch is one that a repair made, to keep the damaged tip of a branch that went back. It stays where it is."""
    names = [name for name in files.branches() if tip.branch.startswith(branch_name(name, "damaged"))]
    return any(tip.snapshot == former.snapshot for name in names for former in files.former_tips(name))


def is_repaired(files: RepositoryFormat, start: str, damaged: ObjectId) -> bool:
    """Whether a branch whose name begins with `start` had a commit that repairs a snapshot: then an earlier repair made it, and users may have continued it."""
    names = named_alike(files, start)
    return any(_repairs(files, tip.snapshot, damaged) for name in names for tip in files.former_tips(name))


def repairs_tag(files: RepositoryFormat, tip: Tip) -> bool:
    """Whether a branch is at the repaired snapshot of a tag: what is lost there is lost in the tag, too, and the branch has nothing else."""
    for tag in files.tags():
        if _is_named(tip.branch, branch_name(tag, "repaired")):
            with suppress(*UNREADABLE):
                damaged = files.tag(tag)
                return damaged is not None and _repairs(files, tip.snapshot, damaged)
    return False


def named_alike(files: RepositoryFormat, start: str) -> list[str]:
    """The branches whose names make_branch may have made: `start`, or `start` with a number."""
    return [name for name in files.branches() if _is_named(name, start)]


def _is_named(name: str, start: str) -> bool:
    return name == start or (name.startswith(f"{start}-") and name[len(start) + 1 :].isdecimal())


def _repairs(files: RepositoryFormat, commit: ObjectId, damaged: ObjectId) -> bool:
    with suppress(*UNREADABLE):
        repair = files.commit_metadata(commit).get(REPAIR)
        if isinstance(repair, Mapping) and "snapshot" in repair:
            return repair["snapshot"] == encode_id(damaged)
        return repair is not None and next(files.ancestors(commit)).parent == damaged  # an earlier version committed it
    return False


def make_branch(
    files: RepositoryFormat, start: str, snapshot: ObjectId, planned: Mapping[str, ObjectId], *, dry_run: bool
) -> tuple[str, bool]:
    """Creates a branch whose name begins with `start`, or keeps one that only repairs have continued since it began at the snapshot. Returns its name, and
    whether it is new. Raises StoreError, CommitUnknownError.

    planned  branches that this repair made, or would make"""
    names, name, number = {*files.branches(), *planned}, start, 1
    while name in names:
        if planned[name] == snapshot if name in planned else _begins_at(files, name, snapshot):
            return name, False
        number += 1
        name = f"{start}-{number}"
    if not dry_run:
        with pinned(files, snapshot, may_be_damaged=True):
            files.create_branch(name, snapshot)
    return name, True


def _begins_at(files: RepositoryFormat, branch: str, snapshot: ObjectId) -> bool:
    with suppress(*UNREADABLE):
        for ancestor in files.ancestors(files.tip(branch).snapshot):
            if ancestor.snapshot == snapshot:
                return True
            if REPAIR not in files.commit_metadata(ancestor.snapshot):
                return False
    return False


def _unknown(files: RepositoryFormat, branch: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"it is not known whether the branch {branch!r} was repaired: the answer of the store was lost",
        key=files.key("refs/"),
        hint="repair it again when the store answers; nothing was removed",
    )
