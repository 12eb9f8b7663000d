"""frazil.copy over other data: no reader of the replaced data takes removed chunks for fill values, even if a copy ends half-way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import FrazilError, StoreError
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.stores import Changed, MemoryStore, Pieces, Store, Version, WrappedStore, ZipStore

OLD, NEW = np.full((8, 8), 1, np.int32), np.full((8, 8), 2, np.int32)
PATHS = ("a", "deep/below/b")


def hierarchy(values: np.ndarray) -> MemoryStore:
    store = MemoryStore()
    root = frazil.create_group(store)
    for path in PATHS:
        root.create_array(path, data=values, chunks=(4, 4))
    return store


class Watched(WrappedStore):
    """Before each change reads all arrays of a destination; fails at the change with this number, and from then on."""

    __slots__ = ("changes", "fails_at", "wrong")

    def __init__(self, inner: Store, fails_at: int = -1) -> None:
        super().__init__(inner)
        self.changes, self.fails_at = 0, fails_at
        self.wrong: list[str] = []

    def _watch(self) -> None:
        self.changes += 1
        for path in PATHS:
            try:
                values = frazil.open_array(self.inner, path=path)[...]
            except FrazilError:
                continue
            if not (np.array_equal(values, OLD) or np.array_equal(values, NEW)):
                self.wrong.append(path)
        if 0 <= self.fails_at < self.changes:
            raise StoreError("the connection is gone")

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        self._watch()
        return self.inner.put_many(names, pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        done: list[Changed | None] = []
        for name, version in zip(names, expect, strict=True):
            self._watch()
            done += self.inner.erase_many([name], [version])
        return done


def test_interrupted_copies_show_no_partial_array_and_are_resumed() -> None:
    source = hierarchy(NEW)
    source.erase("a/c/0/0")
    source.erase("a/zarr.json")  # so that no object of an old array is replaced: the array must be removed
    whole = Watched(hierarchy(OLD))
    frazil.copy(source, whole, overwrite=True)
    assert whole.wrong == []
    expected = {key: source.get(key) for key in source.list()}
    assert {key: whole.inner.get(key) for key in whole.inner.list()} == expected
    for fails_at in range(whole.changes):
        target = Watched(hierarchy(OLD), fails_at)
        with pytest.raises(StoreError, match="gone"):
            frazil.copy(source, target, overwrite=True)
        target.fails_at = -1
        frazil.copy(source, target, overwrite=not target.inner.exists(JOURNAL_NAME))
        assert target.wrong == [], f"after a failure at change {fails_at}"
        assert {key: target.inner.get(key) for key in target.inner.list()} == expected


@pytest.mark.parametrize("rechunks", [False, True])
def test_a_zip_archive_that_becomes_smaller_meanwhile_is_replaced(tmp_path: Path, rechunks: bool) -> None:
    """Its entries, also the journal, then have new versions: the copy failed as if another one had begun."""
    source, target = MemoryStore(), ZipStore(tmp_path / "a.zip")
    data = np.random.default_rng(1).integers(0, 256, 2**21, np.uint8)
    frazil.create_array(source, data=data, chunks=2**20)
    for _ in range(2):
        if rechunks:
            frazil.rechunk(source, target, chunks=2**19, overwrite=True)
        else:
            frazil.copy(source, target, overwrite=True)
        assert np.array_equal(frazil.open_array(target)[...], data)
        assert JOURNAL_NAME not in target.list()
