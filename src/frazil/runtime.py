"""What a call may use of the machine: a frozen value that is passed in. It never changes what is stored or read.

Where the values come from (options, environment) is the caller's business."""

from __future__ import annotations

import os

from frazil.errors import InvalidInputError
from frazil.record import Record

__all__ = ["DEFAULT", "Runtime", "cores"]


class Runtime(Record):
    """Limits of one array, group or repository handle.

    threads             threads of the kernel inside one call, which decode, encode, or write files; 0 means one for each core that the process may use. A store that the caller
                        made has limits of its own
    requests_in_flight  requests at once to a remote store
    bytes_in_flight     bytes that one read or write holds beside its result, or one task where that is more: shard indexes, encoded bytes that are fetched or carried over,
                        and what is to be decoded or encoded. A task is a shard or a chunk at least
    cache_bytes         bytes that all which is opened from one location remembers together: shard indexes, and of a repository its files, references and,
                        where reading them is a request, encoded chunks; 0: nothing
    """

    threads: int = 0
    requests_in_flight: int = 64
    bytes_in_flight: int = 2**26
    cache_bytes: int = 2**26

    def checked(self) -> Runtime:
        """Self, with threads made definite. Raises InvalidInputError for a negative or zero limit."""
        threads, requests, nbytes, cache = self
        if type(threads) is type(requests) is type(nbytes) is type(cache) is int:  # as they nearly always are
            if threads >= 0 and requests > 0 and nbytes > 0 and cache >= 0:
                return Runtime(threads or cores(), requests, nbytes, cache)
        for name, value in zip(self._fields, self, strict=True):
            if not isinstance(value, int) or isinstance(value, bool) or value < (1 if name.endswith("flight") else 0):
                raise InvalidInputError(f"Runtime.{name} is {value!r}; it must be a positive whole number")
        return self._replace(threads=self.threads or cores())


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows cannot tell what a process may use


DEFAULT = Runtime()
