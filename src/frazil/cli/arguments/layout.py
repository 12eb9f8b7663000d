"""Arguments for the layout of an array: chunks, shards, codecs, and the memory for writing it."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from typing import Final

from frazil.cli.command import size

SAME: Final = "same"


def extents(text: str) -> tuple[int, ...] | str:
    """Extents of chunks: 64,64, auto or same."""
    if text in ("auto", SAME):
        return text
    parts = text.replace(" ", "").split(",")
    if not all(part.isdecimal() and 0 < int(part) < 2**63 for part in parts):
        raise ArgumentTypeError(f"{text!r} is neither extents, as in 64,64, nor auto")
    return tuple(map(int, parts))


def shards(text: str) -> tuple[int, ...] | str | None:
    """The same for shards; none is None."""
    return None if text == "none" else extents(text)


def codecs(text: str) -> object:
    """Names of codecs, a list of objects in JSON, auto or same; none is an empty list."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ArgumentTypeError(f"{text!r} is not JSON: {error}") from None
    if text in ("auto", SAME, "none"):
        return [] if text == "none" else text
    return [name.strip() for name in text.split(",")]


def memory(text: str) -> int:
    """A number of bytes above 0, as in 512MiB."""
    nbytes = size(text.strip())
    if not nbytes:
        raise ArgumentTypeError(f"{text!r} is not a number of bytes, as in 512MiB")
    return nbytes


def named_extents(text: str) -> tuple[int, ...] | str | dict[str, int]:
    """The same as `extents`, or extents by the name of the dimension: time=12,lat=64."""
    if "=" not in text:
        return extents(text)
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, extent = part.strip().rpartition("=")
        if not name or not extent.isdecimal() or not 0 < int(extent) < 2**63:
            raise ArgumentTypeError(f"{text!r} is neither extents, as in 64,64 or time=12,lat=64, nor auto")
        found[name] = int(extent)
    return found


def named_shards(text: str) -> tuple[int, ...] | str | dict[str, int] | None:
    """The same for shards; none is None."""
    return None if text == "none" else named_extents(text)
