"""Ranges of partial values as users give them, checked, and how writes change a value. Pure (Zarr v3 draft, Abstract store interface)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from operator import index
from typing import TYPE_CHECKING

from frazil.errors import InvalidInputError
from frazil.stores.keys.names import check_key
from frazil.stores.values import flat_buffer

if TYPE_CHECKING:
    from frazil._kernel import Buffer

KeyRange = tuple[str, tuple[int, int | None]]
KeyStartValue = tuple[str, int, "Buffer"]
Writes = Mapping[str, list[tuple[int, bytes]]]  # by key: start and bytes, sorted


def _integer(key: str, label: str, value: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise InvalidInputError(
            f"the {label} of a range must be an integer, not {type(value).__name__}", key=key
        ) from None
    if not -(2**62) < number < 2**62:
        raise InvalidInputError(f"the {label} of a range is too large: {number}", key=key)
    return number


def checked_ranges(key_ranges: Iterable[KeyRange]) -> list[tuple[str, int, int]]:
    """(key, (start, length)) as (key, start, length), a length of None as -1. Raises InvalidInputError for an invalid one."""
    checked: list[tuple[str, int, int]] = []
    for item in key_ranges:
        try:
            key, (start, length) = item
        except (TypeError, ValueError):
            raise InvalidInputError(f"not a range: {item!r}", hint="(key, (start, length))") from None
        check_key(key)
        start = _integer(key, "start", start)
        if length is not None and _integer(key, "length", length) < 0:
            raise InvalidInputError(
                f"the length of a range is {length}", key=key, hint="0 or more, or None for all up to the end"
            )
        checked.append((key, start, -1 if length is None else index(length)))
    return checked


def grouped_writes(items: Iterable[KeyStartValue]) -> dict[str, list[tuple[int, bytes]]]:
    """(key, start, value) by key, each sorted by start. Raises InvalidInputError for a start < 0 and for ranges of one key that overlap."""
    writes: dict[str, list[tuple[int, bytes]]] = {}
    for item in items:
        try:
            key, start, value = item
        except (TypeError, ValueError):
            raise InvalidInputError("not a partial value", hint="(key, start, value)") from None
        check_key(key)
        start = _integer(key, "start", start)
        if start < 0:
            raise InvalidInputError(
                f"a value cannot be stored from byte {start}", key=key, hint="the start must be 0 or more"
            )
        writes.setdefault(key, []).append((start, bytes(flat_buffer(value))))
    for key, parts in writes.items():
        parts.sort(key=lambda part: (part[0], len(part[1])))
        for (start, value), (after, _) in itertools.pairwise(part for part in parts if part[1]):
            if start + len(value) > after:
                raise InvalidInputError(
                    f"ranges overlap: [{start}, {start + len(value)}) and one from {after}",
                    key=key,
                    hint="give each byte once",
                )
    return writes


def check_starts(key: str, writes: list[tuple[int, bytes]], size: int) -> None:
    """Refuses writes (sorted) that would leave a gap after a value of `size` bytes. Raises InvalidInputError."""
    for start, value in writes:
        if start > size:
            raise InvalidInputError(
                f"a value of {size} bytes cannot be written from byte {start}",
                key=key,
                hint=f"start at {size} or before",
            )
        size = max(size, start + len(value))


def patched(key: str, old: bytes, writes: list[tuple[int, bytes]]) -> bytearray:
    """The old value with writes (sorted) applied. Raises InvalidInputError if they leave a gap."""
    check_starts(key, writes, len(old))
    new = bytearray(old)
    for start, value in writes:
        new[start : start + len(value)] = value
    return new
