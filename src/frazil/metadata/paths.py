"""Names and paths of nodes in a hierarchy (Zarr v3.1 core, Node names; those of the draft of 2022). A path is names joined by "/"; the root is ""."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from frazil.errors import InvalidInputError

# Reserved, but xarray stores a data array without a name under it.
XARRAY_VARIABLE: Final = "__xarray_dataarray_variable__"
_DRAFT_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."


def check_name(name: str) -> str:
    """The name itself, if the core allows it; InvalidInputError otherwise."""
    if not name:
        reason = "must not be empty"
    elif "/" in name:
        reason = "must not hold a '/'"
    elif not name.strip("."):
        reason = "must not be of periods alone"
    elif is_reserved(name):
        reason = "must not start with '__', which is reserved"
    elif name == "zarr.json":
        reason = "must not be the name of a metadata document"
    elif not _is_unicode(name):
        reason = "must be Unicode text without lone surrogates"
    else:
        return name
    raise InvalidInputError(f"the name of a node {reason}, found {name!r}")


def is_reserved(name: str) -> bool:
    """Whether a name is reserved, because it begins with "__"."""
    return name.startswith("__") and name != XARRAY_VARIABLE


def check_draft_name(name: str) -> str:
    """The name itself, if the draft of December 2022 allows it (Node names); InvalidInputError otherwise."""
    if not name:
        reason = "must not be empty"
    elif not name.strip("."):
        reason = "must not be of periods alone"
    elif name.strip(_DRAFT_CHARACTERS):
        reason = (
            "must have only the characters a-z, A-Z, 0-9, '-', '_' and '.' in this dialect (draft of 2022, Node names)"
        )
    else:
        return name
    raise InvalidInputError(f"the name of a node {reason}, found {name!r}")


def check_lenient_name(name: str) -> str:
    """The name itself, if it can be a part of a key; InvalidInputError otherwise. For programs that checked nothing more."""
    if name and name.strip(".") and "/" not in name and "\0" not in name and _is_unicode(name):
        return name
    raise InvalidInputError(f"the name of a node must be text without '/', and not of periods alone, found {name!r}")


def normalise(path: str | None, check: Callable[[str], str] = check_name) -> str:
    """A path from a user ("a/b", "/a/b", "//a//b/"; "/" or None for the root) as "a/b"; InvalidInputError for names that `check` refuses."""
    if path is None:
        return ""
    if not isinstance(path, str):
        raise InvalidInputError(f"the path of a node must be a string, found {path!r}")
    inner = path.strip("/")
    if not inner:
        return ""
    if "//" in inner:
        inner = "/".join([name for name in inner.split("/") if name])
    for name in inner.split("/"):
        try:
            check(name)
        except InvalidInputError as error:
            error.path = path
            raise
    return inner


def join(parent: str, path: str) -> str:
    """A path below a node, both normalised."""
    return f"{parent}/{path}" if parent and path else parent or path


def joined(*paths: str) -> str:
    """A path from parts as users write them: without empty parts, and without slashes at the ends of parts."""
    return "/".join([part for path in paths if (part := path.strip("/"))])


def split(path: str) -> tuple[str, str]:
    """The parent's path and the node's own name; the root has neither: ("", "")."""
    parent, _, name = path.rpartition("/")
    return parent, name


def ancestors(path: str) -> list[str]:
    """The paths above a node, the root first; none for the root itself."""
    return [path[:at] for at in [0, *(at for at, character in enumerate(path) if character == "/")]] if path else []


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
