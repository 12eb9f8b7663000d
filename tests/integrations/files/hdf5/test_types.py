"""Data types of HDF5 that h5py does not create, but reads."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import frazil
from frazil.errors import InvalidInputError


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("filters", [(), (h5py.h5z.FILTER_DEFLATE,), (h5py.h5z.FILTER_LZF,)])
def test_bit_fields_are_integers(bits: int, filters: tuple[int, ...], tmp_path: Path) -> None:
    """PyTables stores booleans in them, also as members of compounds."""
    path, values = tmp_path / "a.h5", np.arange(20).astype(f"u{bits // 8}")
    kind = getattr(h5py.h5t, f"STD_B{bits}LE")
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((6,))
        for number in filters:
            properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (1,) if number == h5py.h5z.FILTER_DEFLATE else ())
        space = h5py.h5s.create_simple((20,))
        h5py.h5d.create(file.id, b"a", kind, space, properties).write(h5py.h5s.ALL, h5py.h5s.ALL, values, kind)
        pair = h5py.h5t.create(h5py.h5t.COMPOUND, kind.get_size() + 4)
        pair.insert(b"number", 0, h5py.h5t.STD_I32LE)
        pair.insert(b"bits", 4, kind)
        pairs = np.array([*zip(range(20), values, strict=True)], [("number", "<i4"), ("bits", values.dtype)])
        h5py.h5d.create(file.id, b"pairs", pair, space, properties).write(h5py.h5s.ALL, h5py.h5s.ALL, pairs, pair)
    frazil.import_file(path, tmp_path / "a.zarr")
    group = frazil.open_group(tmp_path / "a.zarr")
    with h5py.File(path) as file:
        for name in ("a", "pairs"):
            np.testing.assert_array_equal(group[name][...], file[name][...])
    np.testing.assert_array_equal(group["a"][...], values)


def test_other_bit_fields_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        h5py.h5d.create(file.id, b"a", h5py.h5t.STD_B16BE, h5py.h5s.create_simple((20,)))
    with pytest.raises(InvalidInputError, match="bit field"):
        frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
