"""The store of examples/own_store.py, a key-value database: the suite of all stores, with and without features outside the document."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from frazil.stores import Store, adapt
from frazil.testing import StoreTests

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "own_store.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_store", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["own_store"] = module  # so that its stores pickle
    spec.loader.exec_module(module)
    return module


class TestDatabase(StoreTests):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, example: ModuleType) -> None:
        self.path, self.count, self.example = tmp_path, 0, example

    def make_database(self):  # type: ignore[no-untyped-def] # a class of the example
        self.count += 1
        database = self.example.SQLiteStore(str(self.path / f"{self.count}.sqlite"))
        database.db.execute("PRAGMA synchronous = OFF")
        return database

    def make_store(self) -> Store:
        store: Store = self.make_database().as_store()
        assert store.capabilities.conditional
        return store


class TestDatabaseOfFewOperations(TestDatabase):
    """As the document describes such databases: get and set, and a list of all keys."""

    def make_store(self) -> Store:
        database = self.make_database()
        names = {"get": database.get, "set": database.set, "erase": database.erase}
        return adapt(SimpleNamespace(**names, list=partial(database.list_prefix, "")))
