"""The values that reads and writes of one array share, made once when it is opened; and the errors for failures in the kernel.

Reading is in io/read.py, writing in io/write.py; the shard indexes that an array remembers are in io/shard_indexes.py."""

from __future__ import annotations

import os
from _thread import allocate_lock  # threading's Lock, without the module
from errno import ENOMEM
from typing import TYPE_CHECKING
from weakref import WeakSet

from frazil import _kernel
from frazil.array.shard_options import ShardOptions
from frazil.codecs.codec import Refusal, cause_of
from frazil.codecs.leaf import Chain
from frazil.codecs.shard import index_error
from frazil.errors import (
    ChecksumError,
    ChunkDecodeError,
    DataError,
    FormatError,
    FrazilError,
    InvalidInputError,
    StoreError,
)
from frazil.record import Record
from frazil.runtime import Runtime
from frazil.stores.array_storage.chunk_storage import ChunkStorage

if TYPE_CHECKING:
    from frazil.array.hierarchy.stored_document import StoredDocument
    from frazil.array.io.shard_indexes import RememberedIndexes


class Access(Record):
    """Access to the chunks of one array. document: the stored document; indexes: remembered shard indexes, None where none can be; turn: a lock that a
    writer holds while it repeats a write that lost a race; options: how shards are written."""

    path: str
    document: StoredDocument
    storage: ChunkStorage
    chain: Chain
    runtime: Runtime
    indexes: RememberedIndexes | None
    turn: ForkSafeLock
    options: ShardOptions = ShardOptions()


class ForkSafeLock:
    """A lock that is open in the child of a fork, even if a thread of the parent holds it: that thread does not exist in the child."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self.after_fork()
        _held.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def after_fork(self) -> None:
        self._lock = allocate_lock()


_held: WeakSet[ForkSafeLock] = WeakSet()  # of this process, for its children


def _after_fork() -> None:
    for held in _held:
        held.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_ERRORS: dict[int, type[DataError]] = {
    _kernel.FAILED_RANGE: FormatError,
    _kernel.FAILED_DECODE: ChunkDecodeError,
    _kernel.FAILED_CHECKSUM: ChecksumError,
    _kernel.FAILED_SIZE: ChunkDecodeError,
}


def failure(access: Access, code: int, text: str, key: str | None, chunk: tuple[int, ...] | None) -> FrazilError:
    """The error for what the kernel could not read, decode or encode; chunk: coordinates of the (inner) chunk in the array's grid of such chunks."""
    path = access.path or "/"
    if code == _kernel.FAILED_ENCODE:
        if isinstance(text, Refusal):
            text.error.key, text.error.path, text.error.chunk = key, path, chunk
            return text.error
        return InvalidInputError(
            f"a chunk could not be encoded: {text}",
            key=key,
            path=path,
            chunk=chunk,
            hint="nothing is wrong with what is stored: the codecs of the array cannot take these values",
        )
    if code in (_kernel.FAILED_INDEX, _kernel.FAILED_INDEX_CHECKSUM):
        refused = index_error(code, text)
        refused.key, refused.path, refused.chunk = key, path, chunk
        return refused
    if code == _kernel.FAILED_IO:
        number, _, message = text.partition(" ")
        if number == str(ENOMEM):
            return StoreError(
                f"there is not enough memory to decode or encode a chunk: {message}",
                errno=ENOMEM,
                key=key,
                path=path,
                chunk=chunk,
                hint="use fewer threads or fewer bytes_in_flight (frazil.Runtime), or smaller chunks",
            )
        return StoreError(
            f"a chunk could not be read: {message or text}",
            errno=int(number) if number.isdigit() else None,
            key=key,
            path=path,
            chunk=chunk,
        )
    error = _ERRORS.get(code, ChunkDecodeError)(
        f"a chunk could not be decoded: {text}",
        key=key,
        path=path,
        chunk=chunk,
        hint="its stored bytes are damaged, or its metadata is of another array; writing the whole chunk anew mends it",
    )
    error.__cause__ = cause_of(text)
    return error
