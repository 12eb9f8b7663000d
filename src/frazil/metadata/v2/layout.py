"""The keys of a hierarchy of Zarr v2: `P/.zarray` or `P/.zgroup` for the document of a node, `P/.zattrs` for its attributes, chunks and members below `P/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from frazil.metadata.json_text import dump_json
from frazil.metadata.layout import Candidate, KnownExtensions, Layout
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.metadata.paths import check_lenient_name, join
from frazil.metadata.v2.documents import (
    ARRAY,
    ATTRIBUTES,
    GROUP,
    attributes_document,
    node_document,
    parse_node,
    read_document,
    with_attributes,
)


class V2Layout(Layout):
    """Two documents for each node: one for its kind and metadata, and one for its attributes."""

    zarr_format: Final = 2

    def check_name(self, name: str) -> str:
        return check_lenient_name(name)

    def document_keys(self, path: str) -> tuple[str, ...]:
        return join(path, ARRAY), join(path, GROUP)

    def document_key(self, path: str, kind: type[Metadata]) -> str:
        return join(path, ARRAY if kind is ArrayMetadata else GROUP)

    def attributes_key(self, path: str) -> str | None:
        return join(path, ATTRIBUTES)

    def copies_key(self, path: str) -> str | None:
        return join(path, ".zmetadata")

    def data_prefix(self, path: str) -> str:
        return f"{path}/" if path else ""

    def children(self, path: str, keys: Sequence[str], prefixes: Sequence[str]) -> list[Candidate]:
        return [Candidate(prefix[:-1], self.document_keys(prefix[:-1])) for prefix in prefixes]

    def descendants(self, path: str, keys: Sequence[str]) -> list[Candidate]:
        below = len(self.data_prefix(path))
        found = {
            key[: -len(name) - 1]: None
            for key in keys
            for name in (ARRAY, GROUP)
            if key.endswith(f"/{name}") and len(key) > below + len(name)
        }
        return [Candidate(node, self.document_keys(node)) for node in found]

    def parse(self, key: str, value: bytes, extensions: KnownExtensions, attributes: bytes | None = None) -> Metadata:
        beside = f"{key.rpartition('/')[0]}/{ATTRIBUTES}".removeprefix("/")
        own = {} if attributes is None else read_document(attributes, beside)
        return parse_node(read_document(value, key), own, extensions, key)

    def with_attributes(self, metadata: ArrayMetadata, attributes: Mapping[str, object]) -> ArrayMetadata:
        return with_attributes(metadata, attributes)

    def emit(self, metadata: Metadata) -> bytes:
        return dump_json(node_document(metadata), 4)

    def emit_attributes(self, metadata: Metadata) -> bytes | None:
        attributes = attributes_document(metadata)
        return dump_json(attributes, 4) if attributes else None


V2: Final = V2Layout()
