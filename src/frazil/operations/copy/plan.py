"""The order of a copy, and the names that need not be copied again. Pure; names are keys below the root of the copy.

Chunks come first, then documents, the deepest first: a reader of an unfinished copy finds no incomplete array. In a repository, files come before the files
that refer to them: branches last, and `main` last of all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from frazil.base.record import Record
from frazil.repository.alpha.ref_files import named_by
from frazil.repository.format import MAIN
from frazil.stores.values import Version

N = TypeVar("N")

_DOCUMENTS: Final = frozenset(("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"))
_OF_THE_DRAFT: Final = re.compile(r"(?:^|/)meta/(?:.*\.)?(?:array|group)(?:\.[^/.]*)?$", re.DOTALL)
_DIGEST: Final = re.compile(rb'"?([0-9a-fA-F]{32})"?')  # from object stores, for objects that were put in one piece
_MOST_NAMES: Final = 128  # of one batch: progress is reported after each
_BATCHES: Final = 8  # of a page for each worker, if there are enough names, so that all end at about the same time


class ObjectFacts(Record):
    """Facts about an object without its bytes. changed: the time of change of its file, ns; None if that is unknown, or not meaningful."""

    size: int
    version: Version | None = None
    changed: int | None = None


def is_document(name: str) -> bool:
    """Whether a key is that of a document of a node or a hierarchy, in any dialect."""
    return name[name.rfind("/") + 1 :] in _DOCUMENTS or ("meta/" in name and bool(_OF_THE_DRAFT.search(name)))


def is_reference(name: str) -> bool:
    """Whether a key is that of a branch or a tag, of the repository that begins at the root or one below."""
    return named_by(name) is not None


def in_order(names: Iterable[str]) -> list[list[str]]:
    """Documents and references, in groups to write one after the other."""
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


def is_same(source: ObjectFacts, found: ObjectFacts) -> bool | None:
    """Whether the object at the destination is a copy of the present source, as far as this is known without the bytes; None if it is not known.

    False for another size, time of change or digest. True where both are in folders and have the same time of change, which a copy preserves; or where both
    have the same digest. Equal sizes alone prove nothing."""
    if source.size < 0 or source.size != found.size:
        return False
    if source.changed is not None and found.changed is not None:
        return source.changed == found.changed
    digests = digest_of(source.version), digest_of(found.version)
    return None if None in digests else digests[0] == digests[1]


def digest_of(version: Version | None) -> bytes | None:
    """The MD5 digest in a version, as hexadecimal digits; None for a version without one, such as of an object that was put in parts."""
    found = None if version is None else _DIGEST.fullmatch(version)
    return None if found is None else found[1].lower()


def split_batches(names: Sequence[N], workers: int, most: int | None) -> list[Sequence[N]]:
    """Names in batches for workers, each of `most` names, the number of one request. None: smaller batches if there are few names, so that all workers have
    some."""
    size = most or max(1, min(_MOST_NAMES, len(names) // (workers * _BATCHES)))
    return [names[low : low + size] for low in range(0, len(names), size)]


def differences(source: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """Names at the destination with other bytes than at the source, or missing at the source."""
    return sorted(name for name, value in found.items() if source.get(name) != value)
