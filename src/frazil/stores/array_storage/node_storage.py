"""The port to nodes that are stored as values, and not as documents under keys: what repositories have instead of `zarr.json`.

Arrays and groups use array/hierarchy/nodes.py, which uses this port where it exists. Paths are normalised: "" is the root, "a/b" a node below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from frazil.errors import FrazilError
from frazil.metadata.model import ArrayMetadata, Metadata
from frazil.stores.array_storage.chunk_storage import ChunkStorage


class NodeReader(Protocol):
    """The nodes of one hierarchy, for reading."""

    def find(self, path: str) -> Metadata | FrazilError | None:
        """The node at a path; None if it is missing."""

    def exists(self, path: str) -> bool:
        """Whether a node exists, even if it cannot be read."""

    def children(self, path: str) -> Sequence[str]:
        """Paths of the direct members of a group, sorted by name, including those that cannot be read."""

    def below(self, path: str, max_depth: int | None) -> Iterator[tuple[str, Metadata | FrazilError]]:
        """The nodes below a group by path, depth first, each level sorted by name. max_depth: 0 for the direct members, None for all."""


class NodeStorage(NodeReader, Protocol):
    """The nodes of one hierarchy. Safe to use from many threads. For a node that cannot be read, methods that allow it return the error with the reason."""

    @property
    def renewals(self) -> int:
        """A number that changes when nodes have changed other than by the operations below: then the node of a handle may be outdated."""

    @property
    def version(self) -> tuple[object, int]:
        """An identifier of the initial nodes and chunks, which never changes; and a number that changes with each change, 0 if nothing was changed."""

    def require_writable(self) -> None:
        """Raises ReadOnlyError, which names an alternative, if nothing can be changed."""

    def change(self, path: str, change: Callable[[Metadata], Metadata]) -> Metadata:
        """Gives a node the result of `change` on its metadata, and returns its new metadata. Raises NotFoundError, InvalidInputError, MetadataError."""

    def create(self, nodes: Mapping[str, Metadata], *, overwrite: bool) -> None:
        """Creates nodes, and missing groups above them. Raises AlreadyExistsError if a node exists and overwrite is false, InvalidInputError
        if an array is above one of them, or if a repository cannot hold the metadata; before anything is changed."""

    def check(self, path: str, metadata: Metadata) -> None:
        """Raises InvalidInputError for metadata that a node at this path could not have, and changes nothing."""

    def remove(self, path: str) -> None:
        """Removes a node with everything below it. Raises NotFoundError."""

    def new_array(self, path: str, metadata: ArrayMetadata, *, overwrite: bool) -> AbstractContextManager[NodeStorage]:
        """Nodes apart, in which the block of `with` fills a new array at this path, and which nobody else sees. At the end of the block the array takes the
        path, with overwrite in place of what is there, also if the session was committed or rebased meanwhile. If the block raises, nothing changes. Raises as
        `create`, before the block or at its end; ConflictError if the session was discarded, or the group above was renamed or removed meanwhile."""

    def move(self, path: str, to: str) -> None:
        """Renames a node, with everything below it; creates missing groups above `to`. Raises NotFoundError, AlreadyExistsError, InvalidInputError."""

    def node_key(self, path: str) -> int | None:
        """Identifies the node at a path, and stays the same when it is moved; None if there is no node that can be moved."""

    def node_path(self, key: int) -> str | None:
        """The present path of the node of a key; None if it was removed."""

    def array_path(self, path: str, chunks: ChunkStorage) -> str:
        """The present path of the array to which these chunks belong, once at this path. Raises NotFoundError if it was removed."""

    def lengths(self, path: str, chunks: ChunkStorage) -> tuple[int, ...] | None:
        """The lengths of the array to which these chunks belong, once at this path, if they may have changed since `renewals` did; None if they have not."""

    def chunks(self, path: str, metadata: ArrayMetadata) -> ChunkStorage:
        """The chunks of the array that is now at a path: they stay with that array when it is renamed, and with no array when it is removed."""
