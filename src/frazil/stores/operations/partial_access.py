"""Partial reading and writing of values, as the Zarr v3 draft has them ("Abstract store interface"), on top of the store port.

A store that writes parts of values in its own way overrides Store.write_parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from frazil.stores.operations.partial_values import check_starts, checked_ranges, grouped_writes, patched
from frazil.stores.transfer.content import read_values
from frazil.stores.values import OPEN_AT_ONCE, Capabilities, Columns, Fetched, Version, pages

if TYPE_CHECKING:
    from frazil._kernel import Buffer

Writes = Mapping[str, list[tuple[int, bytes]]]  # by key: start and bytes, sorted


class _Store(Protocol):
    """The methods of Store that are used here."""

    @property
    def capabilities(self) -> Capabilities: ...
    def require(self, capability: str) -> None: ...
    def fetch(self, names: Sequence[str], spans: Columns, *, single_read: bool = False) -> Fetched: ...
    def sizes(self, keys: Sequence[str]) -> Columns: ...
    def update_many(
        self, keys: Sequence[str], change: Callable[[str, bytes | None], Buffer | None]
    ) -> list[Version | None]: ...
    def write_parts(self, writes: Writes) -> None: ...


def get_partial_values(store: _Store, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[bytes | None]:
    """Store.get_partial_values."""
    store.require("readable")
    requested = checked_ranges(key_ranges)
    single_read = not store.capabilities.local  # neither sizes nor versions are needed
    ranges: dict[str, list[int]] = {}  # for each key, by their numbers
    for number, (key, _, _) in enumerate(requested):
        ranges.setdefault(key, []).append(number)
    values: list[bytes | None] = [None] * len(requested)
    keys = list(ranges)
    for page in pages(keys):
        names = keys[page]
        numbers = [number for key in names for number in ranges[key]]
        rows = {key: row for row, key in enumerate(names)}
        spans = np.array(
            [(rows[key], start, length) for key, start, length in map(requested.__getitem__, numbers)], np.int64
        )
        found = read_values(store.fetch(names, spans, single_read=single_read), names, spans)
        for number, value in zip(numbers, found, strict=True):
            values[number] = value
    return values


def set_partial_values(store: _Store, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
    """Store.set_partial_values."""
    store.write_parts(grouped_writes(key_start_values))


def write_by_put(store: _Store, writes: Writes) -> None:
    """Store.write_parts by reading and putting whole values."""
    store.require("readable")
    store.require("writable")
    names = list(writes)
    if len(names) > OPEN_AT_ONCE:
        check_all_starts(store, names, writes)
    for page in pages(names):
        store.update_many(names[page], lambda key, old: patched(key, old or b"", writes[key]))


def check_all_starts(store: _Store, names: Sequence[str], writes: Writes) -> None:
    """Refuses writes that leave a gap, before anything is written. Raises InvalidInputError."""
    for key, size in zip(names, store.sizes(names).tolist(), strict=True):
        check_starts(key, writes[key], max(size, 0))
