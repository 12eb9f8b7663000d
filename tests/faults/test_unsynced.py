"""A disk on which a folder cannot be synced: with `durable`, no write there is reported as done."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.concurrent_calls import fork
from tests.stores.refused_system_calls import lack, lack_sync_of, require_filters

import frazil
from frazil.errors import CommitUnknownError, StoreError
from frazil.stores import LocalStore
from frazil.stores.values import CreateOnly

if TYPE_CHECKING:
    pass

LARGE = 2**21


class Unsynced(LocalStore):
    """Folder syncs fail from the creation of the first key that contains `part`."""

    part = ""

    def put_many(self, names, pieces, expect):  # type: ignore[no-untyped-def]
        key = names[0] if names and isinstance(expect[0], CreateOnly) else ""
        if self.part and self.part in key:
            self.part = ""
            refuse_folder_syncs()
        return super().put_many(names, pieces, expect)


def refuse_folder_syncs() -> None:
    """The kernel opens the folder of a key first, and so with the lowest free descriptor."""
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    lack_sync_of(free)


def commit(store: Unsynced, repo: frazil.Repository) -> None:
    session = repo.writable_session()
    session.root.attrs["a"] = 1
    store.part = "branch.main"
    with pytest.raises(CommitUnknownError):
        session.commit("one")
    assert session.has_changes
    store.part = "branch.main"
    with pytest.raises(CommitUnknownError):  # that the file can be read does not mean that it will persist
        session.commit("one")
    assert session.has_changes


def rebase(store: Unsynced, repo: frazil.Repository) -> None:
    session = repo.writable_session()
    session.root.attrs["a"] = 1
    for act in (lambda: session.commit("one"), lambda: session.rebase("ours")):
        store.part = "branch.main"
        with pytest.raises(CommitUnknownError):
            act()


def run(store: Unsynced, repo: frazil.Repository) -> None:
    store.part = "branch.main"
    with pytest.raises(CommitUnknownError):
        repo.run(lambda root: root.attrs.update({"a": 1}), message="one")


def tag(store: Unsynced, repo: frazil.Repository) -> None:
    store.part = "tag.t"
    with pytest.raises(CommitUnknownError):
        repo.create_tag("t", "main")


def branch(store: Unsynced, repo: frazil.Repository) -> None:
    store.part = "branch.b"
    with pytest.raises(CommitUnknownError):
        repo.create_branch("b", "main")


def reset(store: Unsynced, repo: frazil.Repository) -> None:
    oldest = list(repo.history())[-1].id
    store.part = "branch.main"
    with pytest.raises(CommitUnknownError):
        repo.reset_branch("main", oldest)
    with pytest.raises(StoreError, match="gc/pins"):  # which must keep the snapshot meanwhile
        repo.reset_branch("main", oldest)


def chunk(store: Unsynced, repo: frazil.Repository) -> None:
    session = repo.writable_session()
    array = session.root.create_array("x", shape=(LARGE,), dtype="u1", chunks=(LARGE,), codecs=[])
    refuse_folder_syncs()
    with pytest.raises(StoreError):
        array[...] = 1


def snapshot(store: Unsynced, repo: frazil.Repository) -> None:
    session = repo.writable_session()
    session.root.attrs["a"] = 1
    refuse_folder_syncs()
    with pytest.raises(StoreError):
        session.commit("one")


@pytest.mark.parametrize(
    "act", [commit, rebase, run, tag, branch, reset, chunk, snapshot], ids=lambda act: act.__name__
)
def test_a_folder_that_cannot_be_synced(act: Callable[[Unsynced, frazil.Repository], None], tmp_path: Path) -> None:
    require_filters()

    def child() -> None:
        store = Unsynced(tmp_path, sync=True)
        repo = frazil.Repository.create(store)
        with repo.transaction(message="first") as root:
            root.create_group("g")
        act(store, repo)

    assert os.waitpid(fork(child), 0)[1] == 0
    assert "g" in frazil.Repository.open(tmp_path).readonly_session(as_of=None).root or act is reset


def test_a_sync_of_the_system_that_fails(tmp_path: Path) -> None:
    """It is unknown what the disk lost, so nothing may depend on it; a file that cannot be opened is not a loss."""
    require_filters()
    store = LocalStore(tmp_path / "s")
    store.set("a/b", b"1")
    (tmp_path / "s" / "a" / "link").symlink_to("b")

    def child() -> None:
        with pytest.raises(StoreError) as caught:
            store.sync_values(["a/link"])
        assert (caught.value.done, caught.value.key) == (False, "a/link")
        lack("syncing")
        with pytest.raises(StoreError) as caught:
            store.sync_values(["a/b"])
        assert (caught.value.done, caught.value.key) == (None, "a/b")

    assert os.waitpid(fork(child), 0)[1] == 0
