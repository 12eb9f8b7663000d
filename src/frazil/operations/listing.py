"""Lists the entries directly below a location, or all below it: nodes of a hierarchy, or keys and folders if there is none. No element is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from frazil.array.array import Array
from frazil.array.group import Group, as_node
from frazil.array.hierarchy.members import nodes_below
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.hierarchy.repository_locations import MAIN_FILES
from frazil.array.hierarchy.root import locate
from frazil.base.record import Record
from frazil.base.reports import counted, extents_text, human
from frazil.base.threads import Threads
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import DataError, FrazilError, InvalidInputError, one_line
from frazil.metadata.json_text import Json, known_members
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.runtime import DEFAULT
from frazil.stores.store import Store

_AT_ONCE: Final = 16  # folders whose nodes are looked up in a bucket
Kind = Literal["array", "group", "repository", "folder", "key", "unreadable"]


class Entry(Record):
    """name: below the location, unchanged for a key or folder; shape, data_type, chunks, shards: of an array; objects, nbytes: stored, if sizes were requested
    (for a key its bytes); reason: why a node cannot be read."""

    name: str
    kind: Kind
    shape: tuple[int, ...] | None = None
    data_type: str | None = None
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | None = None
    objects: int | None = None
    nbytes: int | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Members that are not None."""
        return known_members(self._asdict())


def entries_of_node(node: Array | Group, *, recursive: bool = False, sizes: bool = False) -> Iterator[Entry]:
    """The members of a group, sorted; for an array the array itself, with the name "". Raises StoreError."""
    if isinstance(node, Array):
        yield _entry("", node.metadata, node._location, sizes)
        return
    above = len(node.path) + (node.path != "")
    for path, metadata in nodes_below(node._location, None if recursive else 0):
        yield _entry(path[above:], metadata, node._location.at(path), sizes)


def entries_of_prefix(store: Store, prefix: str, *, recursive: bool = False, sizes: bool = False) -> Iterator[Entry]:
    """For a location without a node: arrays, groups, repositories and folders directly below, and keys; recursive: all keys. Raises StoreError."""
    keys: list[Entry] = []
    for page in store.list_pages(prefix, delimited=not recursive, details=sizes):
        nbytes = [None] * len(page.keys) if page.sizes is None else page.sizes.tolist()
        folders = [row for row in page.keys if row[-1] == "/"]
        with Threads(0 if store.capabilities.direct else min(len(folders), _AT_ONCE), "frazil folders") as threads:
            yield from threads.map(lambda folder: _folder(store, prefix, folder, sizes), folders)
        for row, size in zip(page.keys, nbytes, strict=True):
            if row[-1] != "/":
                keys.append(Entry(row[len(prefix) :], "key", nbytes=size))
        if recursive:
            yield from keys
            keys.clear()
    yield from keys


def _entry(name: str, metadata: Metadata | FrazilError, location: NodeLocation, sizes: bool) -> Entry:
    if isinstance(metadata, FrazilError):
        return Entry(name, "unreadable", reason=metadata.message)
    if not isinstance(metadata, ArrayMetadata):
        return Entry(name, "group")
    label = metadata.data_type.label
    try:
        node = as_node(location, metadata)
        assert isinstance(node, Array)
        entry = Entry(name, "array", node.shape, label, node.chunks, node.shards)
        if not sizes:
            return entry
        info = node.info
        return entry._replace(objects=info.stored_objects, nbytes=info.stored_nbytes)
    except (InvalidInputError, DataError) as error:
        return Entry(name, "unreadable", metadata.shape, label, reason=error.message)


def _folder(store: Store, prefix: str, folder: str, sizes: bool) -> Entry:
    name = folder[len(prefix) :]
    try:
        location, metadata = locate(NodeLocation(store, folder[:-1], DEFAULT_REGISTRY, DEFAULT), "")
    except (InvalidInputError, DataError) as error:
        return Entry(name[:-1], "unreadable", reason=error.message)
    if metadata is not None:
        return _entry(name[:-1], metadata, location, sizes)
    return Entry(name, "folder") if store.is_empty(folder + MAIN_FILES) else Entry(name[:-1], "repository")


def lines(entries: list[Entry]) -> list[str]:
    """Entries in columns, one line each. Pure."""
    rows = [_cells(entry) for entry in entries]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(6)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width).rstrip() for row in rows
    ]


def _cells(entry: Entry) -> tuple[str, str, str, str, str, str]:
    name = one_line(entry.name) or "."
    if entry.kind == "group":
        name += "/"
    chunks = "" if entry.chunks is None else f"chunks {extents_text(entry.chunks)}"
    if entry.shards is not None:
        chunks += f" in shards {extents_text(entry.shards)}"
    stored = "" if entry.nbytes is None else human(entry.nbytes)
    if entry.objects is not None:
        stored += f" in {counted(entry.objects, 'shard' if entry.shards else 'chunk')}"
    shape = "" if entry.shape is None else extents_text(entry.shape)
    return name, entry.kind, shape, entry.data_type or "", chunks, one_line(entry.reason or "") or stored
