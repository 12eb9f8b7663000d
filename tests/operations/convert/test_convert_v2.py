"""Conversions between Zarr v2 and final Zarr v3 in place: the state after they are killed, given up or refused; and codecs that the other dialect does not
have."""

from __future__ import annotations

import itertools
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.operations.convert.test_convert_crashes import Mortal, in_child

import frazil
from frazil.errors import AlreadyExistsError, ConversionError
from frazil.operations.convert.hierarchy_keys import JOURNAL_NAME
from frazil.stores import LocalStore

VALUES = np.arange(12.0).reshape(3, 4) + 1
TEXTS = np.array(["a", "bé", ""], np.dtypes.StringDType())
V2_NAMES = (".zgroup", ".zarray", ".zattrs", ".zmetadata")


def fill(location: Path, zarr_format: int) -> None:
    root = frazil.create_group(location, zarr_format=zarr_format, attributes={"title": "sea"})
    root.create_array("a/x", data=VALUES, chunks=(2, 2), attributes={"u": "K"}, dimension_names=["y", "x"])
    root.create_array("texts", data=TEXTS, chunks=(2,))
    root.create_array("scalar", data=np.float32(3))
    root.create_group("empty")
    frazil.consolidate_metadata(location)


def check(location: Path) -> int | str:
    """Checks that all data is there, in any dialect. Returns the dialect."""
    group = frazil.open_group(location)
    assert [path for path, _ in group.members(None)] == ["a", "a/x", "empty", "scalar", "texts"]
    assert group.attrs.asdict() == {"title": "sea"}
    array = group["a/x"]
    assert isinstance(array, frazil.Array)
    attributes = dict(array.metadata.attributes)
    attributes.pop("_FillValue", None)  # which preserves the meaning of the fill value for xarray in Zarr v3
    assert (attributes, array.dimension_names) == ({"u": "K"}, ("y", "x"))
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(group["texts"][...], TEXTS)  # type: ignore[index]
    assert group["scalar"][()] == 3  # type: ignore[index]
    return group.metadata.zarr_format


@pytest.mark.parametrize(("source", "target"), [(2, 3), (3, 2)])
def test_killed_at_every_step(source: int, target: int, tmp_path: Path) -> None:
    fill(tmp_path / "original", source)
    seen = set()
    for step in itertools.count(1):
        location = tmp_path / str(step)
        shutil.copytree(tmp_path / "original", location)
        lived = in_child(partial(frazil.convert, Mortal(LocalStore(location), step), zarr_format=target))
        seen.add(now := check(location))
        if lived:
            assert now == target
            break
        given_up = step % 2 == 0
        frazil.convert(location, zarr_format=source if given_up else target)
        assert check(location) == (source if given_up else target)
        keys = LocalStore(location).list()
        assert JOURNAL_NAME not in keys
        there = {key.rpartition("/")[2] for key in keys} & {*V2_NAMES, "zarr.json"}
        assert there <= ({"zarr.json"} if (source if given_up else target) == 3 else set(V2_NAMES))
        assert frazil.validate(location, decode=True).problems == ()
        shutil.rmtree(location)
    assert seen == {2, 3}
    assert step > 5


def test_chunks_of_zarr_v2_stay(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    before = {key: (tmp_path / key).stat().st_ino for key in LocalStore(tmp_path).list() if "/." not in f"/{key}"}
    survey = frazil.convert(tmp_path, dry_run=True)
    assert {array.way for array in survey.arrays} == {"bytes"}
    assert check(tmp_path) == 2
    done = frazil.convert(tmp_path)
    assert (done.removed, done.left_behind) == (9, 0)
    assert {key: (tmp_path / key).stat().st_ino for key in before} == before
    assert check(tmp_path) == 3
    assert frazil.convert(tmp_path).removed == 0
    frazil.convert(tmp_path, zarr_format=2)
    assert check(tmp_path) == 2
    assert {key: (tmp_path / key).stat().st_ino for key in before} == before


def test_an_array_alone(tmp_path: Path) -> None:
    frazil.create_array(tmp_path, data=VALUES, chunks=(2, 2), zarr_format=2)
    frazil.convert(tmp_path)
    np.testing.assert_array_equal(frazil.open_array(tmp_path, zarr_format=3)[...], VALUES)
    frazil.convert(tmp_path, zarr_format=2)
    np.testing.assert_array_equal(frazil.open_array(tmp_path, zarr_format=2)[...], VALUES)
    assert not (tmp_path / "zarr.json").exists()


def test_an_existing_document_is_not_replaced(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    (tmp_path / "texts/zarr.json").write_bytes(b"{}")
    with pytest.raises(AlreadyExistsError):
        frazil.convert(tmp_path)
    assert (tmp_path / "texts/zarr.json").read_bytes() == b"{}"


def test_codecs_that_zarr_v2_does_not_have(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path / "three")
    root.create_array(
        "x",
        data=VALUES,
        chunks=(2, 2),
        codecs=["bytes", {"name": "zarrs.gdeflate", "configuration": {"level": 1}}],
        dimension_names=["y", "x"],
    )
    root.create_array("shards", data=VALUES, chunks=(1, 2), shards=(2, 4))
    root.create_array("texts", data=TEXTS, codecs=["zarrs.vlen_v2"])
    with pytest.raises(ConversionError) as caught:
        frazil.convert(tmp_path / "three", zarr_format=2)
    assert {refusal.path for refusal in caught.value.refusals} == {"x", "shards", "texts"}
    frazil.convert(tmp_path / "three", tmp_path / "two", zarr_format=2, recode=True)
    frazil.convert(tmp_path / "three", zarr_format=2, recode=True)
    for location in (tmp_path / "two", tmp_path / "three"):
        group = frazil.open_group(location, zarr_format=2)
        np.testing.assert_array_equal(group["x"][...], VALUES)  # type: ignore[index]
        np.testing.assert_array_equal(group["shards"][...], VALUES)  # type: ignore[index]
        np.testing.assert_array_equal(group["texts"][...], TEXTS)  # type: ignore[index]
        assert group["x"].dimension_names == ("y", "x")  # type: ignore[union-attr]
        assert group["shards"].chunks == (2, 4)  # type: ignore[union-attr]


def test_objects_have_no_place_in_zarr_v3(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path, zarr_format=2)
    root.create_array("j", shape=(3,), dtype=object, filters=[{"id": "json2"}])
    before = LocalStore(tmp_path).list()
    with pytest.raises(ConversionError, match="objects"):
        frazil.convert(tmp_path)
    assert LocalStore(tmp_path).list() == before
