"""Files with virtual chunks: missing, truncated, rewritten, and one request each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil._kernel import crc32c
from frazil.errors import ConflictError, InvalidInputError, NotFoundError, StoreError
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.keys.names import COPY_JOURNAL
from frazil.stores.values import Columns, Fetched
from frazil.stores.wrappers import WrappedStore
from frazil.testing import CountingStore


def test_files_that_changed(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_bytes(np.arange(64, dtype="<f8").tobytes())
    outside = CountingStore(LocalStore(tmp_path))
    store = MemoryStore()
    repo = frazil.Repository.create(store, virtual_prefixes={"s3://files/": outside})
    session = repo.writable_session()
    session.root.create_array("v", shape=(256,), dtype="<f8", chunks=(16,), codecs=[])
    coordinates = [[chunk] for chunk in range(16)]
    urls = [f"s3://files/{'abcd'[chunk // 4]}" for chunk in range(16)]
    session.set_virtual_chunks("v", coordinates, urls, [chunk % 4 * 128 for chunk in range(16)], 128)
    session.commit("virtual")
    outside.reset() if hasattr(outside, "reset") else None
    assert repo.verify(virtual=True).ok
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_bytes(b"x" * 200)
    (tmp_path / "c").write_bytes((tmp_path / "d").read_bytes())
    os.utime(tmp_path / "c", (1, 1))
    assert repo.verify().ok
    found = repo.verify(virtual=True)
    assert {problem.kind for problem in found.problems} == {"virtual"}
    texts = sorted(problem.text for problem in found.problems)
    assert len(texts) == 3
    assert "it is not there" in texts[0]
    assert "has changed" in texts[1]
    assert [len(problem.chunks) for problem in found.problems if problem.chunks is not None] == [4, 4, 4]
    closed = frazil.Repository.open(store)
    assert "prefixes" in closed.verify(virtual=True).problems[0].text


@pytest.mark.parametrize("state", ["not allowed", "missing", "changed", "link"])
def test_no_repair_gives_up_virtual_chunks_that_are_out_of_reach(state: str, tmp_path: Path) -> None:
    """A user who forgot a prefix, or whose disk is not mounted, would lose the references; the other chunks of the array are decoded all the same."""
    store, file = MemoryStore(), tmp_path / "values"
    prefix = tmp_path.as_uri() + "/"
    file.write_bytes(np.arange(8, dtype="<f8").tobytes())
    repo = frazil.Repository.create(store, virtual_prefixes=[prefix])
    session = repo.writable_session()
    session.root.create_array("v", shape=(4, 600), dtype="<f8", chunks=(2, 2), codecs=["bytes", "crc32c"])[1:] = 7
    session.set_virtual_chunks("v", [[0, 1], [1, 1]], prefix + "values", [0, 16], 16)
    session.commit("virtual")
    if state == "missing":
        file.unlink()
    elif state == "changed":
        file.write_bytes(b"x" * 65)
    elif state == "link":  # out of the folder
        file.rename(tmp_path.parent / f"{tmp_path.name}-target")
        file.symlink_to(tmp_path.parent / f"{tmp_path.name}-target")
    again = frazil.Repository.open(store, virtual_prefixes=[] if state == "not allowed" else [prefix])
    before = {key: store.get(key) for key in store.list()}
    found = again.verify(decode=True)
    assert [problem.kind for problem in found.problems] == ["virtual"]
    assert found.problems[0].chunks.tolist() == [[0, 1], [1, 1]]  # type: ignore[union-attr]
    assert found.decoded == 598
    done = again.repair(decode=True, accept_loss=True, older=True, tips=True, history=True)
    assert (done.commits, done.created, done.moved, done.lost) == ({}, {}, {}, ())
    assert {key: store.get(key) for key in store.list()} == before


class Rewritten(WrappedStore):
    """Files that another process writes again while they are read. change: of the bytes of a file"""

    def __init__(self, inner: MemoryStore, change: Callable[[bytes], bytes]) -> None:
        super().__init__(inner)
        self.change = change

    def fetch(self, names: Sequence[str], spans: Columns, **options: Any) -> Fetched:
        for name in names if len(spans) else ():
            self.inner.set(name, self.change(self.inner.get(name) or b""))
        return super().fetch(names, spans, **options)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data[1:] + b"x"], ids=["shorter", "other"])
def test_no_repair_gives_up_virtual_chunks_whose_file_changes_while_it_is_read(
    change: Callable[[bytes], bytes], lost: bool
) -> None:
    """Unless the file itself is readable and wrong. Their references say nothing about the file."""
    store, outside = MemoryStore(), MemoryStore()
    outside.set("values", (data := np.arange(4, dtype="<f8").tobytes()) + crc32c(data).to_bytes(4, "little"))
    repo = frazil.Repository.create(store, virtual_prefixes={"s3://files/": outside})
    session = repo.writable_session()
    session.root.create_array("v", shape=(8,), dtype="<f8", chunks=(4,), codecs=["bytes", "crc32c"])[4:] = 7
    session.set_virtual_chunks("v", [[0]], "s3://files/values", 0, 36, check=False)
    session.commit("virtual")
    assert repo.verify(decode=True).ok
    if lost:
        outside.set("values", bytes(36))
    again = frazil.Repository.open(
        store, virtual_prefixes={"s3://files/": outside if lost else Rewritten(outside, change)}
    )
    found = again.verify(decode=True, virtual=True)
    assert [problem.kind for problem in found.problems] == ["decode" if lost else "virtual"]
    assert found.problems[0].chunks.tolist() == [[0]]  # type: ignore[union-attr]
    done = again.repair(decode=True, accept_loss=True)
    assert (done.ok, len(done.lost)) == (lost, lost)


def test_no_repair_gives_up_chunks_for_which_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    with repo.transaction(message="first") as root:
        root["a"] = np.arange(10_000)
    before = {key: store.get(key) for key in store.list()}

    def read(*_: object) -> None:
        raise InvalidInputError("it does not fit into memory")

    monkeypatch.setattr(frazil.Array, "read", read)
    done = repo.repair(decode=True, accept_loss=True)
    assert [problem.kind for problem in done.after] == ["decode"]
    assert {key: store.get(key) for key in store.list()} == before


class Silent(WrappedStore):
    """A bucket that stops to answer requests for chunk files."""

    def fetch(self, names: Sequence[str], spans: Columns, **options: Any) -> Fetched:
        if any("chunks/" in name for name in names):
            raise StoreError("the server does not answer", done=False)
        return super().fetch(names, spans, **options)


def test_no_repair_gives_up_chunks_that_a_store_does_not_deliver() -> None:
    store = MemoryStore()
    with frazil.Repository.create(store).transaction(message="first") as root:
        root["a"] = np.arange(10_000)
    repo = frazil.Repository.open(Silent(store))
    before = {key: store.get(key) for key in store.list()}
    for act in (repo.verify, partial(repo.repair, accept_loss=True)):
        with pytest.raises(StoreError, match="does not answer"):
            act(decode=True)
    assert {key: store.get(key) for key in store.list()} == before


def test_an_unfinished_copy_is_a_problem_and_not_repaired() -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    store.set(COPY_JOURNAL, b"{}")
    found = repo.verify()
    assert [problem.kind for problem in found.problems] == ["copy"]
    before = {key: store.get(key) for key in store.list()}
    with pytest.raises(ConflictError, match="copy"):
        repo.repair(accept_loss=True, tips=True, history=True)
    assert {key: store.get(key) for key in store.list()} == before
    for key in store.list_prefix("refs/"):
        store.erase(key)
    for act in (repo.verify, repo.repair):
        with pytest.raises(NotFoundError, match="an incomplete copy"):
            act()
