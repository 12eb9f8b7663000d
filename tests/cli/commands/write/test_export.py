"""`frazil export`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import TEMP

import frazil
from frazil.cli.main import main


def test_a_group_and_an_array(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "ocean.nc", "new.repo"]) == 0
    capfd.readouterr()
    assert main(["export", "new.repo@main", "all.nc"]) == 0
    assert capfd.readouterr().out.startswith("all.nc: netcdf4, 2 arrays, ")
    assert main(["import", "all.nc", "again.zarr"]) == 0
    assert np.array_equal(frazil.open_array("again.zarr/level1/temp")[...], TEMP)
    capfd.readouterr()
    assert main(["export", "new.repo/level1/temp", "temp.npy", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document == {"path": "temp.npy", "format": "npy", "arrays": ["temp"], "nbytes": TEMP.nbytes}
    assert np.array_equal(np.load("temp.npy"), TEMP)
    assert main(["export", "new.repo/level1/temp", "temp.npy"]) == 1
    assert "the file already exists" in capfd.readouterr().err
    assert main(["export", "new.repo@main", "plain.zarr", "--memory", "1MiB"]) == 0
    assert np.array_equal(frazil.open_array("plain.zarr/level1/temp")[...], TEMP)
