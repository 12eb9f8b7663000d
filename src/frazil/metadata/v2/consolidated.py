"""Consolidated metadata of Zarr v2: copies of the documents of a group and of all nodes below it, in `.zmetadata`. Only their form, as in
metadata/v3/consolidated.py."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import InvalidInputError
from frazil.metadata.json_text import Json, member
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.members import check_object, refusal
from frazil.metadata.model import Metadata
from frazil.metadata.paths import check_lenient_name, join, normalise
from frazil.metadata.v2.documents import ARRAY, ATTRIBUTES, GROUP, NAMES, parse_node, read_document


def read_copies(consolidated: Mapping[str, Json]) -> dict[str, Json] | None:
    """The copies by their paths below the group: for each an object of its documents by name. None for another format than 1. Raises MetadataError for a bad
    key."""
    if consolidated.get("zarr_consolidated_format", 1) != 1:
        return None
    copies: dict[str, dict[str, Json]] = {}
    for key, document in check_object(consolidated.get("metadata"), "metadata").items():
        path, _, name = key.rpartition("/")
        check_object(document, member("metadata", key))
        try:
            plain = name in NAMES and normalise(path, check_lenient_name) == path
        except InvalidInputError:
            plain = False
        if not plain:
            raise refusal("metadata", "keys of documents as its members", key)
        if path:
            copies.setdefault(path, {})[name] = document
    return {path: copy for path, copy in copies.items() if ARRAY in copy or GROUP in copy}


def emit_copies(copies: Mapping[str, Json], own: Json = None) -> dict[str, Json]:
    """The `.zmetadata` with these copies. own: the documents of the group itself."""
    metadata: dict[str, Json] = {}
    for path, copy in {"": own or {GROUP: {"zarr_format": 2}}, **copies}.items():
        metadata.update({join(path, name): document for name, document in check_object(copy, None).items()})
    return {"metadata": metadata, "zarr_consolidated_format": 1}


def document_names() -> tuple[str, ...]:
    return NAMES


def copy_of(key: str, values: Mapping[str, bytes]) -> Json | None:
    if ARRAY not in values and GROUP not in values:
        return None
    above = key.removesuffix(ARRAY)
    return {name: read_document(value, above + name) for name, value in values.items()}


def is_group(copy: Json) -> bool:
    return isinstance(copy, dict) and ARRAY not in copy


def parse_copy(copy: Json, extensions: KnownExtensions, key: str) -> Metadata:
    documents = check_object(copy, None)
    name = ARRAY if ARRAY in documents else GROUP
    attributes = check_object(documents.get(ATTRIBUTES, {}), "attributes")
    return parse_node(check_object(documents[name], None), attributes, extensions, key.removesuffix(ARRAY) + name)
