"""Whether a file is still the one that virtual chunks referred to. Pure.

virtual_fetch.py looks up the state of files. A location without a check is read unchecked. A manifest has one check for each location, so a second state of a
file gets its own location (docs/design/016-virtual-chunks.md)."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from hashlib import blake2b
from typing import Final

import numpy as np

from frazil.base.reports import counted
from frazil.formats.manifests import FileCheck


def what_differs(check: FileCheck, present: FileCheck) -> str | None:
    """How a file differs from its check, in words; None if it does not."""
    if check.size not in {-1, present.size} and present.size >= 0:
        return f"it had {counted(check.size, 'byte')} and has {present.size:,}"
    if check.mapped_to != present.mapped_to:
        return None
    if check.modified not in {-1, present.modified} and present.modified != -1:
        return f"it was written at {_time(check.modified)}, and again at {_time(present.modified)}"
    if check.tag not in {"", present.tag} and present.tag:
        return f"it had the version {check.tag!r} and has {present.tag!r}"
    return None


def _time(modified: int) -> str:
    return f"{np.datetime64(modified, 'ns')}Z"


# --- states of one file -----------------------------------------------------------------------------------------------------------------


def distinct_location(
    location: str, check: FileCheck | None, used: Container[str], checks: Mapping[str, FileCheck]
) -> str:
    """The location for references with this check, next to `used` locations, whose checks are `checks`: the location itself, or the same file with a mark that
    no other check has."""
    if location not in used or checks.get(location) == check:
        return location
    digest = blake2b(repr(tuple(check or FileCheck())).encode(), digest_size=_DIGEST).hexdigest()
    return f"{plain_location(location)}{_MARK}{digest}"


def plain_location(location: str) -> str:
    """The location of the file itself, without Frazil's mark."""
    return _MARKED.sub("", location) if _MARK in location else location


_MARK: Final = "#frazil-"
_DIGEST: Final = 8  # bytes
_MARKED: Final = re.compile(rf"{_MARK}[0-9a-f]{{{2 * _DIGEST}}}\Z")
