"""A file that another program sees complete or not at all: exports, and outputs of the command line. Stores write their values in another way."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
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
    """The name of a new, empty file beside `path`, or beside the file that a link leads to. At the end it replaces that file, and has its mode; after an error
    it is removed, after a kill by the next call with this path. If there is a file to replace, only its owner can read the new one. Raises OSError."""
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    start = f".{blake2b(os.fsencode(name), digest_size=8).hexdigest()}-"  # of all unfinished files of this one
    _remove_abandoned(folder, start)
    replaces = os.path.exists(path)
    with _new_file(os.path.join(folder, start), 0o600 if replaces else 0o666) as unfinished:
        yield unfinished
        if replaces:
            with suppress(OSError):  # removed meanwhile; or a file system without modes
                os.chmod(unfinished, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(unfinished, path)


@contextmanager
def _new_file(start: str, mode: int) -> Iterator[str]:
    """The name of a new file, which has a lock as long as its process lives. It is removed at the end."""
    while True:
        name = f"{start}{secrets.token_hex(4)}.part"
        create = partial(os.open, mode=mode)
        with open(name, "xb", buffering=0, opener=create) as file:
            try:
                with suppress(OSError):  # a file system without locks: then no process removes the file
                    fcntl.flock(file, fcntl.LOCK_EX)
                if not os.fstat(file.fileno()).st_nlink:  # another process has removed it before it had its lock
                    continue
                yield name
                return
            finally:
                with suppress(OSError):
                    os.unlink(name)


def _remove_abandoned(folder: str, start: str) -> None:
    """Removes unfinished files whose process was killed."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(start):
                with suppress(OSError), open(os.path.join(folder, name), "rb", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(os.path.join(folder, name))
