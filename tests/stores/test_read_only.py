"""Read-only stores: the reading part of the suite, over all kinds of them."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest
from tests.stores.draft_operations import subset

from frazil.stores import LocalStore, MemoryStore, ReadOnlyStore, Store, adapt
from frazil.testing import StoreReadingTests


class TestReadOnlyStore(StoreReadingTests):
    def make_store(self) -> Store:
        return ReadOnlyStore(MemoryStore())

    def filled_with(self, values: dict[str, bytes]) -> Store:
        store = MemoryStore()
        for key, value in values.items():
            store.set(key, value)
        return ReadOnlyStore(store)


class TestReadOnlyDisk(StoreReadingTests):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path, self.count = tmp_path, 0

    def make_store(self) -> Store:
        return self.filled_with({})

    def filled_with(self, values: dict[str, bytes]) -> Store:
        self.count += 1
        path = self.path / f"store{self.count}"
        for key, value in values.items():
            LocalStore(path).set(key, value)
        return LocalStore(path, read_only=True)


class TestReadOnlyMapping(StoreReadingTests):
    def make_store(self) -> Store:
        return adapt(MappingProxyType({}))

    def filled_with(self, values: dict[str, bytes]) -> Store:
        return adapt(MappingProxyType(values))


@pytest.mark.parametrize(
    "names",
    [
        ("get",),
        ("get", "list_dir"),
        ("get_partial_values", "list_prefix"),
        ("get_partial_values", "suffix_ranges", "list"),
        ("get_partial_values", "size"),
        ("get", "get_partial_values", "size", "version", "list_dir"),
    ],
    ids="+".join,
)
class TestReadOnlySubset(StoreReadingTests):
    @pytest.fixture(autouse=True)
    def choose(self, names: tuple[str, ...]) -> None:
        self.names = names

    def make_store(self) -> Store:
        return self.filled_with({})

    def filled_with(self, values: dict[str, bytes]) -> Store:
        inner = subset("set", *self.names)
        for key, value in values.items():
            inner.set(key, value)
        del inner.set
        return adapt(inner)
