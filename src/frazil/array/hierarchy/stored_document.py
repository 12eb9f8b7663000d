"""Compares the stored document of an open array with the one that the handle was opened from: for each write, and where chunks seem to be damaged.

A handle keeps the layout of its chunks. Other processes may change lengths and attributes; the handle tolerates both. If they replaced the array, chunks of the
old layout would make the new array unreadable. If they made it smaller, chunks beyond the end would become visible when it grows again
(docs/design/024-handles.md). Nodes in repositories have a storage that checks this itself. nodes.py reads documents, node_changes.py changes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from frazil import _kernel
from frazil.array.hierarchy.nodes import NodeLocation, find_node
from frazil.base import threads
from frazil.base.packages import threading
from frazil.base.record import Record
from frazil.errors import ConflictError, FrazilError, NotFoundError
from frazil.metadata.model import ArrayMetadata
from frazil.stores.transfer.content import read_values
from frazil.stores.values import WHOLE, Version

if TYPE_CHECKING:
    from frazil.indexing.selection import Selection
    from frazil.stores.array_storage.chunk_storage import ChunkStorage


# members that never change in an array
_FIXED: Final = (
    *("ndim", "data_type", "fill_value", "chunk_grid", "chunk_key_encoding"),
    *("codecs", "storage_transformers", "zarr_format"),
)


def check_same_array(stored: object, opened: ArrayMetadata, path: str) -> ArrayMetadata:
    """The stored metadata, if a handle that was opened with the metadata `opened` can read and write its chunks.

    Raises NotFoundError where no array is stored, ConflictError where another array is."""
    if not isinstance(stored, ArrayMetadata):
        raise NotFoundError(
            "the array is gone", path=path or "/", hint="another process removed it; open or create another array"
        )
    for member in _FIXED:
        now, then = getattr(stored, member), getattr(opened, member)
        if now is not then and now != then and not _is_growth(now, then):
            raise ConflictError("another array is now at this location", path=path or "/", hint="open it again")
    return stored


def _is_growth(now: object, then: object) -> bool:
    """Whether both are chunk grids of one array, whose grid gets more chunks as it grows."""
    continues = getattr(now, "continues", None)
    return continues is not None and continues(then)


class _Checked(Record):
    """A document that was compared. It is recognised by its bytes, and by its version if no other content can have that."""

    version: Version | None
    document: bytes
    shape: tuple[int, ...]


def followed(location: NodeLocation, chunks: ChunkStorage) -> NodeLocation:
    """The present location of the array of these chunks, which was at `location`: in a session it may have been moved. Raises NotFoundError where it was
    removed there."""
    path = location.path if location.nodes is None else location.nodes.array_path(location.path, chunks)
    return location if path == location.path else location.at(path)


def check_in_place(
    stored: object, opened: ArrayMetadata, location: NodeLocation, chunks: ChunkStorage
) -> ArrayMetadata:
    """As check_same_array, for the metadata stored at a location; ConflictError also where the array of these chunks was moved from there."""
    found = check_same_array(stored, opened, location.path)
    if followed(location, chunks) is not location:
        raise ConflictError("the array was moved in the meantime", path=location.path or "/", hint="try again")
    return found


def change_to_its_end(location: NodeLocation, change: Callable[[], None]) -> None:
    """Calls `change`, which changes the lengths of a stored array. No interrupt stops it, which would leave open whether they have changed. But the wait for
    another process that has the lock of the document is done before, where an interrupt ends it."""
    if location.nodes is not None:  # a session, which knows it
        change()
        return
    if (root := location.store.kernel_root()) is not None:
        _kernel.await_lock(root.fd, location.layout.document_key(location.path, ArrayMetadata))
    threads.to_its_end(change)


class StoredDocument:
    """Safe to use from many threads: its memory is replaced as one value."""

    __slots__ = ("_checked", "_chunks", "_location", "_new", "_opened", "_there")

    def __init__(self, location: NodeLocation, opened: ArrayMetadata, chunks: ChunkStorage, exists: bool) -> None:
        """chunks: of the array. exists: whether a document must be stored; else nothing is compared, as for a node in a repository."""
        self._location, self._opened, self._chunks = location, opened, chunks
        self._there = exists and location.nodes is None
        self._checked: _Checked | None = None
        self._new = False

    def mark_new(self) -> None:
        """The array has just been created: the next write need not compare the document."""
        self._new = True

    def confirm(self, shape: tuple[int, ...] | None = None, ends: Callable[[], tuple[int, ...]] | None = None) -> None:
        """Raises NotFoundError where the array was removed, ConflictError where another array has taken its location, or where the array has become too small
        for a selection, MetadataError, StoreError.

        shape  the lengths that the selection was made for; None: lengths do not matter
        ends   the end of the selection along each axis; called only where the stored lengths differ from `shape`

        For an array in a repository, whose chunks know whether it was removed or replaced, only the lengths are compared, with the session. Otherwise one
        request; on a local disk one system call where the document is the same as the last time."""
        if self._new:
            self._new = False
            return
        nodes = self._location.nodes
        if nodes is not None:
            stored = nodes.lengths(self._location.path, self._chunks)
        else:
            stored = self._shape_now() if self._there else None
        if stored is not None and shape is not None and stored != shape and ends is not None:
            self._check_inside(stored, shape, ends())

    def refuse_other_array(self) -> None:
        """Raises ConflictError where another array has taken the location, whose chunks are not damaged. Other errors are not raised, as the caller has one."""
        if self._location.copies is None:  # these may be of documents that are not stored
            try:
                self.confirm()
            except ConflictError:
                raise
            except FrazilError:
                pass

    def confirm_for(self, selection: Selection) -> Callable[[], None]:
        """`confirm` with the arguments for a selection."""
        return partial(self.confirm, selection.shape, selection.ends)

    def _check_inside(self, stored: tuple[int, ...], shape: tuple[int, ...], ends: tuple[int, ...]) -> None:
        if any(end > length for end, length in zip(ends, stored, strict=True)):
            raise ConflictError(
                f"the array is smaller now: others changed its shape from {shape} to {stored}, and the selection reaches to {ends}",
                path=self._location.path or "/",
                hint="open it again, or call refresh(), and write inside the new shape",
            )

    def takes_request(self, direct: bool) -> bool:
        """Whether `confirm` takes a request, so that it is worth a thread. direct: Capabilities.direct."""
        return self._there and not direct and not self._new

    def has_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether the array has these lengths, by a document that is read during the call; by its own metadata where no document is stored. Raises as
        `confirm`."""
        location = self._location
        if location.nodes is None:
            return (self._shape_now() if self._there else self._opened.shape) == shape
        lengths = location.nodes.lengths(location.path, self._chunks)
        if lengths is not None:
            return lengths == shape
        node = find_node(followed(location, self._chunks))
        return isinstance(node, ArrayMetadata) and node.shape == shape

    def _shape_now(self) -> tuple[int, ...]:
        """The stored lengths, from a document that was compared."""
        location, last = self._location, self._checked
        names = [location.layout.document_key(location.path, ArrayMetadata)]
        if last is not None and last.version is not None and location.store.has_version(names[0], last.version):
            return last.shape
        fetched = location.store.fetch(names, WHOLE)
        document = read_values(fetched, names, WHOLE)[0]
        version = (
            None if fetched.version_may_repeat is not None and fetched.version_may_repeat[0] else fetched.versions[0]
        )
        if document is None or last is None or last.document != document:
            registry = location.registry.without_warnings()
            stored = None if document is None else location.layout.parse(names[0], document, registry)
            last = _Checked(version, document or b"", check_same_array(stored, self._opened, location.path).shape)
        self._checked = last._replace(version=version)
        return last.shape


class Confirmation:
    """A comparison of the document that takes a request. It runs on its own thread, in parallel with the other requests of a write."""

    __slots__ = ("_confirm", "_error", "_thread")

    def __init__(self, confirm: Callable[[], None]) -> None:
        """confirm: StoredDocument.confirm with its arguments."""
        self._confirm = confirm
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name="frazil document", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads are available
            self._thread = None
            self._run()

    def _run(self) -> None:
        try:
            self._confirm()
        except BaseException as error:
            self._error = error

    def await_answer(self) -> None:
        """Raises the error of `confirm`, if there is one."""
        self.end()
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """Awaits the request, without its error."""
        if self._thread is not None:
            threads.join(self._thread)
