"""An object with every operation of the Zarr v3 draft's store interface, and objects with some of them, as users' own stores may be."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence
from threading import RLock
from types import SimpleNamespace
from typing import Any

OPERATIONS = {
    "read": [("get",), ("get_partial_values",), ("get", "get_partial_values")],
    "write": [("set",), ("set_partial_values",), ("set", "set_partial_values")],
    "erase": [
        ("erase",),
        ("erase_values",),
        ("erase", "erase_values", "erase_prefix"),
        ("erase_values", "erase_prefix"),
        (),
    ],
    "list": [
        chosen
        for count in (1, 2, 3, 0)
        for chosen in itertools.combinations(("list", "list_prefix", "list_dir"), count)
    ],
    "beyond": [
        (),
        ("size",),
        ("suffix_ranges",),
        ("size", "suffix_ranges"),
        ("version",),
        ("version", "size"),
        ("version", "set_if", "erase_if"),
    ],
}


class Table:
    """Keys to bytes in a dict. It is as strict as the document allows: KeyError for missing keys, lists in no order, ranges that must fit."""

    def __init__(self, suffix_ranges: bool = False) -> None:
        self.values: dict[str, bytes] = {}
        self.versions: dict[str, int] = {}
        self.count = 0
        self.suffix_ranges = suffix_ranges
        self.lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, lock=RLock())

    def get(self, key: str) -> bytes:
        return self.values[key]

    def get_partial_values(self, key_ranges: Sequence[tuple[str, tuple[int, int | None]]]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for key, (start, length) in key_ranges:
            value = self.values.get(key)
            assert start >= 0 or self.suffix_ranges, "a start < 0 is nothing that the document knows"
            assert length is None or length > 0
            if value is not None:
                begin = max(len(value) + start, 0) if start < 0 else start
                value = value[begin:] if length is None else value[begin : begin + length]
            found.append(value)
        return found

    def _store(self, key: str, value: bytes) -> None:
        assert type(value) is bytes
        self.count += 1
        self.versions[key] = self.count
        self.values[key] = value

    def set(self, key: str, value: bytes) -> None:
        with self.lock:
            self._store(key, value)

    def set_partial_values(self, key_start_values: Sequence[tuple[str, int, bytes]]) -> None:
        for key, start, value in key_start_values:
            with self.lock:
                old = self.values.get(key, b"")
                assert start <= len(old), "a gap"
                self._store(key, old[:start] + value + old[start + len(value) :])

    def erase(self, key: str) -> None:
        with self.lock:
            del self.values[key]

    def erase_values(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.erase(key)

    def erase_prefix(self, prefix: str) -> None:
        assert prefix == "" or prefix.endswith("/")
        with self.lock:
            for key in self.list_prefix(prefix):
                del self.values[key]

    def list(self) -> Iterable[str]:
        keys = list(self.values)
        random.shuffle(keys)
        return iter(keys)

    def list_prefix(self, prefix: str) -> set[str]:
        found = {key for key in list(self.values) if key.startswith(prefix)}
        if not found:
            raise KeyError(prefix)  # the document lets a store assume that the key exists
        return found

    def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
        keys = [key[len(prefix) :] for key in list(self.values) if key.startswith(prefix)]
        here = {prefix + key for key in keys if "/" not in key}
        return here, {prefix + key.split("/")[0] + "/" for key in keys if "/" in key}

    def size(self, key: str) -> int:
        return len(self.values[key])

    def version(self, key: str) -> bytes | None:
        with self.lock:
            return b"v%d" % self.versions[key] if key in self.values else None

    def set_if(self, key: str, value: bytes, version: bytes) -> bytes | None:
        with self.lock:
            if version != (self.version(key) or b""):
                return None
            self.set(key, value)
            return self.version(key)

    def erase_if(self, key: str, version: bytes) -> bool:
        with self.lock:
            if version != self.version(key):
                return False
            self.erase(key)
            return True


def subset(*names: str) -> Any:
    """An object with these operations and no others."""
    table = Table("suffix_ranges" in names)
    return SimpleNamespace(**{name: getattr(table, name) for name in names})


def subsets(count: int) -> list[tuple[str, ...]]:
    """Subsets of the operations that suffice for a store, including each way of doing each thing, and random others."""
    chance = random.Random(2022)
    kinds = list(OPERATIONS.values())
    longest = max(len(ways) for ways in kinds)
    first = [[ways[i % len(ways)] for ways in kinds] for i in range(longest)]
    found: list[tuple[str, ...]] = []
    while len(found) < count:
        names = tuple(itertools.chain(*(first.pop() if first else [chance.choice(ways) for ways in kinds])))
        can_shorten = "set" in names or "erase" in names or "erase_values" in names
        if names not in found and can_shorten:
            found.append(names)
    return found
