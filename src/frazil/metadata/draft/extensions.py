"""Extensions that only documents of the draft of 2022 can name: memory layouts, extensions of arrays, encodings of documents. A value, a part of the registry.

Data types, chunk grids and storage transformers are in both dialects' registry, under their URI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from frazil.base.record import Record
from frazil.metadata.extensions import Extension, look_up, not_registered
from frazil.metadata.json_text import Json
from frazil.metadata.model import ArrayMetadata

T = TypeVar("T")

# From (the entry, the shape of a chunk) to the array-to-array codecs that convert a chunk to the layout. The entry is the document's object: the
# URI as its name, `type` and the other members as its configuration.
MemoryLayout = Callable[[Extension, tuple[int, ...]], Sequence[Extension]]
# From (the entry, the metadata without it) to the metadata with it. The entry's configuration is that of the document.
ArrayExtension = Callable[[Extension, ArrayMetadata], ArrayMetadata]


class MetadataEncoding(Protocol):
    """Documents of nodes in another form than JSON text (draft of 2022, Metadata encoding)."""

    def encode(self, document: dict[str, Json]) -> bytes: ...

    def decode(self, value: bytes) -> Json:
        """Raises MetadataError for a value that is not such a document."""


# From the entry of zarr.json (the URI as its name, `type` in its configuration) to the encoding
MetadataEncodingReader = Callable[[Extension], MetadataEncoding]


class DraftExtensions(Record):
    """Each by URI, as pairs; the first one of a URI is used."""

    memory_layouts: tuple[tuple[str, MemoryLayout], ...] = ()
    array_extensions: tuple[tuple[str, ArrayExtension], ...] = ()
    metadata_encodings: tuple[tuple[str, MetadataEncodingReader], ...] = ()

    def memory_layout(self, extension: Extension, path: str) -> MemoryLayout:
        return _required(self.memory_layouts, extension, path, "memory layout")

    def metadata_encoding(self, extension: Extension, path: str) -> MetadataEncodingReader:
        return _required(self.metadata_encodings, extension, path, "metadata encoding")

    def array_extension(self, uri: str) -> ArrayExtension | None:
        """None if it is not registered. The document decides whether that is an error."""
        return look_up(self.array_extensions, uri)


def _required(pairs: Sequence[tuple[str, T]], extension: Extension, path: str, kind: str) -> T:
    value = look_up(pairs, extension.name)
    if value is None:
        reason = ", and every reader must support it (draft of 2022, Extensions)"
        raise not_registered(kind, extension.name, [name for name, _ in pairs], path, reason)
    return value
