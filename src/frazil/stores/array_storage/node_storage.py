"""The port to nodes that a place keeps as values, and not as documents under keys: what repositories have instead of `zarr.json`.

Arrays and groups ask array/hierarchy/nodes.py, which asks this port where there is one. Paths are normalised: "" is the root, "a/b" a node below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from frazil.errors import FrazilError
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.stores.array_storage.chunk_storage import ChunkStorage

__all__ = ["NodeReader", "NodeStorage"]

Metadata: TypeAlias = ArrayMetadata | GroupMetadata


class NodeReader(Protocol):
    """The nodes of one hierarchy, to be read."""

    def find(self, path: str) -> Metadata | FrazilError | None:
        """The node at a path; None where there is none."""

    def exists(self, path: str) -> bool:
        """Whether a node is there, whatever may be said of it."""

    def children(self, path: str) -> Sequence[str]:
        """Paths of the direct members of a group, sorted by name, also of such as cannot be read."""

    def below(self, path: str, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
        """The nodes below a group by path, depth first, each level sorted by name. max_depth: 0 for the direct members, None for all."""


class NodeStorage(NodeReader, Protocol):
    """The nodes of one hierarchy. Safe to use from many threads. A node that cannot be read is given as the error that says why, where that is said."""

    @property
    def renewals(self) -> int:
        """Another number after nodes have changed otherwise than by the operations below: what a handle knows of its node may be wrong then."""

    @property
    def version(self) -> tuple[object, int]:
        """What all nodes and chunks were to begin with, for ever; and a number that is another one after each change, 0 where nothing was changed."""

    def require_writable(self) -> None:
        """Raises ReadOnlyError where nothing can be changed, with what to do instead."""

    def change(self, path: str, change: Callable[[Metadata], Metadata]) -> Metadata:
        """Gives a node what `change` makes of its metadata; what it has then. Raises NotFoundError, InvalidInputError, MetadataError."""

    def create(self, nodes: Mapping[str, Metadata], *, overwrite: bool) -> None:
        """Creates nodes, and groups above them where there are none. Raises AlreadyExistsError where something is there and overwrite is false, InvalidInputError
        where an array is above one of them, or where a repository cannot hold what the metadata says; before anything is changed."""

    def check(self, path: str, metadata: Metadata) -> None:
        """Raises InvalidInputError for metadata that a node at this path could not have, and changes nothing."""

    def remove(self, path: str) -> None:
        """Removes a node with everything below it. Raises NotFoundError."""

    def move(self, path: str, to: str) -> None:
        """Renames a node, with everything below it; groups above `to` are made where there are none. Raises NotFoundError, AlreadyExistsError, InvalidInputError."""

    def node_key(self, path: str) -> int | None:
        """What tells the node at a path from every other, wherever it is moved; None where none is there that can be moved."""

    def node_path(self, key: int) -> str | None:
        """Where the node of a key is now; None where it was removed."""

    def array_path(self, path: str, chunks: ChunkStorage) -> str:
        """Where the array is now that these chunks were given for, once at this path. Raises NotFoundError where it was removed."""

    def lengths(self, path: str, chunks: ChunkStorage) -> tuple[int, ...] | None:
        """The lengths of the array that these chunks were given for, once at this path, where they may have changed since `renewals` did; None where they have not."""

    def chunks(self, path: str, metadata: ArrayMetadata) -> ChunkStorage:
        """The chunks of the array at a path, as it is now: it stays that array when it is renamed, and none when it is removed."""
