"""What is made once for the same frozen values, and remembered. What is made of them is the caller's to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["Once"]

T = TypeVar("T")

_MOST: Final = 256  # that are remembered


class Once:
    """Things by the identity of the values that they were made of, which it keeps as long. Safe to use from many threads, and after a fork: what is remembered is only
    added, or forgotten whole. Equal to any other one; pickles without what it remembers."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], object]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Once)

    def __hash__(self) -> int:
        return hash(Once)

    def __reduce__(self) -> tuple[object, ...]:
        return Once, ()

    def get(self, parts: tuple[object, ...], make: Callable[[], T], kind: type[T]) -> T:
        """What `make` made for these very objects, now or before; where it raises, nothing is remembered. kind: of what it makes"""
        key = tuple([id(part) for part in parts])
        found = self._made.get(key)
        if found is not None and isinstance(found[1], kind):
            return found[1]
        made = make()
        if len(self._made) >= _MOST:
            self._made.clear()
        self._made[key] = (parts, made)
        return made
