"""Which keys are served: those that a hierarchy of Zarr has, by their form; and which documents the node of a chunk has. Pure.

A folder may hold other things beside a hierarchy (`.env`, `.git/config`, notes): none of these has such a name, but for some (`reports/2024`) that look like chunks.
Whether the node of a chunk is there, served_nodes.py looks up. What a request means is in requests.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from frazil.record import Record

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,18})"
_CHUNK: Final = re.compile(rf"c|c?{_NUMBER}(?:[./]{_NUMBER})*|c(?:[./]{_NUMBER})+")
_PART: Final = re.compile(rf"c|c?{_NUMBER}(?:\.{_NUMBER})*|c(?:\.{_NUMBER})+")  # of a chunk's key, between slashes
_V2_DOCUMENTS: Final = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_DRAFT_DOCUMENT: Final = re.compile(r"(?:.*/)?meta/(?:.*/)?(?:[^/]+\.)?(?:array|group)(?:\.[A-Za-z0-9_-]+)*", re.DOTALL)
# a hierarchy of which a path below meta/ is served has its documents without that part
_DRAFT_NODE: Final = re.compile(r"(?:.*/)?(?:[^/]+\.)?(?:array|group)\.json", re.DOTALL)


def is_served(key: str) -> bool:
    """Whether a key is one of a hierarchy of Zarr: a document (zarr.json; .zarray, .zgroup, .zattrs, .zmetadata; of the draft NAME.array.json and NAME.group.json, below
    meta/ with any suffix), or a chunk or shard under the encodings "default" and "v2" and those of the draft (c/0/1, c.0.1, 0.1, 0/1, c0/1, c). No part of it
    begins with a dot, but for the documents of Zarr v2."""
    *parts, name = key.split("/")
    if any(part.startswith(".") for part in parts):
        return False
    if name.startswith("."):
        return name in _V2_DOCUMENTS
    return _is_document(key) or any(True for _ in _chunk_nodes(key))


def chunk_documents(key: str) -> tuple[str, ...]:
    """The documents of which one is there if a key is a chunk's, of Zarr v3 and v2: those of all nodes that could have such a chunk ("a/1/0" may be chunk 1/0 of "a", or
    chunk 0 of "a/1"). None for the key of a document."""
    if _is_document(key):
        return ()
    return tuple(node + name for node in _chunk_nodes(key) for name in ("zarr.json", ".zarray"))


class DraftNode(Record):
    """A node of the draft. root: the prefix of the hierarchy, "" or ending in "/"; path: below data/, without a slash at the end."""

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
                nodes.append(DraftNode(root, "/".join(parts[i + 1 :])))
    return nodes


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
        if _CHUNK.fullmatch(key, at) is not None:
            yield key[:at]
        elif _PART.fullmatch(key[at:].partition("/")[0]) is None:
            return
        at -= 1
