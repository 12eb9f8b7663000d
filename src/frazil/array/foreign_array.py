"""An array that another library has opened: its chunks are read and written here, but its document is not. That library passes selections.

array.py has the arrays of Frazil, which also check their documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from frazil.array.access import Access, variable_elements
from frazil.array.compiled_array import CompiledArray
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.io.read import plan_of, read_selection
from frazil.array.io.write import write
from frazil.array.shards.shard_indexes import remembered_indexes
from frazil.array.shards.shard_options import ShardOptions
from frazil.base.arrays import Columns, Values
from frazil.base.fork_safety import ForkSafeLock
from frazil.indexing.points import Plan
from frazil.indexing.selection import Selection
from frazil.metadata.model import ArrayMetadata
from frazil.runtime import Runtime
from frazil.stores.array_storage.chunk_storage import ChunkStorage
from frazil.stores.caches.byte_cache import ByteCache
from frazil.stores.store import Store

if TYPE_CHECKING:
    from frazil.array.hierarchy.stored_document import StoredDocument


class ForeignArray:
    """The chunks of one array. The lengths of the array do not matter: a selection may be made for any lengths. dtype: of values that are read and written.
    Safe to use from many threads."""

    __slots__ = ("_access", "_compiled", "dtype")

    def __init__(
        self,
        storage: ChunkStorage,
        location: tuple[Store, str],
        metadata: ArrayMetadata,
        compiled: CompiledArray,
        options: ShardOptions,
    ) -> None:
        """storage: of the chunks;  location: a store and a path in it, for messages;  metadata: of an array with the same chunks;  options: of its shards"""
        store, path = location
        runtime = Runtime().checked()
        at = NodeLocation(store, path, runtime=runtime, memory=ByteCache(runtime.cache_bytes))
        indexes = remembered_indexes(at, metadata, compiled.chain)
        document = cast("StoredDocument", _NoDocument())
        self._compiled, self.dtype = compiled, metadata.dtype
        variable = variable_elements(metadata)
        self._access = Access(
            path, document, storage, compiled.chain, runtime, indexes, ForkSafeLock(), options, variable
        )

    def read(self, selection: Selection, out: Values | None = None) -> Values:
        """The selected values; in `out`, where given, which has the selection's result_shape and dtype. Raises InvalidInputError for another out, DataError,
        StoreError, ConflictError."""
        return read_selection(
            self._access,
            lambda selected, access: [(access, self._plan(selected))],
            selection,
            self.dtype,
            out,
        )

    def write(self, selection: Selection, values: Values, *, keep_fill: bool = False) -> None:
        """Writes values of dtype that broadcast to the selection's result_shape. keep_fill: chunks that are all fill value are stored, else erased.

        Raises InvalidInputError for values that the data type does not have, StoreError, DataError, ConflictError."""
        access, elements = self._access.elements_of(values)
        source = selection.source_view(elements)
        write(access, self._plan(selection), source, lambda: None, confirmed=True, keep_fill=keep_fill)

    def stored(self, coordinates: Columns) -> Sequence[bool]:
        """Which chunks (shards, where there are shards) are stored."""
        found: list[bool] = (self._access.storage.sizes(coordinates) >= 0).tolist()
        return found

    def _plan(self, selection: Selection) -> Plan:
        return plan_of(selection, self._compiled.chain.inner_chunk.shape, self._compiled.counts)


class _NoDocument:
    """Stands for the array's document, which is not compared."""

    __slots__ = ()

    def takes_request(self, direct: bool) -> bool:
        return False

    def has_shape(self, shape: tuple[int, ...]) -> bool:
        return True
