"""`frazil import`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
from tests.cli.conftest import TEMP, write_netcdf

import frazil
from frazil.cli.main import main


def temp(
    location: str, path: str = "level1/temp", **options: object
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    repo = frazil.Repository.open(location, **options)  # type: ignore[arg-type]
    return np.asarray(repo.readonly_session().root[path][...])


@pytest.mark.parametrize("flag", [None, "--virtual", "--adopt"])
def test_a_file_into_a_new_repository(flag: str | None, workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "ocean.nc", "new.repo", *([flag] if flag else [])]) == 0
    output = capfd.readouterr()
    repo = frazil.Repository.open("new.repo")
    assert output == (f"{repo.lookup('main')}  2 arrays\n", "")
    assert next(iter(repo.history())).message == "Import ocean.nc"
    prefix = Path(os.path.realpath("ocean.nc")).parent.as_uri() + "/"
    assert np.array_equal(temp("new.repo", virtual_prefixes=[prefix] if flag == "--virtual" else []), TEMP)
    chunks = [path.read_bytes() for path in Path("new.repo/chunks").glob("*")]
    assert (Path("ocean.nc").read_bytes() in chunks) == (flag == "--adopt")
    if flag == "--virtual":
        assert main(["get", "new.repo", "flat", "3:5", "--virtual-prefix", prefix]) == 0
        assert capfd.readouterr().out == "[3 4]\n"


def test_a_branch_and_a_group(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = frazil.Repository.open("sea.repo").lookup_branch("main")
    arguments = ["import", "ocean.nc", "sea.repo@dev", "--path", "from/file", "-m", "the file", "--json"]
    assert main(arguments) == 0
    document = json.loads(capfd.readouterr().out)
    repo = frazil.Repository.open("sea.repo")
    assert document == {
        "snapshot": repo.lookup_branch("dev"),
        "branch": "dev",
        "arrays": ["from/file/flat", "from/file/level1/temp"],
        "skipped": [],
    }
    assert repo.lookup_branch("main") == before
    assert next(iter(repo.history("dev"))).message == "the file"


def test_several_files(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_netcdf(workdir / "classic.nc", "NETCDF3_CLASSIC")
    (workdir / "notes.txt").write_text("no such file")
    for bad in ("notes.txt", "missing.nc"):
        assert main(["import", "ocean.nc", bad, "classic.nc", "new.repo", "--path", "all"]) == 1
        assert bad in capfd.readouterr().err
        assert not Path("new.repo").exists()
    assert main(["import", "ocean.nc", "classic.nc", "new.repo", "--path", "all"]) == 0
    assert capfd.readouterr().out.endswith("  4 arrays\n")
    assert np.array_equal(temp("new.repo", "all/ocean/level1/temp"), TEMP)
    assert np.array_equal(temp("new.repo", "all/classic/temp"), TEMP)
    assert len(list(frazil.Repository.open("new.repo").history())) == 2


@pytest.mark.parametrize("flag", [None, "--virtual", "--adopt"])
def test_a_variable_that_cannot_be_imported(flag: str | None, workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = [flag] if flag else []
    with h5py.File(workdir / "text.nc", "w") as file:
        file.create_dataset("words", (3,), h5py.vlen_dtype("i4"))
        for name in ("good", "other"):
            file[name] = np.ones(3, "i4")
    assert main(["import", "text.nc", "new.repo", *flags]) == 1
    output = capfd.readouterr()
    assert output.out == ""
    assert "/words: " in output.err and "--skip words" in output.err
    assert not (workdir / "new.repo").exists()
    assert main(["import", "text.nc", "new.repo", *flags, "--skip", "wrods"]) == 2
    assert "--skip wrods" in capfd.readouterr().err
    assert main(["import", "text.nc", "new.repo", *flags, "--skip", "words", "--skip", "oth*", "--json"]) == 0
    output = capfd.readouterr()
    document = json.loads(output.out)
    assert document["arrays"] == ["good"]
    assert [(part["file"], part["path"], part["attribute"]) for part in document["skipped"]] == [
        ("text.nc", "words", None),
        ("text.nc", "other", None),
    ]
    assert output.err == ""
    assert main(["import", "text.nc", "new2.repo", *flags, "--skip", "*"]) == 1
    assert "frazil: nothing could be imported: there is no array (key 'text.nc')" in capfd.readouterr().err
    assert not (workdir / "new2.repo").exists()


def test_a_dropped_attribute_is_reported(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with netCDF4.Dataset(workdir / "odd.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("n", 3)
        file.createVariable("a", "i2", ("n",)).setncattr("_Fillvalue", float("nan"))
    Path("odd.nc").write_bytes(Path("odd.nc").read_bytes().replace(b"_Fillvalue", b"_FillValue"))
    assert main(["import", "odd.nc", "new.repo"]) == 0
    assert "skipped: odd.nc: /a: attribute _FillValue: " in capfd.readouterr().err


def test_existing_destinations_are_refused(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tip = frazil.Repository.open("sea.repo").lookup_branch("main")
    assert main(["import", "ocean.nc", "sea.repo", "--adopt"]) == 1
    assert "choose another group with --path" in capfd.readouterr().err
    assert frazil.Repository.open("sea.repo").lookup_branch("main") == tip


def test_repositories_inside_repositories_are_refused(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "ocean.nc", "sea.repo/basin", "--adopt"]) == 1
    assert "with the group basin as its path" in capfd.readouterr().err
    assert not Path("sea.repo/basin").exists()


def test_a_plain_store_with_its_layout_explained(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "ocean.nc", "new.zarr", "--dry-run"]) == 0
    output = capfd.readouterr()
    assert "level1/temp (3 x 40 x 50 float32): chunks 3 x 40 x 50" in output.out and output.err == ""
    assert not Path("new.zarr").exists()
    arguments = [
        "import",
        "ocean.nc",
        "new.zarr",
        "--variables",
        "level1/*",
        "--chunks",
        "t=1,x=25",
        "--shards",
        "3,40,50",
    ]
    assert main([*arguments, "--codecs", "zstd", "--explain", "--memory", "64MiB"]) == 0
    output = capfd.readouterr()
    assert output.out == "1 array\n"
    assert "chunks 1 x 40 x 25" in output.err and "as requested" in output.err
    temp = frazil.open_array("new.zarr/level1/temp")
    assert (temp.chunks, temp.shards) == ((1, 40, 25), (3, 40, 50))
    assert np.array_equal(temp[...], TEMP)
    assert main(["import", "ocean.nc", "new.zarr", "--variables", "flat", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"snapshot": None, "branch": None, "arrays": ["flat"], "skipped": [
        {"file": "ocean.nc", "path": "level1/temp", "attribute": None, "reason": "it was not requested"}
    ]}  # fmt: skip
    assert main(["import", "ocean.nc", "new.zarr", "--variables", "salt"]) == 2
    for bad in (["--chunks", "t=0"], ["--chunks", "big"], ["--shards", "t"], ["--memory", "much"]):
        assert main(["import", "ocean.nc", "new.zarr", *bad]) == 2


def test_values_that_references_name_are_copied_from_prefixes(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    values = np.arange(24, dtype="<f8")
    (workdir / "raw.bin").write_bytes(b"head" + values.tobytes())
    prefix = Path(os.path.realpath(workdir)).as_uri() + "/"
    array = {"zarr_format": 2, "shape": [24], "chunks": [24], "dtype": "<f8", "order": "C", "compressor": None}
    parts = {
        "t/.zarray": json.dumps({**array, "filters": None, "fill_value": None}),
        "t/0": [f"{prefix}raw.bin", 4, 192],
    }
    (workdir / "refs.json").write_text(json.dumps({"version": 1, "refs": {".zgroup": '{"zarr_format":2}', **parts}}))
    for given in ([], ["--virtual-prefix", "file:///elsewhere/"]):
        assert main(["import", "refs.json", "new.zarr", "--copy", *given]) == 1
        assert "--virtual-prefix" in capfd.readouterr().err
    assert main(["import", "refs.json", "new.zarr", "--copy", "--virtual-prefix", prefix]) == 0
    assert np.array_equal(frazil.load("new.zarr")["t"], values)
    np.save(workdir / "own.npy", values)
    assert main(["import", "own.npy", "own.zarr", "--virtual-prefix", "file:///elsewhere/"]) == 0
    assert np.array_equal(next(iter(frazil.load("own.zarr").values())), values)


def test_a_dimension_of_one_of_several_files(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with h5py.File("other.h5", "w") as made:
        made["a"] = np.zeros(4)
        made["a"].dims[0].label = "depth"
    files = ["import", "ocean.nc", "other.h5", "both.repo", "--dry-run", "--chunks"]
    assert main([*files, "depth=2"]) == 0
    assert main([*files, "deep=2"]) == 1
    assert "depth" in capfd.readouterr().err
