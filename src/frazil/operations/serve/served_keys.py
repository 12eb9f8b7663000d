"""Decides by their form which keys are served: those of a hierarchy of Zarr. Also gives the documents of the node of a chunk, and the keys of the chunks of an
array. Pure.

A folder may hold other files beside a hierarchy (`.env`, `.git/config`, notes). None of them has such a name, except for some that look like chunks
(`reports/2024`). served_nodes.py reads the documents, requests.py parses requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from frazil.base.record import Record
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.grids.chunk_keys import (
    SEPARATORS,
    SUFFIX,
    ChunkKeyEncoding,
    DefaultKeys,
    SeparatedKeys,
    SuffixedKeys,
    V2Keys,
    is_suffix,
)

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,18})"
_CHUNK: Final = re.compile(rf"c|c?{_NUMBER}(?:[./]{_NUMBER})*|c(?:[./]{_NUMBER})+")
_SUFFIXED: Final = re.compile(rf"c(?:[./]{_NUMBER})*{SUFFIX}")
_LAST: Final = re.compile(rf"{_NUMBER}(?:{SUFFIX})?")  # the part behind the last slash of such a key
_PART: Final = re.compile(rf"c|c?{_NUMBER}(?:\.{_NUMBER})*|c(?:\.{_NUMBER})+")  # of a chunk's key, between slashes
_V2_DOCUMENTS: Final = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_DRAFT_DOCUMENT: Final = re.compile(r"(?:.*/)?meta/(?:.*/)?(?:[^/]+\.)?(?:array|group)(?:\.[A-Za-z0-9_-]+)*", re.DOTALL)
# if a path below meta/ is served, the documents of the hierarchy are without that part
_DRAFT_NODE: Final = re.compile(r"(?:.*/)?(?:[^/]+\.)?(?:array|group)\.json", re.DOTALL)


def is_served(key: str) -> bool:
    """Whether a key is one of a hierarchy of Zarr: a document (zarr.json; .zarray, .zgroup, .zattrs, .zmetadata; of the draft NAME.array.json and
    NAME.group.json, below meta/ with any suffix), or a chunk or shard under the encodings "default", "v2" and "zarrs.default_suffix" and those of the draft
    (c/0/1, c.0.1, 0.1, 0/1, c/0/1.tiff, c0/1, c). No part of it begins with a dot, except for the documents of Zarr v2."""
    *parts, name = key.split("/")
    if any(part.startswith(".") for part in parts):
        return False
    if name.startswith("."):
        return name in _V2_DOCUMENTS
    return _is_document(key) or any(True for _ in _chunk_nodes(key))


def chunk_documents(key: str) -> tuple[str, ...]:
    """The documents of all nodes, of Zarr v3 and v2, that could have a chunk with this key ("a/1/0" may be chunk 1/0 of "a", or chunk 0 of "a/1"); one of them
    exists if it is a chunk. Empty for the key of a document."""
    if _is_document(key):
        return ()
    return tuple(node + name for node in _chunk_nodes(key) for name in ("zarr.json", ".zarray"))


class DraftNode(Record):
    """A node of the draft. prefix: of its chunks; root: the prefix of the hierarchy; both "" or ending in "/"; path: below data/, without a slash at the
    end."""

    prefix: str
    root: str
    path: str

    @property
    def entry(self) -> str:
        return f"{self.root}zarr.json"

    def documents(self, suffix: str) -> list[str]:
        """The keys that the document may have; in the older dialect it is below meta/root, and the chunks below data/root or data/."""
        names = (f"{self.path}.", f"root/{self.path}.") if self.path else ("", "root.")
        return [f"{self.root}meta/{name}array{suffix}" for name in names]


def draft_nodes(key: str) -> list[DraftNode]:
    """The nodes of the draft that could have a chunk with this key."""
    nodes: list[DraftNode] = []
    for node in _chunk_nodes(key):
        parts = node.split("/")[:-1]
        for i, part in enumerate(parts):
            if part == "data":
                root = "".join(f"{above}/" for above in parts[:i])
                nodes.append(DraftNode(node, root, "/".join(parts[i + 1 :])))
    return nodes


class ArrayKeys(Record):
    """The keys of the chunks of an array, without its prefix. encodings: each key has one of them; empty if the document names no encoding known here: then any
    key of the form of a chunk may be one."""

    encodings: tuple[ChunkKeyEncoding, ...]
    ndim: int

    def has(self, key: str) -> bool:
        if not self.encodings:
            return _CHUNK.fullmatch(key) is not None
        return any(encoding.decode(key, self.ndim) is not None for encoding in self.encodings)


def array_keys(document: str, value: bytes) -> ArrayKeys | None:
    """The keys of the array with this document; None for the document of a group. document: its key, as from chunk_documents and DraftNode.documents."""
    members, name = json_members(value), document.rpartition("/")[2]
    if name == "zarr.json" and members.get("node_type") != "array":
        return None
    shape = members.get("shape")
    if not isinstance(shape, list):
        return ArrayKeys((), 0)
    if name == "zarr.json":
        return ArrayKeys(_final_encodings(members.get("chunk_key_encoding")), len(shape))
    if name == ".zarray":
        return ArrayKeys(_with_separator(V2Keys, members.get("dimension_separator")), len(shape))
    grid = members.get("chunk_grid")
    if not isinstance(grid, dict) or "extension" in grid:
        return ArrayKeys((), 0)
    separator = grid.get("separator")
    prototype = _with_separator(V2Keys, None) if separator is None else ()
    return ArrayKeys((*_with_separator(DraftKeys, separator), *prototype), len(shape))


def json_members(document: bytes) -> dict[str, object]:
    """The members of a JSON object; empty for any other document."""
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _final_encodings(entry: object) -> tuple[ChunkKeyEncoding, ...]:
    name = entry.get("name") if isinstance(entry, dict) else entry
    configuration = entry.get("configuration") if isinstance(entry, dict) else None
    separator = configuration.get("separator") if isinstance(configuration, dict) else None
    for kind in (DefaultKeys, V2Keys):
        if name == kind.name:
            return _with_separator(kind, kind.default_separator if separator is None else separator)
    if name == SuffixedKeys.name and isinstance(configuration, dict) and separator in (None, *SEPARATORS):
        suffix = configuration.get("suffix")
        return (SuffixedKeys(suffix, separator),) if isinstance(suffix, str) and is_suffix(suffix) else ()
    return ()


def _with_separator(kind: type[SeparatedKeys], separator: object) -> tuple[SeparatedKeys, ...]:
    """An encoding with this separator; with each possible one if none is given, as writers of Zarr v2 left it out."""
    return tuple(kind(candidate) for candidate in SEPARATORS if separator is None or candidate == separator)


def _is_document(key: str) -> bool:
    name = key.rpartition("/")[2]
    if name == "zarr.json" or name in _V2_DOCUMENTS:
        return True
    return any(form.fullmatch(key) is not None for form in (_DRAFT_DOCUMENT, _DRAFT_NODE))


def _chunk_nodes(key: str) -> Iterator[str]:
    """The prefixes, "" or ending in "/", of the nodes that could have a chunk with this key."""
    at = len(key)
    while at > 0:
        at = key.rfind("/", 0, at) + 1
        part, below, _ = key[at:].partition("/")
        if _CHUNK.fullmatch(key, at) is not None or _SUFFIXED.fullmatch(key, at) is not None:
            yield key[:at]
        elif (_PART if below else _LAST).fullmatch(part) is None:
            return
        at -= 1
