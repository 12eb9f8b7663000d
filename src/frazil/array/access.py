"""The state that all reads and writes of one open array share, created once per handle; and errors for failures in the kernel.

Reading is in io/read.py, writing in io/write.py. shards/shard_indexes.py remembers shard indexes."""

from __future__ import annotations

from collections.abc import Callable
from errno import ENOMEM, ESTALE
from typing import Final

import numpy as np

from frazil import _kernel
from frazil.array.hierarchy.stored_document import StoredDocument
from frazil.array.shards.shard_indexes import RememberedIndexes
from frazil.array.shards.shard_options import ShardOptions
from frazil.base.arrays import Columns, Values
from frazil.base.fork_safety import ForkSafeLock
from frazil.base.record import Record
from frazil.base.retry import READS
from frazil.codecs.chain.compiled_chain import Chain
from frazil.codecs.codec import Refusal, caused, decode_error
from frazil.codecs.sharding.shard import Level, index_error
from frazil.errors import (
    ChunkDecodeError,
    ConflictError,
    FrazilError,
    InvalidInputError,
    StoreError,
)
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.types import heap as heaps
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue
from frazil.runtime import Runtime
from frazil.stores.array_storage.chunk_storage import ChunkStorage
from frazil.stores.local.system_errors import unreadable

_LARGE: Final = 2**28  # bytes; smaller indexes fit into memory
# From here on malloc takes fresh pages of the system, one page fault each; from 4 MiB on NumPy asks for huge pages, which need few.
_FRESH_PAGES = range(128 * 1024, 4 * 1024 * 1024)


class Access(Record):
    """Access to the chunks of one array. document: the stored document; indexes: remembered shard indexes, None where none can be remembered; retry_lock: a
    writer holds it while it repeats a write that lost a race; options: how shards are written; variable: None where elements have a fixed size; stores_fill:
    chunks that are all fill value are stored, as a missing chunk may have any value for readers."""

    path: str
    document: StoredDocument
    storage: ChunkStorage
    chain: Chain
    runtime: Runtime
    indexes: RememberedIndexes | None
    retry_lock: ForkSafeLock
    options: ShardOptions = ShardOptions()
    variable: VariableElements | None = None
    stores_fill: bool = False

    def key(self, coords: Columns, row: int = 0) -> str | None:
        """The key of one of the chunks at these coordinates, int64[n, d], for an error; None where it has none."""
        return self.storage.locate(np.ascontiguousarray(coords[row : row + 1])).key(0)

    def with_heap(self, target: Values | None = None) -> Access:
        """This access for one read or write of variable-length elements. target: the elements that a read fills."""
        assert self.variable is not None, "other elements need no heap"
        heap = heaps.Heap(self.variable.data_type.heap_fill(self.variable.fill), target, max(self.runtime.threads, 1))
        return self._replace(chain=self.chain._replace(inner_chunk=self.chain.inner_chunk.with_heap(heap)))

    def elements_of(self, values: Values) -> tuple[Access, Values]:
        """Values as elements of the engine, and the access that writes them. Raises InvalidInputError for values that the data type does not have."""
        if self.variable is None:
            return self, values
        access = self.with_heap()
        assert access.chain.inner_chunk.heap is not None, "with_heap"
        return access, self.variable.data_type.elements_of(values, access.chain.inner_chunk.heap)


def result_memory(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Values:
    """np.empty(shape, dtype), with its pages: a read of a megabyte is a sixth faster. Raises ValueError and MemoryError as NumPy does."""
    values = np.empty(shape, dtype)
    if values.nbytes in _FRESH_PAGES and not dtype.hasobject:
        _kernel.populate(values.reshape(-1).view(np.uint8))  # some data types have no buffers
    return values


class VariableElements(Record):
    """Elements of variable length: their data type, and the fill value."""

    data_type: DataType
    fill: FillValue


def variable_elements(metadata: ArrayMetadata) -> VariableElements | None:
    """The VariableElements of an array; None where elements have a fixed size."""
    data_type = metadata.data_type
    return None if data_type.element is data_type.dtype else VariableElements(data_type, metadata.fill_value)


def shard_replaced(access: Access, key: str | None) -> ConflictError:
    """The error of a reader after all attempts."""
    return ConflictError(
        f"a shard was replaced {READS.attempts} times while it was read",
        key=key,
        path=access.path or "/",
        hint="read again when its writer is done",
    )


def codec_error(
    access: Access, error: FrazilError | MemoryError, key: str | None, chunk: tuple[int, ...] | None
) -> FrazilError | MemoryError:
    """An error of a codec, with the names of what was decoded or encoded."""
    if isinstance(error, FrazilError):
        error.key, error.path, error.chunk = key, access.path or "/", chunk
    else:
        error.add_note(str(FrazilError("in the codecs of a chunk", key=key, path=access.path or "/", chunk=chunk)))
    return error


def check_index_memory(access: Access, shards: int, key: Callable[[], str | None]) -> None:
    """Raises StoreError if the indexes of this many shards do not fit into memory, before anything is encoded: a document may declare any number of inner
    chunks."""
    level = access.chain.levels[0]
    nbytes = shards * (16 * level.total + level.index_codecs.nbytes)
    if nbytes >= _LARGE:
        try:
            np.empty(nbytes, np.uint8)
        except MemoryError as error:
            raise index_memory_error(access, level, key()) from error


def index_memory_error(
    access: Access, level: Level, key: str | None, chunk: tuple[int, ...] | None = None
) -> StoreError:
    """The error for a shard whose index is larger than memory."""
    return StoreError(
        f"there is not enough memory for the index of a shard of {level.total} inner chunks",
        errno=ENOMEM,
        key=key,
        path=access.path or "/",
        chunk=chunk,
        hint="an index takes 16 bytes in memory for each inner chunk, and as many in the shard: use smaller shards, or larger chunks",
    )


def failure(
    access: Access, code: int, text: str, key: str | None, chunk: tuple[int, ...] | None
) -> FrazilError | MemoryError:
    """The error for a chunk that the kernel could not read, decode or encode; chunk: coordinates of the (inner) chunk in the array's grid of such chunks."""
    path = access.path or "/"
    if isinstance(text, Refusal) and (code == _kernel.FAILED_ENCODE or isinstance(text.error, MemoryError)):
        return codec_error(access, text.error, key, chunk)
    if code == _kernel.FAILED_ENCODE:
        return InvalidInputError(
            f"a chunk could not be encoded: {text}",
            key=key,
            path=path,
            chunk=chunk,
            hint="the stored data are intact: the codecs of the array cannot encode these values",
        )
    if code == _kernel.FAILED_STALE:
        return unreadable(ESTALE, key=key, path=path, chunk=chunk, message="a chunk could not be read")
    if code in (_kernel.FAILED_INDEX, _kernel.FAILED_INDEX_CHECKSUM):
        return codec_error(access, index_error(code, text), key, chunk)
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
        return unreadable(int(number), key=key, path=path, chunk=chunk, message="a chunk could not be read")
    message = f"a chunk could not be decoded: {text}"
    error = caused(decode_error(code)(message, key=key, path=path, chunk=chunk), text)
    error.hint = (
        "its stored bytes are damaged, or its metadata is of another array; writing the whole chunk again repairs it"
    )
    if isinstance(error, ChunkDecodeError) and error.codec_failed:
        error.hint = "the stored bytes may be intact: the exception of the codec says what is wrong with it"
    return error
