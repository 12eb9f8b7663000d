"""The codec pipeline for zarr-python: our kernel reads and writes its arrays, a whole selection in one call.

selections.py reconstructs the selection, and chunk_keys.py the array from the keys of its chunks. Everything else is passed on to zarr-python's
own pipeline, from which this one is derived."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from zarr.core.buffer.cpu import Buffer
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import LocalStore as ZarrLocalStore
from zarr.storage import StorePath

from frazil.array.compiled_array import CompiledArray
from frazil.array.foreign_array import ForeignArray
from frazil.array.shards.shard_options import checked_options
from frazil.base.record import Record
from frazil.errors import FallbackWarning, FrazilError, InvalidInputError
from frazil.integrations.zarr.chunk_keys import ArrayKeys, array_keys
from frazil.integrations.zarr.chunk_metadata import compiled_chunks
from frazil.integrations.zarr.foreign_store import ForeignStore
from frazil.integrations.zarr.selections import Item, Selected, coordinates_of, selected
from frazil.integrations.zarr.store import FrazilStore
from frazil.integrations.zarr.threads import in_thread
from frazil.metadata.model import ArrayMetadata
from frazil.metadata.types import datetimes
from frazil.stores.array_storage.chunk_storage import ChunkStorage, plain_chunks
from frazil.stores.array_storage.node_store import NodeStore
from frazil.stores.local.local_store import LocalStore
from frazil.stores.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import NDBuffer

    Entry = tuple[Any, ArraySpec, Any, Any, bool]
    Batch = list[Entry]

_PRESENT: Final = {"status": "present"}
_MISSING: Final = {"status": "missing"}
# of inner chunks in new shards, by the names of zarr-python; its versions before 3.3 have no choice
_ORDERS: Final = {"morton": "morton", "lexicographic": "C", "colexicographic": "F"}


class _Call(Record):
    """A batch that this pipeline handles."""

    array: ForeignArray
    selected: Selected
    items: list[Item]
    whole_chunk: ArraySpec


class _Compiled(Record):
    """The last chunks that a pipeline was compiled for. spec: identifies them; reason: why they cannot be compiled, in place of the metadata"""

    spec: tuple[object, ...]
    made: tuple[ArrayMetadata, CompiledArray] | None
    reason: str = ""


class _Opened(Record):
    """The last array that a pipeline read or wrote, by its store and prefix."""

    store: object
    prefix: str
    spec: tuple[object, ...]
    array: ForeignArray


class CodecPipeline(BatchedCodecPipeline):
    """`zarr.config.set({"codec_pipeline.path": "frazil.zarr.CodecPipeline"})`: arrays that are opened then are read and written by Frazil's kernel.

    The kernel opens chunks in folders (zarr-python's LocalStore, and stores of as_store) itself; from other stores of zarr-python it fetches the bytes that it
    needs.
    For codecs, data types and chunk grids that Frazil does not know, zarr-python's own pipeline runs, with a FallbackWarning once for each reason."""

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in {"_compiled", "_opened"}}

    async def read(
        self, batch_info: Iterable[Entry], out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> tuple[dict[str, str], ...]:
        batch = list(batch_info)
        values = out.as_ndarray_like()
        call = self._call(batch, values, drop_axes, writes=False)
        if call is None:
            done: tuple[dict[str, str], ...] = await super().read(batch, out, drop_axes)
            return done
        return await in_thread(_read, call, values)

    async def write(self, batch_info: Iterable[Entry], value: NDBuffer, drop_axes: tuple[int, ...] = ()) -> None:
        batch = list(batch_info)
        values = value.as_ndarray_like()
        call = self._call(batch, values, drop_axes, writes=True)
        if call is None:
            await super().write(batch, value, drop_axes)
            return
        batch[0][0].store._check_writable()
        await in_thread(_write, call, values)

    def _call(self, batch: Batch, values: Any, drop_axes: tuple[int, ...], *, writes: bool) -> _Call | None:
        """The batch, if this pipeline handles it; None if zarr-python's own pipeline does."""
        if not batch or not isinstance(values, np.ndarray) or not all(type(path) is StorePath for path, *_ in batch):
            return None  # inner chunks of its sharding codec, or values that are not in main memory
        spec = batch[0][1]
        if any(other.shape != spec.shape for _, other, *_ in batch):
            return self._fall_back("chunks of several shapes")
        if spec.prototype.buffer is not Buffer:
            return self._fall_back(f"buffers of the class {spec.prototype.buffer.__name__}")
        compiled = self._compile(spec)
        if compiled.made is None:
            return self._fall_back(compiled.reason)
        dtype = compiled.made[0].dtype
        if dtype != values.dtype and (dtype.kind == "V" or values.dtype.kind == "V"):
            return self._fall_back("fields of structs, or structs in another byte order")
        keys = array_keys([path.path for path, *_ in batch], len(spec.shape))
        if keys is None:
            return self._fall_back("keys of chunks in a form of its own")
        items = [
            Item(coordinates, _as_tuple(chunk), _as_tuple(out), complete)
            for coordinates, (_, _, chunk, out, complete) in zip(keys.coordinates, batch, strict=True)
        ]
        found = selected(items, spec.shape, drop_axes, values.shape or None, keep_rest=self.supports_partial_encode)
        if found is None:
            return self._fall_back("selections that are neither boxes nor points")
        return _Call(self._array(batch[0][0].store, keys, compiled, writes), found, items, spec)

    def _fall_back(self, reason: str) -> _Call | None:
        """This pipeline does nothing. Warns that zarr-python's own pipeline is used: once for an array, and Python shows equal warnings of this line once."""
        if getattr(self, "_last_reason", None) != reason:
            object.__setattr__(self, "_last_reason", reason)
            warnings.warn(f"zarr-python's own codec pipeline is used: {reason}", FallbackWarning, stacklevel=1)
        return None

    def _compile(self, spec: ArraySpec) -> _Compiled:
        text = spec.fill_value if isinstance(spec.fill_value, str | bytes) else None
        key = spec.shape, spec.dtype, np.asarray(spec.fill_value).tobytes(), text
        last: _Compiled | None = getattr(self, "_compiled", None)
        if last is None or last.spec != key:
            try:
                last = _Compiled(key, compiled_chunks(self, spec))
            except FrazilError as error:
                last = _Compiled(key, None, error.message.partition(" (")[0])  # without the list of registered names
            object.__setattr__(self, "_compiled", last)
        return last

    def _array(self, store: Any, keys: ArrayKeys, compiled: _Compiled, writes: bool) -> ForeignArray:
        assert compiled.made is not None
        last: _Opened | None = getattr(self, "_opened", None)
        if last is not None and (last.store is store, last.prefix, last.spec) == (True, keys.prefix, compiled.spec):
            return last.array
        target, prefix, lasts = _target(store, writes=writes)
        path = (prefix + keys.prefix).removesuffix("/")
        metadata, compiled_array = compiled.made
        order = _ORDERS.get(getattr(self.array_bytes_codec, "subchunk_write_order", ""), "written")
        storage = _storage(target, path, keys, compiled.made)
        array = ForeignArray(storage, (target, path), metadata, compiled_array, checked_options(order))
        if lasts:
            object.__setattr__(self, "_opened", _Opened(store, keys.prefix, compiled.spec, array))
        return array


def _target(store: Any, *, writes: bool) -> tuple[Store, str, bool]:
    """A store of ours with the values of one of zarr-python, the prefix of its keys, and whether it can be used for later calls."""
    if isinstance(store, FrazilStore):
        return store.target, store.prefix, True
    if type(store) is ZarrLocalStore:
        return LocalStore(store.root), "", True
    return ForeignStore(store, asyncio.get_running_loop(), writes=writes), "", False


def _storage(target: Store, path: str, keys: ArrayKeys, parts: tuple[ArrayMetadata, CompiledArray]) -> ChunkStorage:
    """The storage of the chunks; in a session that of the node."""
    metadata, compiled = parts
    if isinstance(target, NodeStore):
        node = target.nodes.find(path)
        if not isinstance(node, ArrayMetadata):
            raise InvalidInputError("the array is gone", path=path or "/", hint="open it again")
        return target.nodes.chunks(path, node)
    return plain_chunks(target, f"{path}/" if path else "", keys.encoding, metadata.ndim, compiled.chain.bound)


def _read(call: _Call, values: NDArray[Any]) -> tuple[dict[str, str], ...]:
    array, (selection, dropped) = call.array, call.selected
    out = np.expand_dims(values, dropped) if dropped else values
    if out.dtype == array.dtype:
        array.read(selection, out)
    else:
        out[...] = array.read(selection)
    if getattr(call.whole_chunk.config, "read_missing_chunks", True):
        return (_PRESENT,) * len(call.items)
    stored = array.stored(coordinates_of(call.items))
    return tuple(_PRESENT if found else _MISSING for found in stored)


def _write(call: _Call, values: NDArray[Any]) -> None:
    array, (selection, dropped) = call.array, call.selected
    if dropped and values.shape:
        values = np.expand_dims(values, dropped)
    if values.dtype != array.dtype:
        values = datetimes.in_unit(values, array.dtype, "") if values.dtype.kind in "mM" else values.astype(array.dtype)
    array.write(selection, values, keep_fill=call.whole_chunk.config.write_empty_chunks)


def _as_tuple(selection: Any) -> tuple[Any, ...]:
    return selection if isinstance(selection, tuple) else (selection,)


CodecPipeline.__module__ = "frazil.zarr"  # the name under which zarr-python's configuration finds it
register_pipeline(CodecPipeline)
