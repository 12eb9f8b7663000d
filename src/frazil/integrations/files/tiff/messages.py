"""What tifffile logs about damaged files, often thousands of lines: kept for errors, and not printed. Files are read in series.py."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class TiffMessages(logging.Filter):
    """Drops messages. first: the first message, circle: one about pages that form a circle; "" if there was none. lacks_memory: tifffile has logged a
    MemoryError, and continues without the pages that it was reading"""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.circle = ""
        self.lacks_memory = False

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        self.first = self.first or text
        if "invalid circular reference to IFD" in text:
            self.circle = text
        self.lacks_memory = self.lacks_memory or "MemoryError" in text
        return False

    def explained(self, reason: str | Exception) -> str:
        """A reason, with the first message. Some errors have no text."""
        text = str(reason) or type(reason).__name__
        return f"{text}; tifffile reports first: {self.first}" if self.first else text


@contextmanager
def tiff_messages() -> Iterator[TiffMessages]:
    """Catches what tifffile logs until the end of the block."""
    log, messages = logging.getLogger("tifffile"), TiffMessages()
    log.addFilter(messages)
    try:
        yield messages
    finally:
        log.removeFilter(messages)
