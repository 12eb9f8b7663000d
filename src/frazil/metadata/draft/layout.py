"""The keys of a hierarchy of the 2022 draft (draft of 2022, Storage keys): documents below `meta/`, chunks below `data/`, in the older dialect
below `meta/root` and `data/root`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from frazil.errors import FrazilError, InvalidInputError, MetadataError
from frazil.metadata.draft.entry_point import Entry, JsonEncoding, new_entry
from frazil.metadata.draft.parser import emit_document, parse_document
from frazil.metadata.layout import Candidate, KnownExtensions, Layout
from frazil.metadata.model import ArrayMetadata, Metadata, ZarrFormat
from frazil.metadata.paths import check_draft_name, check_lenient_name

ENTRY_KEY = "zarr.json"


class DraftLayout(Layout):
    """root: the prefix of the hierarchy in its store, "" or ending in "/"; entry_point: the content of its zarr.json;
    bare: of the older dialect, but with chunks directly below `data/`, as in prototypes of 2020."""

    __slots__ = ("bare", "entry_point", "root")
    root: str
    entry_point: Entry
    bare: bool
    implicit_groups: ClassVar[bool] = True
    at_once: ClassVar[bool] = True

    def __init__(self, root: str, entry_point: Entry, bare: bool = False) -> None:
        self.root, self.entry_point, self.bare = root, entry_point, bare

    def __eq__(self, other: object) -> bool:
        """By the content of zarr.json: a user's encoding may not be comparable."""
        return (
            isinstance(other, DraftLayout)
            and (self.root, self.bare) == (other.root, other.bare)
            and self.entry_point.document == other.entry_point.document
        )

    def __hash__(self) -> int:
        return hash((self.root, self.entry_point.old))

    @property
    def zarr_format(self) -> ZarrFormat:
        return "draft-2021" if self.entry_point.old else "draft"

    def entry(self) -> tuple[str, bytes] | None:
        return self.root + ENTRY_KEY, JsonEncoding().encode(self.entry_point.document)

    def has_entry(self, value: bytes) -> bool:
        try:
            return JsonEncoding().decode(value) == self.entry_point.document
        except MetadataError:
            return False

    def check_name(self, name: str) -> str:
        return check_lenient_name(name) if self.entry_point.old else check_draft_name(name)

    def document_keys(self, path: str) -> tuple[str, ...]:
        return self._key(path, "array"), self._key(path, "group")

    def document_key(self, path: str, kind: type[Metadata]) -> str:
        return self._key(path, "array" if kind is ArrayMetadata else "group")

    def _key(self, path: str, kind: str) -> str:
        suffix = kind + self.entry_point.suffix
        if self.entry_point.old:
            return f"{self.root}meta/root/{path}.{suffix}" if path else f"{self.root}meta/root.{suffix}"
        return f"{self.root}meta/{path}.{suffix}" if path else f"{self.root}meta/{suffix}"

    def documents_prefix(self, path: str) -> str:
        return self._prefix("meta", path)

    def data_prefix(self, path: str) -> str:
        return self._prefix("data", path)

    def _prefix(self, top: str, path: str) -> str:
        with_root = self.entry_point.old and not (self.bare and top == "data")
        base = f"{self.root}{top}/root/" if with_root else f"{self.root}{top}/"
        return f"{base}{path}/" if path else base

    def children(self, path: str, keys: Sequence[str], prefixes: Sequence[str]) -> list[Candidate]:
        base = len(self.documents_prefix(""))
        found: dict[str, Candidate] = {}
        for prefix in prefixes:
            if self._is_node(prefix[base:-1]):
                found[prefix[base:-1]] = Candidate(prefix[base:-1], (), True)
        array, group = f".array{self.entry_point.suffix}", f".group{self.entry_point.suffix}"
        for key in keys:
            if key.endswith(group) and self._is_node(node := key[base : -len(group)]):
                found.setdefault(node, Candidate(node, (), True))
                if found[node].group:
                    found[node] = Candidate(node, (key,), True)
        for key in keys:
            if key.endswith(array) and self._is_node(node := key[base : -len(array)]):
                found[node] = Candidate(node, (key,))
        return sorted(found.values(), key=lambda candidate: candidate.path.split("/"))

    def descendants(self, path: str, keys: Sequence[str]) -> list[Candidate]:
        """Every prefix of a key is a group, also prefixes of keys that are not documents, as in a listing of one level."""
        below = self.documents_prefix(path)
        prefixes = {key[: at + 1] for key in keys for at in _slashes(key, len(below))}
        found = self.children(path, keys, sorted(prefixes))
        arrays = {candidate.path for candidate in found if not candidate.group}
        # an array has no members: remains of a deletion below one are not members
        return [
            candidate
            for candidate in found
            if not any(candidate.path[:at] in arrays for at in _slashes(candidate.path, 0))
        ]

    def _is_node(self, path: str) -> bool:
        if not path:
            return False
        try:
            for name in path.split("/"):
                self.check_name(name)
        except InvalidInputError:
            return False
        return True

    def parse(self, key: str, value: bytes, extensions: KnownExtensions, attributes: bytes | None = None) -> Metadata:
        point = self.entry_point
        array = key.endswith(f"array{point.suffix}")
        try:
            content = point.encoding.decode(value)
            return parse_document(
                content, extensions, array=array, old=point.old, prototype=point.prototype, strict=point.strict
            )
        except FrazilError as error:
            error.key = error.key or key
            raise

    def emit(self, metadata: Metadata) -> bytes:
        return self.entry_point.encoding.encode(emit_document(metadata, old=self.entry_point.old))


def new_layout(root: str, *, old: bool) -> DraftLayout:
    """The layout of a new hierarchy."""
    return DraftLayout(root, Entry(old, ".json", JsonEncoding(lenient=old), (), new_entry(old=old)))


def _slashes(path: str, start: int) -> Iterator[int]:
    at = path.find("/", start)
    while at >= 0:
        yield at
        at = path.find("/", at + 1)
