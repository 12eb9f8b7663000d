"""Runs suites of the installed xarray, with their own markers and the list of unsupported tests (expected_failures.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.foreign.xarray.adapter import redirected
from tests.foreign.xarray.expected_failures import LISTED

_MARKERS = ("asyncio", "flaky", "network", "skip_if_param", "skip_with_dask_array", "slow", "xfail_with_dask_array")
_SUITES = "test_suites.py"
_UNUSED = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    for name in _MARKERS:
        config.addinivalue_line("markers", f"{name}: of xarray's own tests")


def entry_of(item: pytest.Item) -> str | None:
    """The entry of the list for a test: by class and name, or by name for all classes."""
    cls = getattr(item, "cls", None)
    name = getattr(item, "originalname", item.name)
    for entry in (f"{cls and cls.__name__}::{item.name}", f"{cls and cls.__name__}::{name}", item.name, name):
        if entry in LISTED:
            return entry
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name != _SUITES or item.path.parent.name != "xarray":
            continue
        for mark in item.iter_markers("xfail"):  # xarray's own: tests that fail there may pass here
            mark.kwargs.setdefault("strict", False)
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        for mark in item.iter_markers("skip_if_param"):
            (name, value) = next((n, v) for n, v in mark.kwargs.items() if n not in ("reason", "condition"))
            if mark.kwargs.get("condition", True) and parameters.get(name) == value:
                item.add_marker(pytest.mark.skip(reason=mark.kwargs["reason"]))
        if any(item.iter_markers("asyncio")):
            item.add_marker(pytest.mark.skip(reason="needs a plugin of pytest for coroutines"))
        if (entry := entry_of(item)) is not None:
            item.add_marker(pytest.mark.xfail(reason=LISTED[entry], strict=True))


@pytest.fixture(autouse=True)
def frazil_for_zarr(request: pytest.FixtureRequest) -> Iterator[None]:
    """Within the suites, the engine named "zarr" is Frazil's."""
    if request.path.name != _SUITES:
        yield
        return
    with redirected():
        yield
