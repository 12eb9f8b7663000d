"""Text of any length: written as `string`, like xarray's engine "zarr" does, and read alike by both engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from tests.integrations.versions import OLD_XARRAY, OLD_ZARR

import frazil
import frazil.xarray
from frazil.errors import InvalidInputError
from frazil.stores import MemoryStore

da = pytest.importorskip("dask.array")

WORDS = ["", "é", "a longer text", "end\0", "北"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def packed(values: list[str]) -> Any:
    return np.array(values, dtype=np.dtypes.StringDType())


def dataset() -> xr.Dataset:
    """Objects, packed strings, lazy ones, coordinates, and text of fixed length."""
    return xr.Dataset(
        {
            "objects": ("x", np.array(WORDS, dtype=object), {"long_name": "words"}),
            "packed": (("x",), packed(WORDS)),
            "scalar": ((), np.array("one", dtype=object)),
            "none": ("y", np.array([], dtype=object)),
            "fixed": ("x", np.array(list("abcde"))),
        },
        {"x": np.array(["p", "q", "rr", "s", "t"], dtype=object), "label": ("x", packed(WORDS[::-1]))},
    )


def opened(location: Any, engine: str = "frazil", **options: Any) -> xr.Dataset:
    found: xr.Dataset = xr.open_dataset(location, engine=engine, **options)
    return found


def data_type(location: Path, name: str) -> object:
    return json.loads((location / name / "zarr.json").read_text())["data_type"]


def check_alike(one: xr.Dataset, other: xr.Dataset) -> None:
    xr.testing.assert_identical(one.load(), other.load())
    assert {name: each.dtype for name, each in one.variables.items()} == {
        name: each.dtype for name, each in other.variables.items()
    }


@pytest.mark.filterwarnings("ignore:variable .* has data in the form of a dask array with dtype=object")
@pytest.mark.skipif(OLD_ZARR, reason="zarr-python 3.0 has no data type of text of fixed length")
@pytest.mark.parametrize("chunks", [None, {"x": 2}])
def test_both_engines_write_and_read_alike(tmp_path: Path, chunks: Any) -> None:
    pytest.importorskip("zarr")
    source = dataset() if chunks is None else dataset().chunk(chunks)
    ours, theirs = tmp_path / "ours.zarr", tmp_path / "theirs.zarr"
    source.frazil.write(ours)
    dataset().to_zarr(theirs, zarr_format=3, consolidated=False)
    for name in dataset().variables:
        assert data_type(ours, str(name)) == data_type(theirs, str(name))
    assert data_type(ours, "objects") == data_type(ours, "packed") == "string"
    for location in (ours, theirs):
        check_alike(opened(location), opened(location, "zarr", consolidated=False))
        xr.testing.assert_equal(opened(location), dataset())
    opened(theirs).frazil.write(tmp_path / "again.zarr")
    opened(ours).to_zarr(tmp_path / "back.zarr", zarr_format=3, consolidated=False)
    check_alike(opened(tmp_path / "again.zarr"), opened(tmp_path / "back.zarr", "zarr", consolidated=False))


@pytest.mark.parametrize("lazy", [False, True])
def test_appended_and_written_in_regions_of_a_branch(tmp_path: Path, lazy: bool) -> None:
    def part(values: list[str], first: int = 0) -> xr.Dataset:
        made = xr.Dataset({"a": ("x", packed(values))}, {"x": np.arange(first, first + len(values))})
        return made.chunk(x=2) if lazy else made

    frazil.Repository.create(tmp_path / "sea.repo", durable=False)
    branch = f"{tmp_path}/sea.repo@main"
    part(["a", "bb", "ccc", "d"]).frazil.write(branch, chunks={"x": 2})
    part(["longer than all", "é"], 4).frazil.write(branch, append_dim="x")
    part(["new", "text of a region"], 2).frazil.write(branch, region="auto")
    assert list(opened(branch)["a"].values) == ["a", "bb", "new", "text of a region", "longer than all", "é"]


@pytest.mark.parametrize("values", [np.array(["xyz"]), np.array(["xyz"], dtype=object), packed(["xyz"])])
def test_all_kinds_of_text_are_appended_to_strings(values: Any) -> None:
    store = MemoryStore()
    xr.Dataset({"a": ("x", packed(["é"]))}).frazil.write(store)
    xr.Dataset({"a": ("x", values)}).frazil.write(store, append_dim="x")
    assert list(opened(store)["a"].values) == ["é", "xyz"]


def test_empty_strings_are_appended() -> None:
    """xarray turns an empty array of objects into numbers."""
    store = MemoryStore()
    xr.Dataset({"a": ("x", packed(["é"]))}).frazil.write(store)
    for values in (np.array([], object), np.array([], "U1"), packed([])):
        xr.Dataset({"a": ("x", values)}).frazil.write(store, append_dim="x")
    assert list(opened(store)["a"].values) == ["é"]


@pytest.mark.parametrize("values", [np.array([b"xyz"]), np.array([1]), np.array([1.5])])
def test_only_text_is_appended_to_strings(values: Any) -> None:
    store = MemoryStore()
    xr.Dataset({"a": ("x", packed(["é"]))}).frazil.write(store)
    with pytest.raises(InvalidInputError, match="Mismatched dtypes for variable a"):
        xr.Dataset({"a": ("x", values)}).frazil.write(store, append_dim="x")
    assert list(opened(store)["a"].values) == ["é"]


@pytest.mark.parametrize("kind", [object, "T"])
def test_text_of_fixed_length_takes_text_that_fits(kind: Any) -> None:
    store = MemoryStore()
    xr.Dataset({"a": ("x", np.array(["abc"]))}).frazil.write(store)
    for wrong, reason in ((["abcd"], "Mismatched dtypes for variable a"), (["a\0"], "ends in NUL")):
        with pytest.raises(InvalidInputError, match=reason):
            xr.Dataset({"a": ("x", np.array(wrong, dtype=kind))}).frazil.write(store, append_dim="x")
    xr.Dataset({"a": ("x", np.array(["z"], dtype=kind))}).frazil.write(store, append_dim="x")
    assert list(opened(store)["a"].values) == ["abc", "z"]


def test_missing_text_of_objects_is_empty_as_in_the_zarr_engine() -> None:
    store = MemoryStore()
    source = xr.Dataset({"a": ("x", np.array(["a", None, np.nan], dtype=object))})
    source.frazil.write(store)
    assert list(opened(store)["a"].values) == ["a", "", ""]
    xr.Dataset({"a": ("x", np.array([None, "b"], dtype=object))}).frazil.write(store, append_dim="x")
    assert list(opened(store)["a"].values) == ["a", "", "", "", "b"]


def test_fill_values_of_text() -> None:
    store = MemoryStore()
    source = xr.Dataset({"a": ("x", np.array(["a", "missing"], dtype=object), {"_FillValue": "missing"})})
    source.frazil.write(store, encoding={"a": {"fill_value": "nothing"}})
    raw = opened(store, mask_and_scale=False)["a"]
    assert raw.attrs["_FillValue"] == "missing"
    if not OLD_XARRAY:  # which drops the encoding of text
        assert raw.encoding["fill_value"] == "nothing"
    assert list(raw.values) == ["a", "missing"]
    masked = opened(store)["a"]
    assert masked.isnull().values.tolist() == [False, True]
    again = MemoryStore()
    opened(store).frazil.write(again)
    assert list(opened(again, mask_and_scale=False)["a"].values) == ["a", "missing"]


@pytest.mark.skipif(OLD_XARRAY, reason="xarray 2025.9 does not encode fill values of StringDType")
@pytest.mark.parametrize("lazy", [False, True])
def test_empty_text_is_not_the_fill_value(lazy: bool) -> None:
    """xarray takes it for a missing value in StringDType."""
    source = xr.Dataset({"a": ("x", packed(["a", "", "no"]), {}, {"_FillValue": "no"})})
    store = MemoryStore()
    (source.chunk(x=2) if lazy else source).frazil.write(store)
    assert list(opened(store, mask_and_scale=False)["a"].values) == ["a", "", "no"]
    assert opened(store)["a"].isnull().values.tolist() == [False, False, True]


def test_tasks_of_dask_write_strings_without_loading_them() -> None:
    store = MemoryStore()
    lazy = xr.Dataset({"a": ("x", da.from_array(packed(WORDS), chunks=2))})
    later = lazy.frazil.write(store, compute=False)
    assert list(opened(store)["a"].values) == [""] * len(WORDS)
    later.compute()
    assert list(opened(store, chunks={})["a"].values) == WORDS


@given(values=st.lists(TEXT, max_size=12), chunk=st.integers(1, 5), kind=st.sampled_from(["T", "O"]))
def test_any_text_round_trips(values: list[str], chunk: int, kind: Any) -> None:
    store = MemoryStore()
    xr.Dataset({"a": ("x", np.array(values, dtype=kind))}).frazil.write(store, chunks={"x": chunk})
    found = opened(store)["a"]
    assert list(found.values) == values
    assert list(found[::-1].values) == values[::-1]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("values", [np.array(["é", "xy"]), np.array(["é", "xy"], dtype=object), packed(["é", "xy"])])
def test_all_kinds_of_text_are_appended_to_text_in_bytes(values: Any, lazy: bool) -> None:
    """As files of NetCDF have it: the bytes of UTF-8, and the attribute `_Encoding`."""
    store = MemoryStore()
    stored = xr.Dataset({"a": ("x", np.array(["abc", "é"]), {}, {"dtype": "S1"})})
    stored.frazil.write(store)
    new = xr.Dataset({"a": ("x", values)})
    (new.chunk(x=1) if lazy else new).frazil.write(store, append_dim="x")
    assert frazil.open_array(store, path="a").dtype == "S3"
    assert list(opened(store)["a"].values) == ["abc", "é", "é", "xy"]
    for wrong in (["four"], np.array(["n\0"], object), np.array([None])):
        with pytest.raises(InvalidInputError):
            xr.Dataset({"a": ("x", wrong)}).frazil.write(store, append_dim="x")
    xr.Dataset({"a": ("x", values[:0])}).frazil.write(store, append_dim="x")
    assert list(opened(store)["a"].values) == ["abc", "é", "é", "xy"]
