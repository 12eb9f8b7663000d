"""A file that another program sees complete or not at all: exports, and outputs of the command line. Stores write their values in another way."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_DESCRIPTOR: Final = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})")
_STREAMS: Final = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


def descriptor_of(path: str) -> int | None:
    """The open file that a name such as /dev/stdout stands for. What is behind it belongs to who opened it, and is never replaced."""
    path = os.path.abspath(path)
    found = _DESCRIPTOR.fullmatch(path)
    return int(found[1]) if found else _STREAMS.get(path)


@contextmanager
def replaced_file(path: str) -> Iterator[str]:
    """The name of a new file beside `path`, or beside the file that a link leads to. At the end it replaces that file, and has its mode; after an error it is
    removed. If there is a file to replace, an empty new one exists, which only its owner can read. Raises OSError."""
    path = os.path.realpath(path)
    unfinished = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.part")
    try:
        if replaces := os.path.exists(path):
            os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield unfinished
        if replaces:
            with suppress(OSError):  # removed meanwhile; or a file system without modes
                os.chmod(unfinished, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            os.unlink(unfinished)
