"""From keys of chunks back to the array's prefix, its chunk key encoding and coordinates: a codec pipeline knows only these keys of an array. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from frazil.base.record import Record
from frazil.metadata.grids.chunk_keys import DefaultKeys, SeparatedKeys, V2Keys

_ENCODINGS: Final[tuple[SeparatedKeys, ...]] = (DefaultKeys("/"), DefaultKeys("."), V2Keys("."), V2Keys("/"))


class ArrayKeys(Record):
    """prefix: "" or ending in "/"; coordinates: of each key"""

    prefix: str
    encoding: SeparatedKeys
    coordinates: list[tuple[int, ...]]


def array_keys(keys: Sequence[str], ndim: int) -> ArrayKeys | None:
    """The prefix, encoding and coordinates of the keys of chunks of one array; None if they have no form that Frazil knows."""
    for encoding in _ENCODINGS:
        prefix = _prefix(keys[0], encoding, ndim)
        if prefix is None:
            continue
        found: list[tuple[int, ...]] = []
        for key in keys:
            coordinates = encoding.decode(key[len(prefix) :], ndim) if key.startswith(prefix) else None
            if coordinates is None:
                break
            found.append(coordinates)
        else:
            return ArrayKeys(prefix, encoding, found)
    return None


def _prefix(key: str, encoding: SeparatedKeys, ndim: int) -> str | None:
    """The text before the encoded coordinates; None if the key does not end in coordinates."""
    parts = key.split("/")
    count = len(encoding.encode_one((0,) * ndim).split("/"))
    if len(parts) < count or encoding.decode("/".join(parts[len(parts) - count :]), ndim) is None:
        return None
    inner = "/".join(parts[: len(parts) - count])
    return f"{inner}/" if inner else ""
