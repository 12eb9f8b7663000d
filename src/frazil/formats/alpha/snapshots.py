"""Snapshot files <-> values (Icechunk specification, Snapshot Files; one MessagePack array of eleven, as the library of that time wrote it).

The nodes in them live in nodes.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.errors import FormatError
from frazil.formats.alpha.nodes import Nodes, index_nodes, read_id
from frazil.formats.ids import ObjectId, encode_id
from frazil.formats.msgpack import (
    Json,
    Reader,
    write_array,
    write_integer,
    write_map,
    write_natural,
    write_text,
    write_value,
)
from frazil.formats.times import emit_time, parse_time
from frazil.record import Record

__all__ = [
    "FORMAT_VERSION",
    "FileInfo",
    "Snapshot",
    "SnapshotInfo",
    "check_format",
    "decode_snapshot",
    "encode_and_index",
    "encode_snapshot",
]

FORMAT_VERSION: Final = 0

_U16: Final = 2**16 - 1
_U32: Final = 2**32 - 1
_FIELDS: Final = (
    *("icechunk_snapshot_format_version", "icechunk_snapshot_format_flags", "manifest_files", "attribute_files"),
    *("total_parents", "short_term_parents", "short_term_history", "metadata", "started_at", "properties", "nodes"),
)
_INFO: Final = ("id", "written_at", "message")
_FILE: Final = ("id", "format_version")
_SMALL_INFO, _MOST_INFOS = 2**10, 2**8  # bytes of one that is remembered, and how many are
# how files of later versions begin
_STARTS: Final = (
    ("ICE🧊CHUNK".encode(), "by Icechunk 0.1.0-alpha.10 or later, with a header before it"),
    (b"\x28\xb5\x2f\xfd", "by Icechunk 0.1.0-alpha.9, compressed with zstd"),
)


class SnapshotInfo(Record):
    """What a commit says of itself. written_at: nanoseconds since 1970 in UTC"""

    id: ObjectId
    written_at: int
    message: str


class FileInfo(Record):
    """A manifest or attribute file that a snapshot lists. version: of the file's format"""

    id: ObjectId
    version: int = FORMAT_VERSION


class Snapshot(Record):
    """One snapshot file.

    metadata         its own id, time and message; of a repository's first snapshot the file has another id than this one
    started_at       nanoseconds since 1970 in UTC
    history          ancestors, the nearest first; fewer than total_parents where it was bounded
    manifest_files   and attribute_files: what it refers to, in the order of the file
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
    """Refuses files that later versions of Icechunk wrote, by name, and empty ones. Raises FormatError."""
    if not data:
        raise FormatError("the file is empty", key=key, hint="its writer was interrupted; restore it from a copy")
    for start, by in _STARTS:
        if data.startswith(start):
            raise FormatError(f"the file was written {by}; that format is not read here, at byte 0", key=key)


def decode_snapshot(data: bytes, key: str | None = None) -> Snapshot:
    """Reads a snapshot file; its nodes are found, but decoded when they are asked for. Raises FormatError, with `key` and the byte, for what breaks the
    format outside a node, and for another version of it."""
    check_format(data, key)
    reader = Reader(data, key)
    places = reader.struct("a snapshot", _FIELDS)
    reader.go(places, 0)
    read_version(reader, "a snapshot")
    reader.go(places, 1)
    flags = {
        reader.text("the name of a flag"): reader.raw("a flag") for _ in range(reader.map("the flags of a snapshot"))
    }
    reader.go(places, 2)
    manifests = _read_files(reader, "manifest_files")
    reader.go(places, 3)
    attributes = _read_files(reader, "attribute_files")
    reader.go(places, 4)
    total = reader.integer("total_parents", 0, _U32)
    reader.go(places, 5)
    reader.integer("short_term_parents", 0, _U16)
    reader.go(places, 6)
    history = tuple([_read_info(reader, "an ancestor") for _ in range(reader.array("short_term_history"))])
    reader.go(places, 7)
    metadata = _read_info(reader, "the metadata of a snapshot")
    reader.go(places, 8)
    started = _read_time(reader, "started_at")
    reader.go(places, 9)
    properties = reader.members("properties")
    reader.go(places, 10)
    count = reader.map("the nodes of a snapshot")
    nodes, reader.at = index_nodes(data, reader.at, count, key)
    nodes.check_ids()
    reader.go(places, -1)
    reader.finish("the snapshot")
    return Snapshot(metadata, started, history, total, manifests, attributes, flags, properties, nodes)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The bytes of a snapshot file; nodes that were decoded and not changed are copied. Raises InvalidInputError for what the format cannot hold."""
    out = bytearray()
    _write_head(out, snapshot)
    snapshot.nodes.write(out)
    return bytes(out)


