"""A disk with limited features: a system filter (seccomp) refuses system calls of Frazil's kernel in a thread, so that the kernel uses its fallbacks."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import Final

import pytest
from tests.faults.concurrent_calls import fork

__all__ = ["LACKS", "lack", "lack_sync_of", "require_filters"]

_NO_CALL: Final = 0xFFFFFFFF
_NUMBERS: Final[dict[str, dict[str, int]]] = {
    "x86_64": {
        "close": 3,
        "openat": 257,
        "link": 86,
        "linkat": 265,
        "renameat2": 316,
        "fsync": 74,
        "sync_file_range": 277,
        "pread64": 17,
        "utimensat": 280,
        "openat2": 437,
        "fcntl": 72,
    },
    "aarch64": {
        "close": 57,
        "openat": 56,
        "link": _NO_CALL,
        "linkat": 37,
        "renameat2": 276,
        "fsync": 82,
        "sync_file_range": 84,
        "pread64": 67,
        "utimensat": 88,
        "openat2": 437,
        "fcntl": 25,
    },
}
_ANY: Final = 0xFFFFFFFF

# features that the disk lacks: call, argument and the bits in it that are refused, the error
LACKS: Final[dict[str, tuple[str, int, int, int]]] = {
    "unnamed files": ("openat", 2, 0x400000, errno.EOPNOTSUPP),
    "links by descriptor": ("linkat", 4, 0x1000, errno.ENOENT),
    "links of unnamed files": ("linkat", 4, 0x1400, errno.ENOENT),  # neither directly nor by /proc
    "renames that replace nothing": ("renameat2", 4, 0x1, errno.EINVAL),
    "links": ("linkat", 1, _ANY, errno.EPERM),
    "links by Python": ("link", 0, _ANY, errno.EPERM),
    "syncing": ("fsync", 0, _ANY, errno.EIO),
    "quota": ("close", 0, _ANY, errno.EDQUOT),  # as a network disk reports it
    "writing before a sync": ("sync_file_range", 0, _ANY, errno.ENOSYS),
    "times of change": ("utimensat", 0, _ANY, errno.ENOSYS),
    "leases that end": ("openat2", 0, _ANY, errno.EAGAIN),
    "open files that others remove": ("pread64", 0, _ANY, errno.ESTALE),
    "lock files that others remove": ("fcntl", 1, 0x20, errno.ESTALE),  # a bit of locks of open files
}

_LOAD, _EQUAL, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06
_REFUSE, _ALLOW = 0x00050000, 0x7FFF0000


def lack(*what: str) -> None:
    """Refuses these calls from now on, in this thread and in threads and processes that it starts. This cannot be undone."""
    rules: list[tuple[int, int, int, int]] = []
    for call, argument, bits, answer in (LACKS[one] for one in what):
        rules += [(_LOAD, 0, 0, 0), (_EQUAL, 0, 3, _NUMBERS[platform.machine()][call])]
        test = (_HAS, 0, 1, bits) if bits != _ANY else (_HAS, 0, 0, bits)
        rules += [(_LOAD, 0, 0, 16 + 8 * argument), test, (_RETURN, 0, 0, _REFUSE | answer)]
    _filter(rules)


def lack_sync_of(descriptor: int, error: int = errno.EIO, call_name: str = "fsync") -> None:
    """From now on fsync, or another call, of this descriptor fails, in this thread and in those that it starts."""
    call = (_EQUAL, 0, 3, _NUMBERS[platform.machine()][call_name])
    test = (_EQUAL, 0, 1, descriptor)
    _filter([(_LOAD, 0, 0, 0), call, (_LOAD, 0, 0, 16), test, (_RETURN, 0, 0, _REFUSE | error)])


def _filter(rules: list[tuple[int, int, int, int]]) -> None:
    rules = [*rules, (_RETURN, 0, 0, _ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    filters = struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(program))
    system = ctypes.CDLL(None, use_errno=True)
    for option, value, pointer in ((38, 1, None), (22, 2, filters)):  # no new privileges; the filter
        if system.prctl(option, value, pointer, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


def require_filters() -> None:
    """Skips the test if calls cannot be refused."""
    if platform.system() != "Linux" or platform.machine() not in _NUMBERS:
        pytest.skip("calls are refused on Linux alone, of two architectures")

    def try_it() -> None:
        try:
            lack()
        except OSError:
            os._exit(2)

    if os.waitpid(fork(try_it), 0)[1]:
        pytest.skip("the system has no filters of calls")
