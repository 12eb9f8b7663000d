"""The final dialect: Zarr v3.1 core, `zarr.json` of an array or a group, and the keys of a node.

Strict: values that the specification does not allow are refused. The error names the member, the value and the allowed values."""

from __future__ import annotations

from typing import Final, TypeAlias

from frazil.errors import FrazilError, MetadataError
from frazil.metadata.extensions import Extension, parse_extension, parse_extensions
from frazil.metadata.json_text import Json, as_plain, copied, dump_json, found, item, parse_json
from frazil.metadata.members import Members, check_integers, check_object, json_object, refusal
from frazil.metadata.model import ArrayMetadata, GroupMetadata, NodeMetadata
from frazil.metadata.registry import CORE_EXTENSIONS, MetadataExtensions

Document: TypeAlias = "bytes | bytearray | memoryview | Json"
DOCUMENT_NAME: Final = "zarr.json"
_FREE: Final = frozenset({"attributes", "consolidated_metadata"})  # other programs write NaN without quotes there


def document_key(path: str) -> str:
    """The key of the document of the node at a normalised path."""
    return f"{path}/{DOCUMENT_NAME}" if path else DOCUMENT_NAME


def data_prefix(path: str) -> str:
    """The prefix of the chunks of the array at a normalised path: "" for the root."""
    return f"{path}/" if path else ""


def read_document(value: bytes, key: str) -> Json:
    """The JSON value of a zarr.json, of the final dialect or of the draft. Raises MetadataError with the key."""
    try:
        return parse_json(value, free=_FREE)
    except MetadataError as error:
        error.key = key
        raise


def is_draft_entry(value: Json) -> bool:
    """Whether a zarr.json is the entry point of a hierarchy of the draft: the final documents have a number for `zarr_format`, the draft's a URI."""
    return isinstance(value, dict) and isinstance(value.get("zarr_format"), str)


def parsed_before(text: bytes, extensions: MetadataExtensions) -> ArrayMetadata | GroupMetadata | None:
    """The node of a document that was parsed with the same extensions object, with a copy of the attributes; None if it is not cached."""
    cached = extensions.parsed.get(text, NodeMetadata)
    if cached is None:
        return None
    node = cached.with_plain_attributes(copied(dict(cached.attributes)))
    assert isinstance(node, (ArrayMetadata, GroupMetadata))
    return node


def parse_node(
    document: Document,
    extensions: MetadataExtensions = CORE_EXTENSIONS,
    *,
    key: str | None = None,
    text: bytes | None = None,
) -> ArrayMetadata | GroupMetadata:
    """The metadata of an array or a group. The nodes of some documents are cached.

    document  UTF-8 JSON text, or the value read from it
    key       of the document, for messages
    text      the text that a value was read from; nothing else uses the value then, which may be changed
    Raises MetadataError, with the member in `path`, for an invalid document; UnknownExtensionError for an extension that is not registered."""
    if isinstance(document, bytes):
        text = document
        cached = parsed_before(text, extensions)
        if cached is not None:
            return cached
    node = _parse(document, extensions, key, own=text is not None)
    if text is not None:
        remember_node(text, node, extensions)
    return node


def remember_node(text: bytes, node: ArrayMetadata | GroupMetadata, extensions: MetadataExtensions) -> None:
    """Caches the node of a document."""
    extensions.parsed.put(text, node.with_plain_attributes(copied(dict(node.attributes))))


def _parse(
    document: Document, extensions: MetadataExtensions, key: str | None, *, own: bool
) -> ArrayMetadata | GroupMetadata:
    """own: whether a document that is a value may be changed"""
    try:
        own = own or isinstance(document, bytearray | memoryview)
        value = parse_json(document, free=_FREE) if isinstance(document, bytes | bytearray | memoryview) else document
        members = Members(check_object(value, None), None)
        _check_format(members.get("zarr_format"))
        if members.choice("node_type", ("array", "group")) == "array":
            return _read_array(members, extensions, own)
        return _read_group(members, own)
    except FrazilError as error:
        if error.key is None:
            error.key = key
        raise


