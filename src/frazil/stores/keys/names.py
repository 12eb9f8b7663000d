"""The rules of keys and prefixes. Pure; how a store keeps its keys is in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from frazil.errors import InvalidInputError

# the journal of a copy that is running, or was interrupted, at its destination: no node name begins so, and no dialect looks for it
COPY_JOURNAL: Final = "__frazil_copy.json"


def check_key(key: str, label: str = "key") -> None:
    """A key is Unicode text of components joined by "/": none empty, none "." or "..", no NUL (Zarr v3.1 core, Abstract store interface).
    Their order is that of their UTF-8 bytes, which is how Python orders text. Raises InvalidInputError."""
    if not isinstance(key, str):
        raise InvalidInputError(f"a {label} must be text, not {type(key).__name__}", hint="give a str")
    parts = key.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in key:
        raise InvalidInputError(
            f"not a {label}: {_fault(key, parts)}", key=key, hint='keys look like "group/array/c/0/1"'
        )
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                f"not a {label}: it has no UTF-8 form", key=ascii(key), hint="remove the lone surrogates"
            ) from None


def check_prefix(prefix: str) -> None:
    """A prefix is "" or a key and a "/". Raises InvalidInputError."""
    if prefix == "":
        return
    if not isinstance(prefix, str):
        raise InvalidInputError(f"a prefix must be text, not {type(prefix).__name__}", hint="give a str")
    if not prefix.endswith("/"):
        raise InvalidInputError("a prefix must end in a slash", key=prefix, hint=f"{prefix + '/'!r}")
    check_key(prefix[:-1], "prefix")


def is_prefix(names: Sequence[str]) -> bool:
    """Whether names of erase_many are one prefix, and no keys."""
    return len(names) == 1 and (names[0] == "" or names[0][-1] == "/")


def distinct_keys(keys: Iterable[str]) -> list[str]:
    """Keys to erase, each once, in order. Raises InvalidInputError."""
    if isinstance(keys, str):
        raise InvalidInputError(
            "keys must be a list of keys, not one text", key=keys, hint="erase(key), or give a list"
        )
    names = list(dict.fromkeys(keys))
    for key in names:
        check_key(key)
    return names


def _fault(key: str, parts: list[str]) -> str:
    if key == "":
        return "it is empty"
    if "\0" in key:
        return "it has a NUL"
    if parts[0] == "" or parts[-1] == "":
        return "it begins or ends with a slash"
    return "it has an empty component" if "" in parts else 'it has a component "." or ".."'
