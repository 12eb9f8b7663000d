"""The chunks of one array of a session for the array engine (stores/array_storage/chunk_storage.py, the port).

chunk_lookup.py finds chunks. Nothing is committed here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from frazil.base.arrays import Flags, offsets_of
from frazil.errors import FormatError
from frazil.formats.ids import ID_BYTES, decode_id, encode_ids
from frazil.repository.manifests.coordinates import no_coordinates, sorted_coordinates, within
from frazil.repository.session.change_set import Append
from frazil.repository.session.changed_references import NATIVE, PENDING, ChangedReferences, Rows, removed_rows
from frazil.repository.session.chunk_ids import new_chunk_ids
from frazil.repository.session.chunk_lookup import ChunkLookup, changed_version, set_versions
from frazil.repository.session.pending_chunks import INLINE_LIMIT, PACK_LIMIT
from frazil.repository.session.session_state import SessionState
from frazil.repository.session.whole_changes import WholeChange
from frazil.repository.virtual.mixed_fetch import VIRTUAL_KIND, fetch_mixed
from frazil.stores.array_storage.chunk_storage import INLINE, NOWHERE, STORED, KernelFiles, Located
from frazil.stores.array_storage.shared_objects import NOT_FETCHED, fetch_located, located_files
from frazil.stores.store import Store
from frazil.stores.transfer.composed_values import picked
from frazil.stores.transfer.merged_spans import Merged
from frazil.stores.values import (
    ABSENT,
    FOUND,
    Changed,
    Columns,
    Fetched,
    Pieces,
    Sources,
    Version,
    Versions,
    clip_span,
    clip_spans,
)

_CACHE_SIZE: Final = 4096  # chunks of one array that are cached one by one
_SMALL: Final = 2**16  # chunks up to this size are fetched whole


class ArrayChunks:
    """ChunkStorage of one array of a session, identified by the key of its node: it follows the array when it is moved."""

    __slots__ = ("_cached", "_cached_state", "_key", "_owner", "_rank", "_store")

    def __init__(self, owner: SessionState, key: int, rank: int) -> None:
        self._owner, self._key, self._rank = owner, key, rank
        self._store = owner.files.chunk_store()
        self._cached: dict[tuple[int, ...], Located] = {}  # chunks that were looked up one by one
        self._cached_state = -1  # the state of the session in which they are valid

    def __repr__(self) -> str:
        return f"ArrayChunks({self._owner!r}, node {self._key})"

    @property
    def direct(self) -> bool:
        owner = self._owner
        at_hand = owner.files.store.capabilities.direct and owner.options.virtual.direct
        # a thread that holds the lock, such as one that calls a solver in a rebase, cannot wait for others that need it
        return at_hand or owner.lock._is_owned()  # type: ignore[attr-defined] # as threading.Condition does

    def joins(self, nbytes: int) -> bool:
        return nbytes <= self._pending_limit or not self._owner.files.store.capabilities.streams

    @property
    def _pending_limit(self) -> int:
        """Bytes of the largest chunks that wait in memory."""
        return PACK_LIMIT if self._owner.packing else INLINE_LIMIT

    @property
    def conditional_erase(self) -> bool:
        return True

    @property
    def erasable(self) -> bool:
        """A chunk is removed by dropping its reference, whether or not the store can erase."""
        return True

    @property
    def answers_files(self) -> bool:
        return self._owner.files.store.capabilities.local

    @property
    def key(self) -> int:
        """The key of the array's node."""
        return self._key

    def locate(self, coords: Columns) -> Located:
        if len(coords) == 1:
            return self.locate_one(tuple(coords[0].tolist()))
        return self._located(coords)

    def _located(self, coords: Columns) -> Located:
        owner = self._owner
        with owner.lock:
            lookup = self._lookup()
            owner.note_read(self._key, coords)
            return lookup.locate(coords)

    def _lookup(self) -> ChunkLookup:
        """Raises NotFoundError if the array is gone."""
        owner = self._owner
        return ChunkLookup(*owner.references(self._key), owner.changes, owner.files)

    def locate_one(self, coordinates: tuple[int, ...]) -> Located:
        owner = self._owner
        if self._cached_state == owner.state:
            cached = self._cached.get(coordinates)
            if cached is not None:
                return cached
        with owner.lock:
            if self._cached_state != owner.state or len(self._cached) >= _CACHE_SIZE:
                self._cached, self._cached_state = {}, owner.state
            if owner.reads is not None:
                return self._located(np.array([coordinates], np.int64).reshape(1, self._rank))
            located = self._lookup().locate_one(coordinates)
            if located is None:
                located = self._located(np.array([coordinates], np.int64).reshape(1, self._rank))
            self._cached[coordinates] = located
            return located

    def kernel_files(self, coords: Callable[[], Columns]) -> KernelFiles | None:
        root = self._store.kernel_root()
        return None if root is None else located_files(root, self.locate(coords()))

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Versions | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        store = self._store
        whole = _whole_chunks(located, spans) if store is not self._owner.files.store else None
        if whole is not None:
            fetched = self.fetch(
                located, whole.spans, expect=expect, continue_from=continue_from, single_read=single_read
            )
            return fetched._replace(rows=whole.cut(fetched.rows))
        if len(located.kind) == 1 and continue_from is None and located.kind.item(0) in (STORED, INLINE):
            single = _fetch_one(store, located, spans, expect)
            if single is not None:
                return single
        if (located.kind == VIRTUAL_KIND).any():
            return fetch_mixed(
                store, self._owner.options.virtual, located, spans, expect=expect, single_read=single_read
            )
        return fetch_located(store, located, spans, expect=expect, continue_from=continue_from, single_read=single_read)

    def stored(self, grid_shape: Sequence[int]) -> Columns:
        owner = self._owner
        with owner.lock:
            lookup = self._lookup()
            coords = no_coordinates(self._rank) if lookup.base is None else lookup.base.coordinates()
            if lookup.changed is not None:
                coords = np.concatenate((coords, lookup.changed.columns.coordinates))
            coords = sorted_coordinates(coords[within(coords, grid_shape)])
            owner.note_read(self._key, None)
            existing: Columns = coords[lookup.locate(coords).kind != NOWHERE]
            return existing

    def stored_sizes(self, grid_shape: Sequence[int]) -> tuple[Columns, Columns]:
        coords = self.stored(grid_shape)
        return coords, self.sizes(coords)

    def sizes(self, coords: Columns) -> Columns:
        located = self.locate(coords)
        return np.where(located.kind == NOWHERE, -1, located.length)

    def coordinates(self, key: str, ndim: int) -> tuple[int, ...] | None:
        owner, start = self._owner, self._owner.files.key("chunks/")
        try:
            file = decode_id(key.removeprefix(start))
        except FormatError:
            return None
        with owner.lock:
            lookup = self._lookup()
            coords = no_coordinates(self._rank) if lookup.base is None else lookup.base.holding(file)
            if lookup.changed is not None:
                rows = lookup.changed.selected(lookup.changed.current())
                matches = (rows.ids == np.frombuffer(file, np.uint8)).all(axis=1)
                coords = np.concatenate((coords, rows.coordinates[matches]))
            located = lookup.locate(coords := sorted_coordinates(coords))
        stored = np.flatnonzero(located.kind == STORED).tolist()
        found = [row for row in stored if located.names[located.object[row]] == key]
        return tuple(coords[found[0]].tolist()) if len(found) == 1 else None  # it may hold many chunks

    def publish(self, coords: Columns, pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        owner = self._owner
        lengths = _value_lengths(pieces)
        limit = self._pending_limit
        if len(coords) == 1 and lengths.item(0) <= limit:
            return [self._publish_one(coords, pieces, lengths, expect[0])]
        with owner.lock:
            owner.change_of(self._key).changed_references()  # raises at once if the session cannot write
        large = lengths > limit
        ids = np.zeros((0, ID_BYTES), np.uint8)
        if large.any():
            values = picked(pieces, np.flatnonzero(large))
            ids = new_chunk_ids(values, digests=owner.rules.digests)
            names = [owner.files.key(f"chunks/{text}") for text in encode_ids(ids)]
            owner.files.store.put_own(names, values)
        kinds, all_ids = np.where(large, NATIVE, PENDING).astype(np.uint8), np.zeros((len(coords), ID_BYTES), np.uint8)
        all_ids[large] = ids
        objects, offsets = np.zeros((2, len(coords)), np.int64)
        with owner.lock:
            owner.make_room(int(lengths[~large].sum()))
            changed = owner.change_of(self._key).changed_references()
            fits = self._as_expected(coords, expect)
            if not large.all():
                small, threads = picked(pieces, np.flatnonzero(~large)), owner.options.runtime.checked().threads
                objects[~large], offsets[~large] = owner.changes.pending.add(small, lengths[~large], threads)
            answers = self._set(changed, Rows(coords, kinds, all_ids, objects, offsets, lengths), fits)
            owner.written.superseded(all_ids[large & ~fits])
            owner.chunks_added()
        return answers

    def _publish_one(
        self, coords: Columns, pieces: Pieces, lengths: Columns, expect: Version | None
    ) -> Version | Changed:
        """A fast path of publish for one chunk in memory, whether or not there are others: it uses numbers instead of columns."""
        owner, chunk = self._owner, tuple(coords[0].tolist())
        with owner.lock:
            if expect is not None and (found := self.locate_one(chunk).versions) is not None:
                present = found[0] or ABSENT
                if present != expect:
                    return Changed(present)
            changed = owner.change_of(self._key).changed_references()
            segment, offsets = owner.changes.pending.add(pieces, lengths, 1)
            old = changed.find_one(chunk)
            unused = changed.whole_files(np.array([old], np.int64)) if old >= 0 else None
            kinds, ids = np.array([PENDING], np.uint8), np.zeros((1, ID_BYTES), np.uint8)
            (number,) = changed.set(Rows(coords, kinds, ids, np.array([segment], np.int64), offsets, lengths)).tolist()
            if unused is not None:
                owner.written.superseded(unused)
            version = changed_version(changed.generation, number)
            owner.chunks_added()
        return version

    def erase(self, coords: Columns, expect: Versions) -> list[Changed | None]:
        owner = self._owner
        with owner.lock:
            changed = owner.change_of(self._key).changed_references()
            fits = self._as_expected(coords, expect)
            exists = self.locate(coords).kind != NOWHERE
            answers = self._set(changed, removed_rows(coords), fits & exists)
            owner.chunks_added()  # invalidates the cached chunks, which were just looked up before the removal
        return [
            answer if not fit and isinstance(answer, Changed) else None
            for answer, fit in zip(answers, fits.tolist(), strict=True)
        ]

    def whole_change(self) -> WholeChange:
        return WholeChange(self._owner)

    def extend(self, axis: int, old: int, new: int) -> None:
        with self._owner.lock:
            self._owner.change_of(self._key).append(Append(axis, old, new))

    def _as_expected(self, coords: Columns, expect: Versions) -> Flags:
        fits = np.ones(len(coords), np.bool_)
        conditional = [i for i, version in enumerate(expect) if version is not None]
        if conditional:
            located = self.locate(coords[conditional])
            assert located.versions is not None
            fits[conditional] = [(located.versions[row] or ABSENT) == expect[i] for row, i in enumerate(conditional)]
        return fits

    def _set(self, changed: ChangedReferences, rows: Rows, fits: Flags) -> list[Version | Changed]:
        """Sets the rows that fit. Returns the new version of each chunk, or the present version of those that do not fit."""
        fitting = rows if fits.all() else rows.pick(fits)
        old = changed.find(fitting.coordinates)
        unused = changed.whole_files(old[old >= 0])
        numbers = changed.set(fitting)
        self._owner.written.superseded(unused)
        answers: list[Version | Changed] = [*set_versions(fitting, numbers, changed.generation)]
        if fitting is not rows:
            new, versions = iter(answers), self.locate(rows.coordinates).versions
            assert versions is not None
            answers = [
                next(new) if fit else Changed(version or ABSENT)
                for fit, version in zip(fits.tolist(), versions, strict=True)
            ]
        return answers


def _whole_chunks(located: Located, spans: Columns) -> Merged | None:
    """Replaces spans in small chunks by spans of whole chunks, for a store that caches what it fetched: the index and the inner chunks of a small shard then
    take one request. None if there are no small chunks."""
    row, start, length = spans.T
    size = located.length[row]
    small = (located.kind[row] == STORED) & (size > 0) & (size <= _SMALL) & ((start != 0) | (length != size))
    if not small.any():
        return None
    whole = spans.copy()
    whole[small, 1], whole[small, 2] = 0, size[small]
    first, count = clip_spans(start, length, size)
    return Merged(whole, np.arange(len(spans)), first, np.where(small, count, -1))


def _fetch_one(store: Store, located: Located, spans: Columns, expect: Versions | None) -> Fetched | None:
    """A fast path for one span of one chunk, in a chunk file or in memory; None if it does not apply."""
    versions = located.versions
    if len(spans) != 1 or versions is None:
        return None
    version, base, length = versions[0], located.base.item(0), located.length.item(0)
    if expect is not None and expect[0] not in (None, version):
        return None
    _, start, count = spans.tolist()[0]
    if start < 0 or count < 0 or base or start + count > length:
        start, count = clip_span(start, count, length)
        spans = np.array([(0, base + start, count)], np.int64)
    if located.kind.item(0) == INLINE:
        rows = np.array([(-1 - located.object.item(0), base + start, count)], np.int64)
        return Fetched(Sources(None, located.inline), (FOUND,), versions, located.length, rows, None, NOT_FETCHED)
    fetched = store.fetch(located.names, spans)
    if fetched.status[0] != FOUND:
        return None
    return Fetched(fetched.sources, fetched.status, versions, located.length, fetched.rows, None, fetched)


def _value_lengths(pieces: Pieces) -> Columns:
    """Bytes of each value."""
    if len(pieces.rows) == len(pieces.offsets) - 1 == 1:
        return pieces.rows[:, 2]
    bounds = offsets_of(pieces.rows[:, 2])[pieces.offsets]
    lengths: Columns = bounds[1:] - bounds[:-1]
    return lengths
