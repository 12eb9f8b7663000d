"""zarr-python's own tests of stores, from the installed package, over our stores: in memory, in a folder, in a session of a repository."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("zarr.testing")

import zarr
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from zarr.core.buffer import cpu
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.store import StoreTests
from zarr.testing.strategies import node_names, np_array_and_chunks

import frazil
import frazil.zarr
from frazil.integrations.zarr.store import FrazilStore
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from tests.foreign.zarr_python.expected_failures import LATER, LISTED

pytestmark = pytest.mark.filterwarnings("default")

_numbers = iter(range(10**9))


class Suite(StoreTests[FrazilStore, cpu.Buffer]):
    """The suite over one of our stores. Plain fixtures make its asynchronous ones."""

    store_cls = FrazilStore
    buffer_cls = cpu.Buffer

    async def set(self, store: FrazilStore, key: str, value: cpu.Buffer) -> None:
        store.target.set(store.prefix + key, value.to_bytes())

    async def get(self, store: FrazilStore, key: str) -> cpu.Buffer:
        value = store.target.get(store.prefix + key)
        assert value is not None
        return self.buffer_cls.from_bytes(value)

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> FrazilStore:
        return asyncio.run(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> FrazilStore:
        return self.store_cls(**store_kwargs)

    def test_store_repr(self, store: FrazilStore) -> None:
        prefix = f", {store.prefix!r}" if store.prefix else ""
        assert repr(store) == f"FrazilStore({store.target!r}{prefix})"

    def test_store_supports_writes(self, store: FrazilStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: FrazilStore) -> None:
        assert store.supports_listing

    def test_store_supports_partial_writes(self, store: FrazilStore) -> None:
        assert not store.supports_partial_writes


class TestMemory(Suite):
    @pytest.fixture
    def store_kwargs(self) -> dict[str, Any]:
        return {"target": MemoryStore(f"zarr {next(_numbers)}")}


class TestFolder(Suite):
    @pytest.fixture
    def store_kwargs(self, tmp_path: Path) -> dict[str, Any]:
        return {"target": LocalStore(tmp_path / "sea.zarr")}


class TestBelow(Suite):
    """Below a prefix, next to keys of others."""

    @pytest.fixture
    def store_kwargs(self) -> dict[str, Any]:
        target = MemoryStore(f"zarr {next(_numbers)}")
        target.set("a/zarr.json", b"{}")
        target.set("a/bc/zarr.json", b"{}")
        return {"target": target, "prefix": "a/b/"}


class TestSession(Suite):
    @pytest.fixture
    def store_kwargs(self) -> dict[str, Any]:
        return {"target": session_store()}


def session_store() -> Store:
    return frazil.Repository.create(MemoryStore()).writable_session("main").store


class SessionMachine(ZarrHierarchyStateMachine):
    """Without chunks of extent 0, which zarr-python stores, but which the specification and repositories do not allow."""

    if "array_and_chunks" in signature(ZarrHierarchyStateMachine.add_array).parameters:  # until zarr-python 3.3

        @rule(
            data=st.data(),
            name=node_names,
            array_and_chunks=np_array_and_chunks().filter(lambda made: 0 not in made[1]),
        )
        def add_array(self, data: Any, name: str, array_and_chunks: Any) -> None:
            super().add_array(data, name, array_and_chunks)


def run(machine: Any, target: Callable[[], Store]) -> None:
    """Runs a state machine with some examples of a hundred steps each."""
    profile = settings(settings(), max_examples=min(settings().max_examples, 25))
    run_state_machine_as_test(lambda: machine(FrazilStore(target())), settings=profile)


def test_store_machine(tmp_path: Path) -> None:
    """Not in a folder, nor in a session: the keys are arbitrary, for example "0" and "0/0", and a file system can hold only one of them."""
    run(ZarrStoreStateMachine, partial(new_target, "memory", tmp_path))


@pytest.mark.parametrize("kind", ["memory", "folder", "session"])
def test_hierarchy_machine(kind: str, tmp_path: Path) -> None:
    machine = SessionMachine if kind == "session" else ZarrHierarchyStateMachine
    run(machine, partial(new_target, kind, tmp_path))


def test_hierarchy_machine_through_our_pipeline(tmp_path: Path) -> None:
    """Our kernel reads and writes its arrays; zarr-python's own store has the expected values."""
    with zarr.config.set({"codec_pipeline.path": "frazil.zarr.CodecPipeline"}):
        run(ZarrHierarchyStateMachine, partial(new_target, "memory", tmp_path))


def new_target(kind: str, folder: Path) -> Store:
    if kind == "memory":
        return MemoryStore()
    return session_store() if kind == "session" else LocalStore(folder / f"{next(_numbers)}.zarr")


def test_the_list_names_tests(request: pytest.FixtureRequest) -> None:
    """Each entry of the list names an existing test: a listed test that passes fails (strict)."""
    suites = [value for value in globals().values() if isinstance(value, type) and issubclass(value, StoreTests)]
    names = {f"{suite.__name__}::{name}" for suite in suites for name in dir(suite)}
    assert {entry.partition("[")[0] for entry in LISTED} - {f"TestSession::{name}" for name in LATER} <= names
