"""Digests of chunk files: every file that a session writes has one, a verification compares them, and a repair treats files that differ as lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil import _kernel
from frazil.errors import InvalidInputError
from frazil.formats.ids import decode_id
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store


def written(store: Store, file: Path) -> frazil.Repository:
    """Chunk files of each kind: large chunks, packs, files of forks, and an adopted file."""
    repo = frazil.Repository.create(store, chunk_digests="crc32c", durable=False)
    values = np.random.default_rng(0).random((8, 4096))
    with repo.transaction(message="large") as root:
        root.create_array("large", data=np.random.default_rng(1).random((2, 2**18)), chunks=(1, 2**18), codecs=[])
        root.create_array("small", data=values, chunks=(1, 512), codecs=[])
    session = repo.writable_session()
    fork = session.fork()
    fork.root["small"][2:4] = values[4:6]
    session.merge(fork)
    file.write_bytes(values[:1].tobytes())
    adopted = session.adopt_file(file)
    session.set_adopted_chunks("small", [[7, 0]], adopted, [0], [4096])
    session.commit("others")
    return repo


def digest(store: Store, key: str) -> bool:
    expected = int.from_bytes(decode_id(key.rpartition("/")[2])[-4:], "big")
    return _kernel.crc32c(store.get(key) or b"") == expected


@pytest.mark.parametrize("local", [True, False])
def test_every_chunk_file_has_one(local: bool, tmp_path: Path) -> None:
    store: Store = LocalStore(tmp_path / "repo") if local else MemoryStore()
    repo = written(store, tmp_path / "file")
    keys = store.list_prefix("chunks/")
    assert len(keys) >= 4
    assert all(digest(store, key) for key in keys)
    steps: list[str] = []
    assert repo.verify(digests=True, progress=lambda step, _: steps.append(step)).ok
    assert "chunk files read" in steps
    for key in keys:
        data = bytearray(store.get(key) or b"")
        data[len(data) // 2] ^= 1
        store.set(key, bytes(data))
        assert repo.verify().ok
        found = repo.verify(digests=True)
        assert {problem.kind for problem in found.problems} <= {"digest"}
        if found.problems:  # otherwise nothing refers to it any more
            assert all(problem.chunks is not None and len(problem.chunks) for problem in found.problems)
            done = repo.repair(digests=True, dry_run=True)
            assert done.lost
            assert {entry.path for entry in done.lost} <= {problem.path for problem in found.problems}
        data[len(data) // 2] ^= 1
        store.set(key, bytes(data))
    assert repo.verify(digests=True, decode=True).ok


def test_a_file_that_is_read_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("frazil.repository.verification.digests._TOGETHER", 1000)
    monkeypatch.setattr("frazil.repository.session.chunk_ids._PART", 777)
    store = MemoryStore()
    repo = written(store, tmp_path / "file")
    assert all(digest(store, key) for key in store.list_prefix("chunks/"))
    assert repo.verify(digests=True).ok


def test_a_repair_gives_up_what_a_digest_shows(tmp_path: Path) -> None:
    store = MemoryStore()
    repo = written(store, tmp_path / "file")
    key = max(store.list_prefix("chunks/"), key=lambda key: len(store.get(key) or b""))
    data = bytearray(store.get(key) or b"")
    data[5] ^= 64
    store.set(key, bytes(data))
    done = repo.repair(digests=True, accept_loss=True)
    assert done.lost
    assert repo.verify(digests=True, history=False).ok


def test_repositories_without() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with pytest.raises(InvalidInputError, match="no digests"):
        repo.verify(digests=True)
    with pytest.raises(InvalidInputError, match="chunk_digests"):
        frazil.Repository.create(MemoryStore(), chunk_digests="md5")
    with pytest.raises(InvalidInputError, match="chunk_digests"):
        frazil.Repository.create(MemoryStore(), chunk_digests="crc32c", compatible="alpha-library")
    store = MemoryStore()
    for _ in range(2):
        again = frazil.Repository.open_or_create(store, chunk_digests="crc32c")
        assert again.verify(digests=True).ok
