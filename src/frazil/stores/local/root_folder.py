"""The open root folder of a local store. Which folder that is, and when it is made, is in local_store.py."""

from __future__ import annotations

import os
from collections.abc import Callable


class RootFolder:
    """An open folder; closed when nobody uses it any more, so never under a call that runs."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.fd)

    def is_gone(self) -> bool:
        return os.fstat(self.fd).st_nlink == 0
