"""What a copy does first and what last, and what need not be copied again. Pure; names are keys below the root of
the copy.

Chunks come first, then documents, the deepest first: a reader of an unfinished copy finds no array that is not whole. Of a repository, files that others
refer to come before those that refer: branches last, and `main` last of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from frazil.record import Record
from frazil.repository.alpha.reference_files import named_by
from frazil.repository.format import MAIN
from frazil.stores.values import Version

__all__ = [
    "Seen",
    "digest_of",
    "in_order",
    "is_document",
    "is_reference",
    "is_same",
    "split_batches",
]

N = TypeVar("N")

_DOCUMENTS: Final = frozenset(("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"))
_OF_THE_DRAFT: Final = re.compile(r"(?:^|/)meta/(?:.*\.)?(?:array|group)(?:\.[^/.]*)?$", re.DOTALL)
_DIGEST: Final = re.compile(rb'"?([0-9a-fA-F]{32})"?')  # as object stores give for what was put in one piece
_MOST_NAMES: Final = 128  # of one batch: what is done is seen after each
_BATCHES: Final = 8  # of a page for each worker, where there are names enough, so that all end at about the same time


class Seen(Record):
    """What is known of an object without its bytes. changed: the time of change that its file bears, ns; None where that is not known, or says nothing."""

    size: int
    version: Version | None = None
    changed: int | None = None


def is_document(name: str) -> bool:
    """Whether a key is that of a document of a node or of a hierarchy, of any dialect."""
    return name[name.rfind("/") + 1 :] in _DOCUMENTS or ("meta/" in name and bool(_OF_THE_DRAFT.search(name)))


def is_reference(name: str) -> bool:
    """Whether a key is that of a branch or a tag, of the repository that begins at the root or one below."""
    return named_by(name) is not None


def in_order(names: Iterable[str]) -> list[list[str]]:
    """Documents and references, in groups that are to be written one after the other."""
    groups: dict[tuple[int, int], list[str]] = {}
    for name in names:
        groups.setdefault(_order(name), []).append(name)
    return [sorted(groups[order]) for order in sorted(groups)]


def _order(name: str) -> tuple[int, int]:
    match named_by(name):
        case None:
            return 0, -name.count("/")
        case "tag", _:
            return 1, 0
        case _, branch:
            return (3 if branch == MAIN else 2), 0


def is_same(source: Seen, found: Seen) -> bool | None:
    """Whether what is found at the destination is a copy of the source that is there now, as far as that is known without the bytes; None where it is not.

    False for another size, time of change or digest. True where both lie in folders and bear the same time of change, which a copy takes over; or where both have the
    same digest. Equal sizes alone prove nothing."""
    if source.size < 0 or source.size != found.size:
        return False
    if source.changed is not None and found.changed is not None:
        return source.changed == found.changed
    digests = digest_of(source.version), digest_of(found.version)
    return None if None in digests else digests[0] == digests[1]


def digest_of(version: Version | None) -> bytes | None:
    """The MD5 digest that a version is, in hexadecimal digits; None for another version, such as that of an object that was put in parts."""
    found = None if version is None else _DIGEST.fullmatch(version)
    return None if found is None else found[1].lower()


def split_batches(names: Sequence[N], workers: int, most: int | None) -> list[Sequence[N]]:
    """Names in batches for workers: of `most` names, as many as are asked for at once; None: of fewer where there are few names, so that all workers have some."""
    size = most or max(1, min(_MOST_NAMES, len(names) // (workers * _BATCHES)))
    return [names[low : low + size] for low in range(0, len(names), size)]


def differences(source: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """Names that are found with other bytes, or that the source does not have."""
    return sorted(name for name, value in found.items() if source.get(name) != value)
