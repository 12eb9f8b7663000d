"""Permanent keys of the nodes of a session: a handle keeps the key of its node through moves, commits, rebases and discards, and no key is given twice.

Which node of one snapshot is which of another is the format's question; whoever goes on from another snapshot brings the answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final

__all__ = ["NodeKeys"]

_ROOM: Final = 32  # bits for the keys of one session


class NodeKeys:
    """Keys of nodes, and where those of the base snapshot are in it. Whoever uses it holds the session's lock."""

    __slots__ = ("_next", "_of", "_path")

    def __init__(self) -> None:
        self._next = _random_start()
        self._of: dict[str, int] = {}  # by paths in the base; of nodes that somebody asked for
        self._path: dict[int, str] = {}

    def new(self) -> int:
        """A key that nobody has."""
        self._next += 1
        return self._next

    def of(self, path: str) -> int:
        """The key of the node that the base has at a path."""
        key = self._of.get(path)
        if key is None:
            key = self.new()
            self._put(key, path)
        return key

    def path(self, key: int) -> str | None:
        """The path in the base of the node with a key; None where it is not in the base."""
        return self._path.get(key)

    def following(self, removed: Iterable[int], placed: Sequence[tuple[int, str]]) -> NodeKeys:
        """The keys over the next base: some nodes are not in it, some are at these paths, the others where they were."""
        other = self.copy()
        for key in (*removed, *[key for key, _ in placed]):
            path = other._path.pop(key, None)
            if path is not None:
                del other._of[path]
        for key, path in placed:
            other._put(key, path)
        return other

    def over(self, there: Callable[[str], str | None]) -> NodeKeys:
        """The keys over another base. there: the path in it of the node at a path of this one, None where it is gone"""
        other = NodeKeys()
        other._next = self._next
        for key, path in self._path.items():
            found = there(path)
            if found is not None:
                other._put(key, found)
        return other

    def copy(self) -> NodeKeys:
        """The same keys; new ones are given from another start."""
        other = NodeKeys()
        other._of, other._path = dict(self._of), dict(self._path)
        return other

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._path,)

    def _put(self, key: int, path: str) -> None:
        self._of[path], self._path[key] = key, path


def _restored(paths: dict[int, str]) -> NodeKeys:
    made = NodeKeys()
    for key, path in paths.items():
        made._put(key, path)
    return made


def _random_start() -> int:
    return int.from_bytes(os.urandom(12), "big") << _ROOM
