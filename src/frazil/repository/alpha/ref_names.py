"""The names of branches and tags, as the folders of refs/ have them; and links, pipes and the like in the place of their folders or files.

What is not a file is not listed by a store, so that a branch would seem to be gone, and a collection would remove its objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from frazil.errors import FormatError, InvalidInputError
from frazil.formats.alpha.refs import REFS, Ref, RefKind, check_name, folders_of, parse_folder, parse_sequence
from frazil.repository.alpha.alpha_library import GUARD
from frazil.repository.alpha.file_cache import Files
from frazil.repository.format import MAIN, UnreadRef
from frazil.repository.replaced_files import files_alone, no_file

_TAG_FILE: Final = "ref.json"
_SEQUENCES: Final = 2**30  # numbers that branches really have: higher ones are words, such as "metadata.json"


def ref_names(files: Files, kind: RefKind) -> list[str]:
    """The sorted names of what may be a branch or a tag: a folder, or what is in the place of one. Foreign folders and invalid names are skipped."""
    names = map(_valid_folder, files.store.list_names(files.key(REFS)))
    return sorted({found[1] for found in names if found is not None and found[0] == kind})


def ref_folders(files: Files, kind: RefKind, name: str) -> list[str]:
    """The possible folders of a branch or tag; the usual one of this store first."""
    return [files.key(folder) for folder in folders_of(kind, name, local=files.store.capabilities.local)]


def _valid_folder(name: str) -> tuple[RefKind, str] | None:
    """The branch or tag that a name in refs/ belongs to; None for a foreign or invalid one."""
    parsed = parse_folder(name.removesuffix("/"))
    if parsed is not None:
        try:
            check_name(*parsed)
        except InvalidInputError:
            return None
    return parsed


def unread_refs(files: Files) -> list[UnreadRef]:
    """As RepositoryFormat.unread_refs: names in refs/, and the files of branches and tags that have letters in another case, as after a copy over a file system
    that does not keep the case; or the folder, if it has no file that is read."""
    prefix = files.key(REFS)
    found = [
        UnreadRef(prefix + name, _in_right_case(name)) for name in files.store.list_names(prefix) if _is_unread(name)
    ]
    of_folders: dict[str, list[str]] = {}
    for page in files.store.list_pages(prefix):
        for key in page.keys:
            folder, _, name = key[len(prefix) :].partition("/")
            if name and name != GUARD and _valid_folder(folder) is not None:
                of_folders.setdefault(folder, []).append(name)
    for folder, names in of_folders.items():
        kind, ref = _valid_folder(folder) or ("", "")
        read = {name for name in names if (name == _TAG_FILE if kind == "tag" else parse_sequence(name) is not None)}
        changed = [name for name in names if name not in read and _is_changed(kind, name)]
        found += [UnreadRef(f"{prefix}{folder}/{name}", f"{kind} {ref}") for name in changed]
        if not read and not changed:
            is_hidden = all(name.startswith(".") for name in names)
            found.append(UnreadRef(f"{prefix}{folder}/", "" if is_hidden else f"{kind} {ref}", no_file=not is_hidden))
    return found


def _is_unread(name: str) -> bool:
    return not name.startswith(".") and _valid_folder(name) is None


def _is_changed(kind: str, name: str) -> bool:
    """Whether only letters in another case keep a file from being read as one of a branch or tag."""
    if kind == "tag":
        return name.lower() == _TAG_FILE
    stem, dot, suffix = name.partition(".")
    number = parse_sequence(stem.upper() + dot + suffix.lower())
    return number is not None and number < _SEQUENCES


def _in_right_case(name: str) -> str:
    """The kind and name of the branch or tag whose folder this is, if only letters of the kind are in another case; "" if not."""
    kind, dot, name_after_dot = name.removesuffix("/").partition(".")
    found = _valid_folder(kind.lower() + dot + name_after_dot)
    return "" if found is None else " ".join(found)


def refuse_blocked(files: Files, folders: Sequence[str], is_reference: Callable[[str], bool]) -> None:
    """Raises FormatError if something other than a folder is in the place of one of the folders of a branch or tag in which no file was found, or something
    other than a file in the place of one of its files. is_reference: whether a file of this name counts. Costs no request: only disks have such things."""
    if not files.store.capabilities.local:
        return
    prefix = files.key(REFS)
    existing = set(files.store.list_names(prefix))
    for folder in folders:
        if folder[len(prefix) : -1] in existing:
            raise no_file(folder[:-1])
        for name in files.store.list_names(folder):
            if is_reference(name.removesuffix("/")):
                if name[-1] == "/":
                    raise no_file(folder + name[:-1])
                with files_alone():  # no error if it is a file that another writer has just created
                    files.store.get_partial_values([(folder + name, (0, 1))])


def checked_ref(branch: str, ref: Ref, key: str) -> Ref:
    """The content of a branch file. Raises FormatError for a `main` that is deleted, which no operation writes: a collection would remove its objects."""
    if branch == MAIN and ref.deleted:
        raise FormatError(
            "the branch 'main' cannot be deleted, but its newest file says so",
            key=key,
            hint="restore the file from a copy, or repair the repository, which can move the branch back",
        )
    return ref
