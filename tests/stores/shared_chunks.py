"""A chunk storage in which chunks share objects, are inline in shared buffers, or have their own object, for tests that chunks are not confused."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from frazil.stores.array_storage.chunk_storage import INLINE, NOWHERE, STORED, KernelFiles, Located
from frazil.stores.array_storage.shared_objects import fetch_located, located_files
from frazil.stores.store import Store
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import ABSENT, ANY, Changed, Columns, Fetched, Pieces, Version, pieces_of

PAD = b"\xa5" * 3  # between chunks: a read beyond the edge gets this
Coordinates = tuple[int, ...]


class Reference(NamedTuple):
    """A chunk's bytes: inline, or those of an object from `base` on; length -1: all of it."""

    inline: bytes | None
    name: str
    base: int
    length: int
    version: bytes


class SharedChunks:
    """Chunks of up to `inline` bytes are inline. Every third of the others has its own object; the rest share one with all chunks published together. Objects
    are never replaced, as in a repository. versions: whether they are known without a store request."""

    def __init__(self, store: Store, prefix: str = "", *, inline: int = 16, versions: bool = True) -> None:
        self.store, self.prefix, self.inline, self.with_versions = store, prefix, inline, versions
        self.chunks: dict[Coordinates, Reference] = {}
        self.extended: list[tuple[int, int, int]] = []
        self._number = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def direct(self) -> bool:
        return self.store.capabilities.direct

    def joins(self, nbytes: int) -> bool:
        return not self.store.capabilities.streams

    @property
    def answers_files(self) -> bool:
        return self.store.capabilities.local

    def locate(self, coords: Columns) -> Located:
        found = [self.chunks.get(tuple(at)) for at in coords.tolist()]
        names = sorted({one.name for one in found if one is not None and one.inline is None}, reverse=True)
        buffers: list[bytearray] = [bytearray(PAD), bytearray(PAD)]
        rows = np.zeros((len(found), 4), np.int64)
        for i, one in enumerate(found):
            if one is None:
                rows[i] = NOWHERE, 0, 0, -1
            elif one.inline is None:
                rows[i] = STORED, names.index(one.name), one.base, one.length
            else:
                rows[i] = INLINE, i % 2, len(buffers[i % 2]), len(one.inline)
                buffers[i % 2] += one.inline + PAD
        kind, place, base, length = rows.T.copy()
        return Located(
            names,
            kind.astype(np.uint8),
            place,
            base,
            length,
            [bytes(buffer) for buffer in buffers],
            [None if one is None else one.version for one in found] if self.with_versions else None,
            must_exist=True,
        )

    def locate_one(self, coordinates: Coordinates) -> Located:
        return self.locate(np.array([coordinates], np.int64))

    def kernel_files(self, coords: Callable[[], Columns]) -> KernelFiles | None:
        root = self.store.kernel_root()
        return None if root is None else located_files(root, self.locate(coords()))

    def fetch(
        self,
        located: Located,
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return fetch_located(
            self.store, located, spans, expect=expect, continue_from=continue_from, single_read=single_read
        )

    def publish(self, coords: Columns, pieces: Pieces, expect: Sequence[Version | None]) -> list[Version | Changed]:
        values = join_pieces(pieces)
        with self._lock:
            stamp = next(self._number)
            references, packed = [], PAD
            alone: dict[str, bytes] = {}
            for i, value in enumerate(values):
                version = f"{stamp}.{i}".encode()
                if len(value) <= self.inline:
                    references.append(Reference(value, "", 0, len(value), version))
                elif i % 3 == 2:
                    alone[f"{self.prefix}{stamp}/{i}"] = value
                    references.append(Reference(None, f"{self.prefix}{stamp}/{i}", 0, -1, version))
                else:
                    references.append(Reference(None, f"{self.prefix}{stamp}/pack", len(packed), len(value), version))
                    packed += value + PAD
            if len(packed) > len(PAD):
                alone[f"{self.prefix}{stamp}/pack"] = packed
            self.store.put_many(list(alone), pieces_of(list(alone.values())), [ANY] * len(alone))
            answers: list[Version | Changed] = []
            for at, reference, expected in zip(map(tuple, coords.tolist()), references, expect, strict=True):
                changed = self._changed(at, expected)
                if changed is None:
                    self.chunks[at] = reference
                answers.append(self._version(reference) or reference.version if changed is None else changed)
        return answers

    conditional_erase = True
    erasable = True

    def erase(self, coords: Columns, expect: Sequence[Version | None]) -> list[Changed | None]:
        answers: list[Changed | None] = []
        with self._lock:
            for at, expected in zip(map(tuple, coords.tolist()), expect, strict=True):
                answers.append(self._changed(at, expected))
                if answers[-1] is None:
                    self.chunks.pop(at, None)
        return answers

    def _changed(self, at: Coordinates, expected: Version | None) -> Changed | None:
        present = self._version(self.chunks.get(at))
        return None if expected is ANY or expected == present else Changed(present or ABSENT)

    def _version(self, reference: Reference | None) -> Version | None:
        """The version that a fetch returns. Inline chunks have none without versions."""
        if reference is None:
            return ABSENT
        if self.with_versions:
            return reference.version
        if reference.inline is not None:
            return None
        found = self.store.get_versioned(reference.name)
        return None if found is None else found[1]

    def whole_change(self) -> AbstractContextManager[None]:
        return nullcontext()

    def extend(self, axis: int, old: int, new: int) -> None:
        self.extended.append((axis, old, new))

    def stored(self, grid_shape: Sequence[int]) -> Columns:
        inside = [at for at in self.chunks if all(n < extent for n, extent in zip(at, grid_shape, strict=True))]
        return np.array(sorted(inside), np.int64).reshape(len(inside), len(grid_shape))

    def stored_sizes(self, grid_shape: Sequence[int]) -> tuple[Columns, Columns]:
        coords = self.stored(grid_shape)
        return coords, self.sizes(coords)

    def sizes(self, coords: Columns) -> Columns:
        located = self.locate(coords)
        whole = (located.kind == STORED) & (located.length < 0)
        sizes = located.length.copy()
        sizes[whole] = self.store.sizes([located.names[i] for i in located.object[whole].tolist()])
        return sizes

    def coordinates(self, key: str, ndim: int) -> Coordinates | None:
        there = [at for at, reference in self.chunks.items() if reference.inline is None and reference.name == key]
        return there[0] if len(there) == 1 else None
