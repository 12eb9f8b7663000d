"""Runs suites of the installed zarr-python, with their coroutines and the list of unsupported tests (expected_failures.py)."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.foreign.zarr_python.expected_failures import LISTED

_SUITES = "test_suites.py"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "asyncio: of zarr-python's own tests")


def entry_of(item: pytest.Item) -> str | None:
    """The entry of the list for a test: by class and name, with its parameters or for all of them."""
    cls = getattr(item, "cls", None)
    for name in (item.name, getattr(item, "originalname", item.name)):
        entry = f"{cls and cls.__name__}::{name}"
        if entry in LISTED:
            return entry
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name == _SUITES and item.path.parent.name == "zarr_python" and (entry := entry_of(item)):
            item.add_marker(pytest.mark.xfail(reason=LISTED[entry], strict=True))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs coroutines to their end, each in its own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
