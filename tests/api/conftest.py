"""Repositories of every format: tests with this mark run with each."""

from __future__ import annotations

import pytest

import frazil
from frazil.testing.memory_format import create_memory_repository, open_memory_repository


@pytest.fixture(params=["alpha", "memory"])
def each_format(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Repository.create and Repository.open use the format with this name."""
    if request.param == "memory":
        monkeypatch.setattr(frazil.Repository, "create", create_memory_repository)
        monkeypatch.setattr(frazil.Repository, "open", open_memory_repository)
    return str(request.param)
