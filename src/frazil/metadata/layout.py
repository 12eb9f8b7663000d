"""The port between nodes and the dialects: where a dialect keeps the documents and chunks of nodes, and how its documents read.

Pure. documents.py and layout.py implement it; array/hierarchy/nodes.py does the I/O, and is the only caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from frazil.metadata.draft.extensions import DraftExtensions
from frazil.metadata.model import ArrayMetadata, GroupMetadata, ZarrFormat
from frazil.metadata.registry import MetadataExtensions
from frazil.record import Record

Metadata = ArrayMetadata | GroupMetadata


class KnownExtensions(Protocol):
    """The part of a registry of extensions that layouts use."""

    @property
    def metadata(self) -> MetadataExtensions: ...

    @property
    def draft(self) -> DraftExtensions: ...

    def codec_kind(self, name: str) -> int | None:
        """0: array to array, 1: array to bytes, 2: bytes to bytes; None: no codec of this name."""


class Candidate(Record):
    """A node that a listing shows. keys: of its document, in order of precedence; group: it is a group even if none of these keys exists."""

    path: str
    keys: tuple[str, ...]
    group: bool = False


class Layout(Protocol):
    """The keys of a hierarchy in one dialect; a frozen value that pickles. Paths are normalised, "" is the root.

    zarr_format      the dialect, as users name it
    implicit_groups  whether groups need no document
    at_once          whether one listing of documents_prefix shows all nodes below; else each level needs its own listing"""

    @property
    def zarr_format(self) -> ZarrFormat: ...

    @property
    def implicit_groups(self) -> bool: ...

    @property
    def at_once(self) -> bool: ...

    def entry(self) -> tuple[str, bytes] | None:
        """Key and value of the document that the hierarchy has beside those of its nodes."""

    def has_entry(self, value: bytes) -> bool:
        """Whether a value found at that key says the same."""

    def check_name(self, name: str) -> str:
        """The name itself, where a node may have it; InvalidInputError otherwise."""

    def document_keys(self, path: str) -> tuple[str, ...]:
        """Where a node's document may be, the one that wins first."""

    def document_key(self, path: str, kind: type[Metadata]) -> str:
        """Where the document of a node of this kind is."""

    def attributes_key(self, path: str) -> str | None:
        """Where the attributes of a node are; None where its document has them."""

    def copies_key(self, path: str) -> str | None:
        """Where the copies of the documents below a group are; None where its document has them."""

    def documents_prefix(self, path: str) -> str:
        """The prefix of all documents of nodes below this one."""

    def data_prefix(self, path: str) -> str:
        """The prefix of an array's chunks."""

    def prefixes(self, path: str) -> tuple[str, ...]:
        """All that lies below a node: nodes, and chunks."""

    def children(self, path: str, keys: Sequence[str], prefixes: Sequence[str]) -> list[Candidate]:
        """The direct members that one level of documents_prefix shows, sorted."""

    def descendants(self, path: str, keys: Sequence[str]) -> list[Candidate]:
        """All nodes below that the keys of documents_prefix show, depth first, each level sorted; where at_once."""

    def parse(self, key: str, value: bytes, known: KnownExtensions, attributes: bytes | None = None) -> Metadata:
        """The metadata of a document, and of that of its attributes. Raises MetadataError, UnknownExtensionError, with the key."""

    def remember(self, value: bytes, metadata: Metadata, known: KnownExtensions) -> None:
        """Lets `parse` give this metadata for a document that was emitted of it; a dialect that remembers nothing does nothing."""

    def emit(self, metadata: Metadata) -> bytes:
        """The document; MetadataError where the dialect cannot say it."""

    def emit_attributes(self, metadata: Metadata) -> bytes | None:
        """The document of the attributes; None where the other one has them, or there are none."""
