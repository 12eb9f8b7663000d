"""Reads values of a store piece by piece, all pieces from one version. requests.py decides ranges, listener.py sends the bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from secrets import token_bytes
from threading import Lock
from typing import Final

import numpy as np

from frazil.base.retry import READS, attempts, replaced
from frazil.errors import ConflictError, StoreError
from frazil.stores.store import Store
from frazil.stores.transfer.content import read_values
from frazil.stores.values import FOUND, NO_SPANS, STALE, Columns, Fetched, Version, clip_span

PIECE: Final = 2**21  # bytes read at once, which each request holds in memory
# two changes of a file have one time stamp for less time, on disks that keep whole seconds, and on others
_HELD_SECONDS: Final = 3.0
_SHORTEST_SECONDS: Final = 0.1
_MOST_HELD: Final = 128  # files


class HeldFiles:
    """Files that have just changed, kept open for a while: the next file cannot have the version of an open one, but that of a closed one if both have the same
    time stamp. If many are requested, as of a folder with time stamps in the future, those that were requested first are closed early. Safe to use from many
    threads.

    clock  returns seconds"""

    __slots__ = ("_clock", "_files", "_lock")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._files: dict[tuple[str, Version | None], tuple[Fetched, float]] = {}

    def hold(self, key: str, fetched: Fetched) -> bool:
        """Keeps the file of an answer open, so that its version belongs to it alone. False if too many are open."""
        self.release()
        name, now = (key, fetched.versions[0]), self._clock()
        with self._lock:
            self._files.pop(name, None)
            if len(self._files) >= _MOST_HELD:
                oldest = next(iter(self._files))
                if self._files[oldest][1] - _HELD_SECONDS + _SHORTEST_SECONDS > now:
                    return False
                del self._files[oldest]
            self._files[name] = fetched, now + _HELD_SECONDS
        return True

    def release(self) -> None:
        """Closes the files whose time is over."""
        if self._files:
            now = self._clock()
            with self._lock:
                self._files = {name: held for name, held in self._files.items() if held[1] > now}

    def close(self) -> None:
        """Closes all files."""
        with self._lock:
            self._files = {}


class Value:
    """A value that was found. size: in bytes; etag: with quotes, or None if versions of the store can repeat."""

    __slots__ = ("_prefetched", "_fetched", "_key", "_store", "etag", "size")

    def __init__(self, store: Store, key: str, fetched: Fetched, prefetched: Columns, etag: str | None) -> None:
        self._store, self._key, self._fetched, self._prefetched = store, key, fetched, prefetched
        self.size = int(fetched.sizes[0])
        self.etag = etag

    def pieces(self, start: int, length: int) -> Iterator[bytes]:
        """The bytes from start, in pieces of at most PIECE; first those that came together with the size. Raises StoreError, and ConflictError if the value was
        replaced meanwhile and the store does not keep the old one."""
        if len(self._prefetched):
            _, first, count = self._prefetched[0].tolist()
            first, count = clip_span(first, count, self.size)
            if first == start and 0 < count <= length:
                yield self._read(self._fetched, self._prefetched, count)
                start, length = start + count, length - count
        while length > 0:
            count = min(length, PIECE)
            span = np.array([[0, start, count]], np.int64)
            yield self._read(self._store.fetch([self._key], span, continue_from=self._fetched), span, count)
            start, length = start + count, length - count

    def _read(self, fetched: Fetched, span: Columns, count: int) -> bytes:
        value = None if fetched.status[0] == STALE else read_values(fetched, [self._key], span)[0]
        if value is None:
            raise ConflictError("the value was replaced while it was read", key=self._key, hint="read it again")
        if len(value) != count:
            raise StoreError(f"the store returned {len(value)} bytes of {count}", key=self._key)
        return value


def find_value(
    store: Store, key: str, prefetch: tuple[int, int] | None, salt: bytes = b"", held: HeldFiles | None = None
) -> Value | None:
    """The value of a key, None if there is none.

    prefetch  (start, length) of bytes to fetch in the same request, as in Store.fetch;  salt: restricts ETags to one run of a program
    held      for a store whose answers keep their files open
    Raises the errors of the store."""
    spans = NO_SPANS if prefetch is None else np.array([[0, *prefetch]], np.int64)
    for _ in attempts(READS):
        fetched = store.fetch([key], spans)
        status = fetched.status[0]
        if status == FOUND and fetched.sizes[0] >= 0:
            return Value(store, key, fetched, spans, _etag(fetched, key, salt, held))
        if status == FOUND:
            if not len(spans):
                raise StoreError("the store does not give the size of the value", key=key)
            spans = NO_SPANS  # some stores only give the size if no bytes are requested
        elif status != STALE:
            return None
    raise replaced("the value was", key)


def _etag(fetched: Fetched, key: str, salt: bytes, held: HeldFiles | None) -> str | None:
    """The ETag of a value. For a version that the next value may also have: that of its file while it is held, else one that no value has, as a client without
    an ETag would combine parts of two values; None if the store cannot hold values."""
    version = fetched.versions[0]
    if version is None:
        return None
    if fetched.version_may_repeat is not None and fetched.version_may_repeat[0]:
        if held is None:
            return None
        if not held.hold(key, fetched):
            salt = token_bytes(16)
    return f'"{blake2b(key.encode() + bytes(1) + version, digest_size=16, key=salt).hexdigest()}"'
