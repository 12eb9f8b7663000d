"""Operations on hierarchies of Zarr v2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.operations.served import Client

import frazil
from frazil.cli.main import main
from frazil.errors import ConversionError, InvalidInputError
from frazil.operations.serve.server import serve
from frazil.stores import MemoryStore

VALUES = np.arange(12.0).reshape(3, 4) + 1


def sea(place: object) -> frazil.Group:
    root = frazil.create_group(place, zarr_format=2, attributes={"title": "sea"})  # type: ignore[arg-type]
    root.create_array("a/x", data=VALUES, chunks=(2, 2), attributes={"u": "K"}, dimension_names=["y", "x"])
    return root


def test_validate(tmp_path: Path) -> None:
    sea(tmp_path / "sea.zarr")
    frazil.consolidate_metadata(tmp_path / "sea.zarr")
    for place in (tmp_path / "sea.zarr", tmp_path / "sea.zarr/a"):
        assert frazil.validate(place, decode=True).problems == ()
    (tmp_path / "sea.zarr/a/x/0.0").write_bytes(b"damaged")
    (tmp_path / "sea.zarr/a/x/7.7").write_bytes(b"stray")
    kinds = {problem.kind for problem in frazil.validate(tmp_path / "sea.zarr", decode=True).problems}
    assert kinds == {"chunk", "key"}


def test_copies_and_new_layouts(tmp_path: Path) -> None:
    sea(tmp_path / "sea.zarr")
    frazil.copy(tmp_path / "sea.zarr", tmp_path / "copy.zarr")
    assert frazil.checksum(tmp_path / "copy.zarr", path="a/x") == frazil.checksum(tmp_path / "sea.zarr", path="a/x")
    frazil.rechunk(tmp_path / "sea.zarr/a/x", tmp_path / "new.zarr", chunks=(3, 4))
    again = frazil.open_array(tmp_path / "new.zarr")
    np.testing.assert_array_equal(again[...], VALUES)
    assert (again.metadata.zarr_format, again.dimension_names) == (3, ("y", "x"))


def test_served() -> None:
    store = MemoryStore()
    sea(store)
    with serve(store) as server:
        group = frazil.open_group(server.url)
        assert [path for path, _ in group.members(None)] == ["a", "a/x"]
        np.testing.assert_array_equal(group["a/x"][...], VALUES)  # type: ignore[index]
        assert list(frazil.open_group(server.url, path="a")) == ["x"]
        assert Client(server).request("/a/x/.zmetadata").status == 404


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sea(tmp_path / "sea.zarr")
    for command in ("ls", "tree", "info", "du"):
        assert main([command, str(tmp_path / "sea.zarr")]) == 0, command
        capsys.readouterr()
    assert main(["get", str(tmp_path / "sea.zarr"), "a/x", "0, 0"]) == 0
    assert capsys.readouterr().out.split()[-1].startswith("1")


@pytest.mark.parametrize("order", ["C", "F"])
def test_conversions_move_chunks_as_bytes(order: str, tmp_path: Path) -> None:
    root = sea(tmp_path / "two.zarr")
    first = [{"name": "transpose", "configuration": {"order": [1, 0]}}] if order == "F" else []
    root.create_array("f", data=VALUES, chunks=(2, 3), codecs=[*first, "bytes", "zstd"], attributes={"n": 1})
    frazil.consolidate_metadata(tmp_path / "two.zarr")
    there = frazil.convert(tmp_path / "two.zarr", tmp_path / "three.zarr")
    assert {array.way for array in there.arrays} == {"bytes"}
    assert there.left_behind == 0
    back = frazil.convert(tmp_path / "three.zarr", tmp_path / "again.zarr", zarr_format=2)
    assert {array.way for array in back.arrays} == {"bytes"}
    for name, zarr_format in (("three.zarr", 3), ("again.zarr", 2)):
        group = frazil.open_group(tmp_path / name)
        assert (group.metadata.zarr_format, group.attrs.asdict()) == (zarr_format, {"title": "sea"})
        for path in ("a/x", "f"):
            array = group[path]
            np.testing.assert_array_equal(array[...], VALUES)  # type: ignore[index]
            attributes = array.attrs.asdict()
            marked = attributes.pop("_FillValue", None)  # how xarray interprets the fill value of Zarr v2
            assert (marked is not None) is (zarr_format == 3 and path == "a/x")
            expected = root[path].attrs.asdict()
            if zarr_format == 3:  # which has dimension_names
                expected.pop("_ARRAY_DIMENSIONS", None)
            assert attributes == expected
        assert group["a/x"].dimension_names == ("y", "x")  # type: ignore[union-attr]
        for key in ("f/0.0", "a/x/1.1"):
            assert (tmp_path / name / key).read_bytes() == (tmp_path / "two.zarr" / key).read_bytes()


def test_conversions_of_final_arrays(tmp_path: Path) -> None:
    root = frazil.create_group(tmp_path / "three.zarr")
    root.create_array("x", data=VALUES, chunks=(2, 2), codecs=["bytes", "zstd"])
    frazil.convert(tmp_path / "three.zarr", tmp_path / "two.zarr", zarr_format=2)
    assert sorted(path.name for path in (tmp_path / "two.zarr/x").iterdir()) == [".zarray", "0", "1"]
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "two.zarr/x")[...], VALUES)
    root.create_array("s", data=VALUES, chunks=(2, 2), shards=(4, 4))
    with pytest.raises(ConversionError, match="no shards"):
        frazil.convert(tmp_path / "three.zarr", tmp_path / "new.zarr", zarr_format=2)


def test_conversions_that_are_refused(tmp_path: Path) -> None:
    sea(tmp_path / "sea.zarr")
    with pytest.raises(InvalidInputError, match="draft of 2022"):
        frazil.convert(tmp_path / "sea.zarr", tmp_path / "new.zarr", zarr_format="draft")
    assert not (tmp_path / "new.zarr").exists()


def test_conversions_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sea(tmp_path / "two.zarr")
    assert main(["convert", str(tmp_path / "two.zarr"), str(tmp_path / "three.zarr")]) == 0
    assert "Zarr v2" in capsys.readouterr().out
    assert main(["convert", str(tmp_path / "three.zarr"), str(tmp_path / "back.zarr"), "--to", "2"]) == 0
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "back.zarr/a/x", zarr_format=2)[...], VALUES)


@pytest.mark.parametrize("place", ["folder", "repository"])
def test_exports(place: str, tmp_path: Path) -> None:
    values = np.array(["a", "bé"], np.dtypes.StringDType())
    if place == "repository":
        repo = frazil.Repository.create(tmp_path / "sea.repo", durable=False)
        with repo.transaction(message="x") as session:
            session.create_array("g/x", data=VALUES, chunks=(2, 2), shards=(4, 4))
            session.create_array("g/t", data=values)
        source = f"{tmp_path / 'sea.repo'}@main/g"
    else:
        root = frazil.create_group(tmp_path / "three.zarr")
        root.create_array("g/x", data=VALUES, chunks=(2, 2), shards=(4, 4))
        root.create_array("g/t", data=values)
        source = str(tmp_path / "three.zarr/g")
    assert main(["export", source, str(tmp_path / "two.zarr"), "--format", "zarr2"]) == 0
    group = frazil.open_group(tmp_path / "two.zarr", zarr_format=2)
    np.testing.assert_array_equal(group["x"][...], VALUES)  # type: ignore[index]
    np.testing.assert_array_equal(group["t"][...], values)  # type: ignore[index]
    with pytest.raises(InvalidInputError, match="always has all arrays"):
        frazil.export_file(source, tmp_path / "some.zarr", "zarr2", variables=["x"])
