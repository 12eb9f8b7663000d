"""`frazil view`: the pixels of its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import SEA
from tests.operations.pictures import decode_png

from frazil.cli.main import main
from frazil.operations.view.colours import colour_table
from frazil.operations.view.picture import MISSING


def drawn(arguments: list[str], place: Path) -> np.ndarray:
    assert main(["view", *arguments, "-o", "out.png"]) == 0
    return decode_png((place / "out.png").read_bytes())


def test_whole(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pixels = drawn(["sea.zarr", "--cmap", "grey"], place)
    assert capfd.readouterr() == ("out.png: 700 x 600 values\n", "")
    assert pixels.shape[0] == 600
    levels = np.floor(SEA / SEA.max() * 255.999).astype(int)
    np.testing.assert_array_equal(pixels[:600, :700], colour_table("grey")[levels])


def test_overview(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pixels = drawn(["sea.zarr", "--size", "70", "--cmap", "grey", "--min", "0", "--max", "5000"], place)
    assert capfd.readouterr().out == "out.png: 70 x 60 values, each of 10 x 10 elements\n"
    means = SEA.reshape(60, 10, 70, 10).mean(axis=(1, 3))
    shown = pixels[3:420:7, 3:490:7, 0].astype(float)  # enlarged seven times
    expected = colour_table("grey")[np.floor(means / 5000 * 255.999).astype(int), 0].astype(float)
    np.testing.assert_array_equal(shown, expected)


def test_missing(place: Path) -> None:
    pixels = drawn(["ocean.zarr", "level1/temp", "1"], place)
    assert (pixels[:50, :500] == MISSING).all()
    assert not (pixels[50:, :500] == MISSING).all(axis=2).any()
    pixels = drawn(["ocean.zarr", "level1/temp", "1", "--missing", "transparent"], place)
    assert (pixels[:50, :500, 3] == 0).all()
    pixels = drawn(["sea.zarr", "--hide-fill"], place)
    np.testing.assert_array_equal((pixels[:600, :700] == MISSING).all(axis=2), SEA == 0)


def test_to_standard_output(place: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["view", "sea.zarr", "-o", "-", "--method", "nearest"]) == 0
    assert decode_png(capfdbinary.readouterr().out).shape[0] == 600


def test_as_json(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
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
    said = json.loads(capfd.readouterr().out)
    assert (said["width"], said["height"], said["min"], said["max"]) == (50, 5, None, None)
    assert (place / "nan.PNG").exists()
