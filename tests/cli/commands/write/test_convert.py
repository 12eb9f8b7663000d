"""`frazil convert`: its output, and the result."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import TEMP

import frazil
from frazil.cli.main import main
from frazil.operations.convert.report import Conversion


def test_a_conversion_to_another_location_is_reported(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "old.zr3", "new.zarr"]) == 0
    output = capfd.readouterr()
    assert output.out.splitlines() == [
        f"converted {workdir / 'old.zr3'} from the older draft to Zarr v3, to {workdir / 'new.zarr'}",
        "  2 groups, 1 array, 3 documents",
        "  1 array: 36 objects, 28.6 KiB, bytes as they are",
    ]
    assert output.err == ""
    new = frazil.open_group("new.zarr")
    assert new.attrs["title"] == "The old sea"
    np.testing.assert_array_equal(new["level1/temp"][...], TEMP)
    assert main(["convert", "old.zr3", "new.zarr"]) == 1
    assert "something already exists" in capfd.readouterr().err
    assert main(["convert", "old.zr3", "new.zarr", "--to", "draft", "--overwrite"]) == 0
    assert frazil.open_group("new.zarr").metadata.zarr_format == "draft"


def test_dry_run_and_in_place(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.relative_to(workdir) for path in (workdir / "old.zr3").rglob("*"))
    assert main(["convert", "old.zr3", "--dry-run"]) == 0
    assert "would convert" in capfd.readouterr().out
    assert sorted(path.relative_to(workdir) for path in (workdir / "old.zr3").rglob("*")) == before
    assert main(["convert", "old.zr3"]) == 0
    assert "in place" in capfd.readouterr().out
    assert sorted(path.name for path in (workdir / "old.zr3").iterdir()) == ["level1", "zarr.json"]
    np.testing.assert_array_equal(frazil.open_array("old.zr3/level1/temp")[...], TEMP)
    assert main(["convert", "old.zr3"]) == 0, "nothing is left to do"
    assert capfd.readouterr().out == f"{workdir / 'old.zr3'} is of Zarr v3: nothing is to be done\n"


def test_json_describes_the_conversion(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "ocean.zarr", "ocean.zr3", "--to", "draft", "--recode", "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert {name for name in output if name not in ("arrays", "objects", "nbytes", "nbytes_recoded")} == {
        name for name in Conversion._fields if name != "arrays"
    }
    assert [(array["path"], array["way"]) for array in output["arrays"]] == [
        ("flat", "recoded"),
        ("level1/temp", "recoded"),
    ]
    assert output["nbytes"] == output["nbytes_recoded"] > 0


def test_everything_that_is_refused_in_one_line(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "sea.zarr", "new.zr3", "--to", "draft"]) == 1
    output = capfd.readouterr().err
    assert output.count("\n") == 1
    assert "dimension_names" in output
    assert main(["convert", "ocean.zarr", "new.zr3", "--to", "draft"]) == 1
    output = capfd.readouterr().err
    assert output.count("\n") == 1
    assert "/flat codecs[1]" in output
    assert "/level1/temp codecs[1]" in output
    assert not (workdir / "new.zr3").exists()


def test_wrong_usage(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "old.zr3", "--overwrite"]) == 2
    assert main(["convert", "old.zr3", "--to", "4"]) == 2
    assert main(["convert", "nothing.zr3", "new"]) == 1
    assert "there is no array or group" in capfd.readouterr().err
    assert not (workdir / "new").exists()
