"""Tags, which never move: reading them, creating one, and the names of all (Icechunk specification, Reference Files). Branches are in branches.py."""

from __future__ import annotations

from contextlib import suppress

from frazil.errors import AccessError, FormatError, FrazilError
from frazil.formats.alpha.refs import Ref, check_name, check_new_name, parse_ref
from frazil.formats.ids import ObjectId
from frazil.repository.alpha.branches import check_commits
from frazil.repository.alpha.file_cache import Files
from frazil.repository.alpha.ref_files import MOST_BYTES, already_exists, create_named, read_first_of
from frazil.repository.alpha.ref_names import ref_folders, ref_names, refuse_blocked
from frazil.repository.replaced_files import files_alone


def read_tag(files: Files, name: str) -> ObjectId | None:
    """The snapshot that a tag points to, or None. Raises InvalidInputError for an invalid name of a tag, FormatError, StoreError."""
    check_name("tag", name)
    key, ref = read_first_of(files.store, _keys(files, name))
    if ref is None:
        refuse_blocked(files, ref_folders(files, "tag", name), "ref.json".__eq__)
        return None
    return _target(key, ref)


def read_tags(files: Files) -> dict[str, ObjectId | FrazilError]:
    """As RepositoryFormat.read_tags."""
    names = ref_names(files, "tag")
    keys = [_keys(files, name)[0] for name in names]
    values: list[bytes | None] = [None] * len(keys)
    with suppress(FormatError, AccessError), files_alone():  # else they are read one by one
        values = files.store.get_partial_values([(key, (0, MOST_BYTES)) for key in keys])
    tags: dict[str, ObjectId | FrazilError] = {}
    for name, key, value in zip(names, keys, values, strict=True):
        try:
            found = read_tag(files, name) if value is None else _target(key, parse_ref(value, key))
        except (FormatError, AccessError) as error:
            tags[name] = error
        else:
            if found is not None:
                tags[name] = found
    return tags


def _target(key: str, ref: Ref) -> ObjectId:
    if ref.snapshot is None:
        raise FormatError("a tag must point to a snapshot", key=key)
    return ref.snapshot


def create_tag(files: Files, name: str, snapshot: ObjectId) -> None:
    """Creates a tag. Raises as create_branch."""
    check_new_name("tag", name)
    check_commits(files)
    keys = _keys(files, name)
    if (files.store.sizes(keys) >= 0).any():
        raise already_exists("tag", name, keys[0])
    files.read_snapshot(snapshot)
    create_named(files.store, "tag", name, keys[0], snapshot)


def list_tags(files: Files) -> list[str]:
    """The names of all tags, sorted. One whose file is invalid is included."""
    return list(read_tags(files))


def _keys(files: Files, name: str) -> list[str]:
    return [f"{folder}ref.json" for folder in ref_folders(files, "tag", name)]
