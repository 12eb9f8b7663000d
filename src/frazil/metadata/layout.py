"""The port between nodes and the dialects: the keys of documents and chunks of nodes in a dialect, and the reading of its documents.

Pure. documents.py and layout.py implement it; array/hierarchy/nodes.py and array/hierarchy/node_changes.py do the I/O, and are the only callers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from frazil.base.record import Record
from frazil.metadata.model import ArrayMetadata, Metadata, ZarrFormat
from frazil.metadata.registry import MetadataExtensions
from frazil.metadata.value import Value

if TYPE_CHECKING:
    from frazil.metadata.draft.extensions import DraftExtensions


class KnownExtensions(Protocol):
    """The part of a registry of extensions that layouts use."""

    @property
    def metadata(self) -> MetadataExtensions: ...

    @property
    def draft(self) -> DraftExtensions: ...

    def codec_kind(self, name: str) -> int | None:
        """0: array to array, 1: array to bytes, 2: bytes to bytes; None: no codec of this name."""


class Candidate(Record):
    """A node in a listing. keys: of its document, in order of precedence; group: it is a group even if none of these keys exists."""

    path: str
    keys: tuple[str, ...]
    group: bool = False


class Layout(Value, ABC):
    """The keys of a hierarchy in one dialect; a frozen value that can be pickled. By default one document for each node. Paths are normalised, "" is the root.

    zarr_format      the dialect, under its name for users
    implicit_groups  whether groups need no document
    at_once          whether one listing of documents_prefix shows all nodes below; else each level needs its own listing"""

    __slots__ = ()
    implicit_groups: ClassVar[bool] = False
    at_once: ClassVar[bool] = False

    @property
    @abstractmethod
    def zarr_format(self) -> ZarrFormat: ...

    def entry(self) -> tuple[str, bytes] | None:
        """Key and value of a document of the hierarchy itself, if it has one."""
        return None

    def has_entry(self, value: bytes) -> bool:
        """Whether a value found at that key is equivalent."""
        return False

    @abstractmethod
    def check_name(self, name: str) -> str:
        """The name itself, if a node may have it; InvalidInputError otherwise."""

    @abstractmethod
    def document_keys(self, path: str) -> tuple[str, ...]:
        """The possible keys of a node's document, in order of precedence."""

    @abstractmethod
    def document_key(self, path: str, kind: type[Metadata]) -> str:
        """The key of the document of a node of this kind."""

    def attributes_key(self, path: str) -> str | None:
        """The key of the attributes of a node; None if they are in its document."""
        return None

    def copies_key(self, path: str) -> str | None:
        """The key of the copies of the documents below a group; None if they are in its document."""
        return None

    def documents_prefix(self, path: str) -> str:
        """The prefix of all documents of nodes below this one. By default that of the chunks."""
        return self.data_prefix(path)

    @abstractmethod
    def data_prefix(self, path: str) -> str:
        """The prefix of an array's chunks."""

    def prefixes(self, path: str) -> tuple[str, ...]:
        """The prefixes of everything below a node: nodes, and chunks."""
        return tuple(dict.fromkeys((self.documents_prefix(path), self.data_prefix(path))))

    @abstractmethod
    def children(self, path: str, keys: Sequence[str], prefixes: Sequence[str]) -> list[Candidate]:
        """The direct members in one level of documents_prefix, sorted."""

    @abstractmethod
    def descendants(self, path: str, keys: Sequence[str]) -> list[Candidate]:
        """All nodes below in the keys of documents_prefix, depth first, each level sorted; only if at_once."""

    @abstractmethod
    def parse(self, key: str, value: bytes, extensions: KnownExtensions, attributes: bytes | None = None) -> Metadata:
        """The metadata of a document, and of the document of its attributes. Raises MetadataError, UnknownExtensionError, with the key."""

    def with_attributes(self, metadata: ArrayMetadata, attributes: Mapping[str, object]) -> ArrayMetadata:
        """The same array with these attributes, as users see them, instead of its own. Raises MetadataError for a value that JSON does not have."""
        return metadata.with_attributes(attributes)

    def remember(self, value: bytes, metadata: Metadata, extensions: KnownExtensions) -> None:
        """Lets `parse` return this metadata for the document that was emitted for it. A dialect without such a cache does nothing."""

    @abstractmethod
    def emit(self, metadata: Metadata) -> bytes:
        """The document; MetadataError if the dialect cannot express it."""

    def emit_attributes(self, metadata: Metadata) -> bytes | None:
        """The document of the attributes; None if they are in the other one, or there are none."""
        return None
