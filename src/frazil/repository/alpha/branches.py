"""Branches: the newest file of a branch, writing the next one, and the names of all (Icechunk specification, Reference Files). Tags are in tags.py.

Every change creates a file that does not exist yet. No file is changed or removed. ref_files.py reads and creates single files; names and the JSON in the
files are in formats/alpha/refs.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.base.retry import WRITES, attempts
from frazil.base.threads import Threads
from frazil.errors import (
    AccessError,
    AlreadyExistsError,
    ConflictError,
    FormatError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from frazil.formats.alpha.refs import (
    LAST_SEQUENCE,
    REFS,
    Ref,
    branch_file,
    branch_key,
    check_name,
    check_new_name,
    emit_ref,
    folder_of,
    folders_of,
    next_sequence,
    parse_ref,
    parse_sequence,
    snapshot_key,
)
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ObjectId, encode_id
from frazil.repository.alpha.alpha_library import exclude_alpha_library, see_first_name
from frazil.repository.alpha.file_cache import OBJECTS, Files
from frazil.repository.alpha.ref_files import (
    MOST_BYTES,
    already_exists,
    create_named,
    create_reference,
    highest_number,
    newest_number,
    read_first_of,
    read_reference,
    unknown_change,
)
from frazil.repository.alpha.ref_names import checked_ref, ref_folders, ref_names, refuse_blocked
from frazil.repository.alpha.snapshot_flags import has_freedoms
from frazil.repository.format import COMMITTED, MAIN, UNKNOWN, Answer, Tip
from frazil.repository.replaced_files import files_alone, refuse_replaced
from frazil.stores.transfer.content import read_values
from frazil.stores.values import Columns

if TYPE_CHECKING:
    from frazil._kernel import Buffer

_HEADS: Final[Columns] = np.array([[0, 0, MOST_BYTES], [1, 0, MOST_BYTES]], np.int64)  # of two reference files
_AT_ONCE: Final = 16  # branches that are read from a bucket
_FORMER: Final = 64  # branch files that are read in one batch
_LOST: Final = "if they belong to a repository, restore its refs/ from a copy; else choose another location"
_MAGIC: Final = "ICE🧊CHUNK".encode()  # of the file `repo` of Icechunk 2


# --- the tip -----------------------------------------------------------------------------------------------------------------------------


def read_tip(files: Files, branch: str, last: Tip | None = None) -> Tip | None:
    """The newest file of a branch, or None. The tip of a deleted branch has `deleted`.

    last   an earlier tip of this branch: its file and the next one are read. If the next one is missing, the tip is unchanged; else higher numbers are
           looked up. If its own file is gone or differs, the branch was created again, and `last` is ignored
    Raises InvalidInputError for an invalid name of a branch, FormatError, StoreError."""
    if last is not None and last.branch == branch:
        same, following = _read_own_and_next(files, last)
        if same:
            return last if following is None else _latest(files, last, following)
    check_name("branch", branch)
    found = [(folder, _newest(files, folder)) for folder in ref_folders(files, "branch", branch)]
    tips = [_read_branch_file(files, branch, number, folder) for folder, number in found if number is not None]
    if not tips:
        refuse_blocked(files, [folder for folder, _ in found], lambda name: parse_sequence(name) is not None)
    return max(tips, key=lambda tip: tip.sequence, default=None)


def open_tip(files: Files, branch: str, last: Tip | None = None) -> Tip:
    """As read_tip. Raises NotFoundError if no branch has this name, FormatError if the repository has a later format."""
    tip = read_tip(files, branch, last)
    if tip is None:
        require_repository(files)
    if tip is None or tip.deleted:
        state = "is no branch of this name" if tip is None else "was a branch of this name, but it is deleted"
        raise NotFoundError(f"there {state}: {branch!r}", key=files.key(REFS))
    return tip


def tip_after(files: Files, tip: Tip) -> Tip | None:
    """The tip of the file after `tip`, or None. Later files are not read.

    Raises ConflictError if the file of `tip` was removed or differs: then the branch was removed and created again, and no file may be written after it;
    FormatError if the next file is invalid; StoreError."""
    same, following = _read_own_and_next(files, tip)
    if not same:
        raise ConflictError(
            f"the branch {tip.branch!r} is not the one that the session began from: its file number {tip.sequence} is missing or has another content",
            key=_folder(files, tip) + branch_file(tip.sequence),
            hint="another process created a new repository here, or restored an older copy: open it again and repeat the changes",
        )
    return None if following is None else _next_tip(files, tip, following)


def former_tips(files: Files, branch: str) -> Iterator[Tip]:
    """As RepositoryFormat.former_tips: the contents of the branch files, from the highest number down. Missing numbers are skipped."""
    check_name("branch", branch)
    usual, *others = ref_folders(files, "branch", branch)
    found = [(number, folder) for folder in (usual, *others) if (number := _newest(files, folder)) is not None]
    if not found:
        raise NotFoundError(f"there is no branch of this name: {branch!r}", key=files.key(REFS))
    newest, folder = max(found, key=lambda numbered: numbered[0])
    tip_folder = "" if folder == usual else folder
    for high in range(newest, -1, -_FORMER):
        numbers = range(high, max(high - _FORMER, -1), -1)
        keys = [folder + branch_file(number) for number in numbers]
        for number, key, data in zip(
            numbers, keys, files.store.get_partial_values([(key, (0, MOST_BYTES)) for key in keys]), strict=True
        ):
            if data is not None:
                try:
                    ref = checked_ref(branch, parse_ref(data, key), key)
                    yield Tip(branch, number, ref.snapshot or b"", ref.deleted, tip_folder)
                except FormatError:
                    yield Tip(branch, number, b"", False, tip_folder)


def read_first(files: Files, branch: str) -> Ref | None:
    """The content of branch file number 0, or None. Raises as read_tip."""
    check_name("branch", branch)
    return read_first_of(files.store, [folder + branch_file(0) for folder in ref_folders(files, "branch", branch)])[1]


def _read_own_and_next(files: Files, tip: Tip) -> tuple[bool, bytes | None]:
    """Whether the file of a tip is still as it was read, and the content of the next file, or None. Both are read in one batch."""
    folder = _folder(files, tip)
    names = [folder + branch_file(number) for number in (tip.sequence, tip.sequence + 1) if number <= LAST_SEQUENCE]
    with files_alone():
        if files.store.capabilities.direct:  # every commit runs this: in one call of the kernel
            own, *following = files.store.get_many(names)
        else:
            spans = _HEADS[: len(names)]
            own, *following = read_values(files.store.fetch(names, spans), names, spans)
    if own is None:
        return False, None
    expected = Ref(tip.snapshot or None, tip.deleted)
    # every commit runs this: a file as Frazil writes it is not parsed
    if own != emit_ref(expected):
        try:
            if parse_ref(own, names[0]) != expected:
                return False, None
        except FormatError:
            return False, None
    return True, following[0] if following else None


def _latest(files: Files, last: Tip, following: bytes) -> Tip:
    """The newest tip of a branch after a known one whose next file exists."""
    folder, can, sequence = _folder(files, last), files.store.capabilities, last.sequence + 1
    if can.direct or not can.listable:
        newest = highest_number(files.store, folder, sequence)
    else:
        newest = max(_newest(files, folder) or 0, sequence)
    if newest > sequence:
        return _read_branch_file(files, last.branch, newest, folder)
    return _next_tip(files, last, following)


def _newest(files: Files, folder: str) -> int | None:
    return newest_number(files.store, folder, partial(see_first_name, files, folder))


def _next_tip(files: Files, tip: Tip, following: bytes) -> Tip:
    ref = checked_ref(tip.branch, parse_ref(following, key := _folder(files, tip) + branch_file(tip.sequence + 1)), key)
    return tip._replace(sequence=tip.sequence + 1, snapshot=ref.snapshot or b"", deleted=ref.deleted)


def _read_branch_file(files: Files, branch: str, sequence: int, folder: str) -> Tip:
    ref = read_reference(files.store, key := folder + branch_file(sequence))
    if ref is None:
        raise NotFoundError("a branch file was removed while it was read", key=key, hint="open the branch again")
    ref, usual = checked_ref(branch, ref, key), folder == ref_folders(files, "branch", branch)[0]
    return Tip(branch, sequence, ref.snapshot or b"", ref.deleted, "" if usual else folder)


def _folder(files: Files, tip: Tip) -> str:
    return tip.folder or files.key(folders_of("branch", tip.branch, local=files.store.capabilities.local)[0])


def tip_key(files: Files, tip: Tip) -> str:
    """The key of the file of a tip."""
    return _folder(files, tip) + branch_file(tip.sequence)


# --- the next file -----------------------------------------------------------------------------------------------------------------------


def check_commits(files: Files) -> None:
    """Refuses a store in which commits would not be safe, before anything is written: ReadOnlyError, or StoreError for one without conditional put."""
    can = files.store.capabilities
    if not can.writable:
        raise ReadOnlyError(f"{files.store} can only be read", hint="open it for writing")
    if not can.conditional:
        raise StoreError(
            f"{files.store} cannot create a file only if it is not there, so that two commits at once could overwrite each other",
            hint="keep the repository in a store whose capabilities say `conditional`; this one can still be read",
        )


def check_conditions(files: Files, snapshot: ObjectId) -> None:
    """Refuses a server that ignores conditions, with a StoreError, before a branch names a new snapshot: it tries to create the snapshot's file again, which
    must fail. If it succeeds, the file is removed. See docs/design/041-servers-that-ignore-conditions.md."""
    name = snapshot_key(snapshot)
    if files.store.capabilities.conditions_seen or not files.store.create(files.key(name), b""):
        return
    files.erase([name])
    raise StoreError(
        f"the server of {files.store} ignores conditions (If-None-Match): it creates a file that is there already, so that two commits at once could overwrite each other",
        key=files.key(name),
        hint="use a server with conditional writes, or keep the repository elsewhere; this one can still be read",
        done=False,
    )


def put_next(
    files: Files, tip: Tip, snapshot: ObjectId, *, deleted: bool = False, after: Mapping[str, Buffer] | None = None
) -> Answer:
    """Writes the file after `tip`, with the next number, if it does not exist. after: new files by key that are written before it

    COMMITTED  the file exists with this content. Also if the answer was lost, and reading the file back showed it: no other writer uses the snapshot's id
    TAKEN      the file of another writer has this number: its tip
    UNKNOWN    the answer was lost: the file may exist or still arrive; or a crash of the machine may lose it
    Raises StoreError if the store is certain that nothing was written; FormatError if another writer's file has this number and is invalid;
    InvalidInputError if no number is left; and the errors of check_commits."""
    check_commits(files)
    sequence = next_sequence(tip.branch, tip.sequence)
    # A deletion names no snapshot: programs that do not know `deleted` find no snapshot to commit on, instead of restoring the branch
    ref = Ref(None if deleted else snapshot, deleted)
    outcome, present = create_reference(files.store, _folder(files, tip) + branch_file(sequence), ref, after=after)
    if present is None:
        return Answer(outcome)
    return Answer(outcome, Tip(tip.branch, sequence, present.snapshot or b"", present.deleted, tip.folder))


# --- repositories ------------------------------------------------------------------------------------------------------------------------


def exists(files: Files) -> bool:
    """Whether there is a repository, that is, a branch `main`. Its files are not read. Raises FormatError if something else is in their place."""
    folders = ref_folders(files, "branch", MAIN)
    # the first file of a branch is never removed: if a look-up costs no request, it replaces the listing
    with suppress(AccessError), files_alone():
        if files.store.capabilities.direct and files.store.exists(folders[0] + branch_file(0)):
            return True
    if any(_newest(files, folder) is not None for folder in folders):
        return True
    refuse_replaced(files.store, [files.key(REFS[:-1])])
    refuse_blocked(files, folders, lambda name: parse_sequence(name) is not None)
    return False


def require_repository(files: Files) -> None:
    """Raises NotFoundError if there is no repository, FormatError if it has a later format."""
    if exists(files):
        return
    key = files.key(folder_of("branch", MAIN))
    if (later := later_format(files)) is not None:
        raise later
    present, hint = files.present(), "Repository.create makes one"
    if present == OBJECTS:
        hint = f"{OBJECTS} are there: {_LOST}"
    elif present is not None:
        hint = f"{present} of Zarr is there; frazil.open reads it"
    raise NotFoundError(f"there is no repository here: {files.store}", key=key, hint=hint)


def later_format(files: Files) -> FormatError | None:
    """The error for a repository of a later format of Icechunk; None if there is no sign of one. Two short ranges are read at once."""
    keys = files.key("repo"), files.key("refs/branch.main/ref.json")
    repository, main = files.store.get_partial_values([(keys[0], (0, len(_MAGIC))), (keys[1], (0, 1))])
    number = 2 if repository == _MAGIC else 1 if main == b"{" else None
    if number is None:
        return None
    return FormatError(
        f"{files.store} has an Icechunk repository of format {number}, which Frazil does not read yet",
        key=keys[2 - number],
        path=files.prefix or None,
        hint="read it with Icechunk",
    )


def create_repository(files: Files, file: ObjectId, snapshot: SnapshotFile) -> Tip:
    """Writes the first snapshot under a new id, then the first file of `main`, and returns its tip. Of two concurrent calls one succeeds.

    Raises AlreadyExistsError, CommitUnknownError; and the errors of check_commits, before anything is written."""
    check_commits(files)
    refusal = AlreadyExistsError(
        f"a repository already exists in {files.store}",
        key=files.key(folder_of("branch", MAIN)),
        hint="open it, or choose another location",
    )
    if exists(files) or later_format(files) is not None:
        raise refusal
    if (present := files.present()) is not None:  # a collection of the new repository would remove objects
        raise AlreadyExistsError(
            f"{files.store} has {present} already",
            path=files.prefix or "/",
            hint=_LOST if present == OBJECTS else "choose another location",
        )
    files.write_new([files.encoded_snapshot(file, snapshot)])
    check_conditions(files, file)
    if has_freedoms(snapshot):
        exclude_alpha_library(files)
    outcome, tip = put_next(files, Tip(MAIN, -1, b""), file)
    if outcome == COMMITTED and tip is not None:
        return tip
    if outcome == UNKNOWN:
        raise unknown_change("the repository was created", files.key(branch_key(MAIN, 0)))
    files.erase([snapshot_key(file)])  # nothing refers to it
    raise refusal


# --- branches ----------------------------------------------------------------------------------------------------------------------------


def create_branch(files: Files, name: str, snapshot: ObjectId) -> Tip:
    """Creates a branch at a snapshot. A deleted branch continues with its numbers.

    Raises AlreadyExistsError, NotFoundError if the snapshot does not exist, InvalidInputError for an ambiguous name, CommitUnknownError."""
    check_new_name("branch", name)
    check_commits(files)
    tip = read_tip(files, name)
    if tip is not None and not tip.deleted:
        raise already_exists("branch", name, _folder(files, tip))
    files.read_snapshot(snapshot)  # from the store, as a cached one may be gone
    before = tip or Tip(name, -1, b"")
    created = before._replace(sequence=next_sequence(name, before.sequence), snapshot=snapshot, deleted=False)
    create_named(files.store, "branch", name, _folder(files, before) + branch_file(created.sequence), snapshot)
    return created


def reset_branch(files: Files, name: str, snapshot: ObjectId, expect: ObjectId | None = None) -> Tip:
    """Points a branch to any snapshot, by its next file.

    expect  the snapshot that it must point to before, else ConflictError. None: any, even if the newest file is damaged
    Raises NotFoundError if the branch or snapshot does not exist, CommitUnknownError."""
    check_commits(files)
    try:
        tip = open_tip(files, name)
    except FormatError as error:
        if expect is not None or error.other_version:
            raise
        tip = next(former_tips(files, name))
        if tip.snapshot:  # else the next file replaces the damaged one
            raise
    files.read_snapshot(snapshot)
    return _moved(files, tip, snapshot, expect)


def delete_branch(files: Files, name: str, expect: ObjectId | None = None) -> Tip:
    """Marks a branch as deleted, by its next file: its commits stay, and no old session can commit to it. Errors as reset_branch; InvalidInputError for
    `main`."""
    check_name("branch", name)
    if name == MAIN:
        raise InvalidInputError(f"the branch {MAIN!r} cannot be deleted: every repository has it")
    check_commits(files)
    return _moved(files, open_tip(files, name), None, expect)


def read_branches(files: Files) -> dict[str, Tip | FrazilError]:
    """As RepositoryFormat.read_branches. Finding and reading the newest file of a branch takes two requests, so in a bucket several branches are read at a
    time."""
    names = ref_names(files, "branch")

    def read(name: str) -> Tip | FrazilError | None:
        try:
            return read_tip(files, name)
        except (FormatError, NotFoundError, AccessError) as error:
            return error

    if files.store.capabilities.direct or len(names) == 1:
        found = list(map(read, names))
    else:
        with Threads(min(len(names), _AT_ONCE), "frazil branches") as threads:
            found = threads.map(read, names)
    return {name: tip for name, tip in zip(names, found, strict=True) if tip is not None}


def list_branches(files: Files) -> list[str]:
    """The sorted names of all branches that are not deleted. One whose newest file is invalid is included: opening it reports what is wrong."""
    return [name for name, tip in read_branches(files).items() if not (isinstance(tip, Tip) and tip.deleted)]


def _moved(files: Files, tip: Tip, snapshot: ObjectId | None, expect: ObjectId | None) -> Tip:
    """Writes the next file of a branch, also after files of other writers if `expect` allows it. snapshot None: the branch is deleted."""
    for _ in attempts(WRITES):
        if expect is not None and tip.snapshot != expect:
            raise _overtaken(files, tip, expect)
        if snapshot == tip.snapshot:  # an earlier reset may not be synced: writing its file again syncs it
            tip = tip._replace(sequence=tip.sequence - 1)
        outcome, present = put_next(files, tip, snapshot or tip.snapshot, deleted=snapshot is None)
        if present is None or outcome == UNKNOWN:
            raise unknown_change(f"the branch {tip.branch!r} was changed", _folder(files, tip))
        if outcome == COMMITTED:
            return present
        if expect is not None:
            raise _overtaken(files, present, expect)
        tip = open_tip(files, tip.branch, present)
    raise ConflictError(f"others changed the branch {tip.branch!r} before each of {WRITES.attempts} attempts")


def _overtaken(files: Files, tip: Tip, expect: ObjectId) -> ConflictError:
    now = "is deleted" if tip.deleted else f"points to the snapshot {encode_id(tip.snapshot)}"
    return ConflictError(
        f"the branch {tip.branch!r} has changed: it {now}, and {encode_id(expect)} was expected",
        key=_folder(files, tip) + branch_file(tip.sequence),
        hint="check what it is now, and try again",
    )
