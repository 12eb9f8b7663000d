"""Conversions between Zarr v2 and v3 preserve the values that xarray considers missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import DTypeLike

import frazil
from frazil.metadata.v3.fill_attribute import decode_fill, encode_fill

xarray = pytest.importorskip("xarray")


def dataset(location: Path, **options: object) -> xarray.Dataset:
    return xarray.open_dataset(location, engine="frazil", **options).load()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    ("dtype", "fill", "marks"),
    [
        ("f8", -999.0, -999.0), ("f4", float("nan"), -999.0), ("f8", 0.0, -999.0), ("f8", 0.0, None), ("f8", 0.0, float("nan")),
        ("i2", -1, -1), ("i2", 0, -1), ("i8", 0, None), ("u1", 255, 255), ("f8", float("nan"), None),
    ],
)  # fmt: skip
def test_xarray_sees_the_same_values(
    zarr_format: int, kept: bool, dtype: str, fill: float, marks: float | None, tmp_path: Path
) -> None:
    values = np.array([[0, 1, 2], [3, 4, 5]], dtype)
    values[1, 1] = fill if marks is None else marks
    attributes = {} if marks is None else {"_FillValue": encode_fill(marks, values.dtype.kind)}
    if zarr_format == 2:
        fill = fill if marks is None else marks
        attributes = {}
    first, second, third = (tmp_path / f"{name}.zarr" for name in "abc")
    root = frazil.create_group(first, zarr_format=zarr_format)
    array = root.create_array(
        "v",
        shape=(4, 3),
        dtype=dtype,
        chunks=(2, 3),
        fill_value=fill,
        dimension_names=("y", "x"),
        attributes=attributes,
    )
    array[:2] = values
    if kept:
        array[2:] = 1
    seen = dataset(first)
    frazil.convert(first, second, zarr_format=5 - zarr_format)
    assert dataset(second).identical(seen)
    frazil.convert(second, third, zarr_format=zarr_format)
    assert dataset(third).identical(seen)
    if zarr_format == 2:
        frazil.rechunk(first / "v", tmp_path / "d.zarr/v", chunks=(1, 1))
        frazil.create_group(tmp_path / "e.zarr")
        assert frazil.open_array(tmp_path / "d.zarr/v").attrs.get("_FillValue") == frazil.open_array(
            second, path="v"
        ).attrs.get("_FillValue")


@pytest.mark.parametrize("place", ["convert", "in place", "export", "shards"])
@pytest.mark.parametrize(
    ("dtype", "fill", "marks"), [("i4", -1, None), ("f4", 1e20, None), ("i4", -1, 7), ("M8[ns]", 5, None)]
)
def test_a_fill_value_masks_nothing_where_all_chunks_are_stored(
    place: str, dtype: str, fill: float, marks: int | None, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.zarr", tmp_path / ("a.zarr" if place == "in place" else "b.zarr")
    root = frazil.create_group(first)
    for name, length in (("whole", 4), ("part", 2)):
        array = root.create_array(
            name,
            shape=(4,),
            dtype=dtype,
            chunks=(1,),
            shards=(2,) if place == "shards" else None,
            fill_value=fill,
            dimension_names=("x",),
            attributes={} if marks is None else {"_FillValue": marks},
        )
        array[:length] = np.array([0, fill, 7, 2], dtype)[:length]
        if place != "shards":  # a program may store a chunk of fill values
            frazil.create_array(tmp_path / "c.zarr", shape=1, dtype=dtype, overwrite=True, chunks=1)[0] = fill
            (tmp_path / "c.zarr/c/0").rename(first / name / "c/1")
    seen = dataset(first)
    if place == "export":
        frazil.export_file(first, second, "zarr2")
    else:
        frazil.convert(first, None if place == "in place" else second, zarr_format=2, recode=place == "shards")
    assert dataset(second)["whole"].identical(seen["whole"])
    whole, part = frazil.open_array(second / "whole"), frazil.open_array(second / "part")
    assert whole.fill_value is None and part.fill_value == np.array(fill, dtype)
    assert np.array_equal(part[...], np.array([0, fill, fill, fill], dtype))


@pytest.mark.parametrize(
    ("dtype", "fill"), [("i8", -1), ("string", "x"), ([("a", "f4"), ("b", "i4")], (np.nan, 3))], ids=str
)
def test_a_chunk_of_fill_values_that_is_not_stored_again(dtype: DTypeLike, fill: object, tmp_path: Path) -> None:
    for name, value in (("a.zarr", fill), ("b.zarr", None)):
        array = frazil.create_group(tmp_path / name).create_array(
            "v", shape=4, dtype=dtype, chunks=1, shards=2, fill_value=value, dimension_names=["x"]
        )
        array[:2] = np.array([0, 1]).astype(array.dtype)
        array[2:] = np.array(fill, array.dtype)
    (tmp_path / "b.zarr/v/c/1").replace(tmp_path / "a.zarr/v/c/1")  # a program may store a shard of fill values
    frazil.convert(tmp_path / "a.zarr", tmp_path / "c.zarr", zarr_format=2, recode=True)
    found, same = frazil.open_array(tmp_path / "c.zarr/v"), frazil.open_array(tmp_path / "a.zarr/v")
    assert repr(found[...].tolist()) == repr(same[...].tolist())
    assert repr(found.fill_value) == repr(same.fill_value)


def test_names_of_dimensions_stay_where_an_array_is_encoded_again(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path / "a.zarr")
    root.create_array(
        "v",
        data=np.zeros((2, 2, 2)) + 1,
        codecs=[{"name": "transpose", "configuration": {"order": [1, 0, 2]}}, "bytes"],
        dimension_names=("z", "y", "x"),
    )
    frazil.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", zarr_format=2, recode=True)
    assert frazil.open_array(tmp_path / "b.zarr/v").dimension_names == ("z", "y", "x")


@given(st.sampled_from(["f4", "f8", "c8", "i1", "u8", "b1"]), st.data())
def test_elements_and_attributes(dtype: str, data: st.DataObject) -> None:
    element = np.frombuffer(
        data.draw(st.binary(min_size=np.dtype(dtype).itemsize, max_size=np.dtype(dtype).itemsize)), dtype
    )[0]
    again = decode_fill(encode_fill(element, np.dtype(dtype).kind), np.dtype(dtype))
    assert again is not None
    np.testing.assert_equal(again, element)


@pytest.mark.parametrize("value", ["x", None, [], {}, [1], True, "AAAA", 1e300, 10**400, 0.5, -(2**63) - 1])
def test_missing_values_outside_the_data_type(value: object) -> None:
    assert decode_fill(value, np.dtype("i8")) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "fill"), [("M8[s]", 0), ("m8[ns]", 0), ("string", "\0"), ("bytes", b"\0")])
def test_fill_values_of_zeros_that_null_does_not_mean(dtype: str, fill: object, tmp_path: Path) -> None:
    """null is NaT and empty text: with it these were refused."""
    first, second = tmp_path / "a.zarr", tmp_path / "b.zarr"
    group = frazil.create_group(first)
    array = group.create_array("v", shape=(3,), dtype=dtype, chunks=(2,), dimension_names=("x",), fill_value=fill)
    frazil.convert(first, second, zarr_format=2, recode=True)
    assert frazil.open_array(second, path="v")[:].tolist() == array[:].tolist()


@pytest.mark.parametrize("dtype", ["S2", "U2", "string", "bytes", [("a", "i4")]])
def test_empty_text_is_not_missing_in_zarr_v2(dtype: str | list[tuple[str, str]], tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}.zarr" for name in "abc")
    array = frazil.create_group(first).create_array("v", shape=(6,), dtype=dtype, chunks=(2,), dimension_names=("x",))
    array[2] = {"bytes": b"b"}.get(str(dtype), (1,) if isinstance(dtype, list) else "b")
    seen = dataset(first)
    assert seen.v.dtype == array.dtype
    frazil.convert(first, second, zarr_format=2, recode=True)
    assert dataset(second).v.dtype == seen.v.dtype
    assert dataset(second).identical(seen)
    frazil.convert(second, third)
    assert dataset(third).identical(seen)
