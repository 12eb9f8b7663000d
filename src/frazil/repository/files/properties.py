"""The properties of a snapshot: the metadata of its commit, and what other programs put there, which our commits carry on. Pure.

Which of them are the commit's own is said by a flag, where there are any; without it none are to a later commit, and all are to who reads the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import Snapshot
from frazil.formats.msgpack import Json, pack, unpack

__all__ = ["commit_metadata", "commit_properties"]

_OWN: Final = "frazil.metadata"  # the flag: a list of names


def commit_properties(base: Snapshot, metadata: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, bytes]]:
    """The properties and the flags of a snapshot that a commit with this metadata makes over `base`."""
    gone = _own_names(base) or ()
    carried = {name: value for name, value in base.properties.items() if name not in gone}
    flags = {name: value for name, value in base.flags.items() if name != _OWN}
    if metadata or carried:
        flags[_OWN] = pack(list(metadata))
    return {**carried, **metadata}, flags


def commit_metadata(snapshot: Snapshot) -> Mapping[str, Json]:
    """The metadata of the commit that made a snapshot."""
    own = _own_names(snapshot)
    if own is None:
        return snapshot.properties
    return {name: value for name, value in snapshot.properties.items() if name in own}


def _own_names(snapshot: Snapshot) -> set[str] | None:
    data = snapshot.flags.get(_OWN)
    if data is None:
        return None
    try:
        names = unpack(data)
    except FormatError:
        return None
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else None
