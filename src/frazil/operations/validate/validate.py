"""frazil.validate: checks a hierarchy or an array. Keys are listed once and assigned to nodes (convert/hierarchy_keys.py). shards/shard_index.py reads indexes,
chunk_faults.py decodes chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from errno import EIO
from itertools import chain, islice, product

import numpy as np

from frazil.api.nodes import open_node
from frazil.array.arguments import check_flag, checked_progress
from frazil.array.array import Array, with_limit
from frazil.array.group import Group, as_node
from frazil.array.hierarchy.members import nodes_below
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.errors import DataError, FrazilError, InvalidInputError, MetadataError, StoreError, UnknownExtensionError
from frazil.metadata.model import ArrayMetadata, GroupMetadata, Metadata
from frazil.operations.convert.hierarchy_keys import Claims, Hierarchy
from frazil.operations.shards.shard_index import (
    ShardTable,
    chunk_keys,
    chunk_store,
    levels_of,
    read_tables,
    tables_below,
)
from frazil.operations.validate.chunk_faults import decode_objects
from frazil.operations.validate.report import Problem, Validation, problem_of
from frazil.runtime import DEFAULT, Runtime
from frazil.stores.local.appended_shards import COPIED_TORN, restore_copy, torn_keys
from frazil.stores.local.folders import each_folder
from frazil.stores.local.system_errors import refused
from frazil.stores.location_overlap import shown
from frazil.stores.locations import Location, resolve
from frazil.stores.store import Store
from frazil.stores.values import Columns

_BATCH = 4096  # keys looked up at a time, where nothing can be listed
_MOST_PROBLEMS = 1000
_TORN = "an append to the shard was killed"
_MENDS = "`frazil validate --repair` restores it"
_MENDED = "its content before the append was restored"
# copies of documents, as written by zarr-python 2 in the older draft
_CONSOLIDATED = "meta/root/consolidated/.zmetadata"


def validate(
    source: Location | Array | Group,
    *,
    path: str = "",
    decode: bool = False,
    repair: bool = False,
    runtime: Runtime = DEFAULT,
    progress: Callable[[int], object] | None = None,
    limit: int = _MOST_PROBLEMS,
) -> Validation:
    """Checks whether all stored data of an array, or of a group with all below it, can be read. Problems are in the result, not raised.

    source    a location, an Array or a Group;  path: of a node there
    decode    whether every stored chunk is decoded, as far as its elements are inside the array, on all cores; else only documents, keys and shard indexes
              (checksums, bounds, overlaps) are checked
    repair    restores shards to their state before an interrupted append (shard_writes="append"); else they are problems. Only on a local disk
    runtime   threads, requests_in_flight, bytes_in_flight
    progress  called with the bytes of elements decoded since the last call
    limit     of problems in the result; others are counted
    Raises NotFoundError if there is no node, InvalidInputError, StoreError if documents or listings cannot be fetched."""
    report = checked_progress(progress)
    check_flag(decode, "decode")
    check_flag(repair, "repair")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidInputError(f"limit is {limit!r}; it must be a positive whole number")
    try:
        node = source if isinstance(source, Array | Group) else open_node(source, path=path, runtime=runtime)
    except (MetadataError, UnknownExtensionError, DataError) as error:
        if isinstance(source, Array | Group) or error.key is None:
            raise
        name = shown(*resolve(source, path)) if not isinstance(source, Store) else repr(source)
        return Validation(name, decode, 0, 0, 0, 0, 0, (problem_of("document", error, path),))
    if repair and node.store.kernel_root() is None:
        raise InvalidInputError(
            "repair=True works only on a local disk, where shards are changed in place", path=node.path or "/"
        )
    run = _Run(node, decode, repair, runtime.checked().bytes_in_flight, report, limit)
    run.check_all()
    return Validation(
        shown(node.store, node.path and f"{node.path}/"),
        decode,
        run.groups,
        run.arrays,
        run.objects,
        run.indexes,
        run.decoded_nbytes,
        tuple(sorted(run.problems, key=_position_of)),
        run.omitted,
        unlisted=not node.store.capabilities.listable,
        repaired=tuple(sorted(run.repaired, key=_position_of)),
    )


def _position_of(problem: Problem) -> tuple[str, str, tuple[int, ...]]:
    return problem.path, problem.key or "", problem.chunk or ()


class _Run:
    """One validation. problems: up to a limit; omitted: the number of the others"""

    def __init__(
        self,
        node: Array | Group,
        decode: bool,
        repair: bool,
        limit: int,
        report: Callable[[int], object],
        most_problems: int,
    ) -> None:
        self._top, self._decode, self._limit, self._report = node, decode, limit, report
        self._repair, self.repaired = repair, list[Problem]()
        self._most_problems, self.problems, self.omitted = most_problems, list[Problem](), 0
        self.arrays = self.groups = self.objects = self.indexes = self.decoded_nbytes = 0

    def check_all(self) -> None:
        nodes = dict(self._nodes())
        arrays = {path: array for path, node in nodes.items() if (array := self._opened(path, node)) is not None}
        self.groups = sum(isinstance(node, GroupMetadata) for node in nodes.values())
        self.arrays = len(arrays)
        if not self._top.store.capabilities.listable:
            for path, array in arrays.items():
                for coords in _grid_pages(array):
                    exists = chunk_store(array).sizes(chunk_keys(array, coords)) >= 0
                    self._check_objects(path, array, coords[exists])
            return
        for path, coords in self._sweep(nodes):
            if path in arrays:
                self._check_objects(path, arrays[path], coords)

    def _add(self, problem: Problem) -> None:
        if len(self.problems) < self._most_problems:
            self.problems.append(problem)
        else:
            self.omitted += 1

    # --- documents -------------------------------------------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[tuple[str, Metadata | FrazilError]]:
        """The node itself and all below it, by their whole paths."""
        top = self._top
        yield top.path, top.metadata
        if isinstance(top, Group):
            yield from nodes_below(top._location, None)

    def _opened(self, path: str, node: Metadata | FrazilError) -> Array | None:
        try:
            if isinstance(node, FrazilError):
                raise node
            opened = as_node(self._top._location.at(path), node)
        except (InvalidInputError, DataError) as error:
            self._add(problem_of("document", error, path))
            return None
        return opened if isinstance(opened, Array) else None

    # --- keys ------------------------------------------------------------------------------------------------------------------------

    def _sweep(self, nodes: Mapping[str, Metadata | FrazilError]) -> Iterator[tuple[str, Columns]]:
        """The stored objects of each array, in columns, sorted. Keys that belong to no node are problems."""
        location = self._top._location
        hierarchy = _hierarchy(location)
        readable = {hierarchy.inside(path): node for path, node in nodes.items() if not isinstance(node, FrazilError)}
        claims = Claims(hierarchy, readable)
        unknown = tuple(
            prefix
            for path, node in nodes.items()
            if isinstance(node, FrazilError)
            for prefix in (*location.layout.prefixes(path), *location.layout.document_keys(path))
        )
        if location.layout.zarr_format == "draft-2021":
            unknown += (hierarchy.root + _CONSOLIDATED,)
        found: dict[str, list[tuple[int, ...]]] = {}
        for page in chain.from_iterable(map(location.store.list_pages, _prefixes(location))):
            for key in page.keys:
                chunk = claims.chunk(key)
                if chunk is not None:
                    found.setdefault(chunk[0], []).append(chunk[1])
                elif not claims.is_document(key) and not key.startswith(unknown):
                    self._add(Problem("key", "the key belongs to no node, and to no chunk of one", key=key))
            for inner, listed in found.items():
                at = hierarchy.at(inner)
                yield at, _sorted(listed, nodes[at])
            found.clear()
        self._check_folders(location, claims)

    def _check_folders(self, location: NodeLocation, claims: Claims) -> None:
        """Folders of a local disk in place of chunks. A listing has no empty ones, but readers fail there."""
        root = location.store.kernel_root()
        if root is None:
            return
        for prefix in _prefixes(location):
            for folder in _folders(root.fd, prefix):
                chunk = claims.chunk(folder[:-1])
                if chunk is not None:
                    message = "there is a folder in place of the chunk, which no reader can read; remove it"
                    self._add(Problem("store", message, _hierarchy(location).at(chunk[0]), folder[:-1], chunk[1]))

    # --- shards and chunks -----------------------------------------------------------------------------------------------------------

    def _check_objects(self, path: str, array: Array, coords: Columns) -> None:
        self.objects += len(coords)
        good = np.ones(len(coords), np.bool_)
        if levels_of(array) and array.ndim:
            good = self._check_indexes(path, array, coords)
        if self._decode:
            reader = with_limit(array, self._limit // 2)
            for done in decode_objects(reader, coords[good], self._limit // 2, self._report):
                if isinstance(done, Problem):
                    self._add(done)
                else:
                    self.decoded_nbytes += done

    def _check_indexes(self, path: str, array: Array, coords: Columns) -> np.ndarray:
        """bool[n]: which shards have good indexes."""
        keys = chunk_keys(array, coords)
        good = np.ones(len(coords), np.bool_)
        torn, copied = self._torn(path, array, coords, keys)
        for row, shard in enumerate(read_tables(array, keys, self._limit // 2, restore=False)):
            if keys[row] in torn:
                good[row] = False
                continue
            chunk = tuple(coords[row].tolist())
            if keys[row] in copied:
                restored = self._copied(path, array, keys[row], chunk, shard)
                if restored is None:
                    good[row] = False
                    continue
                shard = restored
            for numbers, found in [((), shard), *tables_below(array, shard, keys[row])]:
                self.indexes += found.table is not None or found.error is not None
                if found.error is not None:
                    good[row] = False
                    problem = problem_of("index" if isinstance(found.error, DataError) else "store", found.error, path)
                    self._add(problem._replace(chunk=chunk, message=_with_shard_numbers(problem.message, numbers)))
                elif found.table is not None and (overlap := _overlaps(found.table)) is not None:
                    self._add(Problem("overlap", _with_shard_numbers(overlap, numbers), path, keys[row], chunk))
        return good

    def _copied(
        self, path: str, array: Array, key: str, chunk: tuple[int, ...], shard: ShardTable
    ) -> ShardTable | None:
        """The index of a shard that may have been copied while it was torn, restored on request; None if it stays torn."""
        torn = isinstance(shard.error, DataError)
        problem = Problem("torn", f"{_TORN}, and {COPIED_TORN}: {_MENDS}", path, key, chunk)
        if self._repair and (torn or shard.table is not None):  # after another error it is unknown which it is
            try:
                restore_copy(chunk_store(array), key, readable=not torn)
            except StoreError as error:
                problem = problem._replace(message=f"{_TORN}: {error.message}")
            else:
                (shard,) = read_tables(array, [key], self._limit // 2, restore=False)
                if torn and shard.error is None:
                    self.repaired.append(problem._replace(message=f"{_TORN}: {_MENDED}"))
                return shard
        if torn:
            self._add(problem)
        return None if torn else shard

    def _torn(self, path: str, array: Array, coords: Columns, keys: list[str]) -> tuple[set[str], set[str]]:
        """The keys of shards that are torn and are not repaired; and of shards that may have been copied while torn, which is the case if their index is
        unreadable."""
        torn, copied, store = set[str](), set[str](), chunk_store(array)
        for low in range(0, len(keys), _BATCH):
            part = keys[low : low + _BATCH]
            found, others = torn_keys(store, part, restore=self._repair)
            torn.update(found)
            copied.update(others)
        message = f"{_TORN}: {_MENDED}" if self._repair else f"{_TORN}: {_MENDS}, as does the next reader"
        for row in [row for row, key in enumerate(keys) if key in torn]:
            problem = Problem("torn", message, path, keys[row], tuple(coords[row].tolist()))
            if self._repair:
                self.repaired.append(problem)
            else:
                self._add(problem)
        return set() if self._repair else torn, copied


def _folders(root: int, prefix: str) -> Iterator[str]:
    """All folders at and below a prefix, as prefixes. Raises StoreError."""
    try:
        for folder, names in each_folder(root, prefix):
            deque(names, 0)  # each_folder finds the folders below as the names are taken
            yield folder
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise refused("cannot be listed", error.errno or EIO, prefix) from error


def _with_shard_numbers(message: str, numbers: Sequence[int]) -> str:
    """The message with the numbers of the inner shards that it is about, from the outermost on."""
    return message if not numbers else f"{message}; in the inner shard number {', '.join(map(str, numbers))}"


def _overlaps(table: Columns) -> str | None:
    """The message about inner chunks that share some but not all of their bytes; None if there are none."""
    numbers = np.flatnonzero((table[:, 0] >= 0) & (table[:, 1] > 0))
    order = numbers[np.lexsort((table[numbers, 1], table[numbers, 0]))]
    starts, ends = table[order, 0], table[order].sum(axis=1)
    reached = np.maximum.accumulate(ends)
    same = (starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1])
    clash = np.flatnonzero((starts[1:] < reached[:-1]) & ~same)
    if not len(clash):
        return None
    at = int(clash[0])
    return (
        f"{len(clash)} inner chunks overlap others, the first of them number {order[at + 1]} at byte {starts[at + 1]}"
    )


def _hierarchy(location: NodeLocation) -> Hierarchy:
    """The hierarchy below a node of the final Zarr v3 or of Zarr v2; in the drafts the one that contains the node."""
    layout = location.layout
    if layout.zarr_format in (2, 3):
        return Hierarchy(f"{location.path}/" if location.path else "", layout)
    root: str = getattr(layout, "root", "")
    return Hierarchy(root, layout)


def _prefixes(location: NodeLocation) -> Sequence[str]:
    """The prefixes of the keys of a node and all below it."""
    if not location.path and location.layout.zarr_format not in (2, 3):
        return [getattr(location.layout, "root", "")]
    return location.layout.prefixes(location.path)


def _sorted(listed: list[tuple[int, ...]], node: Metadata | FrazilError) -> Columns:
    assert isinstance(node, ArrayMetadata)
    coords = np.array(listed, np.int64).reshape(len(listed), node.ndim)
    return coords[np.lexsort(coords.T[::-1])] if node.ndim else coords[:1]


def _grid_pages(array: Array) -> Iterator[Columns]:
    """All locations of the array's grid, in pages."""
    locations = product(*map(range, array.metadata.grid_shape))
    while page := list(islice(locations, _BATCH)):
        yield np.array(page, np.int64).reshape(len(page), array.ndim)
