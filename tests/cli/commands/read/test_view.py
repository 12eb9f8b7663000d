"""`frazil view`: the pixels of its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import SEA
from tests.operations.pictures import decode_png, places, written

import frazil
from frazil.cli.main import main
from frazil.operations.view.colours import colour_table
from frazil.operations.view.picture import MISSING
from frazil.operations.view.text import text_coverage


def drawn(arguments: list[str], workdir: Path) -> np.ndarray:
    assert main(["view", *arguments, "-o", "out.png"]) == 0
    return decode_png((workdir / "out.png").read_bytes())


def test_a_picture_of_a_whole_array_has_its_values_and_a_frame(
    workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pixels = drawn(["sea.zarr", "--cmap", "grey", "--bare"], workdir)
    assert capfd.readouterr() == ("out.png: 700 x 600 values\n", "")
    levels = np.floor(SEA / SEA.max() * 255.999).astype(int)
    np.testing.assert_array_equal(pixels, colour_table("grey")[levels])
    framed = drawn(["sea.zarr", "--cmap", "grey"], workdir)
    ((top, left),) = places(framed, pixels)
    assert min(top, left) > 10
    assert places(framed, np.rot90(written(text_coverage("y", 9))))
    assert places(framed[top + 600 :], written(text_coverage("x", 9)))


def test_overview(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["sea.zarr", "--size", "70", "--cmap", "grey", "--min", "0", "--max", "5000", "--bare"]
    pixels = drawn(arguments, workdir)
    assert capfd.readouterr().out == "out.png: 70 x 60 values, each of 10 x 10 elements\n"
    means = SEA.reshape(60, 10, 70, 10).mean(axis=(1, 3))
    shown = pixels[4::8, 4::8, 0].astype(float)  # enlarged eight times
    expected = colour_table("grey")[np.floor(means / 5000 * 255.999).astype(int), 0].astype(float)
    np.testing.assert_array_equal(shown, expected)


def test_missing(workdir: Path) -> None:
    pixels = drawn(["ocean.zarr", "level1/temp", "1", "--bare"], workdir)
    assert (pixels[: 5 * 11] == MISSING).all()
    assert not (pixels[5 * 11 :] == MISSING).all(axis=2).any()
    pixels = drawn(["ocean.zarr", "level1/temp", "1", "--missing", "transparent", "--bare"], workdir)
    assert (pixels[: 5 * 11, :, 3] == 0).all()
    pixels = drawn(["sea.zarr", "--hide-fill", "--bare"], workdir)
    np.testing.assert_array_equal((pixels == MISSING).all(axis=2), SEA == 0)


def test_a_picture_is_written_to_standard_output(workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["view", "sea.zarr", "-o", "-", "--method", "nearest", "--bare"]) == 0
    assert decode_png(capfdbinary.readouterr().out).shape[0] == 600


def test_title_and_coordinates(workdir: Path) -> None:
    """Coordinates next to the array give the axes, and the position of the picture along the other dimensions; with --decoded times are dates."""
    group = frazil.create_group(workdir / "year.zarr")
    group.create_array(
        "lat", data=np.linspace(-89, 89, 90), dimension_names=("lat",), attributes={"units": "degrees_north"}
    )
    hours = {"units": "hours since 2020-01-30"}
    group.create_array("time", data=np.arange(520), dimension_names=("time",), attributes=hours)
    group.create_array("level", data=np.array([500, 850]), dimension_names=("level",), attributes={"units": "hPa"})
    values = np.add.outer(np.arange(90), np.arange(520)).astype("i2")
    attributes = {"long_name": "Temperature", "units": "K", "scale_factor": 0.5}
    group.create_array(
        "temp", data=np.stack([values, values]), dimension_names=("level", "lat", "time"), attributes=attributes
    )
    for decoded, times in ((["--decoded"], "2020-02-11"), ([], "400")):
        pixels = drawn(["year.zarr", "temp", "1", *decoded], workdir)
        bare = drawn(["year.zarr", "temp", "1", "--bare", *decoded], workdir)[::-1]  # north is at the top
        assert len(places(pixels, bare.repeat(2, axis=0))) == 1
        assert places(pixels, written(text_coverage("Temperature (K)", 12)))
        for text in ("level = 850 hPa", times, "60", "-60", "time" if decoded else "time (hours since 2020-01-30)"):
            assert places(pixels, written(text_coverage(text, 9))), text
        assert places(pixels, np.rot90(written(text_coverage("lat (degrees_north)", 9))))
    assert places(
        drawn(["year.zarr", "temp", "1", "--title", "The sea"], workdir), written(text_coverage("The sea", 12))
    )
    group.create_array("level", data=np.array(["low", "high"]), dimension_names=("level",), overwrite=True)
    assert places(drawn(["year.zarr", "temp", "1"], workdir), written(text_coverage("level = high", 9)))
    (workdir / "year.zarr" / "time" / "zarr.json").write_text("{")
    assert places(drawn(["year.zarr", "temp", "1"], workdir), written(text_coverage("time", 9)))


def test_codes(workdir: Path) -> None:
    """flag_values and flag_meanings make a legend of words; a pixel shows the middle one of its elements."""
    codes = (np.arange(900)[:, None] // 300 + np.arange(900) // 300) * 10
    attributes = {"flag_values": [0, 10, 20, 30, 40], "flag_meanings": "land open_sea lake river_mouth ice"}
    frazil.create_array(workdir / "codes.zarr", data=codes, attributes=attributes)
    pixels = drawn(["codes.zarr", "--size", "10", "--bare"], workdir)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) == 5
    pixels = drawn(["codes.zarr", "--size", "10"], workdir)
    for text in ("0  land", "30  river mouth"):
        assert places(pixels, written(text_coverage(text, 9)))
    assert main(["view", "sea.zarr", "-o", "none.png", "--cmap", "codes"]) == 1
    assert not (workdir / "none.png").exists()


def test_json_describes_the_picture(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "sea.zarr", "--size", "70", "-o", "out.png", "--json"]) == 0
    means = SEA.reshape(60, 10, 70, 10).mean(axis=(1, 3))
    assert json.loads(capfd.readouterr().out) == {
        "path": "out.png",
        "width": 70,
        "height": 60,
        "elements_per_value": [10, 10],
        "min": means.min(),
        "max": means.max(),
    }
    assert main(["view", "ocean.zarr", "level1/temp", "0, :5", "-o", "nan.PNG", "--json"]) == 0
    output = json.loads(capfd.readouterr().out)
    assert (output["width"], output["height"], output["min"], output["max"]) == (50, 5, None, None)
    assert (workdir / "nan.PNG").exists()


def test_meanings_of_values_that_are_no_codes(workdir: Path) -> None:
    """Attributes with flag_meanings do not prevent drawing an array of many values, of chosen limits or of an impossible flag."""
    attributes = {"flag_values": [0, 1], "flag_meanings": "land sea"}
    frazil.create_array(workdir / "many.zarr", data=np.arange(10_000.0).reshape(100, 100), attributes=attributes)
    assert drawn(["many.zarr"], workdir).size
    assert drawn(["many.zarr", "--min", "0"], workdir).size
    attributes["flag_values"] = [10**400, 1]
    frazil.create_array(workdir / "odd.zarr", data=np.eye(10), attributes=attributes)
    assert drawn(["odd.zarr"], workdir).size
