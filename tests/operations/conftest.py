"""Stores to serve, each with the same hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.operations.served import Client, fill, old_files

import frazil
from frazil.operations.serve.server import serve
from frazil.stores import LocalStore, MemoryStore, Store
from frazil.testing import CountingStore


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    folder = tmp_path_factory.mktemp("served")
    fill(frazil.create_group(folder / "sea.zarr"))
    old_files(folder)
    memory = MemoryStore()
    fill(frazil.create_group(memory))
    repo = frazil.Repository.create(folder / "sea.repo", durable=False)
    with repo.transaction(message="one") as root:
        fill(root)
    repo.create_tag("v1", "main")
    with repo.transaction(message="two") as root:
        root["level1/plain"][:] = 0
        root.create_array("later", data=np.arange(3))
    old_files(folder)
    sessions = {"old": repo.readonly_session(tag="v1"), "new": repo.readonly_session()}
    return {
        "local": LocalStore(folder / "sea.zarr"),
        "memory": memory,
        "buffers": CountingStore(memory),
        **{f"repository, {name}": session.store for name, session in sessions.items()},
    }


@pytest.fixture(scope="module", params=["local", "memory", "buffers", "repository, old", "repository, new"])
def served(request: pytest.FixtureRequest, stores: dict[str, Store]) -> Iterator[tuple[Store, Client]]:
    store = stores[request.param]
    with serve(store) as server:
        yield store, Client(server)
