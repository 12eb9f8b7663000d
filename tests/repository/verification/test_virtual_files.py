"""Files with virtual chunks: missing, truncated, rewritten, and one request each."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, NotFoundError
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.keys.names import COPY_JOURNAL
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
