"""Refuses changes of branches that the alpha library does not support, in repositories that this library is to read; and writes the file that keeps it out of
other repositories.

shared_manifests.py has its limits for manifests."""

from __future__ import annotations

from typing import Final

from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.formats.alpha.refs import folder_of, needs_encoding
from frazil.formats.alpha.snapshots import SnapshotFile
from frazil.formats.ids import ObjectId
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.snapshot_flags import has_freedoms

# Sorts before every branch file. The library takes the first name in the folder for a branch file, and stops with an error that shows this name.
GUARD: Final = "0-not-for-the-icechunk-alpha-library"
_TEXT: Final = (
    b"This repository packs several chunks into one file and lists several manifests for one array. Icechunk's alpha library would read wrong values.\n"
    b'This file makes it stop with an error. Frazil ignores it: Repository.create(..., compatible="alpha-library") makes repositories for that library.\n'
)


def exclude_alpha_library(files: Files) -> None:
    """Writes the file that stops the alpha library, which opens every repository at `main` first."""
    files.store.set(files.key(folder_of("branch", "main") + GUARD), _TEXT)
    files.keeps_library_out = True


def see_first_name(files: Files, folder: str, name: str | None) -> None:
    """Records the first key in the folder of a branch (None: it is empty). For `main` it shows whether the library is kept out."""
    if folder == files.key(folder_of("branch", "main")):
        files.keeps_library_out = name == folder + GUARD


def add_guard(files: Files, snapshot: SnapshotFile) -> None:
    """Writes the file that keeps the library out if a repository of an earlier version lacks it, before a commit on `snapshot`. Listings of `main` show whether
    it exists; without a listing it is looked up once."""
    if files.keeps_library_out or not has_freedoms(snapshot):
        return
    if files.keeps_library_out is None:
        files.keeps_library_out = files.store.exists(files.key(folder_of("branch", "main") + GUARD))
    if not files.keeps_library_out:
        exclude_alpha_library(files)


def check_library_branch(files: Files, name: str, snapshot: SnapshotFile, *, new: bool = False) -> None:
    """Refuses a branch of a compatible repository that the alpha library cannot open, with an InvalidInputError.

    snapshot  shows whether the repository is a compatible one
    new       the branch is to be created. An existing one in an object store, under its literal name, can be opened"""
    if needs_encoding(name) and (new or files.store.capabilities.local) and not has_freedoms(snapshot):
        raise InvalidInputError(
            f"the alpha library cannot open a branch of this name: {name!r}; it panics on names that are percent-encoded on disk",
            hint='in a compatible repository, use ASCII letters, digits, spaces, and punctuation but none of % ~ # ? * [ ] { } < > | ^ ` "',
        )


def check_deletion(files: Files, name: str, snapshot: ObjectId) -> None:
    """Refuses to delete a branch of a compatible repository, with an InvalidInputError. snapshot: the one that the branch points to"""
    try:
        compatible = not has_freedoms(files.snapshot(snapshot))
    except (FormatError, NotFoundError):
        return  # this branch cannot be read, so no program can commit to it
    if compatible:
        raise InvalidInputError(
            f"the branch {name!r} of a compatible repository cannot be deleted: the alpha library does not support deleted branches, and would continue to commit to it",
            hint="leave it, or reset it to the snapshot of another branch",
        )
