"""What of the format only we use, and the flag of a snapshot that says so: overlays, packs, bounded history, extents. Pure.

A snapshot without the flag was written by the library of the alpha, or is to stay readable by it; it drops flags when it commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import Snapshot
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.msgpack import Reader, pack

__all__ = ["HISTORY", "has_freedoms", "has_own_manifests", "next_node", "with_flag", "with_own_manifests"]

HISTORY: Final = 8  # ancestors that a snapshot names
_FLAG: Final = "frazil"
_NEXT: Final = "next_node"
_OWN: Final = "frazil.own_manifests"  # the id of the snapshot that it was written for, as programs may carry flags on


def has_freedoms(snapshot: Snapshot) -> bool:
    return _FLAG in snapshot.flags


def next_node(snapshot: Snapshot) -> int:
    """The lowest id that no node has had, as far as can be told."""
    highest = snapshot.nodes.highest_id() + 1
    data = snapshot.flags.get(_FLAG)
    if data is None:
        return highest
    reader = Reader(data, None)
    try:
        found = reader.members("the flag of frazil").get(_NEXT)
    except FormatError:
        return highest
    return max(highest, found) if isinstance(found, int) else highest


def with_flag(flags: Mapping[str, bytes], following: int) -> dict[str, bytes]:
    """The flags of a snapshot, with ours. following: the lowest id that no node has had."""
    return {**flags, _FLAG: pack({_NEXT: following})}


def has_own_manifests(snapshot: Snapshot) -> bool:
    """Whether a commit of ours gave every array of a compatible repository manifests of its own (manifests/shared_manifests.py)."""
    return snapshot.flags.get(_OWN) == pack(encode_id(snapshot.metadata.id))


def with_own_manifests(flags: Mapping[str, bytes], snapshot: ObjectId) -> dict[str, bytes]:
    """The flags of a snapshot of this id in which every array has manifests of its own."""
    return {**flags, _OWN: pack(encode_id(snapshot))}
