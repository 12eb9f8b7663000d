"""Consolidated metadata of the final dialect: copies of the documents below a group, inline in its zarr.json (Zarr v3.1 core, Group metadata).

Only their form. array/hierarchy/consolidated.py finds the nodes, and whether copies are stale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.errors import InvalidInputError
from frazil.metadata.json_text import Json, member
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import check_object, refusal
from frazil.metadata.model import Metadata
from frazil.metadata.paths import normalise
from frazil.metadata.v3.documents import DOCUMENT_NAME, parse_node, read_document

_MEMBER: Final = "consolidated_metadata"


def read_copies(consolidated: Mapping[str, Json]) -> dict[str, Json] | None:
    """The copies by their paths below the group; None for another kind than "inline". Raises MetadataError for a bad path, or a value that is not an object."""
    if consolidated.get("kind", "inline") != "inline":
        return None
    copies = check_object(consolidated.get("metadata"), f"{_MEMBER}.metadata")
    for path, copy in copies.items():
        check_object(copy, member(f"{_MEMBER}.metadata", path))
        try:
            plain = normalise(path) == path != ""
        except InvalidInputError:
            plain = False
        if not plain:
            raise refusal(f"{_MEMBER}.metadata", "paths of nodes as its members", path)
    return copies


def emit_copies(copies: Mapping[str, Json]) -> dict[str, Json]:
    """The member `consolidated_metadata` with these copies. Groups in it have an empty member of their own, as zarr-python writes them."""
    metadata: dict[str, Json] = {}
    for path, copy in copies.items():
        document = dict(check_object(copy, None))
        if is_group(copy):
            document[_MEMBER] = _inline({})
        metadata[path] = document
    return _inline(metadata)


def _inline(metadata: dict[str, Json]) -> dict[str, Json]:
    return {"kind": "inline", "must_understand": False, "metadata": metadata}


def document_names() -> tuple[str, ...]:
    """The names of the documents of a node."""
    return (DOCUMENT_NAME,)


def copy_of(key: str, values: Mapping[str, bytes]) -> Json | None:
    """The copy of the node with these documents by name; None if it has none. Raises MetadataError with the key, which is that of the first name."""
    return read_document(values[DOCUMENT_NAME], key) if DOCUMENT_NAME in values else None


def is_group(copy: Json) -> bool:
    return isinstance(copy, dict) and copy.get("node_type") == "group"


def parse_copy(copy: Json, extensions: KnownExtensions, key: str) -> Metadata:
    """The node of a copy. Raises MetadataError, UnknownExtensionError, with the key."""
    return parse_node(copy, extensions.metadata, key=key)
