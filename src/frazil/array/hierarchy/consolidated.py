"""Consolidated metadata of a group: the copies of the documents below it as nodes, and the comparison of copies with the documents.

metadata/v3/consolidated.py has the form of the copies, api/consolidated.py the public functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from frazil.array.hierarchy.members import children_of
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.base.record import Record
from frazil.codecs.registry import Registry
from frazil.errors import FrazilError, InvalidInputError, MetadataError, NotFoundError, UnknownExtensionError
from frazil.metadata.extensions import Extension
from frazil.metadata.json_text import Json, same_json
from frazil.metadata.layout import KnownExtensions, Layout
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata, ZarrFormat
from frazil.metadata.paths import join, split
from frazil.metadata.v2 import consolidated as v2_copies
from frazil.metadata.v2.documents import read_document
from frazil.metadata.v3 import consolidated as v3_copies
from frazil.metadata.value import Value


class _Dialect(Protocol):
    """The form of copies in one dialect, as in metadata/v3/consolidated.py."""

    def document_names(self) -> tuple[str, ...]: ...
    def read_copies(self, consolidated: Mapping[str, Json]) -> dict[str, Json] | None: ...
    def emit_copies(self, copies: Mapping[str, Json]) -> dict[str, Json]: ...
    def copy_of(self, key: str, values: Mapping[str, bytes]) -> Json | None: ...
    def is_group(self, copy: Json) -> bool: ...
    def parse_copy(self, copy: Json, extensions: KnownExtensions, key: str) -> Metadata: ...


_DIALECTS: Final[dict[ZarrFormat, _Dialect]] = {3: v3_copies, 2: v2_copies}
_NO_CODECS: Final = (Extension("bytes"),)  # replaces codecs, which are compared as values


class Copies(Value, excluded=("_members",)):
    """The copies in the consolidated metadata of a group as a NodeReader.

    root: path of the group; top: its metadata; documents: the copies by whole path"""

    __slots__ = ("_members", "documents", "layout", "registry", "root", "top")
    root: str
    top: GroupMetadata
    documents: Mapping[str, Json]
    registry: Registry
    layout: Layout
    _members: dict[str, list[str]]

    def __init__(
        self, root: str, top: GroupMetadata, documents: Mapping[str, Json], registry: Registry, layout: Layout
    ) -> None:
        self.root, self.top, self.documents, self.registry, self.layout = root, top, documents, registry, layout
        members: dict[str, list[str]] = {}
        for path in documents:
            members.setdefault(split(path)[0], []).append(path)
        for paths in members.values():
            paths.sort()
        self._members = members

    def __reduce__(self) -> tuple[object, ...]:
        return Copies, (self.root, self.top, self.documents, self.registry, self.layout)

    def find(self, path: str) -> Metadata | FrazilError | None:
        if path == self.root:
            return self.top
        if path not in self.documents:
            return None
        try:
            key = self.layout.document_keys(path)[0]
            return _DIALECTS[self.layout.zarr_format].parse_copy(self.documents[path], self.registry, key)
        except (MetadataError, UnknownExtensionError) as error:
            return error

    def exists(self, path: str) -> bool:
        return path == self.root or path in self.documents

    def children(self, path: str) -> list[str]:
        return self._members.get(path, [])

    def below(self, path: str, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
        levels = [iter(self.children(path))]  # a loop: a hierarchy may be deeper than Python's stack
        while levels:
            for inner in levels[-1]:
                yield inner, self.find(inner) or self.top
                if inner in self._members and (max_depth is None or len(levels) <= max_depth):
                    levels.append(iter(self.children(inner)))
                    break
            else:
                levels.pop()


def _dialect(location: NodeLocation) -> _Dialect:
    """Raises InvalidInputError for a dialect without consolidated metadata."""
    dialect = _DIALECTS.get(location.layout.zarr_format)
    if dialect is None:
        raise InvalidInputError(
            "the draft of 2022 has no consolidated metadata",
            path=location.path or "/",
            hint="convert it with frazil.convert",
        )
    return dialect


def copies_at(location: NodeLocation, group: GroupMetadata) -> Copies | None:
    """The copies in the consolidated metadata of the group at a location; None where it has no readable ones. Raises MetadataError where they break the
    rules."""
    found = _read(location, group)
    return None if found is None else Copies(location.path, group, found, location.registry, location.layout)


def required_copies(location: NodeLocation, group: GroupMetadata, check: bool | None = None) -> Copies:
    """As copies_at. check: whether they are compared with the documents; None: only where that takes no requests. Raises NotFoundError where the group has
    none, MetadataError for stale ones."""
    copies = None if location.nodes is not None else copies_at(location, group)
    if copies is None:
        raise NotFoundError(
            f"the group has no consolidated metadata in {location.store}",
            key=location.layout.document_keys(location.path)[0],
            path=location.path or "/",
            hint="frazil.consolidate_metadata writes it; frazil.open_group does not need it",
        )
    if check or (check is None and location.store.capabilities.direct):
        check_copies(location._replace(copies=None), copies)
    return copies


def _read(location: NodeLocation, group: GroupMetadata) -> dict[str, Json] | None:
    """The copies by whole path."""
    beside = location.layout.copies_key(location.path)
    found = group.consolidated
    if beside is not None:
        text = location.store.get(beside)
        found = None if text is None else read_document(text, beside)
    if found is None:
        return None
    try:
        read = _dialect(location).read_copies(found)
    except MetadataError as error:
        error.key = beside or location.layout.document_keys(location.path)[0]
        raise
    return None if read is None else {join(location.path, path): copy for path, copy in read.items()}


def documents_below(location: NodeLocation, most: int | None = None) -> dict[str, Json] | None:
    """Copies of the documents of all nodes below a group as they are stored now, by whole path, level by level, each sorted. For each level one listing of each
    group and one batch of requests for its documents. None where there are more than `most`.

    Raises StoreError where the store cannot list, MetadataError for a document that is not a JSON object."""
    found, groups = dict[str, Json](), [location.path]
    while groups:
        candidates = sorted(child.path for path in groups for child in children_of(location.at(path)))
        if most is not None and len(found) + len(candidates) > most:
            return None
        copies = _stored_copies(location, candidates)
        found.update(copies)
        groups = [path for path, copy in copies.items() if _dialect(location).is_group(copy)]
    return found


def _stored_copies(location: NodeLocation, paths: Iterable[str]) -> dict[str, Json]:
    """Copies of the documents at these paths as they are stored, where there are any, in one batch of requests."""
    names = _dialect(location).document_names()
    values = iter(location.store.get_many([join(path, name) for path in paths for name in names]))
    documents = {path: {name: text for name in names if (text := next(values)) is not None} for path in paths}
    copies = {path: _dialect(location).copy_of(join(path, names[0]), texts) for path, texts in documents.items()}
    return {path: copy for path, copy in copies.items() if copy is not None}


def emit_copies(location: NodeLocation, documents: Mapping[str, Json]) -> dict[str, Json]:
    """The consolidated metadata of the group at a location, from copies by whole path; in Zarr v2 with its own documents."""
    above = len(location.path) + (location.path != "")
    copies = {path[above:]: copy for path, copy in documents.items()}
    if location.layout.zarr_format == 2:
        return v2_copies.emit_copies(copies, _stored_copies(location, [location.path]).get(location.path))
    return _dialect(location).emit_copies(copies)


def check_copies(location: NodeLocation, copies: Copies) -> None:
    """Compares copies with the documents as they are now. Raises MetadataError that names a node that differs, is new, or was removed.

    Where the store cannot list, nodes that are new are not found."""
    if location.store.capabilities.listable:
        stored = documents_below(location) or {}
    else:
        stored = _stored_copies(location, copies.documents)
    now = Copies(copies.root, copies.top, stored, copies.registry, copies.layout)
    for path in sorted({*stored, *copies.documents}):
        if path not in stored:
            reason = "has a copy of a document that was removed"
        elif path not in copies.documents:
            reason = "has no copy of the document"
        elif not same_json(stored[path], copies.documents[path]) and _means(now, path) != _means(copies, path):
            reason = "has a copy that differs from the document"
        else:
            continue
        raise MetadataError(
            f"the consolidated metadata of {location} is stale: it {reason}",
            key=location.layout.document_keys(location.path)[0],
            path=path,
            hint="frazil.consolidate_metadata writes it again; frazil.open_group reads the documents",
        )


class _Meaning(Record):
    """The meaning of a document, independent of its form; its JSON where it cannot be read."""

    document: Json = None
    node: Metadata | None = None
    codecs: tuple[object, ...] = ()


def _means(copies: Copies, path: str) -> _Meaning:
    node = copies.find(path)
    if isinstance(node, GroupMetadata):
        return _Meaning(node=node.without_consolidated())
    if not isinstance(node, ArrayMetadata):
        return _Meaning(copies.documents[path])
    try:
        codecs = copies.registry.parse_codecs(node.codecs)
        return _Meaning(node=node.with_members(codecs=_NO_CODECS, document=None), codecs=codecs)
    except (MetadataError, UnknownExtensionError):
        return _Meaning(node=node)
