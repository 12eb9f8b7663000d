"""What a repair does to branches: a commit behind a tip, a new branch, or a branch that goes back. Each is one change that happens or does not; files that were there stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from frazil import _kernel
from frazil.errors import CommitUnknownError, ConflictError
from frazil.formats.ids import ObjectId
from frazil.repository.format import COMMITTED, UNKNOWN, Tip, Written
from frazil.repository.maintenance.pins import pinned
from frazil.repository.verification.histories import Seen
from frazil.repository.verification.verify import problems_of

if TYPE_CHECKING:
    from frazil.repository.format import RepositoryFormat
    from frazil.repository.maintenance.reachable import Progress
    from frazil.repository.verification.references import ChunkFiles

__all__ = ["branch_name", "commit_behind", "last_complete", "make_branch", "move_back"]


def last_complete(
    files: RepositoryFormat, ids: Iterable[ObjectId], chunk_files: ChunkFiles, progress: Progress
) -> ObjectId | None:
    """The first of some snapshots of which nothing is damaged or missing. Raises StoreError."""
    for file in ids:
        if not problems_of(files, Seen(file, "", False), chunk_files, progress):
            return file
    return None


def commit_behind(files: RepositoryFormat, tip: Tip, written: Written) -> bool:
    """Lets a branch point to a commit that is written; False where it has moved, and then nothing is left of the commit. Raises CommitUnknownError, StoreError."""
    outcome, _ = files.advance(tip, written.id)
    if outcome == UNKNOWN:
        raise _unknown(files, tip.branch)
    if outcome != COMMITTED:
        files.erase(written.files)
    return outcome == COMMITTED


def move_back(files: RepositoryFormat, tip: Tip, snapshot: ObjectId) -> None:
    """Lets a branch point to an older snapshot, also where its tip cannot be read. Raises ConflictError where it has moved, CommitUnknownError, StoreError."""
    with pinned(files, snapshot, may_be_damaged=True):
        outcome, _ = files.restore_branch(tip, snapshot)
        if outcome == UNKNOWN:
            raise _unknown(files, tip.branch)
        if outcome != COMMITTED:
            raise ConflictError(
                f"somebody changed the branch {tip.branch!r} while it was repaired", hint="repair it again"
            )


def branch_name(ref: str, end: str) -> str:
    """The name of a branch that stands for another one or for a tag. What not every program can open in a name is left out, and a checksum takes its place."""
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in ref)
    if plain != ref:
        plain += f"-{_kernel.crc32c(ref.encode()):08x}"
    return f"{plain}-{end}"


def make_branch(files: RepositoryFormat, start: str, snapshot: ObjectId, *, dry_run: bool) -> str:
    """A branch that points to a snapshot, whose name begins so; one that does so already is left as it is. Its name. Raises StoreError, CommitUnknownError."""
    taken, name, number = set(files.branches()), start, 1
    while name in taken:
        if files.tip(name).snapshot == snapshot:
            return name
        number += 1
        name = f"{start}-{number}"
    if not dry_run:
        with pinned(files, snapshot, may_be_damaged=True):
            files.create_branch(name, snapshot)
    return name


def _unknown(files: RepositoryFormat, branch: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"whether the branch {branch!r} was repaired is not known: the store's answer was lost",
        key=files.key("refs/"),
        hint="repair it again when the store answers; nothing was removed",
    )