def encode_and_index(
    snapshot: Snapshot, key: str | None = None, infos: dict[SnapshotInfo, bytes] | None = None
) -> tuple[bytes, Snapshot]:
    """The bytes of a snapshot file, and the snapshot as decoding them would give it: what is written next copies its nodes. Raises what encode_snapshot raises.

    infos  what is remembered of ancestors from one snapshot to the next, to be added to"""
    out = bytearray()
    _write_head(out, snapshot, infos)
    data = b"".join((out, snapshot.nodes.encoded()))
    return data, snapshot._replace(nodes=snapshot.nodes.indexed(data, len(out), key))


def _write_head(out: bytearray, snapshot: Snapshot, infos: dict[SnapshotInfo, bytes] | None = None) -> None:
    """Everything before the nodes."""
    write_array(out, len(_FIELDS))
    write_integer(out, FORMAT_VERSION)
    write_map(out, len(snapshot.flags))
    for name, value in snapshot.flags.items():
        write_text(out, name)
        out += value
    for files in (snapshot.manifest_files, snapshot.attribute_files):
        write_array(out, len(files))
        for file, version in files:
            write_array(out, len(_FILE))
            write_text(out, encode_id(file))
            write_natural(out, version, _U16, "the format version of a file")
    write_natural(out, snapshot.total_parents, _U32, "the number of ancestors")
    write_integer(out, len(snapshot.history) & _U16)  # the library of that time lets it wrap around, too
    write_array(out, len(snapshot.history))
    for info in (*snapshot.history, snapshot.metadata):
        known = None if infos is None else infos.get(info)
        out += _write_info(info, infos) if known is None else known
    write_text(out, emit_time(snapshot.started_at))
    write_value(out, snapshot.properties)


def _write_info(info: SnapshotInfo, infos: dict[SnapshotInfo, bytes] | None) -> bytes:
    out = bytearray()
    write_array(out, len(_INFO))
    write_text(out, encode_id(info.id))
    write_text(out, emit_time(info.written_at))
    write_text(out, info.message)
    data = bytes(out)
    if infos is not None and len(data) <= _SMALL_INFO:
        if len(infos) >= _MOST_INFOS:
            infos.clear()
        infos[info] = data
    return data


def read_version(reader: Reader, what: str) -> None:
    """Reads the version of a file's format. Raises FormatError for one that is not known."""
    place = reader.at
    version = reader.integer(f"the format version of {what}", 0, _U16)
    if version != FORMAT_VERSION:
        raise reader.fail(
            f"{what} has the format version {version}; only version {FORMAT_VERSION} is read here",
            place,
            hint="read it with the version of Icechunk that wrote it",
        )


def _read_files(reader: Reader, what: str) -> tuple[FileInfo, ...]:
    files: list[FileInfo] = []
    for _ in range(reader.array(what)):
        places = reader.struct(f"an entry of {what}", _FILE)
        reader.go(places, 0)
        file = read_id(reader, f"an id in {what}")
        reader.go(places, 1)
        files.append(FileInfo(file, reader.integer(f"a version in {what}", 0, _U16)))
        reader.go(places, -1)
    return tuple(files)


def _read_info(reader: Reader, what: str) -> SnapshotInfo:
    places = reader.struct(what, _INFO)
    reader.go(places, 0)
    snapshot = read_id(reader, f"the id of {what}")
    reader.go(places, 1)
    written = _read_time(reader, f"the time of {what}")
    reader.go(places, 2)
    message = reader.text(f"the message of {what}")
    reader.go(places, -1)
    return SnapshotInfo(snapshot, written, message)


def _read_time(reader: Reader, what: str) -> int:
    place = reader.at
    text = reader.text(what)
    time = parse_time(text)
    if time is None:
        raise reader.fail(f"{what} must be a time of RFC 3339 with a zone, found {text[:60]!r}", place)
    return time
