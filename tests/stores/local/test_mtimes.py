"""Which of two objects is older, as far as a local disk can tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.stores import LocalStore, MemoryStore, read_only
from frazil.stores.local.mtimes import changed_at, written_at

KEY = "a/b/c"
OLD = (10**9, 10**9)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    store.set(KEY, b"x")
    return store


def test_written_files_get_the_mtime_of_their_content(store: LocalStore, tmp_path: Path) -> None:
    os.utime(tmp_path / KEY, ns=OLD)
    for local in (store, read_only(store)):
        written = written_at(local, [KEY, "nothing"])
        assert written is not None
        assert written.tolist() == [OLD[0], 0]


def test_old_contents_under_a_new_name_were_changed(store: LocalStore, tmp_path: Path) -> None:
    os.utime(tmp_path / KEY, ns=OLD)
    inode = (tmp_path / KEY).stat().st_ctime_ns
    changed = changed_at(read_only(store), [KEY, "nothing"])
    assert changed is not None
    assert changed[0] >= inode > OLD[0]
    assert changed[1] == 2**63 - 1


@pytest.mark.parametrize("folder", ["", "a", "a/b"])
def test_a_change_of_a_folder_is_one_of_all_below(folder: str, store: LocalStore, tmp_path: Path) -> None:
    later = (tmp_path / KEY).stat().st_ctime_ns + 10**12
    os.utime(tmp_path / folder, ns=(later, later))
    changed = changed_at(store, [KEY])
    assert changed is not None
    assert changed.tolist() == [later]


def test_other_stores_tell_no_times() -> None:
    assert changed_at(MemoryStore(), [KEY]) is None
    assert written_at(MemoryStore(), [KEY]) is None
