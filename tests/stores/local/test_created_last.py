"""LocalStore.create_after: a key is created after the values to which it refers, and never without them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.stores.local_disks import run_processes
from tests.stores.refused_system_calls import lack, lack_sync_of, require_filters

from frazil.errors import StoreError
from frazil.stores.local.local_store import LocalStore
from frazil.testing.checks import refusal


@pytest.mark.parametrize("sync", [False, True])
def test_a_key_is_created_after_what_it_refers_to(tmp_path: Path, sync: bool) -> None:
    store = LocalStore(tmp_path, sync=sync)
    assert store.create_after({"data/1": b"one", "more/1": b"two"}, "refs/1", b"1")
    assert not store.create_after({"data/2": b"three"}, "refs/1", b"2")
    many = {f"data/many{number}": b"%d" % number for number in range(40)}  # more than one run of the kernel
    assert store.create_after(many, "refs/2", b"2")
    assert not store.create_after({"data/2": b"other"}, "refs/2", b"3")  # what is there stays
    stored = {"refs/1": b"1", "data/1": b"one", "more/1": b"two", "data/2": b"three", "refs/2": b"2", **many}
    assert {key: store.get(key) for key in store.list()} == stored


@pytest.mark.parametrize("sync", [False, True])
def test_a_key_is_not_created_without_what_it_refers_to(tmp_path: Path, sync: bool) -> None:
    store = LocalStore(tmp_path, sync=sync)
    (tmp_path / "data" / "2").mkdir(parents=True)
    error = refusal(StoreError, lambda: store.create_after({"data/1": b"one", "data/2": b"two"}, "refs/1", b"1"))
    assert (error.key, error.done) == ("data/2", False)
    assert store.list() == ["data/1"]
    require_filters()

    def run() -> None:
        lack("syncing")
        error = refusal(StoreError, lambda: store.create_after({"data/3": b"three"}, "refs/1", b"1"))
        assert (error.errno, error.done) == (errno.EIO, False)

    def run_without_folder() -> None:
        free = os.open(os.devnull, os.O_RDONLY)  # the kernel opens the folder of the first key first
        os.close(free)
        lack_sync_of(free)
        error = refusal(StoreError, lambda: store.create_after({"data/4": b"four"}, "refs/1", b"1"))
        assert (error.errno, error.key, error.done) == (errno.EIO, "data/4", False)

    if sync:
        run_processes([run])
        run_processes([run_without_folder])
    assert not store.exists("refs/1")
