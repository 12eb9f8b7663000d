"""A file that another program sees complete or not at all: exports, and outputs of the command line. Stores write their values in another way."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def replaced_file(path: str) -> Iterator[str]:
    """The name of a new file beside `path`, or beside the file that a link leads to. At the end it replaces that file, and has its mode; after an error it is removed.
    Raises OSError."""
    path = os.path.realpath(path)
    unfinished = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.part")
    try:
        yield unfinished
        with suppress(FileNotFoundError):
            os.chmod(unfinished, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            os.unlink(unfinished)
