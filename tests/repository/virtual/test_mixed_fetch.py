"""Virtual chunks together with chunks of other kinds, read and written through arrays: of more files than may be open at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.array.io.task_costs import OPEN_OBJECTS

FILES = 2 * OPEN_OBJECTS + 10


@pytest.mark.parametrize("shards", [None, 8])
def test_many_files_beside_chunks_of_the_session(tmp_path: Path, shards: int | None) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    prefix = folder.as_uri() + "/"
    repository = frazil.Repository.create(tmp_path / "repository", virtual_prefixes=[prefix])
    session = repository.writable_session("main")
    chunks = 4 if shards else 8
    array = session.root.create_array("a", shape=FILES * 8, dtype="u1", chunks=chunks, shards=shards, codecs=[])
    sample = frazil.create_array(folder / "sample", shape=8, dtype="u1", chunks=chunks, shards=shards, codecs=[])
    for i in range(FILES):
        sample[...] = i % 200 + 1
        (folder / f"{i}").write_bytes((folder / "sample" / "c" / "0").read_bytes())
    size = (folder / "0").stat().st_size
    coordinates = np.arange(FILES).reshape(-1, 1)
    session.set_virtual_chunks("a", coordinates, [f"{prefix}{i}" for i in range(FILES)], 0, size)
    expected = np.repeat((np.arange(FILES) % 200 + 1).astype("u1"), 8)
    assert (array[...] == expected).all()
    for low, high in ((16, 40), (3, 5), (77, 130)):
        array[low:high] = expected[low:high] = low
        assert (array[...] == expected).all()
    assert array[17] == 16
    session.commit("mixed")
    again = repository.readonly_session("main").root["a"]
    assert isinstance(again, frazil.Array)
    assert (again[::-1] == expected[::-1]).all()
    assert (again[...] == expected).all()
