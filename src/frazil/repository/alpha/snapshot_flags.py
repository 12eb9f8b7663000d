"""The flags and properties that Frazil's commits set in a snapshot: that it uses Frazil's extensions (overlays, packs, bounded history, extents), and the
metadata of its commit. Pure.

A snapshot without Frazil's flag was written by the alpha library, or must stay readable for it. That library drops flags when it commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import DIGEST_FLAG, NO_DIGEST, SnapshotFile
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.json_values import Json
from frazil.formats.msgpack import Reader, pack, unpack

HISTORY: Final = 8  # ancestors that a snapshot lists
_FLAG: Final = "frazil"
_NEXT: Final = "next_node"
_OWN_MANIFESTS: Final = "frazil.own_manifests"  # the id of its snapshot, as programs may copy flags to the next one
# the algorithm, in every snapshot of a repository that was created with digests
_DIGESTS: Final = "frazil.chunk_digests"
_CRC: Final = pack("crc32c")
# the id of its snapshot, as programs without such digests copy flags to the next one
_FILE_DIGESTS: Final = "frazil.digests"
_ONLY_FILES: Final = "frazil.file_digests"  # the same, of versions whose snapshots have no digest
_METADATA: Final = "frazil.metadata"  # the names of the properties with metadata of the commit


def has_freedoms(snapshot: SnapshotFile) -> bool:
    """Whether the snapshot may use Frazil's extensions."""
    return _FLAG in snapshot.flags


def next_node(snapshot: SnapshotFile) -> int:
    """The lowest id that no node has had, as far as known."""
    highest = snapshot.nodes.highest_id() + 1
    data = snapshot.flags.get(_FLAG)
    if data is None:
        return highest
    try:
        found = Reader(data, None).members("the flag of frazil").get(_NEXT)
    except FormatError:
        return highest
    return max(highest, found) if isinstance(found, int) else highest


def with_flag(flags: Mapping[str, bytes], following: int) -> dict[str, bytes]:
    """The flags of a snapshot, with Frazil's. following: the lowest id that no node has had."""
    return {**flags, _FLAG: pack({_NEXT: following})}


def has_own_manifests(snapshot: SnapshotFile) -> bool:
    """Whether a commit of Frazil gave every array of a compatible repository its own manifests (shared_manifests.py)."""
    return _names_itself(snapshot, _OWN_MANIFESTS)


def with_own_manifests(flags: Mapping[str, bytes], snapshot: ObjectId) -> dict[str, bytes]:
    """The flags of a snapshot with this id in which every array has its own manifests."""
    return {**flags, _OWN_MANIFESTS: pack(encode_id(snapshot))}


def digests_flag(snapshot: ObjectId) -> dict[str, bytes]:
    """The flags of the first snapshot of a repository in which the ids of chunk files, manifests and attribute files end in digests."""
    return with_file_digests({_DIGESTS: _CRC}, snapshot)


def has_digests(snapshot: SnapshotFile) -> bool:
    """Whether the ids of all chunk files that the snapshot leads to end in digests."""
    return snapshot.flags.get(_DIGESTS) == _CRC


def with_file_digests(flags: Mapping[str, bytes], snapshot: ObjectId) -> dict[str, bytes]:
    """The flags of a snapshot with this id, if its parent has file digests: it gets a digest, too."""
    flags = {name: value for name, value in flags.items() if name != _ONLY_FILES}
    return {**flags, _FILE_DIGESTS: pack(encode_id(snapshot)), DIGEST_FLAG: NO_DIGEST}


def has_file_digests(snapshot: SnapshotFile) -> bool:
    """Whether the ids of all manifests and attribute files that the snapshot and its ancestors list end in digests."""
    return has_digest(snapshot) or _names_itself(snapshot, _ONLY_FILES)


def has_digest(snapshot: SnapshotFile) -> bool:
    """The same, and whether the snapshot was written with a digest of its own."""
    return _names_itself(snapshot, _FILE_DIGESTS)


def _names_itself(snapshot: SnapshotFile, flag: str) -> bool:
    """Whether a flag has the id of its snapshot."""
    return flag in snapshot.flags and snapshot.flags[flag] == pack(encode_id(snapshot.metadata.id))


# --- the metadata of a commit -----------------------------------------------------------------------------------------------------------


def commit_properties(base: SnapshotFile, metadata: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, bytes]]:
    """The properties and the flags of a snapshot for a commit on `base` with this metadata. Properties of other programs are kept."""
    replaced = _metadata_names(base) or ()
    carried = {name: value for name, value in base.properties.items() if name not in replaced}
    flags = {name: value for name, value in base.flags.items() if name != _METADATA}
    if metadata or carried:
        flags[_METADATA] = pack(list(metadata))
    return {**carried, **metadata}, flags


def commit_metadata(snapshot: SnapshotFile) -> Mapping[str, Json]:
    """The metadata of the commit that made a snapshot; all its properties if no flag names them."""
    own = _metadata_names(snapshot)
    if own is None:
        return snapshot.properties
    return {name: value for name, value in snapshot.properties.items() if name in own}


def _metadata_names(snapshot: SnapshotFile) -> set[str] | None:
    data = snapshot.flags.get(_METADATA)
    if data is None:
        return None
    try:
        names = unpack(data)
    except FormatError:
        return None
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else None
