"""Reference files one by one: which of a branch's folder is the newest, reading one, creating one if it is not there.

What they mean for a branch or a tag is in branches.py, their names and the JSON in them in formats/alpha/refs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from frazil.errors import FormatError, StoreError
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
from frazil.repository.alpha.file_cache import files_alone, no_file
from frazil.repository.format import COMMITTED, TAKEN, UNKNOWN, Outcome
from frazil.stores.store import Store
from frazil.stores.transfer.retry import Backoff, attempts
from frazil.stores.values import FOLDER, Columns

__all__ = [
    "MOST_BYTES",
    "REFS",
    "check_place",
    "create_reference",
    "highest_number",
    "named_by",
    "newest_number",
    "read_reference",
]

_PAGE: Final = 16  # keys of the first listing of a folder; the next ones are longer, should all of these be foreign
_LONGEST_PAGE: Final = 4096
MOST_BYTES: Final = 2**16 + 1  # read of a reference file: one more than it may have
_HEAD: Final[Columns] = np.array([[0, 0, MOST_BYTES]], np.int64)
_PROBES: Final = 8  # names that are looked up at once
_READS: Final = Backoff(3, 0.05, 0.2)  # of a file whose content decides whether a commit happened
_WRITES: Final = Backoff(4, 0.05, 0.2)  # of a file whose answer is lost


# --- which is the newest ------------------------------------------------------------------------------------------------------------------


def newest_number(store: Store, folder: str, see_first: Callable[[str | None], object] | None = None) -> int | None:
    """The highest number of a branch file in a folder, None where there is none: the first file of the listing that is one.

    see_first  is given the first key of the folder, None where it is empty; it is not called where the store cannot list"""
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
        # what else lies in a foreign folder is passed over at once
        after = max(last, f"{folder}{below}/\U0010ffff") if slash else last
        page = min(page * 4, _LONGEST_PAGE)


def highest_number(store: Store, folder: str, present: int) -> int:
    """A number that is there while the next one is not, from `present` upward, which is there; -1: it is not known whether any is. Nothing is listed.

    Strides that grow find a missing one, then the span to it is divided. Every number that is found to be there counts,
    whatever was missing below: a gap, which is none of ours, does not stop the search."""
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
    """The branch or tag of which a key is a file, in a repository that begins at the root of the store or below; None for other keys."""
    if REFS not in key:
        return None
    parts = key.split("/")
    return parse_folder(parts[-2]) if len(parts) >= 3 and parts[-3] == REFS[:-1] else None


# --- one file -----------------------------------------------------------------------------------------------------------------------------


def read_reference(store: Store, key: str) -> Ref | None:
    """What a reference file says, None where it is not there. No more of it is read than shows that it is too long. Raises FormatError, StoreError."""
    with files_alone():
        data = store.get_partial_values([(key, (0, MOST_BYTES))])[0]
    return None if data is None else parse_ref(data, key)


def check_place(store: Store, key: str) -> None:
    """Refuses what is no file in the place of a reference file, so that it could never be created: FormatError. Raises StoreError."""
    with files_alone():
        (status,) = store.fetch([key], _HEAD).status
    if status == FOLDER:
        raise no_file(key)


def create_reference(store: Store, key: str, ref: Ref, *, unique: bool = True) -> tuple[Outcome, Ref | None]:
    """Creates a reference file. Returns the outcome, and what the file says now.

    unique  nobody else writes the same, so a file that says this is ours. Otherwise that is believed only where an answer was lost
    COMMITTED, ref      it is there and ours
    TAKEN, other        somebody else's is there; None where it was not read
    UNKNOWN, None       it may be there, may still arrive, or may be lost by a crash of the machine
    A write whose answer is lost may arrive at any time. So it is repeated until a file has the name, which rules the others out, a few times at most.
    Raises StoreError where the store is sure that nothing was written; FormatError where another writer's file has the name and makes no sense, or what has it is no file."""
    lost = False
    for _ in attempts(_WRITES):
        try:
            with files_alone():
                is_made = store.create(key, emit_ref(ref))
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
    """The outcome that the file tells; None where it is not there. lost: the answer to a write of it was lost."""
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
