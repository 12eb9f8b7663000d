"""`frazil get --decoded` and `frazil view --decoded`, compared with xarray's decoding of the same arrays."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.operations.pictures import decode_png

import frazil
from frazil.cli.main import main
from frazil.errors import MetadataError
from frazil.integrations.xarray.decoded_array import DecodedArray
from frazil.operations.window import window

HEIGHT = np.arange(-6, 24, dtype=np.int16).reshape(5, 6)


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> frazil.Group:
    """height: scaled, with two kinds of missing values; day: dates; noleap: dates of another calendar; plain: without attributes, and without names of
    dimensions."""
    group = frazil.create_group(tmp_path / "sea.zarr")
    scaled = {"scale_factor": 0.5, "add_offset": 100.0, "_FillValue": -1, "missing_value": -1}
    group.create_array("height", data=HEIGHT, chunks=(2, 3), attributes=scaled, dimension_names=("y", "x"))
    for name, calendar in (("day", "standard"), ("noleap", "noleap")):
        attributes = {"units": "days since 2000-02-27", "calendar": calendar}
        group.create_array(
            name, data=np.arange(5, dtype="int32"), chunks=(2,), attributes=attributes, dimension_names=("y",)
        )
    group.create_array("plain", data=HEIGHT)
    monkeypatch.chdir(tmp_path)
    return group


def npy(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> np.ndarray:
    assert main(["get", "sea.zarr", *arguments, "--decoded", "--format", "npy"]) == 0
    return np.load(io.BytesIO(capfdbinary.readouterr().out))


@pytest.mark.usefixtures("group")
def test_decoded_values_equal_those_of_xarray(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    dataset = xarray.open_dataset("sea.zarr", engine="frazil", drop_variables="plain")
    for name in ("height", "day"):
        read, expected = npy(capfdbinary, name), dataset[name].values
        assert read.dtype == expected.dtype
        np.testing.assert_array_equal(read, expected)
    np.testing.assert_array_equal(
        npy(capfdbinary, "height", "3:0:-1, [5, 0]"), dataset["height"].values[3:0:-1, [5, 0]]
    )
    np.testing.assert_array_equal(npy(capfdbinary, "height", "0, -1"), np.nan)
    np.testing.assert_array_equal(npy(capfdbinary, "plain"), HEIGHT)


@pytest.mark.usefixtures("group")
def test_times_as_text(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "sea.zarr", "day", "1:4", "--decoded", "--format", "csv"]) == 0
    days = [line[:10] for line in capfd.readouterr().out.split()]
    assert days == ["2000-02-28", "2000-02-29", "2000-03-01"]
    assert main(["get", "sea.zarr", "noleap", "1:3", "--decoded", "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert output == {"shape": [2], "data_type": "<U32", "values": ["2000-02-28T00:00:00", "2000-03-01T00:00:00"]}


@pytest.mark.usefixtures("group")
def test_view(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "sea.zarr", "height", "--decoded", "--bare", "--json", "-o", "out.png"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert (output["min"], output["max"]) == (97.0, 111.5)
    pixels = decode_png((tmp_path / "out.png").read_bytes())
    assert (pixels[0, 5 * 85 + 40] == 190).all()  # -1, the last of the first row, is missing
    assert main(["view", "sea.zarr", "height", "--decoded", "--size", "3", "--json", "-o", "out.png"]) == 0
    output = json.loads(capfd.readouterr().out)
    means = [np.nanmean(np.where(square == -1, np.nan, square)) for square in (HEIGHT[:2, :2], HEIGHT[4:, 4:])]
    assert [output["min"], output["max"]] == [mean * 0.5 + 100 for mean in means]


@pytest.mark.usefixtures("group")
def test_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "sea.zarr", "height", "--decoded", "--hide-fill", "-o", "out.png"]) == 2
    assert "--hide-fill" in capfd.readouterr().err


@pytest.mark.usefixtures("group")
def test_decoding_without_xarray_names_the_extra() -> None:
    program = "import sys; sys.modules['xarray'] = None; from frazil.cli.main import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "get", "sea.zarr", "height", "--decoded"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "frazil[xarray]" in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_attributes(group: frazil.Group) -> None:
    array = group.create_array(
        "bad", data=np.arange(3), attributes={"units": "days since the flood"}, dimension_names=("x",)
    )
    with pytest.raises(MetadataError, match="decoded"):
        DecodedArray(array)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.tuples(st.slices(5), st.slices(6)), st.integers(16, 200))
def test_pieces_are_the_whole(group: frazil.Group, selection: tuple[slice, slice], max_bytes: int) -> None:
    array = group["height"]
    assert isinstance(array, frazil.Array)
    part = window(array, selection)._replace(source=DecodedArray(array))
    expected = np.where(HEIGHT == -1, np.nan, HEIGHT * 0.5 + 100)[selection]
    np.testing.assert_array_equal(part.read(), expected)
    read = [piece.read().reshape(-1) for piece in part.pieces(max_bytes)]
    np.testing.assert_array_equal(np.concatenate([*read, []]), expected.reshape(-1))
