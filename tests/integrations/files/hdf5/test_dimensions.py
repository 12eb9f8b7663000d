"""Names of the dimensions of HDF5 datasets whose scales are not as they should be."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

import frazil


def test_a_scale_that_was_removed_from_the_file(tmp_path: Path) -> None:
    """What refers to it stays, and h5py cannot read that. The dimension has no name then."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(12).reshape(3, 4)
        for axis, name in enumerate("xy"):
            file[name] = np.arange(3 + axis)
            file[name].make_scale(name)
            file["a"].dims[axis].attach_scale(file[name])
        del file["x"]
    frazil.import_file(path, tmp_path / "a.zarr")
    array = frazil.open_array(tmp_path / "a.zarr/a")
    assert array.dimension_names == ("phony_dim_0", "y")
    np.testing.assert_array_equal(array[...], np.arange(12).reshape(3, 4))


def test_the_next_scale_of_a_dimension_names_it_where_the_first_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(3)
        for name in "xy":
            file[name] = np.arange(3)
            file[name].make_scale(name)
            file["a"].dims[0].attach_scale(file[name])
        del file["x"]
    frazil.import_file(path, tmp_path / "a.zarr")
    assert frazil.open_array(tmp_path / "a.zarr/a").dimension_names == ("y",)


def test_a_null_reference_is_no_scale(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name in "ax":
            file[name] = np.arange(3)
        file["x"].make_scale("x")
        file["a"].dims[0].attach_scale(file["x"])
        lists = np.empty(1, h5py.vlen_dtype(h5py.ref_dtype))
        lists[0] = np.array([h5py.Reference()], h5py.ref_dtype)
        del file["a"].attrs["DIMENSION_LIST"]
        file["a"].attrs.create("DIMENSION_LIST", lists, dtype=h5py.vlen_dtype(h5py.ref_dtype))
    frazil.import_file(path, tmp_path / "a.zarr")
    assert frazil.open_array(tmp_path / "a.zarr/a").dimension_names == ("phony_dim_0",)
