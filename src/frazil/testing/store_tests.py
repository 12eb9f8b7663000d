"""The requirements of every store, as a class of tests that a store's own test class inherits:

    class TestMyStore(StoreTests):
        def make_store(self) -> Store:
            return MyStore(...)  # new and empty at every call

pytest finds the tests by their names. Other runners call the `test_` methods of a new instance. Operations that a store's capabilities exclude are tested to be
refused. A store that takes only the keys of a Zarr hierarchy sets its `profile` (store_profiles.py). The three base classes of StoreTests are in files of their
own."""

from __future__ import annotations

from frazil.testing.store_concurrency import StoreConcurrencyTests
from frazil.testing.store_reading import StoreReadingTests
from frazil.testing.store_writing import StoreWritingTests


class StoreTests(StoreReadingTests, StoreWritingTests, StoreConcurrencyTests):
    """All tests of the store port. Subclasses define make_store."""
