"""From metadata to documents of the 2022 draft, in both dialects; parser.py does the reverse. Members that a dialect cannot express are refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import MetadataError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.draft.codec_chain import attributes_with, emit_chain, is_filters
from frazil.metadata.draft.fill_values import emit_fill
from frazil.metadata.draft.transformers import emit_shards, without_shards
from frazil.metadata.draft.types import check_units, emit_type, states_order
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import SeparatedKeys
from frazil.metadata.json_text import Json, as_json
from frazil.metadata.members import json_object
from frazil.metadata.model import ArrayMetadata, GroupMetadata


def emit_group(metadata: GroupMetadata) -> dict[str, Json]:
    """The document of a group: its attributes, and the other members of the document that was read."""
    if metadata.consolidated is not None:
        raise MetadataError(
            "consolidated_metadata cannot be expressed in the draft of 2022, whose groups have only attributes",
            path="consolidated_metadata",
        )
    return {"attributes": as_json(metadata.attributes, "attributes"), **json_object(metadata.unknown, None)}


def emit_array(metadata: ArrayMetadata, *, old: bool) -> dict[str, Json]:
    """The document of an array: the one that was read, with its current shape and attributes and the members that were missing; or a new one."""
    if metadata.document is not None:
        return _rewritten(metadata, metadata.document, old)
    _refuse_inexpressible(metadata)
    grid, keys = metadata.chunk_grid, metadata.chunk_key_encoding
    if not isinstance(grid, RegularGrid):
        raise MetadataError("only regular chunk grids can be written in the draft of 2022", path="chunk_grid")
    if not isinstance(keys, DraftKeys):
        raise MetadataError(
            f"the draft of 2022 has chunk keys of its own, not {keys.extension().name}", path="chunk_key_encoding"
        )
    chain, chunk, shards = without_shards(metadata.codecs, grid.chunk_shape)
    data_type = metadata.data_type
    check_units(data_type)
    stated = states_order(emit_type(data_type, big=False, old=old))
    emitted = emit_chain(chain, ndim=metadata.ndim, itemsize=data_type.itemsize, old=old, endian_codec=not stated)
    attributes = json_object(metadata.attributes, "attributes")
    document: dict[str, Json] = {
        "shape": list(metadata.shape),
        "data_type": emit_type(data_type, emitted.big, old=old),
        "chunk_grid": {"type": "regular", "chunk_shape": list[Json](chunk), "separator": keys.separator},
        "chunk_memory_layout": emitted.layout,
        "fill_value": emit_fill(metadata.fill_value, data_type, old=old, big=emitted.big),
        "extensions": [],
        "attributes": attributes_with(attributes, emitted.filters) if old else attributes,
    }
    if emitted.compressor is not None:
        document["compressor"] = emitted.compressor
    if emitted.codecs:
        document["codecs"] = emitted.codecs
    transformers = emit_shards(shards, old=old) + [
        {"extension": other.name, **other.configuration} for other in metadata.storage_transformers
    ]
    if transformers:
        document["storage_transformers"] = transformers
    return document


def _rewritten(metadata: ArrayMetadata, read: Mapping[str, Json], old: bool) -> dict[str, Json]:
    """The document that was read, with the shape and attributes of `metadata`, and members that the draft requires: a fixed value in place of a null or absent
    fill value, the separator of a regular grid, an empty list of extensions. Raises MetadataError for chunks of length 0 in an array with elements."""
    document = json_object(read, None)
    attributes = json_object(metadata.attributes, "attributes")
    before = document.get("attributes")
    if old:
        filters = before.get("filters") if isinstance(before, dict) else None
        attributes = attributes_with(attributes, filters if is_filters(filters) else None)
    if document.get("fill_value") is None:  # every bit is 0, so the byte order does not matter
        document["fill_value"] = emit_fill(metadata.fill_value, metadata.data_type, old=old)
    document.setdefault("extensions", [])
    document["chunk_grid"] = _grid_written_out(metadata, document["chunk_grid"])
    return {**document, "shape": list(metadata.shape), "attributes": attributes}


def _grid_written_out(metadata: ArrayMetadata, grid: Json) -> Json:
    """The grid of a document with its separator. Grids of extensions, and those of prototypes, whose keys have another form, stay as they are."""
    if not isinstance(grid, dict) or "extension" in grid:
        return grid
    lengths = grid.get("chunk_shape", [])
    if isinstance(lengths, list) and any(n and e == 0 for n, e in zip(metadata.shape, lengths, strict=False)):
        raise MetadataError(
            f"an array with chunks of length 0 cannot grow to {list(metadata.shape)}",
            path="chunk_grid.chunk_shape",
            hint="create it again with longer chunks",
        )
    keys = metadata.chunk_key_encoding
    return {**grid, "separator": keys.separator} if isinstance(keys, DraftKeys) else grid


def _refuse_inexpressible(metadata: ArrayMetadata) -> None:
    if metadata.dimension_names is not None:
        raise MetadataError(
            "dimension_names cannot be expressed in the draft of 2022, which allows no members but its own",
            path="dimension_names",
            hint="keep them as an attribute",
        )
    for name in metadata.unknown:
        raise MetadataError(
            f"{name} cannot be expressed in the draft of 2022, which allows no members but its own", path=name
        )


def draft_keys(keys: object, *, old: bool) -> DraftKeys:
    """The draft's chunk keys with the separator of another encoding."""
    return DraftKeys(keys.separator if isinstance(keys, SeparatedKeys) else "/", old)
