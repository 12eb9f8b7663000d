"""Arrays that a library decodes, as a store of chunks."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import frazil
from frazil import Runtime
from frazil.integrations.files import decoded_chunks


def test_parts_of_one_chunk_decode_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of small slabs decoded a large chunk once for each of its parts."""
    values = np.arange(256 * 256, dtype="i4").reshape(256, 256)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=values, chunks=(256, 256), scaleoffset=0)
    paths: list[str] = []
    encoded = decoded_chunks._encoded
    monkeypatch.setattr(decoded_chunks, "_encoded", lambda *given: (paths.append(given[0].path), encoded(*given))[1])
    limit = Runtime(bytes_in_flight=2**14)
    frazil.import_file(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=(32, 32), shards=(64, 64), runtime=limit)
    assert paths == ["a"]
    np.testing.assert_array_equal(frazil.load(tmp_path / "b.zarr")["a"], values)
