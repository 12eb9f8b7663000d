"""Single files of branches and tags: finding the newest in the folder of a branch, reading one, creating one if it does not exist.

What they mean for a branch or a tag is in branches.py and tags.py, their names and JSON in formats/alpha/refs.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.base.retry import Backoff, attempts
from frazil.errors import AlreadyExistsError, CommitUnknownError, FormatError, StoreError
from frazil.formats.alpha.refs import (
    LAST_SEQUENCE,
    REFS,
    Ref,
    RefKind,
    branch_file,
    emit_ref,
    parse_folder,
    parse_ref,
    parse_sequence,
)
from frazil.formats.ids import ObjectId
from frazil.repository.format import COMMITTED, TAKEN, UNKNOWN, Outcome
from frazil.repository.replaced_files import files_alone, no_file
from frazil.stores.store import Store
from frazil.stores.values import FOLDER, Columns

if TYPE_CHECKING:
    from frazil._kernel import Buffer

__all__ = [
    "MOST_BYTES",
    "REFS",
    "already_exists",
    "check_free_key",
    "create_named",
    "create_reference",
    "highest_number",
    "named_by",
    "newest_number",
    "read_first_of",
    "read_reference",
    "unknown_change",
]

_PAGE: Final = 16  # keys of the first listing of a folder; the next listings are longer, if all of these are foreign
_LONGEST_PAGE: Final = 4096
MOST_BYTES: Final = 2**16 + 1  # read of a reference file: one more than its limit
_HEAD: Final[Columns] = np.array([[0, 0, MOST_BYTES]], np.int64)
_PROBES: Final = 8  # names that are looked up at once
_READS: Final = Backoff(3, 0.05, 0.2)  # of a file that decides whether a commit happened
_WRITES: Final = Backoff(4, 0.05, 0.2)  # of a file if the answer is lost


# --- which is the newest ------------------------------------------------------------------------------------------------------------------


def newest_number(store: Store, folder: str, see_first: Callable[[str | None], object] | None = None) -> int | None:
    """The highest number of a branch file in a folder, or None: the first branch file of the listing.

    see_first  is called with the first key of the folder, None if it is empty; not called if the store cannot list"""
    if not store.capabilities.listable:
        highest = highest_number(store, folder, -1)
        return None if highest < 0 else highest
    after, page = "", _PAGE
    while True:
        listed = store.list_page(folder, after, limit=page)
        keys = listed.keys
        if see_first is not None and not after:
            see_first(keys[0] if keys else None)
        for key in keys:
            sequence = parse_sequence(key[len(folder) :])
            if sequence is not None:
                return sequence
        if listed.next is None:
            return None
        last = listed.next
        below, slash, _ = last[len(folder) :].partition("/")
        # the other files of a foreign folder are skipped
        after = max(last, f"{folder}{below}/\U0010ffff") if slash else last
        page = min(page * 4, _LONGEST_PAGE)


def highest_number(store: Store, folder: str, present: int) -> int:
    """A number that exists while the next one does not, from the existing `present` upward; -1: it is unknown whether any exists. Nothing is listed.

    Growing strides find a missing number, then bisection searches below it. Every existing number counts, even above a missing one: Frazil leaves
    no gaps, but a gap does not stop the search."""
    missing: int | None = None
    stride, probes = 1, 1 if present < 0 else _PROBES
    while present < LAST_SEQUENCE and missing != present + 1:
        if missing is None:
            steps = [stride << i for i in range(probes)]
            stride <<= probes - 1
            probes = _PROBES
        else:
            span = missing - present
            steps = [max(span * i // (_PROBES + 1), i) for i in range(1, _PROBES + 1)]
        last = LAST_SEQUENCE if missing is None else missing - 1
        numbers = sorted({min(present + step, last) for step in steps})
        sizes = store.sizes([folder + branch_file(number) for number in numbers]).tolist()
        present = max([present, *(number for number, size in zip(numbers, sizes, strict=True) if size >= 0)])
        missing = next((number for number in numbers if number > present), missing)
    return present


# --- keys -----------------------------------------------------------------------------------------------------------------------------------


def named_by(key: str) -> tuple[RefKind, str] | None:
    """The branch or tag that a key is a file of, in a repository at the root of the store or below; None for other keys."""
    if REFS not in key:
        return None
    parts = key.split("/")
    return parse_folder(parts[-2]) if len(parts) >= 3 and parts[-3] == REFS[:-1] else None


# --- one file -----------------------------------------------------------------------------------------------------------------------------


def read_reference(store: Store, key: str) -> Ref | None:
    """The content of a reference file, or None. Too long files are not read completely. Raises FormatError, StoreError."""
    with files_alone():
        data = store.get_partial_values([(key, (0, MOST_BYTES))])[0]
    return None if data is None else parse_ref(data, key)


def check_free_key(store: Store, key: str) -> None:
    """Refuses something other than a file at the key of a reference file, which could never be created: FormatError. Only disks have such things; elsewhere
    this costs no request. Raises StoreError."""
    if not store.capabilities.local:
        return
    with files_alone():
        (status,) = store.fetch([key], _HEAD).status
    if status == FOLDER:
        raise no_file(key)


def create_reference(
    store: Store, key: str, ref: Ref, *, unique: bool = True, after: Mapping[str, Buffer] | None = None
) -> tuple[Outcome, Ref | None]:
    """Creates a reference file. after: new values by key that are stored before it. Returns the outcome, and the present content of the file.

    unique  no other writer writes the same content, so a file with this content is ours. Otherwise it is ours only if an answer was lost
    COMMITTED, ref      the file exists and is ours
    TAKEN, other        the file of another writer exists; None if it was not read
    UNKNOWN, None       the file may exist, may still arrive, or a crash of the machine may lose it
    A write whose answer is lost may arrive at any time. So it is repeated a few times, until a file has the name, which excludes later ones.
    Raises StoreError if the store is certain that nothing was written; FormatError if another writer's file is invalid, or the key is not a file."""
    lost = False
    for _ in attempts(_WRITES):
        try:
            with files_alone():
                is_made = store.create_after(after, key, emit_ref(ref)) if after else store.create(key, emit_ref(ref))
            after = None
            if is_made:
                return COMMITTED, ref
            if not unique and not lost:
                return TAKEN, None
        except StoreError as error:
            if error.done:
                return UNKNOWN, None
            if error.done is False and not lost:
                raise
            lost = lost or error.done is None
        outcome, present = _read_back(store, key, ref, lost=lost)
        if outcome is not None:
            return outcome, present
    return UNKNOWN, None


