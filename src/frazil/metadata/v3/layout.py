"""The keys of a final hierarchy: `P/zarr.json` for the document of a node, its chunks and its members below `P/` (Zarr v3.1 core, Storage)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from frazil.metadata.layout import Candidate, KnownExtensions, Layout
from frazil.metadata.model import Metadata
from frazil.metadata.paths import check_name, is_reserved
from frazil.metadata.v3.documents import DOCUMENT_NAME, data_prefix, document_key, emit_node, parse_node, remember_node


class V3Layout(Layout):
    """One document for each node, array or group."""

    zarr_format: Final = 3

    def check_name(self, name: str) -> str:
        return check_name(name)

    def document_keys(self, path: str) -> tuple[str, ...]:
        return (document_key(path),)

    def document_key(self, path: str, kind: type[Metadata]) -> str:
        return document_key(path)

    def data_prefix(self, path: str) -> str:
        return data_prefix(path)

    def children(self, path: str, keys: Sequence[str], prefixes: Sequence[str]) -> list[Candidate]:
        return [Candidate(prefix[:-1], (prefix + DOCUMENT_NAME,)) for prefix in prefixes if _may_be_node(prefix[:-1])]

    def descendants(self, path: str, keys: Sequence[str]) -> list[Candidate]:
        below = data_prefix(path)
        documents = [key for key in keys if key.endswith("/" + DOCUMENT_NAME) and len(key) > len(below)]
        return [Candidate(key[: -len(DOCUMENT_NAME) - 1], (key,)) for key in documents]

    def parse(self, key: str, value: bytes, extensions: KnownExtensions, attributes: bytes | None = None) -> Metadata:
        return parse_node(value, extensions.metadata, key=key)

    def remember(self, value: bytes, metadata: Metadata, extensions: KnownExtensions) -> None:
        remember_node(value, metadata, extensions.metadata)

    def emit(self, metadata: Metadata) -> bytes:
        return emit_node(metadata)


V3: Final = V3Layout()


def _may_be_node(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name != DOCUMENT_NAME and not is_reserved(name) and bool(name.strip("."))