def _check_format(value: Json) -> None:
    if isinstance(value, str):
        raise refusal(
            "zarr_format",
            "the integer 3",
            value,
            hint="a URI here is the entry point of a hierarchy of the draft of 2022: open it at this location, as a hierarchy of its own",
        )
    if isinstance(value, bool) or not isinstance(value, int) or value != 3:
        raise refusal("zarr_format", "the integer 3", value)


def _read_array(members: Members, extensions: MetadataExtensions, own: bool) -> ArrayMetadata:
    shape = check_integers(members.get("shape"), "shape", low=0)
    data_type = extensions.data_type(_essential(members, "data_type"), "data_type")
    chunk_grid = extensions.chunk_grid(_essential(members, "chunk_grid"), "chunk_grid")
    keys = extensions.chunk_key_encoding(_essential(members, "chunk_key_encoding"), "chunk_key_encoding")
    fill_value = data_type.parse_fill(members.get("fill_value"), "fill_value")
    codecs = parse_extensions(members.get("codecs"), "codecs")
    attributes = members.object("attributes", {})
    node = ArrayMetadata(
        shape=shape,
        data_type=data_type,
        fill_value=fill_value,
        chunk_grid=chunk_grid,
        chunk_key_encoding=keys,
        codecs=codecs,
        dimension_names=_read_dimension_names(members),
        storage_transformers=parse_extensions(members.array("storage_transformers", []), "storage_transformers"),
        unknown=_read_unknown(members),
    )
    return node.with_plain_attributes(_plain(attributes, own))


def _plain(attributes: dict[str, Json], own: bool) -> dict[str, Json]:
    return as_plain(attributes) if own else json_object(attributes, "attributes")


def _essential(members: Members, name: str) -> Extension:
    return parse_extension(members.get(name), name, may_ignore=False)


def _read_dimension_names(members: Members) -> list[str | None] | None:
    if not members.has("dimension_names"):
        return None
    names: list[str | None] = []
    for at, name in enumerate(members.array("dimension_names")):
        if name is not None and not isinstance(name, str):
            raise refusal(item("dimension_names", at), "a string or null", name)
        names.append(name)
    return names


def _read_group(members: Members, own: bool) -> GroupMetadata:
    consolidated = None
    # zarr-python 3.0 and 3.1 write null for "none"
    if members.has("consolidated_metadata") and members.values["consolidated_metadata"] is not None:
        consolidated = members.object("consolidated_metadata")
    attributes = members.object("attributes", {})
    node = GroupMetadata(consolidated=None if own else consolidated, unknown=_read_unknown(members))
    return node.with_plain_members(
        attributes=_plain(attributes, own), consolidated=consolidated if own else node.consolidated
    )


def _read_unknown(members: Members) -> dict[str, Json]:
    """The remaining members; each must declare that a reader need not understand it (core, must_understand)."""
    unknown = members.rest()
    for name, value in unknown.items():
        if not isinstance(value, dict) or value.get("must_understand") is not False:
            raise MetadataError(
                f'{name} is not known here, and does not say "must_understand": false, so that the node cannot be opened; '
                f"found {found(value)}",
                path=members.at(name),
            )
    return unknown


def emit_node(metadata: ArrayMetadata | GroupMetadata) -> bytes:
    """The document of a node as UTF-8 JSON text."""
    return dump_json(_document(metadata))


def node_document(metadata: ArrayMetadata | GroupMetadata) -> dict[str, Json]:
    """The document of a node as a JSON object. Extensions have the object form; data types of the core are only a name.

    Raises MetadataError for metadata of another dialect."""
    return json_object(_document(metadata), None)


def _document(metadata: ArrayMetadata | GroupMetadata) -> dict[str, Json]:
    """As node_document, with the attributes and copies of the node itself."""
    if metadata.zarr_format != 3:
        raise refusal("zarr_format", "the integer 3 for a document of the final Zarr v3", metadata.zarr_format)
    return metadata.members()
