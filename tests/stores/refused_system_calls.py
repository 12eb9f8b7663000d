"""A disk that cannot do everything: system calls that the kernel of Frazil makes are refused to a thread, by a filter of the system's own (seccomp), so that its other ways are taken."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import Final

import pytest
from tests.stores.local_disks import fork

__all__ = ["LACKS", "lack", "lack_sync_of", "require_filters"]

_NUMBERS: Final[dict[str, dict[str, int]]] = {
    "x86_64": {"openat": 257, "linkat": 265, "renameat2": 316, "fsync": 74},
    "aarch64": {"openat": 56, "linkat": 37, "renameat2": 276, "fsync": 82},
}
_ANY: Final = 0xFFFFFFFF

# what the disk lacks: call, argument and the bits in it that are refused, the answer
LACKS: Final[dict[str, tuple[str, int, int, int]]] = {
    "unnamed files": ("openat", 2, 0x400000, errno.EOPNOTSUPP),
    "links by descriptor": ("linkat", 4, 0x1000, errno.ENOENT),
    "links of unnamed files": ("linkat", 4, 0x1400, errno.ENOENT),  # neither so nor by /proc
    "renames that replace nothing": ("renameat2", 4, 0x1, errno.EINVAL),
    "links": ("linkat", 1, _ANY, errno.EPERM),
    "syncing": ("fsync", 0, _ANY, errno.EIO),
}

_LOAD, _EQUAL, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06
_REFUSE, _ALLOW = 0x00050000, 0x7FFF0000


def lack(*what: str) -> None:
    """From now on this thread, and what it begins, has a disk without these. It stays so until its end."""
    rules: list[tuple[int, int, int, int]] = []
    for call, argument, bits, answer in (LACKS[one] for one in what):
        rules += [(_LOAD, 0, 0, 0), (_EQUAL, 0, 3, _NUMBERS[platform.machine()][call])]
        test = (_HAS, 0, 1, bits) if bits != _ANY else (_HAS, 0, 0, bits)
        rules += [(_LOAD, 0, 0, 16 + 8 * argument), test, (_RETURN, 0, 0, _REFUSE | answer)]
    _filter(rules)


def lack_sync_of(descriptor: int) -> None:
    """From now on fsync of this descriptor fails, in this thread and in what it begins."""
    call = (_EQUAL, 0, 3, _NUMBERS[platform.machine()]["fsync"])
    test = (_EQUAL, 0, 1, descriptor)
    _filter([(_LOAD, 0, 0, 0), call, (_LOAD, 0, 0, 16), test, (_RETURN, 0, 0, _REFUSE | errno.EIO)])


def _filter(rules: list[tuple[int, int, int, int]]) -> None:
    rules = [*rules, (_RETURN, 0, 0, _ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    filters = struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(program))
    system = ctypes.CDLL(None, use_errno=True)
    for option, value, pointer in ((38, 1, None), (22, 2, filters)):  # no new privileges; the filter
        if system.prctl(option, value, pointer, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


def require_filters() -> None:
    """Skips the test where calls cannot be refused."""
    if platform.system() != "Linux" or platform.machine() not in _NUMBERS:
        pytest.skip("calls are refused on Linux alone, of two architectures")

    def try_it() -> None:
        try:
            lack()
        except OSError:
            os._exit(2)

    if os.waitpid(fork(try_it), 0)[1]:
        pytest.skip("the system has no filters of calls")
