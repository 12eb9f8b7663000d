"""ZipStore: the suite of all stores, on files whose directory is written after each call, or once at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from frazil.errors import InvalidInputError
from frazil.stores import Store, ZipStore
from frazil.testing.checks import refusal
from frazil.testing.store_tests import StoreTests


class TestZipStore(StoreTests):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> Iterator[None]:
        self.folder, self.made = tmp_path, 0
        with ExitStack() as self.open_ones:
            yield

    def make_store(self) -> Store:
        self.made += 1
        return ZipStore(self.folder / f"{self.made}.zip")

    def test_keys_of_all_kinds(self) -> None:
        """Except those with a backslash: programs take it for a slash, and such names lead out of archives."""
        keys = [
            "with space",
            "-",
            "...",
            "x" * 200,
            "ünï/çødé",
            "日本/語",
            "%2e%2e",
            "c/0/1",
            "a:b",
            "~",
            "é",
            "e\u0301",
        ]
        store = self.filled_with({key: key.encode() for key in keys})
        assert [store.get(key) for key in keys] == [key.encode() for key in keys]
        assert store.list() == sorted(keys)
        assert refusal(InvalidInputError, lambda: store.set("a\\b", b"1")).key == "a\\b"
        assert store.list() == sorted(keys)


class TestOpenZipStore(TestZipStore):
    """Inside of `with`."""

    def make_store(self) -> Store:
        self.made += 1
        return self.open_ones.enter_context(ZipStore(self.folder / f"{self.made}.zip"))

    def test_pickle(self) -> None:
        """An archive that is being written belongs to one process."""
        store = self.make_store()
        assert isinstance(store, ZipStore)
        assert store.__reduce__()[1][0] == store.path  # type: ignore[index]
        store.set("a", b"1")
        assert refusal(InvalidInputError, store.__reduce__).hint is not None
        store.close()
        assert store.__reduce__()[1][0] == store.path  # type: ignore[index]
