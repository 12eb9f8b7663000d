"""Compares attributes of nodes as JSON, in snapshots or in attribute files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from frazil.formats.json_values import Json, same_json
from frazil.formats.nodes import AttributesReference
from frazil.repository.format import RepositoryFormat

Attributes: TypeAlias = "Mapping[str, Json] | AttributesReference | None"


def same_attributes(files: RepositoryFormat, left: Attributes, right: Attributes) -> bool:
    """Whether attributes are the same JSON; no attributes equal {}. Raises NotFoundError and FormatError for an attribute file that is needed and cannot be
    read."""
    if isinstance(left, AttributesReference) and left == right:
        return True
    ours, theirs = (
        files.attributes(attributes.id, attributes.location)
        if isinstance(attributes, AttributesReference)
        else attributes or {}
        for attributes in (left, right)
    )
    return same_json(ours, theirs)


def same_stored_attributes(left: Attributes, right: Attributes) -> bool:
    """As same_attributes, but without reading: attributes in files are compared by their location only."""
    if isinstance(left, AttributesReference) or isinstance(right, AttributesReference):
        return left == right
    return left is right or same_json(left or {}, right or {})
