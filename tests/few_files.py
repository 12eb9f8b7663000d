"""A limit of open files that counts from those that are open: a worker of pytest-xdist has some, and more after tests with servers."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice


@contextmanager
def few_files(free: int) -> Iterator[None]:
    """The process can open this number of further files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    listing = os.open("/proc/self/fd", os.O_RDONLY)
    used = {int(name) for name in os.listdir(listing)} - {listing}
    os.close(listing)
    limit = next(islice((number for number in count() if number not in used), free, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, limit), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
