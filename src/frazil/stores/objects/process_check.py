"""Which process the clients of object stores serve: threads make their requests, and a child by fork has none of these."""

from __future__ import annotations

import os

from frazil.errors import StoreError
from frazil.stores.store import Store

__all__ = ["check_process"]

# the one whose threads serve the clients: the first that made a request
_process: list[int] = []


def check_process(store: Store) -> None:
    """Raises StoreError in a child, by fork, of a process that made requests: there they would wait for ever."""
    if not _process:
        _process.append(os.getpid())
    elif _process[0] != os.getpid():
        raise StoreError(
            f"{store!r} does not work in a process that was forked after requests had been made",
            hint='start workers by "spawn" or "forkserver" (multiprocessing.set_start_method), and open the store there',
        )
