"""Shrinking: chunks outside the new shape are removed; elements outside it, in chunks at the edge, are set to the fill value.

The specification does not require this. Without it old values would come back when the array grows again (docs/design/005-shrink.md). A store that cannot erase
keeps the chunks outside, filled with the fill value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from frazil.array.access import Access
from frazil.array.io.write import write
from frazil.array.shape.extents import Grid
from frazil.base.arrays import Columns, Flags, Values
from frazil.base.record import Record
from frazil.errors import ConflictError
from frazil.indexing.points import Plan
from frazil.indexing.selection import BoxSelection, basic
from frazil.stores.array_storage.chunk_storage import ChunkStorage, PlainChunks

_ERASE_AT_ONCE = 1024


class Cut(Record):
    """An array that shrinks from the lengths `old` to `new`. plans: of a selection, for each shape of chunks the access to them and the plan."""

    access: Access
    fill: Values
    grid: Grid
    plans: Callable[[BoxSelection, Access], Iterable[tuple[Access, Plan]]]
    old: tuple[int, ...]
    new: tuple[int, ...]

    def clear(self) -> None:
        """Clears the elements of stored chunks inside the shape `old` and outside `new`. To be called before the document has the lengths `new`."""
        storage = self.access.storage
        coords, first, outside = self._stored()
        outside &= storage.erasable  # otherwise they are filled
        removed = coords[outside]
        for low in range(0, len(removed), _ERASE_AT_ONCE):
            part = np.ascontiguousarray(removed[low : low + _ERASE_AT_ONCE])
            storage.erase(part, [None] * len(part))
        inside = ~outside
        for start, end in zip(first[inside].tolist(), self._ends(coords[inside], first[inside]).tolist(), strict=True):
            self._fill(self.access, start, end, self.access.document.confirm, again=False)

    def clear_again(self) -> None:
        """Clears elements that other processes published after `clear`, as they had read the old document. To be called when the document has the lengths
        `new`.

        In a repository nothing is done: no other process writes to a session. In a plain store others may already append. So each chunk is read first, then the
        document, which must still have the lengths `new`; then the chunk is replaced if it still has the version that was read. In a store without conditions
        this could lose appended elements, so nothing is done there."""
        if not _is_shared(self.access.storage):
            return
        # in place, a shard that is outside would keep inner chunks of fill values
        rewriting = self.access._replace(options=self.access.options._replace(shard_writes="rewrite"))
        try:
            coords, first, outside = self._stored()
            ends = self._ends(coords, first)
            for start, end, removed in zip(first.tolist(), ends.tolist(), outside.tolist(), strict=True):
                self._fill(rewriting if removed else self.access, start, end, self._check_shape, again=True)
        except ConflictError:  # others changed the shape, or put another array here: the stored chunks are theirs
            return

    def _check_shape(self) -> None:
        if not self.access.document.has_shape(self.new):
            raise ConflictError(
                "others changed the shape of the array",
                path=self.access.path or "/",
                hint="call refresh(), and resize it again",
            )

    def _stored(self) -> tuple[Columns, Columns, Flags]:
        """The stored chunks that are not wholly inside `new`: their coordinates and first elements, int64[n, d], and which are wholly outside, bool[n]."""
        lengths = np.array(self.new, np.int64).reshape(1, -1)
        coords = self.access.storage.stored(self.grid.grid_shape(self.old))
        first = self.grid.corners(coords)
        cut = (self._ends(coords, first) > lengths).any(axis=1)
        coords, first = coords[cut], first[cut]
        return coords, first, np.asarray((first >= lengths).any(axis=1), np.bool_)

    def _ends(self, coords: Columns, first: Columns) -> Columns:
        """The end of each chunk inside `old`."""
        room: Columns = np.minimum(self.grid.corners(coords + 1) - first, np.array(self.old, np.int64) - first)
        return first + room

    def _fill(
        self, access: Access, start: list[int], ends: list[int], confirm: Callable[[], None], *, again: bool
    ) -> None:
        """Sets the elements outside `new` in one chunk to the fill value. confirm: as in write."""
        for box in self._boxes(list(zip(start, ends, strict=True))):
            selection = basic(box, self.old)
            assert isinstance(selection, BoxSelection)
            values = selection.source_view(self.fill)
            for shaped, plan in self.plans(selection, access):
                write(shaped, plan, values, confirm, confirmed=not again, in_part=again)

    def _boxes(self, inside: list[tuple[int, int]]) -> Iterator[tuple[slice, ...]]:
        """The part of a chunk outside `new`, as boxes that do not overlap: one for each dimension that was cut. inside: start and end of each dimension."""
        for axis, length in enumerate(self.new):
            low, high = inside[axis]
            if high > length:
                yield tuple(slice(*((max(low, length), high) if d == axis else ends)) for d, ends in enumerate(inside))
                if low >= length:
                    return
                inside[axis] = (low, length)


def undoes(old: tuple[int, ...], new: tuple[int, ...], storage: ChunkStorage) -> bool:
    """Whether an array becomes shorter whose chunks Cut.clear_again clears."""
    return any(before > after for before, after in zip(old, new, strict=True)) and _is_shared(storage)


def _is_shared(storage: ChunkStorage) -> bool:
    """Whether others may write the chunks, and replacing them can be made conditional."""
    return isinstance(storage, PlainChunks) and storage.store.capabilities.expects
