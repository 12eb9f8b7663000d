"""A cache for results of pure functions, keyed by their inputs. The callers are documents.py and array/compiled_array.py."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

T = TypeVar("T")

_MOST: Final = 256  # results
_MOST_BYTES: Final = 2**21  # of the texts that are keys


class ResultCache:
    """At most 256 results by key, for keys of about 2 MiB together; when there are more, all are dropped. Safe to use from many threads, and after a fork: an
    entry is only added, or all are dropped. Equal to any other cache; pickles without its results."""

    __slots__ = ("_bytes", "_results")

    def __init__(self) -> None:
        self._results: dict[Hashable, tuple[object, object]] = {}
        self._bytes = 0  # threads that add at the same time may miss some

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultCache)

    def __hash__(self) -> int:
        return hash(ResultCache)

    def __reduce__(self) -> tuple[object, ...]:
        return ResultCache, ()

    def get(self, key: Hashable, kind: type[T]) -> T | None:
        """The value of a key, if it is of this class."""
        found = self._results.get(key)
        return found[1] if found is not None and isinstance(found[1], kind) else None

    def put(self, key: Hashable, result: object, alive: object = None) -> None:
        """alive: values whose identity is part of the key; they live as long as the entry. A text of more than half of the bytes is not cached."""
        size = len(key) if isinstance(key, bytes) else 0
        if size > _MOST_BYTES // 2:
            return
        if len(self._results) >= _MOST or self._bytes + size > _MOST_BYTES:
            self._results.clear()
            self._bytes = 0
        self._bytes += size
        self._results[key] = alive, result

    def get_or_make(self, parts: tuple[object, ...], make: Callable[[], T], kind: type[T], value: Hashable = None) -> T:
        """The result for these objects, compared by identity, and a value. If `make` raises, nothing is cached. kind: the class of the result"""
        key = (*[id(part) for part in parts], value)
        found = self.get(key, kind)
        if found is None:
            found = make()
            self.put(key, found, parts)
        return found
