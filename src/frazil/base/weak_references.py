"""Weak references without callbacks, and the mark of a block whose thread works alone. fork_safety.py renews objects in the child of a fork.

Python runs the callback of a weak reference where the object ends. An exception that a signal handler raises there, such as KeyboardInterrupt, is printed and
lost. The weak collections of the standard library have such callbacks, so the project uses none of them: references to dead objects are removed when a
collection has grown."""

from __future__ import annotations

from collections.abc import Hashable
from contextvars import ContextVar
from typing import Final, Generic, TypeVar
from weakref import ref

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_FEW: Final = 64  # up to this many references, dead ones are not searched for


class WeakValues(Generic[K, V]):
    """Objects by key, as long as something else holds them. It keeps references to at most as many dead objects as live ones, or to a few.

    Safe to use from many threads that never put two objects under one key; others hold a lock."""

    __slots__ = ("_limit", "_references")

    def __init__(self) -> None:
        self._references: Final[dict[K, ref[V]]] = {}
        self._limit = _FEW

    def get(self, key: K) -> V | None:
        reference = self._references.get(key)
        return None if reference is None else reference()

    def put(self, key: K, value: V) -> None:
        self._references[key] = ref(value)
        if len(self._references) > self._limit:
            self._remove_ended()

    def values(self) -> list[V]:
        """The objects that are alive."""
        found = [reference() for reference in self._references.copy().values()]
        return [value for value in found if value is not None]

    def _remove_ended(self) -> None:
        for key, reference in self._references.copy().items():
            if reference() is None:
                self._references.pop(key, None)
        self._limit = max(_FEW, 2 * len(self._references))


class Alone:
    """In `with Alone()`, no thread is started for the work of the calling thread: it holds a lock that this work may need. The mark is a weak reference: after
    an interrupt before the end of the block, it ends with its frame."""

    __slots__ = ("__weakref__", "_token")

    def __enter__(self) -> None:
        self._token = _alone.set(ref(self))

    def __exit__(self, *_: object) -> None:
        _alone.reset(self._token)


_alone: Final = ContextVar["ref[Alone] | None"]("frazil alone", default=None)


def is_alone() -> bool:
    """Whether this code runs within `with Alone()`."""
    mark = _alone.get()
    return mark is not None and mark() is not None
