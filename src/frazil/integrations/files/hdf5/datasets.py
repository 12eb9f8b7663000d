"""HDF5 and NetCDF4 files, scanned with h5py: each dataset as an array of Zarr, and the positions of its chunks. Data is read only if it is not a span of the
file.

Types and filters are in types.py, names of dimensions in dimensions.py. Links are not followed, so that no other file is opened.
Of a remote file only the ranges that HDF5 needs are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from frazil.errors import FormatError, FrazilError, InvalidInputError
from frazil.integrations.files.contiguous import Layout, contiguous_chunks, padded_tails, split_contiguous
from frazil.integrations.files.hdf5.dimensions import Dimensions
from frazil.integrations.files.hdf5.library_reader import is_available, was_never_written
from frazil.integrations.files.hdf5.object_header import chunk_layout
from frazil.integrations.files.hdf5.types import (
    AFTER_NUL,
    NOT_COORDINATE,
    TEXT,
    Filter,
    codecs_of,
    data_type_of,
    filter_name,
    flags_of,
    load_h5py,
    padding_of,
)
from frazil.integrations.files.missing_values import default_fill, set_missing_values
from frazil.integrations.files.scanned import (
    ChunkColumns,
    Library,
    ScannedArray,
    ScannedFile,
    Skipped,
    as_attribute,
    bytes_codec,
    check_path,
    check_shape,
    element_nbytes,
    no_chunks,
    select_chunks,
    text_of,
)

if TYPE_CHECKING:
    import h5py

    from frazil.formats.manifests import FileCheck
    from frazil.metadata.json_text import Json


# attributes that netCDF and the scales of dimensions use internally
_OWN: Final = frozenset(
    "REFERENCE_LIST DIMENSION_LIST DIMENSION_LABELS _Netcdf4Dimid _Netcdf4Coordinates _nc3_strict _NCProperties".split()  # noqa: SIM905
)
_OF_SCALES: Final = frozenset({"CLASS", "NAME"})
_FAILURES: Final = (
    ArithmeticError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)  # errors of h5py for damaged files, and of NumPy for the numbers in them

_MOST_LINKS: Final = 16  # soft links on the way to an object: HDF5's limit
_DECODED_AT_ONCE: Final = 2**22  # bytes
_SMALL_TEXT: Final = 2**20  # bytes of text that are compared while a file is scanned
_OTHER_LAYOUT: Final = {  # by kind of dtype, the reason why no codec here can read the bytes of elements
    "O": "it is text of variable length, which is stored elsewhere in the file",
    "V": "the members of its elements are stored with offsets of HDF5",
}

_SAMPLED: Final = 32  # elements of text in a row whose lengths are looked at

InlineChunks = tuple[tuple[tuple[int, ...], bytes], ...]
StoredChunk = tuple[tuple[int, ...], int, int, int]  # first element, mask of filters, first byte, bytes


def scan_hdf5(
    raw: BinaryIO, name: str, state: FileCheck, *, far: bool = False, step: Callable[[], None] = lambda: None
) -> ScannedFile:
    """All datasets of a file. Datasets that cannot be an array here are listed as skipped, with the reason.

    raw    the file, open for reading;  name: its path, or its name in messages;  state: of the file
    far    whether HDF5 reads it through `raw`; it opens a file of this machine itself, by its name
    step   called after each dataset
    Raises InvalidInputError without h5py, FormatError if it is not an HDF5 file or is damaged, OSError if it cannot be read."""
    h5py = load_h5py()
    try:
        file = h5py.File(raw, "r") if far else h5py.File(name, "r", locking="best-effort")
    except FrazilError:
        raise
    except _FAILURES as error:
        raise FormatError(f"it cannot be opened as an HDF5 file: {error}", key=name) from error
    try:
        with file:
            scan = _Scan(h5py, file, raw, state.size, step)
            kind = "NetCDF4" if "_NCProperties" in file.attrs else "HDF5"
            return ScannedFile(kind, state, scan.groups, tuple(scan.arrays), tuple(scan.skipped))
    except FrazilError:
        raise
    except _FAILURES as error:
        raise FormatError(f"the HDF5 file is damaged: {error}", key=name) from error


class _Scan:
    """One traversal of a file, and its results."""

    def __init__(self, module: ModuleType, file: h5py.File, raw: BinaryIO, size: int, step: Callable[[], None]) -> None:
        self.h5py, self.raw, self.size, self.user_block = module, raw, size, int(file.userblock_size)
        self.groups: dict[str, dict[str, Json]] = {"": {}}
        self.arrays: list[ScannedArray] = []
        self.skipped: list[Skipped] = []
        found = list(self._walk(file))
        self.dimensions = Dimensions(module, [dataset for _, dataset in found])
        names = set(self.groups)
        for path, dataset in found:
            step()
            try:
                if not self.dimensions.is_alone(dataset):
                    if path in names:
                        raise InvalidInputError("another node has its name")
                    self.arrays.append(self._array(path, dataset))
                    names.add(path)
            except InvalidInputError as error:
                self.skipped.append(Skipped(path, None, error.message))
            except _FAILURES as error:
                self.skipped.append(Skipped(path, None, f"it cannot be read: {error}"))

    # --- nodes ---------------------------------------------------------------------------------------------------------------------------

    def _walk(self, file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
        """All datasets, with their paths. Groups are recorded on the way."""
        root = self.h5py.h5o.get_info(file.id)
        paths_by_address: dict[tuple[int, int], str] = {(root.fileno, root.addr): ""}
        stack: list[tuple[str, h5py.Group]] = [("", file)]
        while stack:
            above, group = stack.pop()
            try:
                names, self.groups[above] = list(group), self._attributes(above, group)
            except _FAILURES as error:
                if not above:
                    raise
                self.skipped.append(Skipped(above, None, f"it cannot be read: {error}"))
                continue
            below: list[tuple[str, h5py.Group]] = []
            for name in names:
                path = f"{above}/{text_of(name)}".removeprefix("/")
                try:
                    node = self._node(group, name, path, paths_by_address)
                except InvalidInputError as error:
                    self.skipped.append(Skipped(path, None, error.message))
                except _FAILURES as error:
                    self.skipped.append(Skipped(path, None, f"it cannot be read: {error}"))
                else:
                    if node is None:
                        continue
                    if isinstance(node, self.h5py.Group):
                        below.append((path, node))
                    else:
                        yield f"{above}/{name.removeprefix(NOT_COORDINATE)}".removeprefix("/"), node
            stack += reversed(below)

    def _node(
        self, group: h5py.Group, name: str | bytes, path: str, paths_by_address: dict[tuple[int, int], str]
    ) -> h5py.Group | h5py.Dataset | None:
        """The group or dataset of a name; None for a named data type, and for a node that was found before under another name."""
        if isinstance(name, bytes):
            raise InvalidInputError("its name is not UTF-8")
        link = group.get(name, getlink=True)
        if isinstance(link, self.h5py.SoftLink) and (target := self._linked(group, link.path)) is not None:
            self.skipped.append(Skipped(path, None, f"it is another name of {target!r}", loses_values=False))
            return None
        if not isinstance(link, self.h5py.HardLink):
            raise InvalidInputError("it is a link to another file, or to nothing, and links are not followed")
        check_path(path)
        node = group[name]
        if not isinstance(node, self.h5py.Group | self.h5py.Dataset):
            self.skipped.append(Skipped(path, None, "it is a named data type", loses_values=False))
            return None
        info = self.h5py.h5o.get_info(node.id)
        first = paths_by_address.setdefault((info.fileno, info.addr), path)
        if first != path:
            self.skipped.append(Skipped(path, None, f"it is another name of {first!r}", loses_values=False))
            return None
        return node

    def _linked(self, group: h5py.Group, path: str) -> str | None:
        """The path of the object of this file that a soft link of a group leads to; None if there is none, or only by links that open another file."""
        node: h5py.HLObject | None = group.file if path.startswith("/") else group
        links = 1
        while path and node is not None:
            name, _, path = path.partition("/")
            if name in ("", "."):
                continue
            link = node.get(name, getlink=True) if isinstance(node, self.h5py.Group) else None
            if isinstance(link, self.h5py.SoftLink) and links < _MOST_LINKS:
                links, path = links + 1, f"{link.path}/{path}"
                node = group.file if path.startswith("/") else node
            else:
                node = node[name] if isinstance(link, self.h5py.HardLink) else None
        return None if node is None else str(node.name).strip("/")

    def _attributes(self, path: str, node: h5py.Group | h5py.Dataset) -> dict[str, Json]:
        found: dict[str, Json] = {}
        own = _OWN | _OF_SCALES if node.attrs.get("CLASS") == b"DIMENSION_SCALE" else _OWN
        for name in node.attrs:
            if name in own or (name == "_FillValue" and isinstance(node, self.h5py.Dataset)):
                continue
            try:
                value = node.attrs[name]
                is_empty = isinstance(value, self.h5py.Empty)
                empty = "" if is_empty and value.dtype.kind in "SO" else None
                found[text_of(name)] = empty if is_empty else as_attribute(value)
            except InvalidInputError as error:
                self.skipped.append(Skipped(path, text_of(name), error.message))
            except _FAILURES as error:
                self.skipped.append(Skipped(path, text_of(name), f"it cannot be read: {error}"))
        if isinstance(node, self.h5py.Dataset) and not found.keys() & {"flag_values", "flag_masks", "flag_meanings"}:
            found |= flags_of(self.h5py, node.id.get_type())
        return found

    # --- arrays --------------------------------------------------------------------------------------------------------------------------

    def _array(self, path: str, dataset: h5py.Dataset) -> ScannedArray:
        """Raises InvalidInputError for a dataset that cannot be an array here."""
        if dataset.shape is None:
            raise InvalidInputError("it has no elements (a null dataspace)")
        dtype = data_type_of(self.h5py, dataset.id.get_type())
        shape = self.dimensions.shape(dataset)
        check_shape(shape)
        properties = dataset.id.get_create_plist()
        if properties.get_external_count():
            raise InvalidInputError("its data is in other files (external storage)")
        attributes = self._attributes(path, dataset)
        own_fill = _fill_value(self.h5py, dataset, dtype, shape)
        layout, h5d = properties.get_layout(), self.h5py.h5d
        other = self._other_layout(dataset, dtype)
        inline_chunks: InlineChunks = ()
        library: Library | None = None
        codecs: tuple[Mapping[str, Json], ...] = (bytes_codec(dtype),)
        chunk_shape = tuple([max(extent, 1) for extent in shape])
        if layout == h5d.CHUNKED:
            chunk_shape = tuple(dataset.chunks)
            filters = [properties.get_filter(i) for i in range(properties.get_nfilters())]
            decoding, stored = other or codecs_of(filters, dtype), self._stored_chunks(dataset)
            reason = decoding if isinstance(decoding, str) else _unfiltered_chunk(stored, chunk_shape, filters)
            reason = reason or _unfilled_chunk(self.h5py, dataset, shape, len(stored))
            if not reason and (reason := self._unlike_reported(dataset, bool(filters))) and dtype != TEXT:
                chunk_shape = _several_chunks(shape, chunk_shape, dtype.itemsize)
            if isinstance(decoding, str) or reason:
                library, chunks = self._library(dataset, filters, reason), no_chunks(len(shape))
            else:
                codecs, chunks = decoding, self._chunks(dataset, shape, chunk_shape, stored)
        elif layout in {h5d.CONTIGUOUS, h5d.COMPACT} and other:
            library, chunks = self._library(dataset, [], other), no_chunks(len(shape))
            chunk_shape = split_contiguous(shape, element_nbytes(dtype) + _text_nbytes(dataset, dtype))
        elif layout == h5d.CONTIGUOUS:
            chunk_shape = split_contiguous(shape, dtype.itemsize)
            chunks, inline_chunks = self._contiguous_run(dataset, dtype, chunk_shape, own_fill)
        elif layout == h5d.COMPACT:
            chunks = no_chunks(len(shape))
            if 0 not in shape:
                inline_chunks = (((0,) * len(shape), _stored_bytes(self.h5py, dataset, dtype)),)
        else:
            raise InvalidInputError("it consists of parts of other datasets (a virtual layout)")
        grid = [-(-extent // chunk) for extent, chunk in zip(shape, chunk_shape, strict=True)]
        fill = set_missing_values(attributes, dataset.attrs.get("_FillValue"), dtype, path, self.skipped)
        # a chunk that is not stored has the dataset's own fill value, even if the attribute differs
        if fill is None or library is not None or len(chunks.offsets) + len(inline_chunks) < math.prod(grid):
            fill = own_fill
        return ScannedArray(
            path,
            shape,
            dtype,
            chunk_shape,
            codecs,
            fill,
            attributes,
            self.dimensions.names(dataset),
            chunks,
            inline_chunks,
            layout == h5d.CHUNKED,
            library,
            text_nbytes=_text_nbytes(dataset, dtype),  # last, because _library registers the filters that it needs
        )

    def _other_layout(self, dataset: h5py.Dataset, dtype: np.dtype[np.generic]) -> str:
        """The reason why the stored bytes are not the elements; "" if they are. Small text is read for it."""
        reason = _OTHER_LAYOUT.get(dtype.kind, "") or padding_of(self.h5py, dataset.id.get_type())
        if reason == AFTER_NUL and dataset.size * dtype.itemsize <= _SMALL_TEXT:
            try:
                data = _stored_bytes(self.h5py, dataset, dtype)
            except _FAILURES:
                return reason
            return reason if _has_bytes_after_nul(data, dtype.itemsize) else ""
        return reason

    def _library(self, dataset: h5py.Dataset, filters: list[Filter], reason: str) -> Library:
        """The HDF5 library as the decoder of a dataset. Raises InvalidInputError if it lacks a filter."""
        for number, _, _, name in filters:
            if not is_available(self.h5py, number):
                raise InvalidInputError(
                    f"its chunks are encoded with {filter_name(number, name)}, which needs hdf5plugin: pip install 'frazil[hdf5]'"
                )
        return Library("h5py", str(dataset.name), reason, tuple([number for number, *_ in filters]))

    def _unlike_reported(self, dataset: h5py.Dataset, filtered: bool) -> str:
        """The reason why the HDF5 library does not report where chunks are, or how they are stored; "" if it does."""
        growing = [axis for axis, limit in enumerate(dataset.maxshape) if limit is None]
        turned = len(growing) == 1 and growing[0] > 0
        cut = filtered and any(extent % chunk for extent, chunk in zip(dataset.shape, dataset.chunks, strict=True))
        if not turned and not cut:
            return ""
        sizes = dataset.file.id.get_create_plist().get_sizes()
        layout = chunk_layout(self._read, self.h5py.h5o.get_info(dataset.id).addr, self.user_block, sizes)
        # the dimension that grows comes first in the index, which the library forgets when it lists chunks
        if turned and layout.indexed:
            return "the HDF5 library reports wrong places of its chunks, because the only dimension that can grow is not the first"
        return "chunks that its end cuts are stored without filters, unlike others" if cut and layout.bare_edges else ""

    def _stored_chunks(self, dataset: h5py.Dataset) -> list[StoredChunk]:
        found: list[StoredChunk] = []
        dataset.id.chunk_iter(found.append)
        return found

    def _chunks(
        self, dataset: h5py.Dataset, shape: tuple[int, ...], chunk_shape: tuple[int, ...], found: list[StoredChunk]
    ) -> ChunkColumns:
        """The positions of the chunks of a chunked dataset, in order of coordinates."""
        if not found:
            return no_chunks(len(shape))
        firsts, _, offsets, sizes = zip(*found, strict=True)
        coordinates = np.array(firsts, np.int64).reshape(len(found), len(shape)) // np.array(chunk_shape, np.int64)
        chunks = ChunkColumns(coordinates, np.array(offsets, np.int64), np.array(sizes, np.int64))
        chunks = select_chunks(chunks, np.lexsort(coordinates.T[::-1]))
        twice = np.flatnonzero((chunks.coordinates[1:] == chunks.coordinates[:-1]).all(axis=1))
        if twice.size:
            chunk = tuple(chunks.coordinates[twice[0]].tolist())
            raise InvalidInputError(f"the file is damaged: its chunk {chunk} is in two places")
        inside = np.flatnonzero((chunks.coordinates * np.array(chunk_shape) < np.array(shape)).all(axis=1))
        if inside.size < len(found):
            chunks = select_chunks(chunks, inside)
        chunks = chunks._replace(offsets=chunks.offsets + self._user_block_offset(dataset, chunks, chunk_shape))
        outside = np.flatnonzero((chunks.lengths < 1) | (chunks.offsets + chunks.lengths > self.size))
        if outside.size:
            chunk = tuple(chunks.coordinates[outside[0]].tolist())
            raise InvalidInputError(f"the file is cut short: its chunk {chunk} ends after the file's {self.size} bytes")
        return chunks

    def _user_block_offset(self, dataset: h5py.Dataset, chunks: ChunkColumns, chunk_shape: tuple[int, ...]) -> int:
        """The offset to add to positions of chunks: older HDF5 libraries report them without the user block that a file may begin with."""
        if not self.user_block or not chunks.offsets.size:
            return 0
        first = tuple((chunks.coordinates[0] * np.array(chunk_shape, np.int64)).tolist())
        stored = dataset.id.read_direct_chunk(first)[1]
        for shift in (0, self.user_block):
            if self._read(int(chunks.offsets[0]) + shift, int(chunks.lengths[0])) == stored:
                return shift
        raise InvalidInputError("its chunks are not at the offsets that the HDF5 library reports")

    def _contiguous_run(
        self, dataset: h5py.Dataset, dtype: np.dtype[np.generic], chunk_shape: tuple[int, ...], fill: np.generic
    ) -> tuple[ChunkColumns, InlineChunks]:
        """The positions of the chunks of a contiguous dataset, and those that its end cuts."""
        begin = dataset.id.get_offset()
        # no bytes: None, or with a user block -1 behind it. The stored size is not compared by the library, and may be damaged
        if begin is None or begin == self.user_block - 1 or not dataset.size:
            return no_chunks(len(dataset.shape)), ()
        layout = Layout(dataset.shape, dtype.itemsize, begin)
        if layout.end > self.size:
            raise InvalidInputError(
                f"the file is cut short: its data ends at byte {layout.end}, and the file has {self.size} bytes"
            )
        chunks, tails = contiguous_chunks(layout, chunk_shape)
        return chunks, padded_tails(
            tails, math.prod(chunk_shape) * dtype.itemsize, np.array([fill], dtype).tobytes(), self._read
        )

    def _read(self, offset: int, length: int) -> bytes:
        self.raw.seek(offset)
        return self.raw.read(length)


def _text_nbytes(dataset: h5py.Dataset, dtype: np.dtype[np.generic]) -> int:
    """Bytes of the text of an element: the mean of some elements of the first, the middle and the last chunk, the largest of the three. 0 for numbers."""
    if dtype != TEXT or not dataset.shape or not dataset.size or not dataset.id.get_storage_size():
        return 0  # the library cannot read fill values of text
    chunks = dataset.chunks or (*[1] * (dataset.ndim - 1), min(dataset.shape[-1], _SAMPLED))
    most = 0.0
    for part in range(3):
        starts = [
            (extent - 1) * part // 2 // chunk * chunk for extent, chunk in zip(dataset.shape, chunks, strict=True)
        ]
        last = slice(starts[-1], starts[-1] + min(chunks[-1], _SAMPLED))
        box = (*[slice(start, start + 1) for start in starts[:-1]], last)
        try:
            sizes = [len(value) for value in dataset[box].reshape(-1).tolist()]
        except OSError as error:
            if not was_never_written(error):
                raise
        else:
            most = max(most, sum(sizes) / len(sizes))
    return int(most)


def _several_chunks(shape: tuple[int, ...], chunk_shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The shape of chunks side by side that the library decodes in one call. Not for text: a call fails if one chunk was never written."""
    joined = list(chunk_shape)
    for axis in reversed(range(len(shape))):
        room = max(1, _DECODED_AT_ONCE // (itemsize * math.prod(joined)))
        joined[axis] *= max(1, min(room, -(-shape[axis] // chunk_shape[axis])))
    return tuple(joined)


def _fill_value(
    module: ModuleType, dataset: h5py.Dataset, dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> np.generic:
    """The value of elements that were never written, also behind the end of a dataset that has `shape` in netCDF."""
    is_undefined = dataset.id.get_create_plist().fill_value_defined() == module.h5d.FILL_VALUE_UNDEFINED
    if dtype == TEXT:
        value = "" if is_undefined else dataset.fillvalue
        return np.str_(text_of(value) if isinstance(value, bytes) else "")
    if shape != dataset.shape and not _is_filled(module, dataset):
        return default_fill(dtype)
    # without one, the library leaves elements as they are in memory, where h5py puts zeros
    value = np.zeros(1, dtype) if is_undefined else dataset.fillvalue
    fill: np.generic = np.asarray(value).reshape(-1).astype(dtype)[0]
    return fill


def _is_filled(module: ModuleType, dataset: h5py.Dataset) -> bool:
    """Whether a dataset has a fill value, in its own properties."""
    return bool(dataset.id.get_create_plist().fill_value_defined() == module.h5d.FILL_VALUE_USER_DEFINED)


def _unfiltered_chunk(found: Sequence[StoredChunk], chunk_shape: tuple[int, ...], filters: Sequence[Filter]) -> str:
    """The error for the first chunk that was stored without some of the filters; "" if there is none."""
    for first, mask, _, _ in found:
        if mask & (1 << len(filters)) - 1:
            lacks = next((i for i in range(len(filters)) if mask >> i & 1), 0)
            name = filter_name(filters[lacks][0], filters[lacks][3])
            chunk = tuple([start // extent for start, extent in zip(first, chunk_shape, strict=True)])
            return f"its chunk {chunk} was stored without {name}, unlike others"
    return ""


def _unfilled_chunk(module: ModuleType, dataset: h5py.Dataset, shape: tuple[int, ...], stored: int) -> str:
    """The reason why chunks of a dataset, `stored` of which are in the file, have other values behind its end than netCDF gives, to the end of `shape`; "" if
    none has."""
    if _is_filled(module, dataset) and dataset.id.get_create_plist().get_fill_time() != module.h5d.FILL_TIME_NEVER:
        return ""
    grown = [axis for axis, extent in enumerate(shape) if extent != dataset.shape[axis]]
    grid = [-(-extent // chunk) for extent, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
    if grown and (stored < math.prod(grid) or any(dataset.shape[axis] % dataset.chunks[axis] for axis in grown)):
        return "it ends before other variables of its dimension, and its chunks are not filled behind its end"
    return ""


def _has_bytes_after_nul(data: bytes, size: int) -> bool:
    """Whether a text of `size` bytes goes on after its first NUL."""
    octets = np.frombuffer(data, np.uint8).reshape(-1, size)
    return bool((np.logical_or.accumulate(octets == 0, axis=1) & (octets != 0)).any())


def _stored_bytes(module: ModuleType, dataset: h5py.Dataset, dtype: np.dtype[np.generic]) -> bytes:
    """The elements as they are in the file."""
    values = np.empty(dataset.shape, dtype)
    dataset.id.read(module.h5s.ALL, module.h5s.ALL, values, dataset.id.get_type())
    return values.tobytes()
