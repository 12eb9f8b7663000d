"""Stores over adapted stores: the suite. A held object may turn out to be replaced, which never happens over memory and files."""

from __future__ import annotations

import pytest
from tests.stores.draft_operations import subset
from tests.stores.transformer.test_sharding_store import OnChunks

from frazil.stores import CachingStore, Store, WrappedStore, adapt
from frazil.testing import CountingStore, StoreTests

PARTIAL = ("get_partial_values", "set", "erase", "list", "size")


class TestCached(StoreTests):
    def make_store(self) -> Store:
        return CachingStore(adapt(subset(*PARTIAL)), 10_000)


class TestCachedOfSoleWriters(StoreTests):
    def make_store(self) -> Store:
        return CachingStore(adapt(subset(*PARTIAL), sole_writer=True), 10_000)


class TestCounted(StoreTests):
    def make_store(self) -> Store:
        return CountingStore(WrappedStore(adapt(subset(*PARTIAL))))


@pytest.mark.parametrize("names", [PARTIAL, ("get", "set", "erase", "list_dir")], ids="+".join)
class TestShards(OnChunks):
    __test__ = True

    @pytest.fixture(autouse=True)
    def choose(self, names: tuple[str, ...]) -> None:
        self.names = names

    def make_inner(self) -> Store:
        return adapt(subset(*self.names), sole_writer=True)


class TestShardsOfVersions(OnChunks):
    __test__ = True

    def make_inner(self) -> Store:
        return adapt(subset(*PARTIAL, "version", "set_if", "erase_if"))
