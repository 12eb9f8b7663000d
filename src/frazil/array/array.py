"""The public class Array: selections become plans, which io/ carries out. Documents are in hierarchy/, growing and shrinking in shape/."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

import numpy as np

from frazil.array import info as _info
from frazil.array.access import Access, variable_elements
from frazil.array.compiled_array import compile_array, with_array_options
from frazil.array.handle import Update, token_of
from frazil.array.hierarchy import node_changes
from frazil.array.hierarchy.nodes import NodeLocation, find_node
from frazil.array.hierarchy.storage_transformers import chunk_storage
from frazil.array.hierarchy.stored_document import StoredDocument, change_to_its_end, check_in_place, followed
from frazil.array.interface import indexer
from frazil.array.interface.zarr_array import ZarrArray, fields_of, new_lengths
from frazil.array.io import chunk_count, read, write
from frazil.array.io import shard_writer as _shard_writer
from frazil.array.io.single_chunk import read_single, write_single
from frazil.array.shape import rectilinear, resize
from frazil.array.shape.extents import checked_axis, chunk_grid_of, grown_shape, row_batches
from frazil.array.shards.shard_indexes import remembered_indexes
from frazil.base.arrays import ArrayLike, DTypeLike, Values
from frazil.base.fork_safety import ForkSafeLock
from frazil.base.late import load
from frazil.base.retry import lacks_files
from frazil.codecs.codec import Codec
from frazil.codecs.registry import RuntimeTransformer
from frazil.errors import (
    ConflictError,
    DataError,
    FrazilError,
    InvalidInputError,
    MetadataError,
    SelectionError,
    UnknownExtensionError,
    one_line,
)
from frazil.indexing import selection as selections
from frazil.indexing.single_chunk import SingleChunk, single_chunk
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.model import ArrayMetadata

if TYPE_CHECKING:
    from frazil.array.interface.indexer import Indexer, Several
    from frazil.indexing.points import Plan
    from frazil.indexing.selection import Selection

    Normalise = Callable[[object, tuple[int, ...]], Selection]

P = ParamSpec("P")
T = TypeVar("T")


class Array(ZarrArray):
    """An N-dimensional array in chunks. frazil.create_array, frazil.open_array and groups return it. It may be used from many threads, and pickled.

    An array keeps the shape and attributes that it had when it was opened or last changed through this object; `refresh` reads them again. If the array was
    removed or replaced (overwrite=True), every write raises NotFoundError or ConflictError. If others made it smaller, a write beyond the new end raises
    ConflictError. In a plain store, a write that is running at that moment may still leave chunks."""

    __slots__ = (
        "_access_set_up", "_compiled", "_documented", "_inner_chunk", "_lengths", "_location", "_metadata", "_own",
        "_renewals", "_single", "_storage",
    )  # fmt: skip

    _location: NodeLocation

    def __init__(self, location: NodeLocation, metadata: ArrayMetadata, *, documented: bool = True) -> None:
        """documented: whether its document is stored; a conversion writes the document after the chunks."""
        try:
            self._compiled = compile_array(location.registry, metadata)
            self._storage = chunk_storage(location, metadata, self._compiled.chain.bound)
            self._location, self._documented = with_array_options(location, metadata, self._compiled), documented
        except (MetadataError, UnknownExtensionError) as error:
            error.key = error.key or location.layout.document_key(location.path, ArrayMetadata)
            raise
        self._inner_chunk = self._compiled.chain.inner_chunk.shape
        self._own = ""  # a random token of this handle, made when it is needed; each write drops it
        self._single = self._inner_chunk if isinstance(metadata.chunk_grid, RegularGrid) else None
        self._access_set_up: list[tuple[Access, ForkSafeLock]] = []  # made when first needed: many are never read
        self._renewals = 0 if location.nodes is None else location.nodes.renewals
        self._set_metadata(metadata)
        load(read, indexer, *(() if location.read_only else (write, node_changes)))

    @property
    def _access(self) -> Access:
        return (self._access_set_up or self._set_up_access())[0][0]

    @property
    def _resize_lock(self) -> ForkSafeLock:
        return (self._access_set_up or self._set_up_access())[0][1]

    def _set_up_access(self) -> list[tuple[Access, ForkSafeLock]]:
        """If several threads add one, the first is used."""
        chain, runtime, lock = self._compiled.chain, self._location.runtime.checked(), ForkSafeLock()
        indexes = remembered_indexes(self._location, self._metadata, chain)
        document = StoredDocument(self._location, self._metadata, self._storage, self._documented)
        options, undefined = self._location.shard_options, self._metadata.fill_is_undefined
        variable = variable_elements(self._metadata)
        access = Access(
            self._location.path, document, self._storage, chain, runtime, indexes, lock, options, variable, undefined
        )
        self._access_set_up.append((access, ForkSafeLock()))
        return self._access_set_up

    def _set_metadata(self, metadata: ArrayMetadata) -> None:
        self._metadata, self._lengths = metadata, metadata.shape

    @property
    def _shape(self) -> tuple[int, ...]:
        """The lengths; read again where all nodes have changed, as in a session that was rebased."""
        nodes = self._location.nodes
        if nodes is not None and nodes.renewals != self._renewals:
            renewals = nodes.renewals
            self.refresh()
            self._renewals = renewals
        return self._lengths

    # --- properties ----------------------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> ArrayMetadata:
        """The metadata document, as a frozen value."""
        _ = self._shape  # which reads it again where needed
        return self._metadata

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each dimension. Assigning another one is `resize`."""
        return self._shape

    @shape.setter
    def shape(self, shape: int | Sequence[int]) -> None:
        self.resize(shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy data type of values that are read. (Stored values may differ, as in their byte order.)"""
        return self._metadata.data_type.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Elements along each dimension of a chunk; of an innermost chunk, where there are shards. The unit of reading. In a rectilinear grid the largest."""
        return self._inner_chunk

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Elements along each dimension of a shard, or None without shards. The unit of writing. In a rectilinear grid the largest."""
        return self._outer if self._compiled.counts is not None else None

    @property
    def _outer(self) -> tuple[int, ...]:
        return chunk_grid_of(self._metadata).largest

    @property
    def fill_value(self) -> np.generic | None:
        """The value of elements that were never written, as a NumPy scalar; None for null in Zarr v2, where they are read as zero."""
        return None if self._metadata.fill_is_undefined else self._metadata.fill_value.scalar

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """A name for each dimension, None for a dimension without one; None if the document has no names."""
        return self._metadata.dimension_names

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """The codecs of a chunk; of an inner chunk, where there are shards."""
        return self._compiled.inner_codecs

    def change_attributes(self, update: Update) -> None:
        self._change(lambda stored: self._location.layout.with_attributes(stored, update({**stored.user_attributes})))

    @property
    def nchunks_initialized(self) -> int:
        """Number of chunks (innermost ones) that are stored. Lists the array's keys and reads the index of every shard."""
        return self._named(chunk_count.stored_chunks, self._access, self._location, self.metadata)

    @property
    def info(self) -> _info.ArrayInfo:
        """Shape, data type, chunks, codecs, sizes and attributes, as a value that prints as a table. Lists the keys of the array."""
        return _info.array_info(self._access, self._metadata, self)

    # --- reading -------------------------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, selection: Several) -> Values: ...
    @overload
    def __getitem__(self, selection: object) -> Values | np.generic: ...
    def __getitem__(self, selection: object) -> Values | np.generic:
        """Integers, slices with any step, Ellipsis, newaxis; names of fields of a structured data type; one integer array or mask beside them works as in
        oindex, only integer arrays or a mask of the array's shape as in vindex. A copy, as a NumPy array (a scalar where all dimensions are integers).

        Raises SelectionError, DataError, StoreError."""
        single = single_chunk(selection, self._shape, self._single)
        if single is not None:
            try:
                values = read_single(self._access, single, self._metadata.data_type.dtype)
            except FrazilError as error:
                self._add_context(error)
                if not lacks_files(error):
                    raise
                values = None  # the general path waits for them
            if values is not None:
                return values if single.shape else values[()]
        elif (split := fields_of(self.dtype, selection)) is not None:
            return self.get_basic_selection(split[1], fields=split[0])
        return self._read(self._select(selections.basic, selection), None, True)

    @property
    def oindex(self) -> Indexer:
        """Orthogonal: for each dimension an integer, slice, list of integers or mask, independent of each other: a.oindex[[0, 5], 2:4] has shape (2, 2)."""
        return self._indexer(selections.orthogonal)

    @property
    def vindex(self) -> Indexer:
        """Points: integer arrays that broadcast together, one for each dimension, or a mask of the array's shape: a.vindex[[0, 5], [2, 3]] has shape (2,)."""
        return self._indexer(selections.vectorised)

    @property
    def blocks(self) -> Indexer:
        """Whole blocks by their position in the grid; a block is a shard, or a chunk where there are no shards."""
        if self._single is None:
            return self._indexer(partial(rectilinear.select_blocks, self._access, self.metadata))
        return self._indexer(partial(selections.blocks, extents=self._outer))

    def _indexer(self, rules: Normalise) -> Indexer:
        return indexer.Indexer(partial(self._select, rules), self._read, partial(self._write, rules))

    def read(self, selection: object = ..., *, out: Values | None = None) -> Values:
        """a[selection] as an array. `out`, if given, receives the result; it must have the shape of the result and the dtype of the array, with any strides.
        After an error `out` may be partly filled.

        Raises InvalidInputError for an unsuitable out, SelectionError, DataError, StoreError."""
        return self._indexer(selections.basic).read(selection, out=out)

    def _select(self, normalise: Normalise, selection: object) -> Selection:
        return self._named(normalise, selection, self._shape)

    def _read(self, selection: Selection, out: Values | None, scalar: bool) -> Values | np.generic:
        values = self._named(read.read_selection, self._access, self._plans, selection, self.dtype, out)
        return values[()] if scalar and not values.shape else values

    def _plans(self, selection: Selection, access: Access) -> Iterable[tuple[Access, Plan]]:
        """One plan, or one for each shape of chunks."""
        if self._single is None:
            return rectilinear.shaped_plans(access, self._location, self._metadata, selection)
        return ((access, read.plan_of(selection, self._inner_chunk, self._compiled.counts)),)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise InvalidInputError("an array in a store cannot be converted without a copy", path=self.path or "/")
        values = self.read()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self._shape:
            raise SelectionError("an array without dimensions has no length", path=self.path or "/")
        return self._shape[0]

    def __iter__(self) -> Iterator[Values | np.generic]:
        """The rows, read as many at a time as a shard has, or as fit bytes_in_flight."""
        most = self._location.runtime.bytes_in_flight * len(self) // max(self.nbytes, 1)
        for rows in row_batches(len(self), self._outer[0], self._inner_chunk[0], most):
            for row in self.read(rows):
                yield row.copy() if self.ndim > 1 else row  # elements of variable length are Python's objects

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def __setitem__(self, selection: object, value: ArrayLike) -> None:
        """Assigns like NumPy: any value that broadcasts. Chunks and shards that are covered wholly are never read; others keep the elements that are not
        assigned, also under concurrent writers.

        Raises ReadOnlyError, SelectionError, InvalidInputError, StoreError, DataError, ConflictError."""
        self._location.require_writable()
        single = single_chunk(selection, self._shape, self._single)
        if single is None and (split := fields_of(self.dtype, selection)) is not None:
            self.set_basic_selection(split[1], value, fields=split[0])
        elif single is None or not self._write_one(single, value):
            self._write(selections.basic, selection, value)

    def _write_one(self, single: SingleChunk, value: ArrayLike) -> bool:
        if self._access.variable is not None:
            return False
        return self._run_change(partial(write_single, self._access, single, self._shape, self._values(value)))

    def _write(self, normalise: Normalise, indexer: object, value: ArrayLike) -> None:
        self._location.require_writable()
        selection = self._select(normalise, indexer)
        access, values = self._source(selection, value)
        with access.storage.whole_change():
            confirm = access.document.confirm_for(selection)
            for shaped, plan in self._plans(selection, access):
                self._run_change(partial(write.write, shaped, plan, values, confirm))

    def _source(self, selection: Selection, value: ArrayLike) -> tuple[Access, Values]:
        """The value as elements that will be written, and the access that writes them. Raises InvalidInputError, SelectionError."""
        access, values = self._named(self._access.elements_of, self._values(value, selection.result_shape))
        return access, self._named(lambda: selection.source_view(values))

    def check_values(self, value: ArrayLike) -> None:
        """Raises the error that a[...] = value would raise for this value: InvalidInputError, SelectionError. Writes nothing."""
        self._source(selections.basic(..., self._shape), value)

    def _run_change(self, act: Callable[[], bool | None]) -> bool:
        try:
            return bool(self._named(act))
        finally:
            self._own = ""

    def _named(self, act: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """The result of a call, whose errors get the names of array and chunk."""
        try:
            return act(*arguments, **options)
        except FrazilError as error:
            self._add_context(error)
            raise

    def _add_context(self, error: FrazilError) -> None:
        """Adds the names of array and chunk to an error before it reaches the user; its traceback begins here, as the frames below hold open files."""
        error.__traceback__ = None
        error.path = error.path or self.path or "/"
        if error.chunk is None and error.key is not None:
            error.chunk = self._access.storage.coordinates(error.key, self.ndim)
        if isinstance(error, DataError):
            self._access.document.refuse_other_array()

    def _values(self, value: ArrayLike, shape: tuple[int, ...] | None = None) -> Values:
        return indexer.as_values(value, self.dtype, self.path or "/", scalar=shape == ())

    def resize(
        self, shape: int | Sequence[int] | None = None, *more: int, new_shape: int | Sequence[int] | None = None
    ) -> None:
        """Changes the shape, given as one sequence, as separate lengths, or as new_shape. Growing costs one request; new elements read as the fill value.
        Shrinking removes chunks outside the new shape and sets elements outside it in other chunks to the fill value, so that growing again shows no old
        values. The document is written after that. Then chunks that others wrote meanwhile are removed.

        Raises ReadOnlyError, MetadataError, InvalidInputError for two shapes, ConflictError if another array is there now, StoreError, DataError."""
        self._resize(new_lengths(shape, more, new_shape))

    def _resize(self, lengths: tuple[int, ...], expected: tuple[int, ...] | None = None) -> None:
        """As resize. expected: the present shape, else ConflictError. If it is larger, an append is undone: the document is written first."""

        def cut_from(old: tuple[int, ...]) -> resize.Cut:
            access = self._access if self._access.variable is None else self._access.with_heap()
            return resize.Cut(access, self._compiled.fill, chunk_grid_of(self._metadata), self._plans, old, lengths)

        cleared, cut = None, None
        if expected is not None and resize.undoes(expected, lengths, self._access.storage):
            cleared, cut = expected, cut_from(expected)
        found: list[tuple[int, ...]] = []

        def change(stored: ArrayMetadata) -> ArrayMetadata:
            if expected not in (None, stored.shape):
                raise ConflictError("others changed the shape", path=self.path or "/", hint="open it again")
            found[:] = [stored.shape]
            new = stored.with_shape(lengths)
            shrinks = any(after < before for before, after in zip(stored.shape, lengths, strict=True))
            return stored if shrinks and stored.shape != cleared else new

        with self._access.storage.whole_change():
            while self._change(change, lengths_only=True).shape != lengths:
                cleared = found[0]  # again if others change the lengths meanwhile
                cut = cut_from(cleared)
                self._run_change(cut.clear)
            if cut is not None:
                self._run_change(cut.clear_again)

    def append(self, data: ArrayLike, axis: int = 0) -> tuple[int, ...]:
        """Grows the array along `axis` by the extent of `data`, and writes `data` there. Returns the new shape. Each of several concurrent appends gets its own
        rows. If it fails or is interrupted, an array of a plain store gets its lengths again, unless others changed them meanwhile.

        Raises SelectionError for another shape, ReadOnlyError, ConflictError if another array is there now, StoreError."""
        self._location.require_writable()
        new, axis = self._values(data), checked_axis(axis, self.ndim, self.path or "/")
        shapes: list[tuple[int, ...]] = []  # before and after

        def change(stored: ArrayMetadata) -> ArrayMetadata:
            shapes[:] = [stored.shape]
            grown = grown_shape(stored.shape, new.shape, axis, self.path or "/")
            if new.shape[axis]:  # here, so that the appends of several threads are recorded in their order
                self._access.storage.extend(axis, stored.shape[axis], grown[axis])
            return stored.with_shape(grown)

        def grow() -> None:
            shapes.append(self._change(change, lengths_only=True).shape)

        is_plain = self._location.nodes is None
        try:
            with self._access.storage.whole_change():
                change_to_its_end(self._location, grow)
                self._write_rows(new, axis, shapes[0][axis], shapes[1])
        except BaseException:
            if is_plain and len(shapes) > 1:
                with suppress(FrazilError):
                    self._resize(shapes[0], expected=shapes[1])
            raise
        return shapes[1]

    def _write_rows(self, new: Values, axis: int, old: int, lengths: tuple[int, ...]) -> None:
        """Writes what was appended along an axis that had the length `old`."""
        selection = tuple(slice(old if d == axis else 0, extent) for d, extent in enumerate(lengths))
        # The lengths are rounded up to whole chunks: chunks at the edge are then replaced in part, which keeps elements that others append to them.
        edges = chunk_grid_of(self._metadata).covering(lengths)
        single, chain = None, self._access.chain
        if self._access.variable is None and not chain.levels and chain.inner_chunk.stage is None:
            single = single_chunk(selection, edges, self._single)
        if single is None or not self._run_change(
            partial(write_single, self._access, single, edges, new, confirmed=True)
        ):
            confirm = partial(self._access.document.confirm, lengths, lambda: lengths)
            access, elements = self._access.elements_of(new)
            for shaped, plan in self._plans(selections.basic(selection, edges), access):
                # another writer replaced the single chunk: the array may be smaller now
                confirmed = single is None
                self._run_change(partial(write.write, shaped, plan, elements, confirm, confirmed=confirmed))

    def refresh(self) -> Array:
        """Reads the document again, as others may have changed the shape or the attributes. Returns the array itself. One request.

        Raises NotFoundError, ConflictError if another array is there now."""
        with self._resize_lock.lock:
            self._location = followed(self._location, self._storage)
            self._set_metadata(check_in_place(find_node(self._location), self._metadata, self._location, self._storage))
        self._own = ""
        return self

    def through(self, transformers: Sequence[RuntimeTransformer]) -> Array:
        """The same array, whose chunks are read and written through further storage transformers, array side first, that its document does not name."""
        location = self._location.through(transformers)
        return self if location.transformers == self._location.transformers else Array(location, self._metadata)

    def _change(self, change: Callable[[ArrayMetadata], ArrayMetadata], lengths_only: bool = False) -> ArrayMetadata:
        """Changes the stored document, as change_node. The lock keeps the order: the thread that changes the document last is also the last to update this
        handle."""
        self._location.require_writable()
        with self._resize_lock.lock:
            location = self._location = followed(self._location, self._storage)
            written = node_changes.change_node(
                location,
                ArrayMetadata,
                lambda stored: change(check_in_place(stored, self._metadata, location, self._storage)),
                lengths_only=lengths_only,
            )
            self._set_metadata(written)
        return written

    def shard_writer(self, shard: int | Sequence[int]) -> _shard_writer.ShardWriter:
        """Writes one shard, at coordinates in the grid of shards, inner chunk by inner chunk: `with a.shard_writer((0, 1)) as w: w[3, 0] = block`. It is
        published whole at the end; see frazil.array.io.shard_writer.ShardWriter.

        Raises InvalidInputError where there are no shards, SelectionError, ReadOnlyError."""
        self._location.require_writable()
        if self._single is None:
            raise InvalidInputError("shards of several shapes are written by assignment", path=self.path or "/")
        return _shard_writer.ShardWriter(self._access, shard, self._shape, self.store, self._values, self._add_context)

    # --- as an object --------------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        shards = f" shards {self.shards}" if self.shards else ""
        return one_line(f"<frazil.Array {self._location} {self.dtype} {self._lengths} chunks {self.chunks}{shards}>")

    def __dask_tokenize__(self) -> tuple[object, ...]:
        if not (own := self._own):
            own = self._own = os.urandom(16).hex()
        return token_of(self._location, self._shape, own)

    def __reduce__(self) -> tuple[object, ...]:
        return Array, (followed(self._location, self._storage), self._metadata)


def with_limit(array: Array, nbytes: int) -> Array:
    """The same array, whose reads and writes have at most nbytes in flight."""
    location = array._location
    runtime = location.runtime._replace(bytes_in_flight=max(1, nbytes))
    return Array(location._replace(runtime=runtime), array.metadata)
