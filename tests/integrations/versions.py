"""Which of the supported versions of zarr-python and xarray are installed (make test-oldest runs the tests with the oldest ones)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def is_before(package: str, *parts: int) -> bool:
    """Whether the package is installed in a version before this one."""
    try:
        found = version(package)
    except PackageNotFoundError:
        return False
    return tuple(map(int, found.split(".")[: len(parts)])) < parts


OLD_XARRAY = is_before("xarray", 2025, 12)
OLD_ZARR = is_before("zarr", 3, 1)
