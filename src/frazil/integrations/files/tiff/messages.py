"""What tifffile logs about damaged files, often thousands of lines: kept for errors, and not printed. Files are read in series.py."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TiffMessages(logging.Filter):
    """Drops the messages of the thread that made it. Other threads may use tifffile for the user. first: the first message, "" if there was none"""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self.first = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        self.first = self.first or record.getMessage()
        return False

    def explained(self, reason: str | Exception) -> str:
        """A reason, with the first message. Some errors have no text."""
        text = str(reason) or type(reason).__name__
        return f"{text}; tifffile reports first: {self.first}" if self.first else text


@contextmanager
def tiff_messages() -> Iterator[TiffMessages]:
    """Catches what tifffile logs in this thread until the end of the block."""
    log, messages = logging.getLogger("tifffile"), TiffMessages()
    log.addFilter(messages)
    try:
        yield messages
    finally:
        log.removeFilter(messages)
