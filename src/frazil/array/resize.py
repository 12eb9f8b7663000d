"""What a shrinking array leaves behind: chunks outside are removed, and what is outside in a chunk at the edge is set to the fill value.

The specification is silent on this; without it old values would come back when the array grows again (docs/design/005-shrink.md). In a store that cannot erase
all that is outside is set to the fill value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from frazil.array.access import Access
from frazil.array.io.write import write
from frazil.errors import ConflictError
from frazil.indexing import BoxSelection, basic, box_plan
from frazil.record import Record
from frazil.stores.array_storage.chunk_storage import PlainChunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from frazil.array.compiled_array import CompiledArray
    from frazil.stores.values import Columns

_ERASE_AT_ONCE = 1024


class Cut(Record):
    """An array that shrinks from the lengths `old` to `new`. outer: extent of a chunk of its grid."""

    access: Access
    compiled: CompiledArray
    outer: tuple[int, ...]
    old: tuple[int, ...]
    new: tuple[int, ...]

    def clear(self) -> None:
        """Clears what is inside the shape `old` and outside of `new`, of stored chunks only. To be called before the document says `new`."""
        storage = self.access.storage
        first, outside = self._stored()
        outside &= storage.erasable  # what cannot be erased is filled
        gone = first[outside] // np.array(self.outer, np.int64).reshape(1, -1)
        for low in range(0, len(gone), _ERASE_AT_ONCE):
            part = np.ascontiguousarray(gone[low : low + _ERASE_AT_ONCE])
            storage.erase(part, [None] * len(part))
        for start in first[~outside].tolist():
            self._fill(start, self.access.document.confirm, again=False)

    def clear_again(self) -> None:
        """Clears what others published after `clear`, since they read the document before it said `new`. To be called when it says so.

        In a repository nothing is done: nobody else writes to a session. Elsewhere others may append by now. So each chunk is read first, then the document, which must still say `new`; then the chunk is replaced if it still has the
        version that was read. In a store without conditions that could lose what others append, so nothing is done there."""
        storage = self.access.storage
        if not isinstance(storage, PlainChunks) or not storage.store.capabilities.expects:
            return
        try:
            for start in self._stored()[0].tolist():
                self._fill(start, self._check_shape, again=True)
        except ConflictError:  # others changed the shape, or put another array here: what is stored now is theirs
            return

    def _check_shape(self) -> None:
        if not self.access.document.has_shape(self.new):
            raise ConflictError("others changed the lengths of the array", path=self.access.path or "/")

    def _stored(self) -> tuple[Columns, NDArray[np.bool_]]:
        """The first elements of the stored chunks that are not wholly inside `new`, int64[n, d], and which of these chunks are wholly outside, bool[n]."""
        outer, lengths = (np.array(extents, np.int64).reshape(1, -1) for extents in (self.outer, self.new))
        grid = tuple(-(-extent // chunk) for extent, chunk in zip(self.old, self.outer, strict=True))
        first = self.access.storage.stored(grid) * outer
        first = first[(self._ends(first) > lengths).any(axis=1)]
        return first, np.asarray((first >= lengths).any(axis=1), np.bool_)

    def _ends(self, first: Columns) -> Columns:
        """What follows the last element of each chunk inside `old`."""
        room: Columns = np.minimum(np.array(self.outer, np.int64), np.array(self.old, np.int64) - first)
        return first + room

    def _fill(self, start: list[int], confirm: Callable[[], None], *, again: bool) -> None:
        """Sets what is outside in one chunk to the fill value. confirm: as in write."""
        ends = self._ends(np.array([start], np.int64))[0].tolist()
        for box in self._boxes(list(zip(start, ends, strict=True))):
            selection = basic(box, self.old)
            assert isinstance(selection, BoxSelection)
            plan = box_plan(selection, self.compiled.chain.leaf.shape, self.compiled.counts)
            values = selection.source_view(np.asarray(self.compiled.fill))
            write(self.access, plan, values, confirm, confirmed=not again, in_part=again)

    def _boxes(self, inside: list[tuple[int, int]]) -> Iterator[tuple[slice, ...]]:
        """The part of a chunk that is outside, as boxes that do not overlap: one for each dimension that was cut. inside: of each dimension the start and the end."""
        for axis, length in enumerate(self.new):
            low, high = inside[axis]
            if high > length:
                yield tuple(slice(*((max(low, length), high) if d == axis else ends)) for d, ends in enumerate(inside))
                if low >= length:
                    return
                inside[axis] = (low, length)
