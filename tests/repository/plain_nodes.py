"""The node port over plain documents and chunks in a store, to test a session's keys and to compare with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import frazil
from frazil.array.hierarchy.members import member_paths, nodes_below
from frazil.array.hierarchy.node_changes import change_node, create_nodes, remove_node
from frazil.array.hierarchy.nodes import NodeLocation, find_node, node_exists
from frazil.codecs.registry import DEFAULT_REGISTRY
from frazil.errors import FrazilError, InvalidInputError, NotFoundError
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.metadata.v3.documents import data_prefix
from frazil.repository.alpha.documents import from_attributes, from_metadata
from frazil.stores.array_storage.chunk_storage import ChunkStorage, PlainChunks
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store


class PlainNodes:
    """Nodes of a plain Zarr hierarchy as a port."""

    renewals = 0  # as handles of plain stores never read it again

    def __init__(self, store: Store) -> None:
        self.store = store
        self.place = NodeLocation(store)

    def find(self, path: str) -> Metadata | FrazilError | None:
        try:
            return find_node(self.place.at(path))
        except InvalidInputError as error:
            return error

    def exists(self, path: str) -> bool:
        return node_exists(self.place.at(path))

    def children(self, path: str) -> Sequence[str]:
        return member_paths(self.place.at(path))

    def below(self, path: str, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
        return nodes_below(self.place.at(path), max_depth)

    def change(self, path: str, change: Callable[[Metadata], Metadata]) -> Metadata:
        found = self.find(path)
        if found is None:
            raise NotFoundError("there is no node", path=path)
        if isinstance(found, FrazilError):
            raise found
        return change_node(self.place.at(path), type(found), change)

    def create(self, nodes: Mapping[str, Metadata], *, overwrite: bool) -> None:
        create_nodes(self.place, nodes, overwrite=overwrite)

    def check(self, path: str, metadata: Metadata) -> None:
        try:
            from_attributes(metadata, f"{path}/zarr.json")
            if isinstance(metadata, ArrayMetadata):
                from_metadata(metadata)
        except FrazilError as error:
            error.key = f"{path}/zarr.json"
            raise

    def remove(self, path: str) -> None:
        remove_node(self.place.at(path))

    def move(self, path: str, to: str) -> None:
        raise NotImplementedError

    def node_key(self, path: str) -> int | None:
        return None

    def node_path(self, key: int) -> str | None:
        return None

    def require_writable(self) -> None:
        pass

    def array_path(self, path: str, chunks: ChunkStorage) -> str:
        return path

    def lengths(self, path: str, chunks: ChunkStorage) -> tuple[int, ...] | None:
        node = self.find(path)
        return node.shape if isinstance(node, ArrayMetadata) else None

    def chunks(self, path: str, metadata: ArrayMetadata) -> ChunkStorage:
        return PlainChunks(self.store, data_prefix(path), metadata.chunk_key_encoding)


def plain_session(store: Store | None = None) -> NodeStore:
    return NodeStore(PlainNodes(MemoryStore() if store is None else store), DEFAULT_REGISTRY)


def repository_session() -> NodeStore:
    return frazil.Repository.create(MemoryStore()).writable_session("main").store


GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}


def group(**attributes: object) -> bytes:
    return json.dumps({**GROUP, "attributes": attributes}).encode()


def array(*shape: int, chunks: tuple[int, ...] | None = None, **members: object) -> bytes:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks or [1] * len(shape)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": ["bytes"],
    }
    return json.dumps({**document, **members}).encode()
