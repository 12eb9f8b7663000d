"""Which keys are served: those that a hierarchy of Zarr has, by their form. Pure.

A folder may hold other things beside a hierarchy (`.env`, `.git/config`, notes): none of these has such a name. What a request means is in requests.py."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_served"]

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,18})"
_CHUNK: Final = re.compile(
    rf"(?:.*/)?(?:c|c?{_NUMBER}(?:[./]{_NUMBER})*|c(?:[./]{_NUMBER})+)",
    re.DOTALL,
)
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
    if name == "zarr.json":
        return True
    return any(form.fullmatch(key) is not None for form in (_CHUNK, _DRAFT_DOCUMENT, _DRAFT_NODE))
