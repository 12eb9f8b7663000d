"""The names of branches and tags, as the folders of refs/ have them; and links, pipes and the like in the place of their folders or files.

What is not a file is not listed by a store, so that a branch would seem to be gone, and a collection would remove its objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.refs import REFS, RefKind, check_name, parse_folder
from frazil.repository.alpha.file_cache import files_alone, no_file
from frazil.repository.format import MAIN

if TYPE_CHECKING:
    from frazil.formats.alpha.refs import Ref
    from frazil.repository.alpha.file_cache import Files

__all__ = ["checked_ref", "is_refused", "reference_names", "refuse_blocked"]


def reference_names(files: Files, kind: RefKind) -> list[str]:
    """The sorted names of what may be a branch or a tag: a folder, or what is in the place of one. Foreign folders and invalid names are skipped."""
    found: set[str] = set()
    for name in files.store.list_names(files.key(REFS)):
        parsed = parse_folder(name.removesuffix("/"))
        if parsed is not None and parsed[0] == kind:
            try:
                check_name(*parsed)
            except InvalidInputError:
                continue
            found.add(parsed[1])
    return sorted(found)


def refuse_blocked(files: Files, folders: Sequence[str], is_reference: Callable[[str], bool]) -> None:
    """Raises FormatError if something other than a folder is in the place of one of the folders of a branch or tag in which no file was found, or something
    other than a file in the place of one of its files. is_reference: whether a file of this name counts. Costs no request: only disks have such things."""
    if not files.store.capabilities.local:
        return
    prefix = files.key(REFS)
    there = set(files.store.list_names(prefix))
    for folder in folders:
        if folder[len(prefix) : -1] in there:
            raise no_file(folder[:-1])
        for name in files.store.list_names(folder):
            if is_reference(name.removesuffix("/")):
                if name[-1] == "/":
                    raise no_file(folder + name[:-1])
                with files_alone():  # no error if it is a file that another writer has just created
                    files.store.get_partial_values([(folder + name, (0, 1))])


def is_refused(read: Callable[[Files, str], object], files: Files, name: str) -> bool:
    """Whether reading a branch or tag raises FormatError."""
    try:
        read(files, name)
    except FormatError:
        return True
    return False


def checked_ref(branch: str, ref: Ref, key: str) -> Ref:
    """The content of a branch file. Raises FormatError for a `main` that is deleted, which no operation writes: a collection would remove its objects."""
    if branch == MAIN and ref.deleted:
        raise FormatError("the branch 'main' cannot be deleted, but its newest file says so", key=key)
    return ref
