"""Converts the flags of a manifest file: Frazil's flag has the checks of files with virtual chunks, those of other programs are kept unchanged.

repository/virtual/file_checks.py defines what checks mean (docs/design/016-virtual-chunks.md)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Final

from frazil.formats.manifests import NO_FLAGS, FileCheck
from frazil.formats.msgpack import Reader, pack, write_map

CHECKS_FLAG: Final = "frazil.virtual"  # a map: location -> [size, time of change, tag, address of the mapped prefix], without unknown values at the end

_NAME: Final = pack(CHECKS_FLAG)
_HIGH: Final = 2**63 - 1
_EMPTY: Final = b"\x80"  # a map


def read_flags(data: bytes, key: str | None = None) -> tuple[Mapping[bytes, bytes], Mapping[str, FileCheck]]:
    """The flags of other programs by name, and the checks by location, from MessagePack; `key` is the manifest's. Raises FormatError."""
    if data == _EMPTY:
        return NO_FLAGS, {}
    reader = Reader(data, key)
    flags: dict[bytes, bytes] = {}
    checks: dict[str, FileCheck] = {}
    for _ in range(reader.map("the flags")):
        name = bytes(reader.raw("the name of a flag"))
        if name != _NAME:
            flags[name] = bytes(reader.raw("a flag"))
            continue
        for _ in range(reader.map("the checks of virtual chunks")):
            location = reader.text("a location")
            checks[location] = _read(reader)
    reader.finish("the flags")
    return flags, checks


def _read(reader: Reader) -> FileCheck:
    start = reader.at
    found = reader.value("the check of a file", 1)
    if isinstance(found, str):
        return FileCheck(tag=found)
    if isinstance(found, list) and len(found) <= 4:
        row = [unknown if value is None else value for value, unknown in zip_longest(found, FileCheck())]
        match row:
            case [int(size), int(modified), str(tag), str(mapped_to)] if (
                -1 <= size <= _HIGH and -_HIGH <= modified <= _HIGH
            ):
                return FileCheck(size, modified, tag, mapped_to)
    raise reader.fail(
        "the check of a file must be its size, time of change, tag and the address of its mapped prefix", start
    )


def write_flags(flags: Mapping[bytes, bytes], checks: Mapping[str, FileCheck]) -> bytes:
    """The bytes of flags: those of other programs, then the checks."""
    if not flags and not checks:
        return _EMPTY
    out = bytearray()
    write_map(out, len(flags) + bool(checks))
    for name, value in flags.items():
        out += name + value
    if checks:
        out += _NAME + pack({location: _trimmed(check) for location, check in checks.items()})
    return bytes(out)


def _trimmed(check: FileCheck) -> list[int | str | None]:
    row: list[int | str | None] = [
        None if check.size < 0 else check.size,
        None if check.modified == -1 else check.modified,
        check.tag or None,
        check.mapped_to or None,
    ]
    while row and row[-1] is None:
        row.pop()
    return row
