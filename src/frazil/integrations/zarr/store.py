"""A store of zarr-python over a store of ours. Each method is one call of our store, in a thread where zarr-python awaits it.

targets.py chooses the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from frazil.array.hierarchy.hidden_nodes import V2_NODES, refuse_documents
from frazil.errors import InvalidInputError
from frazil.integrations.zarr.threads import in_thread
from frazil.metadata.paths import ancestors
from frazil.metadata.v2.documents import ATTRIBUTES
from frazil.metadata.v3.documents import DOCUMENT_NAME
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.keys.names import check_key
from frazil.stores.store import Store
from frazil.stores.values import ABSENT, ANY, Version, pieces_of

if TYPE_CHECKING:
    from frazil._kernel import Buffer as Bytes

R = TypeVar("R")
Request = tuple[str, "ByteRequest | None"]

_WHOLE: Final = (0, None)


class FrazilStore(ZarrStore):
    """Keys of `target` that begin with `prefix`, as a store of zarr-python. Created by as_store; can be pickled if the target can.

    read_only  whether zarr-python may not write; always if the target is not writable
    Equal to another one over the same keys with the same permissions. Errors are ours: a StoreError is an OSError, an InvalidInputError a ValueError."""

    def __init__(self, target: Store, prefix: str = "", *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only or not target.capabilities.writable)
        self.target: Final = target
        self.prefix: Final = prefix

    def __repr__(self) -> str:
        return f"FrazilStore({self.target!r}{f', {self.prefix!r}' if self.prefix else ''})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FrazilStore)
            and (self.prefix, self.read_only) == (other.prefix, other.read_only)
            and _is_same(self.target, other.target)
        )

    def __hash__(self) -> int:
        return hash((type(self), self.prefix, self.read_only))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (self.target, self.prefix, self.read_only, self._is_open)

    def with_read_only(self, read_only: bool = False) -> FrazilStore:
        """The same keys, read-only or not. Raises InvalidInputError if the target cannot be written."""
        if not read_only and not self.target.capabilities.writable:
            raise InvalidInputError(
                f"{self.target} can only be read", hint="of a repository, give as_store a writable session"
            )
        return FrazilStore(self.target, self.prefix, read_only=read_only)

    @property
    def supports_writes(self) -> bool:
        return self.target.capabilities.writable

    @property
    def supports_deletes(self) -> bool:
        return self.target.capabilities.erasable

    @property
    def supports_listing(self) -> bool:
        return self.target.capabilities.listable

    @property
    def supports_partial_writes(self) -> bool:
        return False

    @property
    def supports_consolidated_metadata(self) -> bool:
        """Not in a session: a repository keeps metadata in one place anyway, and its format has no place for copies."""
        return not isinstance(self.target, NodeStore)

    # --- reading -------------------------------------------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return await self._in_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[Request]
    ) -> list[Buffer | None]:
        requests = list(key_ranges)
        values = await self._in_thread(self._read, requests)
        return [_buffer(value, prototype) for value in values]

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncIterator[tuple[str, Buffer | None]]:
        request_list = list(requests)
        values = await self._in_thread(self._read, [(key, byte_range) for key, _, byte_range in request_list])
        for (key, prototype, _), value in zip(request_list, values, strict=True):
            yield key, _buffer(value, prototype)

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return _buffer(self._read([(key, byte_range)])[0], prototype)

    def _read(self, requests: list[Request]) -> list[bytes | None]:
        self._is_open = True
        if all(byte_range is None for _, byte_range in requests):
            return self.target.get_many([self.prefix + key for key, _ in requests], None)
        return self.target.get_partial_values([(self.prefix + key, _span(part)) for key, part in requests])

    async def exists(self, key: str) -> bool:
        return await self._in_thread(self.target.exists, self.prefix + key)

    async def getsize(self, key: str) -> int:
        size = int((await self._in_thread(self.target.sizes, [self.prefix + key]))[0])
        return size if size >= 0 else await super().getsize(key)  # raises zarr-python's error for a missing key

    async def getsize_prefix(self, prefix: str) -> int:
        return await self._in_thread(self._size_below, self._folder(prefix))

    def _size_below(self, prefix: str) -> int:
        pages = self.target.list_pages(prefix, details=True)
        return sum(int(np.maximum(page.sizes, 0).sum()) for page in pages if page.sizes is not None)

    # --- writing -------------------------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, byte_range: tuple[int, int] | None = None) -> None:
        if byte_range is not None:
            raise InvalidInputError("a value can only be set whole, without a byte_range", key=key)
        await self._in_thread(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._in_thread(self._create, self.prefix + key, _bytes(value))

    def _create(self, key: str, value: Bytes) -> None:
        self._refuse_hidden([key])
        if self.target.capabilities.expects:
            self._put({key: value}, ABSENT)
        elif not self.target.exists(key):
            self._put({key: value})

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        self._check_writable()
        new = {self.prefix + key: _bytes(value) for key, value in values}
        if new:
            await self._in_thread(self._put, new)

    def _put(self, values: dict[str, Bytes], expect: Version | None = ANY) -> None:
        for key in values:
            check_key(key)
        self.target.require("writable")
        self._refuse_hidden(values)
        self.target.put_many(list(values), pieces_of(list(values.values())), [expect] * len(values))

    def _refuse_hidden(self, keys: Iterable[str]) -> None:
        """Raises InvalidInputError for documents of nodes next to a node of another dialect, or inside one, because one of them would hide the other.
        zarr-python looks only for nodes of the same dialect."""
        if isinstance(self.target, NodeStore):  # has only one dialect
            return
        for names, others in (((*V2_NODES, ATTRIBUTES), (DOCUMENT_NAME,)), ((DOCUMENT_NAME,), V2_NODES)):
            parts = [key[len(self.prefix) :].rpartition("/") for key in keys]
            new = {path for path, _, name in parts if name in names}
            paths = new.union(*map(ancestors, new))
            refuse_documents(self.target, self.prefix.rstrip("/"), sorted(paths), others)

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Bytes]]) -> None:
        """Only in zarr-python 3.0."""
        self._check_writable()
        parts = [(self.prefix + key, start, value) for key, start, value in key_start_values]
        await self._in_thread(self.target.set_partial_values, parts)

    def set_sync(self, key: str, value: Buffer) -> None:
        self._check_writable()
        self._is_open = True
        self._put({self.prefix + key: _bytes(value)})

    async def delete(self, key: str) -> None:
        await self._in_thread(self.delete_sync, key)

    def delete_sync(self, key: str) -> None:
        self._check_writable()
        self._is_open = True
        self.target.erase(self.prefix + key)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await self._in_thread(self.target.erase_prefix, self._folder(prefix))

    async def clear(self) -> None:
        await self.delete_dir("")

    # --- listing -------------------------------------------------------------------------------------------------------------------

    async def is_empty(self, prefix: str) -> bool:
        return await self._in_thread(self.target.is_empty, self._folder(prefix))

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        folder, _, start = prefix.rpartition("/")
        below = self._folder(folder)
        async for page in self._pages(below, delimited=False):
            for key in page:
                if key.startswith(start, len(below)):
                    yield key[len(self.prefix) :]

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        below = self._folder(prefix)
        async for page in self._pages(below, delimited=True):
            for row in page:
                yield row[len(below) :].removesuffix("/")

    async def _pages(self, below: str, *, delimited: bool) -> AsyncIterator[Iterable[str]]:
        self.target.require("listable")
        following: str | None = ""
        while following is not None:
            page = await self._in_thread(self.target.list_page, below, following, delimited=delimited)
            yield page.keys
            following = page.next

    def _folder(self, prefix: str) -> str:
        inner = prefix.strip("/")
        return f"{self.prefix}{inner}/" if inner else self.prefix

    async def _in_thread(self, call: Callable[..., R], *args: object, **options: object) -> R:
        self._is_open = True
        return await in_thread(call, *args, **options)


def _rebuilt(target: Store, prefix: str, read_only: bool, is_open: bool) -> FrazilStore:
    store = FrazilStore(target, prefix, read_only=read_only)
    store._is_open = is_open
    return store


def _is_same(store: Store, other: Store) -> bool:
    """Whether two stores always have the same values under the same keys."""
    if store is other:
        return True
    if isinstance(store, NodeStore) and isinstance(other, NodeStore):
        if store.nodes is other.nodes:
            return True
        return store.read_only and other.read_only and _is_equal(store.nodes.version, other.nodes.version)
    return type(store) is type(other) and store.identity is not None and store.identity == other.identity


def _is_equal(value: object, other: object) -> bool:
    if isinstance(value, Store) and isinstance(other, Store):
        return _is_same(value, other)
    if isinstance(value, tuple) and isinstance(other, tuple):
        return len(value) == len(other) and all(map(_is_equal, value, other))
    return value == other


def _span(byte_range: ByteRequest | None) -> tuple[int, int | None]:
    """(start, length) as arguments of a Store's get_partial_values. Raises InvalidInputError for a value that is not a request of zarr-python."""
    if byte_range is None:
        return _WHOLE
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.start, max(byte_range.end - byte_range.start, 0)
    if isinstance(byte_range, OffsetByteRequest):
        return byte_range.offset, None
    if isinstance(byte_range, SuffixByteRequest):
        return (-byte_range.suffix, None) if byte_range.suffix else (0, 0)
    raise InvalidInputError(f"Unexpected byte_range, got {byte_range!r}.")


def _buffer(value: Any, prototype: BufferPrototype | None) -> Buffer | None:
    if value is None:
        return None
    return (prototype or default_buffer_prototype()).buffer.from_bytes(value)


def _bytes(value: Buffer) -> Bytes:
    """The memory of a buffer of zarr-python, without a copy."""
    if not isinstance(value, Buffer):
        raise InvalidInputError(f"a value must be a Buffer of zarr-python, not {type(value).__name__}")
    values: Bytes = value.as_numpy_array()
    return values
