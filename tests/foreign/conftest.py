"""Marks every test of this folder as `foreign`. If such tests are not selected, nothing of it is imported, as the suites of other programs take seconds to
load."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_selected = "not foreign" not in config.option.markexpr
    return None if is_selected or not collection_path.is_relative_to(HERE) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.foreign)