def _read_back(store: Store, key: str, ref: Ref, *, lost: bool) -> tuple[Outcome | None, Ref | None]:
    """The outcome that the file shows; None if it does not exist. lost: the answer to a write of it was lost."""
    for _ in attempts(_READS):
        try:
            present = read_reference(store, key)
        except StoreError:
            continue
        except FormatError:
            if not lost:
                raise
            return UNKNOWN, None
        if present is None:
            return None, None
        return (COMMITTED if present == ref else TAKEN), present
    return UNKNOWN, None


def read_first_of(store: Store, keys: Sequence[str]) -> tuple[str, Ref | None]:
    """The first of some reference files that exists, and its key. Raises as read_reference."""
    for key in keys:
        ref = read_reference(store, key)
        if ref is not None:
            return key, ref
    return keys[0], None


def create_named(store: Store, kind: RefKind, name: str, key: str, snapshot: ObjectId) -> None:
    """Creates the first file of a branch or tag. Concurrent calls may write the same content, so a file with this content counts as the caller's only if the
    answer was lost. Raises AlreadyExistsError, CommitUnknownError, and as create_reference."""
    outcome, _ = create_reference(store, key, Ref(snapshot), unique=False)
    if outcome == UNKNOWN:
        raise unknown_change(f"the {kind} {name!r} was created", key)
    if outcome == TAKEN:
        raise already_exists(kind, name, key)


def already_exists(kind: RefKind, name: str, key: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"there is a {kind} of this name already: {name!r}", key=key, hint="choose another name")


def unknown_change(change: str, key: str) -> CommitUnknownError:
    return CommitUnknownError(
        f"whether {change} is not known: the store's answer was lost, and the file cannot be read back",
        key=key,
        hint="check it when the store answers again; nothing was removed",
    )
