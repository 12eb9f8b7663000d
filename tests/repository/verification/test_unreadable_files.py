"""Files that exist, but cannot be read (no permission, an error of the disk): each is a problem, the others are checked, and nothing is repaired."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import AccessError, StoreError
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.local.system_errors import refused, unreadable
from frazil.stores.values import Fetched
from frazil.stores.wrappers import WrappedStore


class Unreadable(WrappedStore):
    """One key cannot be read."""

    key = ""

    def fetch(self, names: Sequence[str], *arguments: Any, **options: Any) -> Fetched:
        if self.key in names:
            raise unreadable(errno.EIO, key=self.key)
        return super().fetch(names, *arguments, **options)


@pytest.mark.parametrize("local", [False, True])
def test_each_is_reported_and_nothing_is_changed(local: bool, tmp_path: Path) -> None:
    store = Unreadable(LocalStore(tmp_path / "r") if local else MemoryStore())
    repo = frazil.Repository.create(store, chunk_digests="crc32c", attributes_file_bytes=10, durable=False)
    for number in range(2):
        with repo.transaction(message=str(number)) as root:
            root.require_array("a", shape=(4000,), dtype="f8", chunks=(1000,), codecs=[])[:] = np.arange(4000) + number
            root.attrs["about"] = str(number) * 100
    repo.create_tag("v", "main")
    repo.create_branch("dev", "main")
    repo.garbage_collect()
    keys = [key for key in store.list() if not key.startswith("gc/marks/")]
    before = {key: store.get(key) for key in keys}
    newest = min(key for key in keys if key.startswith("refs/branch.main/Z"))
    reported: dict[str, set[str]] = {}
    for key in keys:
        store.key = key
        found = frazil.Repository.open(store).verify(digests=True, decode=True)
        reported[key] = {problem.kind for problem in found.problems if problem.key == key or problem.chunks is not None}
        if "access" in reported[key]:
            with pytest.raises(StoreError):
                frazil.Repository.open(store).repair(digests=True)
            with suppress(StoreError):  # the file of an older snapshot is not decoded
                frazil.Repository.open(store).repair(decode=True, older=True, accept_loss=True)
    store.key = ""
    assert {key: store.get(key) for key in keys} == before
    kinds = {
        kind: set().union(*(found for key, found in reported.items() if key.startswith(kind)))
        for kind in (
            "snapshots/",
            "manifests/",
            "attributes/",
            "chunks/",
            "gc/tips/",
            "refs/tag.v/",
            "refs/branch.dev/",
        )
    }
    assert all("access" in kinds[kind] for kind in ("snapshots/", "manifests/", "attributes/", "refs/tag.v/"))
    assert "access" in kinds["refs/branch.dev/"]
    assert "access" in reported[newest]
    assert kinds["chunks/"] == {"access"}
    assert kinds["gc/tips/"] == {"collection"}


def test_which_errors_are_of_one_file() -> None:
    for code in (errno.EACCES, errno.EPERM, errno.EIO):
        assert isinstance(unreadable(code, key="key"), AccessError)
        assert not isinstance(refused("cannot be written", code, "key"), AccessError)
    assert not isinstance(unreadable(errno.EMFILE, key="key"), AccessError)
