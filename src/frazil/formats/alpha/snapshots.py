"""Converts SnapshotFile files (Icechunk specification, Snapshot Files; one MessagePack array of eleven, as the library of that time wrote it).

The nodes in them are in nodes.py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from frazil import _kernel
from frazil.base.record import Record
from frazil.errors import FormatError
from frazil.formats.alpha.node_values import read_id
from frazil.formats.alpha.nodes import encode_nodes, index_nodes, read_nodes
from frazil.formats.ids import CRC_BYTES, ObjectId, encode_id
from frazil.formats.json_values import Json
from frazil.formats.msgpack import DEPTH_LIMIT, HEADS_OF_ARRAYS, RESTORE, Fields, Packed, Reader, checked, pack
from frazil.formats.nodes import Nodes
from frazil.formats.snapshots import SnapshotInfo
from frazil.formats.times import emit_time, parse_time

if TYPE_CHECKING:
    from frazil._kernel import Buffer

FORMAT_VERSION: Final = 0
# the id of the snapshot, and the CRC-32C of its other flags and of the bytes of its file after the flags, the highest byte first
DIGEST_FLAG: Final = "frazil.snapshot_crc"
NO_DIGEST: Final = pack(None)

_U16: Final = 2**16 - 1
_U32: Final = 2**32 - 1
_SMALL_INFO, _MOST_INFOS = 2**10, 2**8  # largest cached one in bytes, and their number
_MOST_FILES: Final = 4096  # whose bytes are cached
# the first bytes of files of later versions
_STARTS: Final = (
    ("ICE🧊CHUNK".encode(), "by Icechunk 0.1.0-alpha.10 or later, with a header before it"),
    (b"\x28\xb5\x2f\xfd", "by Icechunk 0.1.0-alpha.9, compressed with zstd"),
)


class FileInfo(Record):
    """A manifest or attribute file that a snapshot lists. version: of the file's format"""

    id: ObjectId
    version: int = FORMAT_VERSION


class SnapshotFile(Record):
    """One snapshot file.

    metadata         its own id, time and message; the file of a repository's first snapshot has another id
    started_at       nanoseconds since 1970 in UTC
    history          ancestors, the nearest first; fewer than total_parents if it is bounded
    manifest_files   and attribute_files: the files it refers to, in the order of the file
    flags            by name, each as the MessagePack of its value (msgpack.unpack)
    properties       JSON of users"""

    metadata: SnapshotInfo
    started_at: int
    history: tuple[SnapshotInfo, ...] = ()
    total_parents: int = 0
    manifest_files: tuple[FileInfo, ...] = ()
    attribute_files: tuple[FileInfo, ...] = ()
    flags: Mapping[str, bytes] = {}
    properties: Mapping[str, Json] = {}
    nodes: Nodes = Nodes()


def check_format(data: bytes, key: str | None) -> None:
    """Refuses empty files, and files of later versions of Icechunk, which it names. Raises FormatError."""
    if not data:
        raise FormatError("the file is empty", key=key, hint=RESTORE)
    for start, by in _STARTS:
        if data.startswith(start):
            error = FormatError(f"the file was written {by}; that format is not read here, at byte 0", key=key)
            error.other_version = True
            raise error


def decode_snapshot(data: bytes, key: str | None = None) -> SnapshotFile:
    """Reads a snapshot file; its nodes are found, but decoded on demand. Raises FormatError, with `key` and the byte, for violations of the
    format outside of nodes, for two nodes with one id, and for another version of the format."""
    check_format(data, key)
    reader = Reader(data, key)
    fields = reader.struct("a snapshot", lambda *fields: fields, _FIELDS)
    _, flags, manifests, attributes, total, _, history, metadata, started, properties, nodes = fields
    reader.finish("the snapshot")
    return SnapshotFile(metadata, started, history, total, manifests, attributes, flags, properties, nodes)


def _read_version(reader: Reader, label: str) -> None:
    offset = reader.at
    version = reader.u16(label)
    if version != FORMAT_VERSION:
        error = reader.fail(
            f"a snapshot has the format version {version}; only version {FORMAT_VERSION} is read here",
            offset,
            hint="read it with the version of Icechunk that wrote it",
        )
        error.other_version = True
        raise error


def _read_flags(reader: Reader, label: str) -> dict[str, bytes]:
    return {reader.text("the name of a flag"): reader.raw("a flag") for _ in range(reader.map(label))}


def _read_files(reader: Reader, label: str) -> tuple[FileInfo, ...]:
    entry = f"an entry of {label}"
    return tuple([reader.struct(entry, FileInfo, _FILE) for _ in range(reader.array(label))])


def _read_history(reader: Reader, label: str) -> tuple[SnapshotInfo, ...]:
    return tuple([_read_info(reader, "an ancestor") for _ in range(reader.array(label))])


