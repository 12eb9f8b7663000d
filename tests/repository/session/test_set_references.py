"""Files adopted into a repository: each becomes one chunk file with chunks of arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import InvalidInputError, NotFoundError, ReadOnlyError
from frazil.stores.memory import MemoryStore
from frazil.stores.store import Store

VALUES = np.arange(600_000, dtype="<i4").reshape(2, 300_000)  # two chunks of 1.2 MB, too large for a pack
HEAD = 100


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "raw file.bin"
    path.write_bytes(b"\7" * HEAD + VALUES.tobytes())
    return path


def with_adopted(repo: frazil.Repository, file: Path) -> frazil.Session:
    session = repo.writable_session()
    for name in ("a", "b"):
        session.root.create_array(name, shape=VALUES.shape, dtype="i4", chunks=(1, 300_000), codecs=[])
    adopted = session.adopt_file(file)
    offsets = [HEAD, HEAD + VALUES[0].nbytes]
    for name in ("a", "b"):
        session.set_adopted_chunks(name, [[0, 0], [1, 0]], adopted, offsets, VALUES[0].nbytes)
    return session


def chunk_files(store: Store) -> list[str]:
    return store.list_prefix("chunks/")


@pytest.mark.rule("I295")
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_an_adopted_file_is_copied_whole_and_read_in_parts(where: str, file: Path, tmp_path: Path) -> None:
    store: Store = frazil.stores.LocalStore(tmp_path / "sea.repo") if where == "disk" else MemoryStore()
    repo = frazil.Repository.create(store)
    session = with_adopted(repo, file)
    assert np.array_equal(session.open("a")[...], VALUES)
    session.commit("adopted")
    assert [store.get(key) for key in chunk_files(store)] == [file.read_bytes()]
    file.unlink()
    root = repo.readonly_session().root
    assert np.array_equal(root["a"][...], VALUES)
    assert np.array_equal(root["b"][1, 7:9], VALUES[1, 7:9])


def test_the_file_stays_when_one_of_its_chunks_is_written_again(file: Path) -> None:
    store = MemoryStore()
    repo = frazil.Repository.create(store)
    session = with_adopted(repo, file)
    session.root["a"][0] = 5
    del session.root["a"]
    for _ in range(40):  # superseded files are removed some writes later
        session.root["b"][0] = np.random.default_rng(1).integers(0, 9, 300_000)
    session.commit("half of it adopted")
    assert np.array_equal(repo.readonly_session().root["b"][1], VALUES[1])


def test_forks_hand_it_back(file: Path) -> None:
    repo = frazil.Repository.create(MemoryStore())
    session = repo.writable_session()
    session.root.create_array("a", shape=VALUES.shape, dtype="i4", chunks=(1, 300_000), codecs=[])
    fork = session.fork()
    fork.set_adopted_chunks("a", [[1, 0]], fork.adopt_file(file), HEAD, VALUES[0].nbytes)
    session.merge(fork)
    session.root["a"][1, 0] = 9
    session.commit("one")
    assert repo.readonly_session().root["a"][1, :3].tolist() == [9, 1 + 300_000 - 300_000, 2]


def test_invalid_references_are_refused(file: Path, tmp_path: Path) -> None:
    repo = frazil.Repository.create(MemoryStore())
    session = with_adopted(repo, file)
    adopted = session.adopt_file(file)
    with pytest.raises(InvalidInputError, match="the file has"):
        session.set_adopted_chunks("a", [[1, 0]], adopted, HEAD + VALUES.nbytes - 3, 4)
    with pytest.raises(InvalidInputError, match="outside of the grid"):
        session.set_adopted_chunks("a", [[2, 0]], adopted, 0, 4)
    with pytest.raises(NotFoundError, match="no such chunk file"):
        session.set_adopted_chunks("a", [[1, 0]], "0" * 20, 0, 4)
    with pytest.raises(NotFoundError, match="no file"):
        session.adopt_file(tmp_path / "nothing")
    with pytest.raises(NotFoundError, match="no file"):
        session.adopt_file(tmp_path)
    with pytest.raises(ReadOnlyError):
        repo.readonly_session().adopt_file(file)
    compatible = frazil.Repository.create(MemoryStore(), compatible="alpha-library").writable_session()
    with pytest.raises(InvalidInputError, match="library of the alpha"):
        compatible.adopt_file(file)
