"""Profiles of the property tests, and the fixtures of servers and of zarr-python 2.18. An editor runs `default`, `make test` runs `ci`, and `nightly` searches
longer.

The examples of `ci` are the same each time; `nightly` (`make campaign`) searches for others. None has a deadline: on a shared machine, time is no measure of
the code."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.conformance.draft.zarr2 import zarr2
from tests.servers.fixtures import azure, gcs, s3, web_server

__all__ = ["azure", "gcs", "s3", "web_server", "zarr2"]

# Folders of tests of the disk: with syncs that take time, and inode numbers that are used again. All others use a disk in memory, if there is a large one.
OF_THE_DISK = tuple(
    Path(__file__).parent / name for name in ("array/shards", "faults", "kernel", "stores/local", "stores/zip")
)
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and "TMPDIR" not in os.environ:
    room = min(shutil.disk_usage(MEMORY).free, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if room >= 2**32:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("default", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), max_examples=20, print_blob=True, derandomize=True)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2000, print_blob=True)
settings.load_profile("default")


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if not any(request.path.is_relative_to(folder) for folder in OF_THE_DISK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


# A shell that runs the tests in the background makes them, and all programs that they start, ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collectstart() -> None:
    """Hardly any of the objects made while tests are collected is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Objects loaded so far live to the end: the garbage collector need not scan them repeatedly. Nor need it run as often, as there are few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()
