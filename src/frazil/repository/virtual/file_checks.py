"""What a file was like when virtual chunks referred to it, and how that is kept under the flags of a manifest. Pure.

Files are looked at in virtual_fetch.py. A location without a check is read unchecked: the specification has no place for one, and other writers give none.
Flags say one thing of a location, so a second state of one file has a location of its own (docs/design/016-virtual-chunks.md)."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from hashlib import blake2b
from itertools import zip_longest
from typing import Final

import numpy as np

from frazil.formats.msgpack import Reader, pack, write_map
from frazil.record import Record

__all__ = [
    "CHECKS_FLAG",
    "FileCheck",
    "distinct_location",
    "plain_location",
    "read_checks",
    "what_differs",
    "with_checks",
]

CHECKS_FLAG: Final = (
    "frazil.virtual"  # a map: location -> [size, time of change, tag, place], what is not known at the end left out
)

_HIGH: Final = 2**63 - 1


class FileCheck(Record):
    """The state of a file. What is not known is -1 or "", and is not compared.

    size      bytes
    modified  when it was last written, in nanoseconds since 1970
    tag       what else its store tells versions by, such as an ETag
    place     where its prefix was mapped to. At another place only sizes are compared: a copy has other times and tags"""

    size: int = -1
    modified: int = -1
    tag: str = ""
    place: str = ""


def what_differs(check: FileCheck, seen: FileCheck) -> str | None:
    """In what a file is not the one that it was, in words; None where it is."""
    if check.size not in {-1, seen.size} and seen.size >= 0:
        return f"it had {check.size} bytes and has {seen.size}"
    if check.place != seen.place:
        return None
    if check.modified not in {-1, seen.modified} and seen.modified != -1:
        return f"it was written at {_time(check.modified)}, and again at {_time(seen.modified)}"
    if check.tag not in {"", seen.tag} and seen.tag:
        return f"it had the version {check.tag!r} and has {seen.tag!r}"
    return None


def _time(modified: int) -> str:
    return f"{np.datetime64(modified, 'ns')}Z"


def with_checks(flags: bytes, checks: Mapping[str, FileCheck]) -> bytes:
    """The flags of a manifest, MessagePack, with these checks in place of those that it has; other flags stay as they are. Raises FormatError."""
    kept: list[bytes] = []
    reader = Reader(flags, None)
    for _ in range(reader.map("the flags")):
        name, value = reader.raw("the name of a flag"), reader.raw("a flag")
        if name != _NAME:
            kept.append(name + value)
    reader.finish("the flags")
    if checks:
        kept.append(_NAME + pack({location: _trimmed(check) for location, check in checks.items()}))
    out = bytearray()
    write_map(out, len(kept))
    return bytes(out) + b"".join(kept)


_NAME: Final = pack(CHECKS_FLAG)


def _trimmed(check: FileCheck) -> list[int | str | None]:
    row: list[int | str | None] = [
        None if check.size < 0 else check.size,
        None if check.modified == -1 else check.modified,
        check.tag or None,
        check.place or None,
    ]
    while row and row[-1] is None:
        row.pop()
    return row


def read_checks(flags: bytes, key: str | None = None) -> dict[str, FileCheck]:
    """The checks among the flags of a manifest, by location; `key` is the manifest's. A text in place of a list is a tag. Raises FormatError."""
    reader = Reader(flags, key)
    checks: dict[str, FileCheck] = {}
    for _ in range(reader.map("the flags")):
        if reader.raw("the name of a flag") != _NAME:
            reader.skip("a flag")
            continue
        for _ in range(reader.map("the checks of virtual chunks")):
            location = reader.text("a location")
            checks[location] = _read(reader)
    reader.finish("the flags")
    return checks


def _read(reader: Reader) -> FileCheck:
    start = reader.at
    found = reader.value("the check of a file", 1)
    if isinstance(found, str):
        return FileCheck(tag=found)
    if isinstance(found, list) and len(found) <= 4:
        row = [unknown if value is None else value for value, unknown in zip_longest(found, FileCheck())]
        match row:
            case [int(size), int(modified), str(tag), str(place)] if (
                -1 <= size <= _HIGH and -_HIGH <= modified <= _HIGH
            ):
                return FileCheck(size, modified, tag, place)
    raise reader.fail("the check of a file must be its size, time of change, tag and place", start)


# --- states of one file -----------------------------------------------------------------------------------------------------------------


def distinct_location(
    location: str, check: FileCheck | None, known: Container[str], checks: Mapping[str, FileCheck]
) -> str:
    """The location for references that rest on this check, beside `known` ones, whose checks are `checks`: itself, or the same file with a mark that no other
    check has."""
    if location not in known or checks.get(location) == check:
        return location
    digest = blake2b(pack(_trimmed(check or FileCheck())), digest_size=_DIGEST).hexdigest()
    return f"{plain_location(location)}{_MARK}{digest}"


def plain_location(location: str) -> str:
    """Where the file is: the location without our mark."""
    return _MARKED.sub("", location) if _MARK in location else location


_MARK: Final = "#frazil-"
_DIGEST: Final = 8  # bytes
_MARKED: Final = re.compile(rf"{_MARK}[0-9a-f]{{{2 * _DIGEST}}}\Z")
