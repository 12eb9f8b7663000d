"""A NodeStorage in memory, for tests of arrays and groups over nodes that have no documents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy

from frazil.array.hierarchy.nodes import NodeLocation
from frazil.errors import AlreadyExistsError, FrazilError, InvalidInputError, NotFoundError
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.metadata.paths import ancestors
from frazil.stores.array_storage.chunk_storage import ChunkStorage, PlainChunks
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store

Chunks = Callable[[int, ArrayMetadata], ChunkStorage]


class KeptNodes:
    """Nodes by path, each with a unique number; chunks: those of the array with a number."""

    renewals = 0  # only calls here make changes
    version = ("kept", 1)  # any value works

    def __init__(self, chunks: Chunks | None = None) -> None:
        self.store = MemoryStore()
        self.nodes: dict[str, tuple[int, Metadata | FrazilError]] = {"": (0, GroupMetadata())}
        self.made = 1
        self._chunks = chunks or (lambda number, _: PlainChunks(self.store, f"{number}/", DefaultKeys()))
        self._lock = threading.Lock()

    def find(self, path: str) -> Metadata | FrazilError | None:
        return self.nodes.get(path, (0, None))[1]

    def exists(self, path: str) -> bool:
        return path in self.nodes

    def children(self, path: str) -> Sequence[str]:
        return sorted(at for at in self.nodes if at and at.rpartition("/")[0] == path)

    def below(self, path: str, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
        for at in self.children(path):
            yield at, self.nodes[at][1]
            if max_depth != 0:
                yield from self.below(at, None if max_depth is None else max_depth - 1)

    def change(self, path: str, change: Callable[[Metadata], Metadata]) -> Metadata:
        with self._lock:
            node = self.find(path)
            if node is None:
                raise NotFoundError("the node is gone", path=path or "/")
            if isinstance(node, FrazilError):
                raise node
            changed = change(node)
            self.nodes[path] = (self.nodes[path][0], changed)
        return changed

    def create(self, nodes: Mapping[str, Metadata], *, overwrite: bool) -> None:
        for path in nodes:
            if any(isinstance({**nodes, above: self.find(above)}[above], ArrayMetadata) for above in ancestors(path)):
                raise InvalidInputError("an array is above", path=path)
            if path in self.nodes and not overwrite:
                raise AlreadyExistsError("a node is there already", path=path or "/")
        for path, node in nodes.items():
            if path in self.nodes:
                self.remove(path)
            self._put(path, node)

    def _put(self, path: str, node: Metadata | FrazilError, number: int | None = None) -> None:
        for above in ancestors(path):
            if above not in self.nodes:
                self._put(above, GroupMetadata())
        self.nodes[path] = (self.made if number is None else number, node)
        self.made += number is None

    def remove(self, path: str) -> None:
        if path not in self.nodes:
            raise NotFoundError("there is no node", path=path or "/")
        for at in self._with_below(path):
            del self.nodes[at]

    @contextmanager
    def new_array(self, path: str, metadata: ArrayMetadata, *, overwrite: bool) -> Iterator[KeptNodes]:
        before = dict(self.nodes)
        self.create({path: metadata}, overwrite=overwrite)
        apart, self.nodes = copy(self), before
        yield apart
        if path in self.nodes:
            self.remove(path)
        self._put(path, metadata, apart.nodes[path][0])

    def move(self, path: str, to: str) -> None:
        if path not in self.nodes:
            raise NotFoundError("there is no node", path=path or "/")
        taken = [at for at in self._with_below(to) if at not in self._with_below(path)]
        if taken:
            raise AlreadyExistsError("a node is there already", path=to)
        if to.startswith(path + "/") or any(isinstance(self.find(above), ArrayMetadata) for above in ancestors(to)):
            raise InvalidInputError("no node can be there", path=to)
        for at in self._with_below(path):
            number, node = self.nodes.pop(at)
            self._put(to + at[len(path) :], node, number)

    def _with_below(self, path: str) -> list[str]:
        return [at for at in sorted(self.nodes) if at == path or at.startswith(path + "/" if path else "")]

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
        number, node = self.nodes[path]
        assert isinstance(node, ArrayMetadata), "chunks are asked of arrays that are there"
        return self._chunks(number, metadata)


class Untouched(MemoryStore):
    """The store of a location with nodes: it is neither read nor written."""

    def fetch(self, *_: object, **__: object) -> object:  # type: ignore[override]
        raise AssertionError("the store was read")

    put_many = list_page = erase_many = sizes = fetch  # type: ignore[assignment]


def kept_location(nodes: KeptNodes, store: Store | None = None) -> NodeLocation:
    """The root of a hierarchy of such nodes."""
    return NodeLocation(store or Untouched(), nodes=nodes)
