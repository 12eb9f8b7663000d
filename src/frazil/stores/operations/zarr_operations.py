"""Operations of a store over any store of zarr-python. Its coroutines run in zarr-python's event loop, in the thread of that loop; our threads wait for them.

A store on a local disk or over a client of obstore is not adapted: ours is used instead, as it has versions and conditional writes. A FsspecStore is adapted by
fsspec_operations.py. The other direction, zarr-python over our stores, is integrations/zarr."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import zarr.storage
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.core.sync import _get_loop as event_loop

from frazil.base.threads import Pending
from frazil.errors import StoreError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.objects.clients import is_client, is_supported
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.operations.adapted_store import AdaptedStore
from frazil.stores.operations.fsspec_operations import FileSystemOperations
from frazil.stores.operations.protocols import MISSING_ERRORS
from frazil.stores.store import Store
from frazil.stores.wrappers import read_only

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest

A = TypeVar("A")
R = TypeVar("R")

# of Icechunk's store, for keys and prefixes that no node of Zarr v3 has: "c" and "c/0" would be chunks of an array, also where a group has a member "c"
_REFUSALS: Final = ("invalid zarr key format", "bad key prefix", "there is not an array at `/", "node not found at `/")


def store_over(
    location: ZarrStore | zarr.storage.StorePath, requests_in_flight: int, bytes_in_flight: int
) -> tuple[Store, str]:
    """The store over a store of zarr-python, and the prefix of the keys of a StorePath. A store that zarr-python must not write is read only here too."""
    if isinstance(location, zarr.storage.StorePath):
        store, prefix = store_over(location.store, requests_in_flight, bytes_in_flight)
        inside = location.path.strip("/")
        return store, f"{prefix}{inside}/" if inside else prefix
    inner, prefix = _unwrapped(location, requests_in_flight, bytes_in_flight)
    return (read_only(inner) if location.read_only else inner), prefix


def _unwrapped(location: ZarrStore, requests_in_flight: int, bytes_in_flight: int) -> tuple[Store, str]:
    target = getattr(location, "target", None)
    if isinstance(target, Store):  # created by frazil.zarr.as_store
        return target, str(location.prefix)
    if type(location) is zarr.storage.LocalStore:
        return LocalStore(os.fspath(location.root)), ""
    client: Any = getattr(location, "store", None)
    is_of_obstore = type(location) is zarr.storage.ObjectStore and is_client(client)
    if is_of_obstore and getattr(client, "prefix", None) and type(client).__name__ == "LocalStore":
        return LocalStore(os.fspath(client.prefix)), ""
    if is_of_obstore and is_supported(client):
        return ObjectStore(client, requests_in_flight=requests_in_flight, bytes_in_flight=bytes_in_flight), ""
    operations: ZarrOperations | FileSystemOperations
    if type(location) is zarr.storage.FsspecStore:  # its listings, sizes and `exists` mistake folders for values
        path = str(location.fs._strip_protocol(location.path)).rstrip("/")
        operations = FileSystemOperations(
            location.fs, path, requests_in_flight, event_loop, location.allowed_exceptions
        )
    else:
        operations = ZarrOperations(location, requests_in_flight)
    return AdaptedStore(operations, guard_name=f"zarr {type(location).__qualname__} {location}"), ""


class ZarrOperations:
    """The operations that AdaptedStore needs: ranges and sizes of many keys in one call, with up to `requests_in_flight` requests at once. Unsupported
    operations are None."""

    suffix_ranges: Final = True

    def __init__(
        self,
        store: ZarrStore,
        requests_in_flight: int | None,
        loop: Callable[[], asyncio.AbstractEventLoop] = event_loop,
        *,
        missing: tuple[type[Exception], ...] = MISSING_ERRORS,
    ) -> None:
        """requests_in_flight: None for no limit;  loop: where coroutines run;  missing: errors of the store for a missing key, which zarr-python does not
        know"""
        self.store: Final = store
        self._loop = loop
        self._requests = requests_in_flight
        self._missing = missing
        can_list = store.supports_listing
        self.erase_values = self._erase_values if store.supports_deletes else None
        self.erase_prefix = self._erase_prefix if store.supports_deletes and can_list else None
        self.list = self._list if can_list else None
        self.list_prefix = self._list_prefix if can_list else None
        self.list_dir = self._list_dir if can_list else None

    def __repr__(self) -> str:
        return repr(self.store)

    def __reduce__(self) -> tuple[object, ...]:
        return ZarrOperations, (self.store, self._requests, self._loop)

    # --- values --------------------------------------------------------------------------------------------------------------------

    def get_partial_values(self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes | None]:
        return self._map(self._get, key_ranges)

    async def _get(self, key_range: tuple[str, tuple[int, int | None]]) -> bytes | None:
        key, span = key_range
        value = await _found(
            self.store.get(key, default_buffer_prototype(), _request(*span)), None, missing=self._missing
        )
        return None if value is None else bytes(value.to_bytes())

    def sizes(self, keys: Sequence[str]) -> list[int | None]:
        return self._map(self._size, keys)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        return self._map(self._exists, keys)

    async def _exists(self, key: str) -> bool:
        return await _found(self.store.exists(key), absent=False, missing=self._missing)

    def size(self, key: str) -> int | None:
        return self.sizes([key])[0]

    async def _size(self, key: str) -> int | None:
        size: int | None = await _found(self.store.getsize(key), None)
        if size == 0 and not await self._exists(key):  # Icechunk's store answers 0 for a missing chunk
            return None
        return size

    def set(self, key: str, value: bytes) -> None:
        self.set_values({key: value})

    def set_values(self, values: Mapping[str, bytes]) -> None:
        self._map(self._set, list(values.items()))

    async def _set(self, item: tuple[str, bytes]) -> None:
        await self.store.set(item[0], cpu.Buffer.from_bytes(item[1]))

    def _erase_values(self, keys: Collection[str]) -> None:
        self._map(self._delete, list(keys))

    async def _delete(self, key: str) -> None:
        await _found(self.store.delete(key), None)

    def _erase_prefix(self, prefix: str) -> None:
        if not self._run(lambda: _found(self._deleted(prefix), absent=False, missing=())):
            self._erase_values(self._list_prefix(prefix))

    async def _deleted(self, prefix: str) -> bool:
        await self.store.delete_dir(prefix.removesuffix("/"))
        return True

    # --- listing -------------------------------------------------------------------------------------------------------------------

    def _list(self) -> list[str]:
        return self._run(lambda: _items(self.store.list))

    def _list_prefix(self, prefix: str) -> list[str]:
        found = self._run(lambda: _found(_items(self.store.list_prefix, prefix), None, missing=()))
        return [key for key in (self._list() if found is None else found) if key.startswith(prefix)]

    def _list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """zarr-python does not distinguish keys and prefixes: each name is looked up."""
        listed = self._run(lambda: _found(_items(self.store.list_dir, prefix), [], missing=()))
        names = sorted({prefix + name.strip("/") for name in listed if name.strip("/")})
        found = self._map(self._key_and_prefix, names)
        keys = [name for name, (is_key, _) in zip(names, found, strict=True) if is_key]
        return keys, [name for name, (_, is_prefix) in zip(names, found, strict=True) if is_prefix]

    async def _key_and_prefix(self, name: str) -> tuple[bool, bool]:
        if not await self._exists(name):
            return False, True
        async for below in self.store.list_dir(f"{name}/"):
            if below:
                return True, True
        return True, False

    # --- the event loop ------------------------------------------------------------------------------------------------------------

    def _map(self, call: Callable[[A], Coroutine[object, object, R]], items: Sequence[A]) -> list[R]:
        """The results of a coroutine function for each item; raises the first error after all have ended."""
        if not items:
            return []

        async def run() -> list[R]:
            gate = asyncio.Semaphore(self._requests or len(items))

            async def one(item: A) -> R:
                async with gate:
                    return await call(item)

            answers = await asyncio.gather(*map(one, items), return_exceptions=True)
            failed = next((answer for answer in answers if isinstance(answer, BaseException)), None)
            if failed is None:
                return answers  # type: ignore[return-value] # no exception is there
            try:
                raise failed
            finally:
                del failed, answers  # its traceback has this frame, and other answers

        return self._run(run)

    def _run(self, call: Callable[[], Coroutine[object, object, R]]) -> R:
        """The result of a coroutine function, which runs in the loop. Raises StoreError in the thread of that loop, which would wait for itself."""
        loop = self._loop()
        if asyncio._get_running_loop() is loop:
            raise StoreError(
                f"{self.store} is used from zarr-python's own event loop", hint="call Frazil in another thread"
            )

        async def opened() -> R:
            if not self.store._is_open:  # not all methods of all stores open it
                await self.store._ensure_open()
            return await call()

        answers: list[R | BaseException] = []
        ended = Pending(answers.pop)  # an interrupt within Future.result may keep a lock that the loop needs
        tasks: list[asyncio.Task[None]] = []

        async def run() -> None:
            try:
                answers.append(await opened())
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                answers.append(error)

        def begin() -> None:
            tasks.append(loop.create_task(run()))
            tasks[0].add_done_callback(end)

        def end(_: object) -> None:
            if not answers:  # the loop ends, or the store cancels itself
                answers.append(CancelledError())
            ended.run()

        def cancel() -> None:
            tasks[0].cancel()

        loop.call_soon_threadsafe(begin)
        try:
            answer = ended.result()
        except BaseException:  # Ctrl-C: running requests are ended
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(cancel)
            raise
        if not isinstance(answer, BaseException):
            return answer
        try:
            raise answer
        finally:
            del answer  # its traceback has this frame


async def _items(list_names: Callable[..., AsyncIterator[str]], *prefix: str) -> list[str]:
    return [name async for name in list_names(*prefix)]


async def _found(call: Awaitable[R], absent: R, *, missing: tuple[type[Exception], ...] = MISSING_ERRORS) -> R:
    """What `call` returns; `absent` for a missing key, and where Icechunk's store refuses a key or a prefix that no node of Zarr v3 has."""
    try:
        return await call
    except missing:
        return absent
    except Exception as error:
        # only its message tells this from chunks that it must not or cannot read: these must never be missing chunks
        message = str(error).partition("context:")[0]
        if type(error).__module__.partition(".")[0] != "icechunk" or not any(text in message for text in _REFUSALS):
            raise
        return absent


def _request(start: int, length: int | None) -> ByteRequest | None:
    if start < 0:
        return SuffixByteRequest(-start)
    if length is None:
        return OffsetByteRequest(start) if start else None
    return RangeByteRequest(start, start + length)