def _read_info(reader: Reader, label: str) -> SnapshotInfo:
    return reader.struct(label, SnapshotInfo, _INFO)


def _read_time(reader: Reader, label: str) -> int:
    offset = reader.at
    text = reader.text(label)
    time = parse_time(text)
    if time is None:
        raise reader.fail(f"{label} must be a time of RFC 3339 with a zone, found {text[:60]!r}", offset)
    return time


_INFO: Final[Fields] = {"id": read_id, "written_at": _read_time, "message": Reader.text}
_FILE: Final[Fields] = {"id": read_id, "format_version": Reader.u16}
_FIELDS: Final[Fields] = {
    "icechunk_snapshot_format_version": _read_version,
    "icechunk_snapshot_format_flags": _read_flags,
    "manifest_files": _read_files,
    "attribute_files": _read_files,
    "total_parents": Reader.u32,
    "short_term_parents": Reader.u16,
    "short_term_history": _read_history,
    "metadata": _read_info,
    "started_at": _read_time,
    "properties": Reader.members,
    "nodes": read_nodes,
}


def encode_and_index(
    snapshot: SnapshotFile, key: str | None = None, infos: dict[SnapshotInfo, Packed] | None = None
) -> tuple[bytes, SnapshotFile]:
    """The bytes of a snapshot file, and the snapshot as decoding them would return it: the next write copies its nodes. Raises InvalidInputError for what the
    format cannot hold.

    infos  a cache of ancestors from one snapshot to the next, which is extended
    A DIGEST_FLAG of NO_DIGEST gets its value here."""
    total = checked(snapshot.total_parents, _U32, "the number of ancestors")
    count = len(snapshot.history) & _U16  # the library of that time lets it wrap around, too
    packed = {} if infos is None else infos
    metadata, *history = [
        packed.get(info) or _packed_info(info, packed) for info in (snapshot.metadata, *snapshot.history)
    ]
    head = _pack_fields(
        [_packed_file(file) for file in snapshot.manifest_files],
        [_packed_file(file) for file in snapshot.attribute_files],
        total, count, history, metadata, emit_time(snapshot.started_at), snapshot.properties,
    )  # fmt: skip
    nodes = encode_nodes(snapshot.nodes)
    if snapshot.flags.get(DIGEST_FLAG) == NO_DIGEST:
        digest = _packed_digest(snapshot, head, nodes)
        snapshot = snapshot._replace(flags={**snapshot.flags, DIGEST_FLAG: digest})
    flags = {name: Packed(value) for name, value in snapshot.flags.items()}
    start = HEADS_OF_ARRAYS[len(_FIELDS)] + _pack_fields(FORMAT_VERSION, flags)
    data = b"".join((start, head, nodes))
    return data, snapshot._replace(nodes=index_nodes(snapshot.nodes, data, len(start) + len(head), key))


def _pack_fields(*values: object) -> bytes:
    """Some fields of a struct, one after the other."""
    return pack(values, DEPTH_LIMIT + 1)[1:]  # without the head of an array


def names_own_digest(snapshot: SnapshotFile) -> bool:
    """Whether a snapshot has a digest that was written for it: versions that do not know the flag copy that of the parent, with the parent's id."""
    return snapshot.flags.get(DIGEST_FLAG, b"")[:-CRC_BYTES] == _packed_digest(snapshot)[:-CRC_BYTES]


def differs_from_digest(snapshot: SnapshotFile, data: bytes) -> bool:
    """Whether a file of a snapshot that was written with a digest has none, or other bytes than were written."""
    reader = Reader(data, None)
    reader.array("a snapshot")
    _read_version(reader, "the version")
    _read_flags(reader, "the flags")
    return snapshot.flags.get(DIGEST_FLAG) != _packed_digest(snapshot, memoryview(data)[reader.at :])


def _packed_digest(snapshot: SnapshotFile, *parts: Buffer) -> bytes:
    """The value of the DIGEST_FLAG. parts: the bytes of the file after its flags"""
    crc = _kernel.crc32c(pack({name: Packed(value) for name, value in snapshot.flags.items() if name != DIGEST_FLAG}))
    for part in parts:
        crc = _kernel.crc32c(part, crc)
    return pack((encode_id(snapshot.metadata.id), crc.to_bytes(CRC_BYTES, "big")))


@lru_cache(_MOST_FILES)
def _packed_file(file: FileInfo) -> Packed:
    """Cached, as most files of a snapshot are those of the last one."""
    return pack((encode_id(file.id), checked(file.version, _U16, "the format version of a file")))


def _packed_info(info: SnapshotInfo, packed: dict[SnapshotInfo, Packed]) -> Packed:
    data = pack((encode_id(info.id), emit_time(info.written_at), info.message))
    if len(data) <= _SMALL_INFO:
        if len(packed) >= _MOST_INFOS:
            packed.clear()
        packed[info] = data
    return data
