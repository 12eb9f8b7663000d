"""A hierarchy of nodes as a store of Zarr v3 keys and bytes: for programs that know Zarr and no repository. It uses only the two ports of stores/.

The keys are defined in node_keys.py. Our arrays and groups use the ports directly."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NoReturn

import numpy as np

from frazil.base.record import Record
from frazil.base.retry import READS, retry
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FrazilError,
    InvalidInputError,
    NotFoundError,
    StoreError,
)
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.layout import KnownExtensions
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.metadata.paths import normalise
from frazil.metadata.v3.documents import data_prefix, document_key, emit_node, parse_node
from frazil.stores.array_storage.node_fetch import (
    Batch,
    ChunkBatch,
    DocumentBatch,
    ReadBatches,
    digest,
    fetch_batches,
)
from frazil.stores.array_storage.node_keys import ChunkNames, chunk_keys, grouped, level_of, ordered, split_chunk_key
from frazil.stores.array_storage.node_storage import NodeStorage
from frazil.stores.keys.listing import page_of, with_details
from frazil.stores.keys.locks import guard_of
from frazil.stores.keys.names import check_key, is_prefix
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import picked
from frazil.stores.transfer.content import join_pieces
from frazil.stores.transfer.fetch_pages import pages_of
from frazil.stores.values import (
    ABSENT,
    ANY,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Page,
    Pieces,
    Version,
    Versions,
    continued,
)

_V2_DOCUMENTS: Final = frozenset({".zarray", ".zgroup", ".zattrs", ".zmetadata"})


class NodeStore(Store):
    """The nodes of a session as keys: `zarr.json` and `a/b/zarr.json` for their documents, `a/b/c/0/1` for chunks, or as the array's chunk key encoding says.

    Documents are generated from the nodes: a document that was set is read back with the same meaning, but perhaps another text. Setting one creates the node,
    and missing groups above it, or changes the node. A change of the kind of a node or of its number of dimensions is refused as long as there is anything
    below it. Erasing one removes the node with everything below it. A key that no node and no chunk can have is always missing, and may be erased; setting it
    is an InvalidInputError. The version of a document is a digest of it: equal documents have equal versions.

    nodes: the nodes shown;  known: the extensions that documents may name;  read_only: whether writing is refused"""

    __slots__ = ("extensions", "nodes", "read_only")
    read_only: bool

    def __init__(self, nodes: NodeStorage, extensions: KnownExtensions, read_only: bool = False) -> None:
        self.nodes, self.extensions, self.read_only = nodes, extensions, read_only

    def __repr__(self) -> str:
        return f"NodeStore({self.nodes!r})"

    def __str__(self) -> str:
        return str(self.nodes)

    def __reduce__(self) -> tuple[object, ...]:
        return NodeStore, (self.nodes, self.extensions, self.read_only)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(writable=not self.read_only, erasable=not self.read_only, erases_prefixes=True)

    # --- for zarr-python, which does not accept our stores (shown_to_zarr) --------------------------------------------------------------

    def _ensure_open(self) -> NoReturn:
        raise InvalidInputError(
            "zarr-python cannot open a store of Frazil",
            hint="zarr.open(frazil.zarr.as_store(session)) opens the nodes in it",
        )

    def with_read_only(self, read_only: bool = False) -> NoReturn:
        """Raises InvalidInputError. Called by zarr-python."""
        self._ensure_open()

    # --- reading ---------------------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        """As the port says: one fetch of the chunks of each array. The answer has only buffers."""
        batches: Sequence[Batch]
        if continue_from is None:
            batches = self._batches(names, single_read=single_read)
        else:
            batches = continued(continue_from, ReadBatches).batches
        return fetch_batches(batches, names, spans, expect, single_read=single_read)

    def exists(self, key: str) -> bool:
        """As in Store; also of a document that cannot be read."""
        check_key(key)
        found = grouped([key]).documents
        return self.nodes.exists(found[0][1]) if found else super().exists(key)

    def _batches(self, names: Sequence[str], *, single_read: bool = False) -> list[Batch]:
        """All names, in batches that are fetched at once. single_read: each with no more chunks than files may be open"""
        keys = grouped(names)
        found = {row: self._node(path) for row, path in keys.documents}
        others = np.ones(len(names), np.bool_)  # no chunks
        batches: list[Batch] = []
        for path, chunks in keys.chunks:
            batch = self._chunk_batch(path, chunks)
            if batch is not None:
                others[batch.rows] = False
                parts = pages_of(len(batch.rows)) if single_read else [slice(None)]
                batches += [batch._replace(rows=batch.rows[part], coords=batch.coords[part]) for part in parts]
        rows = np.flatnonzero(others)
        if len(rows) or not batches:
            documents = [None if (node := found.get(row)) is None else emit_node(node) for row in rows.tolist()]
            batches.insert(0, DocumentBatch(rows, documents))
        return batches

    def _chunk_batch(self, path: str, chunks: ChunkNames) -> ChunkBatch | None:
        """The chunk keys that the array at a path can have; None if it can have none of them."""
        node = self._node(path)
        rows, coords = chunks.inside(node)
        if not isinstance(node, ArrayMetadata) or not rows:
            return None
        return ChunkBatch(np.array(rows, np.int64), self.nodes.chunks(path, node), coords)

    def _node(self, path: str) -> Metadata | None:
        """The node at a path; None if it is missing. Raises the error of a node that cannot be read."""
        node = self.nodes.find(path)
        if isinstance(node, FrazilError):
            raise node
        return node

    # --- writing ---------------------------------------------------------------------------------------------------------------------

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        """As the port says: documents first, those of groups before those below them, then the chunks of each array at once. Before anything is written, raises
        InvalidInputError for an impossible key, MetadataError and UnknownExtensionError for a bad document, InvalidInputError for one that a repository cannot
        hold."""
        self.require("writable")
        keys = grouped(names)
        if keys.others:
            key = names[keys.others[0]]
            if key.rpartition("/")[2] in _V2_DOCUMENTS:
                raise InvalidInputError(
                    "a repository holds Zarr v3, and no documents of Zarr v2",
                    key=key,
                    hint="`frazil convert old.zarr sea.repo@main`, or frazil.convert(old, session.store), writes a hierarchy of Zarr v2 into a repository as Zarr v3",
                )
            raise InvalidInputError(
                "a repository holds nodes and chunks, and no other keys",
                key=key,
                hint='documents are "zarr.json" and "group/array/zarr.json", chunks "group/array/c/0/1"; keep other files beside the repository',
            )
        rows = [row for row, _ in keys.documents]
        values = join_pieces(picked(pieces, np.array(rows, np.int64)), [names[row] for row in rows])
        new = {path: self._parsed(names[row], value) for (row, path), value in zip(keys.documents, values, strict=True)}
        arrays = {path: new.get(path) or self._node(path) for path, _ in keys.chunks}
        for path, chunks in keys.chunks:
            chunks.all_inside(names, path, arrays[path])
        answers: list[Version | Changed] = [Changed(ABSENT)] * len(names)
        for row, path in sorted(keys.documents, key=lambda document: document[1]):
            answers[row] = self._put_document(path, new[path], expect[row])
        for path, chunks in keys.chunks:
            node = self._node(path) if path in new else arrays[path]  # the new one may have failed its condition
            coords = chunks.all_inside(names, path, node)
            assert isinstance(node, ArrayMetadata)
            values_of = picked(pieces, np.array(chunks.rows, np.int64))
            try:
                published = self.nodes.chunks(path, node).publish(
                    coords, values_of, [expect[row] for row in chunks.rows]
                )
            except StoreError as error:  # a piece that cannot be read has no key
                error.path = error.path or path
                raise
            for row, answer in zip(chunks.rows, published, strict=True):
                answers[row] = answer
        return answers

    def _parsed(self, key: str, value: bytes) -> Metadata:
        """The node of a document, if it is allowed."""
        path = key.rpartition("/")[0]
        try:
            if normalise(path) != path:
                raise InvalidInputError("a node path must have one slash between names", path=path)
        except InvalidInputError as error:
            error.key = key
            raise
        node = parse_node(value, self.extensions.metadata, key=key)
        self.nodes.check(path, node)
        return node.without_consolidated() if isinstance(node, GroupMetadata) else node

    def _put_document(self, path: str, new: Metadata, expect: Version | None) -> Version | Changed:
        with guard_of(self.nodes).reading([path]):  # one thread at a time compares and changes a document

            def put() -> Version | Changed:
                if expect is not ANY and expect != (present := _version(self._node(path))):
                    return Changed(present)
                return self._replace(path, self.nodes.find(path), new)

            return retry(
                put, READS, lambda error: isinstance(error, AlreadyExistsError | NotFoundError | ConflictError)
            )

    def _replace(self, path: str, old: Metadata | FrazilError | None, new: Metadata) -> Version:
        """Replaces another node, or none. Raises one of the retried errors if the node was changed meanwhile."""
        if type(old) is type(new) and getattr(old, "ndim", 0) == getattr(new, "ndim", 0):

            def change(present: Metadata) -> Metadata:
                if present != old:
                    raise ConflictError("another process has changed the node", key=document_key(path))
                return new

            return _version(self.nodes.change(path, change))
        if old is not None:
            self._require_bare(path, old)
        self.nodes.create({path: new}, overwrite=old is not None)
        return _version(self._node(path) or new)

    def _require_bare(self, path: str, old: Metadata | FrazilError) -> None:
        """Raises if there is anything below a node."""
        if isinstance(old, ArrayMetadata):
            full = len(self.nodes.chunks(path, old).stored(old.grid_shape)) > 0
        else:
            full = len(self.nodes.children(path)) > 0
        if full:
            raise InvalidInputError(
                "the document would change the kind of this node, which has nodes below it",
                key=document_key(path),
                hint=f"erase it first: erase_prefix({data_prefix(path)!r})",
            )

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        """As the port says; with the document of a node everything below it is removed. Chunks are removed first, then documents, the lowest first."""
        if is_prefix(names):
            self._erase_below(names[0])
            return [None]
        self.require("writable")
        keys = grouped(names)
        answers = [None if expected in (ANY, ABSENT) else Changed(ABSENT) for expected in expect]
        for path, chunks in keys.chunks:
            batch = self._chunk_batch(path, chunks)
            if batch is not None:
                rows = batch.rows.tolist()
                for row, erased in zip(
                    rows, batch.storage.erase(batch.coords, [expect[at] for at in rows]), strict=True
                ):
                    answers[row] = erased
        for row, path in sorted(keys.documents, key=lambda document: document[1], reverse=True):
            answers[row] = self._erase_document(path, expect[row])
        return answers

    def _erase_document(self, path: str, expect: Version | None) -> Changed | None:
        with guard_of(self.nodes).reading([path]):  # one thread at a time compares and changes a document
            if expect is not ANY:
                present = _version(self._node(path))
                if expect != present:
                    return Changed(present)
            self._remove([path])
        return None

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self.nodes.exists(path):
                try:
                    self.nodes.remove(path)
                except NotFoundError:
                    pass  # another process was faster

    def _erase_below(self, prefix: str) -> None:
        """Removes the node for the prefix of a node, and chunks for a part of a chunk grid, without listing keys."""
        self.require("erasable")
        part = self._part_of_grid(prefix)
        if part is not None:
            coords = part.coordinates
            self.nodes.chunks(part.path, part.metadata).erase(coords, [ANY] * len(coords))
            return
        path = prefix[:-1]
        # below a missing group there may still be nodes
        self._remove([path] if self.nodes.exists(path) else [node for node, _ in self.nodes.below(path, None)])

    # --- listing ---------------------------------------------------------------------------------------------------------------------

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> Page:
        """As the port says. Nodes are listed once, and chunks once for each array that is reached."""
        page = page_of(self._level(prefix) if delimited else self._keys(prefix, after), after, limit)
        return with_details(page, self.fetch) if details else page

    def _keys(self, prefix: str, start_after: str) -> Iterator[str]:
        part = self._part_of_grid(prefix)
        if part is not None:
            yield from chunk_keys(part.path, part.metadata, part.coordinates, start_after)
            return
        path = prefix[:-1]
        nodes = dict(self.nodes.below(path, None))
        if (own := self.nodes.find(path)) is not None:
            nodes[path] = own
        arrays = [at for at, node in nodes.items() if isinstance(node, ArrayMetadata)]
        for key, array in ordered(nodes, arrays):
            if array is None:
                if key > start_after:
                    yield key
            elif start_after < key + "0":  # after all its chunks
                node = nodes[array]
                assert isinstance(node, ArrayMetadata)
                yield from chunk_keys(array, node, self.nodes.chunks(array, node).stored(node.grid_shape), start_after)

    def _level(self, prefix: str) -> list[str]:
        """The rows directly below a prefix: the members of a group, or one level of a chunk grid."""
        part = self._part_of_grid(prefix)
        if part is not None:
            return level_of(part.path, part.metadata, part.coordinates, part.leading)
        path = prefix[:-1]
        node = self.nodes.find(path)
        keys = [] if node is None else [document_key(path)]
        if not isinstance(node, ArrayMetadata):
            return sorted([*keys, *map(data_prefix, self.nodes.children(path))])
        coords = self.nodes.chunks(path, node).stored(node.grid_shape)
        if not len(coords):
            return keys
        nested = node.ndim and node.chunk_key_encoding == DefaultKeys("/")
        return [*([f"{prefix}c/"] if nested else chunk_keys(path, node, coords)), *keys]

    def _part_of_grid(self, prefix: str) -> _Part | None:
        """The chunks below a prefix inside a chunk grid; None for any other prefix."""
        chunk = split_chunk_key(prefix[:-1])
        if chunk is None:
            return None
        path, leading, keys = chunk
        node = self.nodes.find(path)
        if not isinstance(node, ArrayMetadata) or keys != node.chunk_key_encoding or keys.separator == ".":
            return None
        coords = np.zeros((0, node.ndim), np.int64)
        if len(leading) < node.ndim:
            coords = self.nodes.chunks(path, node).stored(node.grid_shape)
            coords = coords[(coords[:, : len(leading)] == leading).all(axis=1)] if leading else coords
        return _Part(path, node, len(leading), coords)


class _Part(Record):
    """A part of a chunk grid. leading: how many coordinates its prefix fixes; coordinates: of the existing chunks, int64[n, d]"""

    path: str
    metadata: ArrayMetadata
    leading: int
    coordinates: Columns


def shown_to_zarr(store: NodeStore) -> NodeStore:
    """The store. If zarr-python is loaded, its functions now accept it as one of theirs, so that they raise the error that names frazil.zarr.as_store:
    they would refuse an unknown type without a hint."""
    module = sys.modules.get("zarr.abc.store")
    if module is not None:
        module.Store.register(NodeStore)
    return store


def _version(node: Metadata | None) -> Version:
    return ABSENT if node is None else digest(emit_node(node))
