"""A store of ours over any store of zarr-python, for as long as one call of a pipeline lasts. stores/operations/zarr_operations.py runs the coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn, Unpack

import numpy as np
from zarr.core.config import config

from frazil.errors import StoreError
from frazil.stores.operations.zarr_operations import ZarrOperations
from frazil.stores.port import FetchOptions
from frazil.stores.store import Store
from frazil.stores.transfer.content import join_pieces
from frazil.stores.values import (
    ABSENT,
    ABSENT_KEY,
    FOUND,
    MISSING,
    Capabilities,
    Changed,
    Columns,
    Fetched,
    Pieces,
    SourceBuffer,
    Sources,
    Version,
    Versions,
)

if TYPE_CHECKING:
    from zarr.abc.store import Store as ZarrStore

# of a partly read value: zarr-python reports no sizes with parts, and a range beyond the end fails when it is read
_UNKNOWN_SIZE: Final = 2**62


class ForeignStore(Store):
    """Fetches, puts and erases values. There are no versions, so of two writers of one chunk the last one wins, as in zarr-python.

    loop: runs the coroutines of `store`; its own thread must not call this
    writes: values are fetched whole, and kept until they are replaced. Else the index of a shard and its inner chunks could be of two writers"""

    __slots__ = ("_kept", "_operations", "_store")

    def __init__(self, store: ZarrStore, loop: asyncio.AbstractEventLoop, *, writes: bool) -> None:
        self._store = store
        self._kept: dict[str, bytes | None] | None = {} if writes else None
        self._operations = ZarrOperations(store, config.get("async.concurrency"), lambda: loop, missing=())

    def __repr__(self) -> str:
        return repr(self._store)

    @property
    def capabilities(self) -> Capabilities:
        can = self._store
        return Capabilities(
            writable=not can.read_only, listable=False, erasable=can.supports_deletes, conditional=False
        )

    def fetch(self, names: Sequence[str], spans: Columns, **_: Unpack[FetchOptions]) -> Fetched:
        """As in the port, without versions: the options are ignored."""
        ranges = [(names[name], (start, None if length < 0 else length)) for name, start, length in spans.tolist()]
        spanless = sorted(set(range(len(names))) - set(spans[:, 0].tolist()))
        values = self._parts(ranges)
        exists = self._operations.exists([names[row] for row in spanless])
        status = [FOUND] * len(names)
        sizes = np.full(len(names), _UNKNOWN_SIZE, np.int64)
        rows = np.empty((len(spans), 3), np.int64)
        buffers: list[SourceBuffer] = []
        for row, found in zip(spanless, exists, strict=True):
            status[row] = FOUND if found else ABSENT_KEY
        for i, ((name, start, length), value) in enumerate(zip(spans.tolist(), values, strict=True)):
            if value is None:
                status[name] = ABSENT_KEY
                rows[i] = (MISSING, 0, 0)
                continue
            if (start == 0 and length < 0) or len(value) < -start:
                sizes[name] = len(value)
            buffers.append(value)
            rows[i] = (-len(buffers), 0, length if start >= 0 and length >= 0 else len(value))
        sizes[np.array(status) != FOUND] = -1
        return Fetched(Sources(None, buffers), status, [None] * len(names), sizes, rows)

    def _parts(self, ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> Sequence[SourceBuffer | None]:
        if self._kept is None:
            return self._operations.get_partial_values(ranges)
        new = list(dict.fromkeys(name for name, _ in ranges if name not in self._kept))
        found = self._operations.get_partial_values([(name, (0, None)) for name in new])
        self._kept.update(zip(new, found, strict=True))
        return [_part(self._kept[name], *span) for name, span in ranges]

    def _forget(self, names: Sequence[str]) -> None:
        if self._kept is not None:
            for name in names:
                self._kept.pop(name, None)

    def put_many(self, names: Sequence[str], pieces: Pieces, expect: Versions) -> list[Version | Changed]:
        """As in the port; `expect` is ignored."""
        self.require("writable")
        self._forget(names)
        self._operations.set_values(dict(zip(names, join_pieces(pieces), strict=True)))
        return [ABSENT] * len(names)

    def erase_many(self, names: Sequence[str], expect: Versions) -> list[Changed | None]:
        """As in the port; `expect` is ignored."""
        self.require("erasable")
        assert self._operations.erase_values is not None, "it is erasable"
        self._forget(names)
        self._operations.erase_values(names)
        return [None] * len(names)

    def list_page(
        self, prefix: str, after: str = "", *, delimited: bool = False, details: bool = False, limit: int | None = None
    ) -> NoReturn:
        """Lists nothing: zarr-python names the chunks."""
        raise StoreError(f"{self} is not listed here")


def _part(value: bytes | None, start: int, length: int | None) -> SourceBuffer | None:
    """A range of a value, without a copy."""
    if value is None:
        return None
    return memoryview(value)[start : None if length is None or start < 0 else start + length]
