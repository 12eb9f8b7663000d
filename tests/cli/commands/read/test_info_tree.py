"""`frazil info` and `frazil tree`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import SEA

import frazil
from frazil.cli.main import main


def output_of(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    return capfd.readouterr().out


def test_info_of_an_array(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["info", "sea.zarr"], capfd)
    for words in ("600 x 700", "uint16", "64 x 64", "256 x 256", "Bytes", "y, x"):
        assert words in text
    document = json.loads(output_of(["info", "sea.zarr", "--json"], capfd))
    assert document["kind"] == "array"
    assert document["shape"] == [600, 700]
    assert document["nbytes"] == SEA.nbytes
    assert document["stored_nbytes"] == frazil.open_array("sea.zarr").nbytes_stored()


@pytest.mark.parametrize(
    "arguments", [["ocean.zarr", "level1/temp"], ["ocean.zarr/level1/temp"], ["ocean.zarr/level1", "temp"]]
)
def test_a_node_within(arguments: list[str], workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output_of(["info", *arguments, "--json"], capfd))
    assert document["shape"] == [3, 40, 50]
    assert document["fill_value"] == "NaN"


def test_info_of_a_group(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["info", "ocean.zarr"], capfd)
    for words in ("flat", "level1", "The sea"):
        assert words in text
    document = json.loads(output_of(["info", "ocean.zarr", "--json"], capfd))
    assert document == {
        "kind": "group",
        "path": "",
        "zarr_format": 3,
        "explicit": True,
        "arrays": ["flat"],
        "groups": ["level1"],
        "unreadable": [],
        "attributes": {"title": "The sea"},
    }


def unknown_extensions() -> None:
    """A draft hierarchy in which some arrays need an unknown extension."""
    root = frazil.create_group("new.zr3", zarr_format="draft")
    root.create_array("plain", shape=4, dtype="i4", chunks=2)
    store = root.store
    document = json.loads(store.get("meta/plain.array.json") or b"")
    entry = {"extension": "https://example.org/x", "type": "y"}
    changes: dict[str, dict[str, object]] = {
        "fallen": {"data_type": {**entry, "fallback": "int32"}},
        "gridded": {"chunk_grid": entry},
        "transformed": {"storage_transformers": [entry]},
    }
    for name, change in changes.items():
        store.set(f"meta/{name}.array.json", json.dumps({**document, **change}).encode())


def test_unreadable_nodes_are_reported(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unknown_extensions()
    assert main(["info", "new.zr3"]) == 0
    output, errors = capfd.readouterr()
    assert "fallen, plain, transformed" in output
    assert "gridded (tree says why)" in output
    assert errors.startswith('frazil: warning: the data type "y" of the extension')
    assert errors.count("\n") == 1
    assert json.loads(output_of(["info", "new.zr3", "--json"], capfd))["unreadable"] == ["gridded"]
    assert "gridded (unreadable: the chunk grid" in output_of(["tree", "new.zr3"], capfd)
    assert main(["get", "new.zr3", "fallen", ":"]) == 0
    output, errors = capfd.readouterr()
    assert output == "[0 0 0 0]\n"
    assert 'is read as its fallback "int32"' in errors
    for name in ("gridded", "transformed"):
        assert main(["info", "new.zr3", name]) == 1
        assert "with_" in capfd.readouterr().err


def test_tree(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["tree", "ocean.zarr"], capfd) == (
        "/\n├── flat (12,) int8\n└── level1/\n    └── temp (3, 40, 50) float32\n"
    )
    assert output_of(["tree", "ocean.zarr", "--depth", "1"], capfd) == "/\n├── flat (12,) int8\n└── level1/\n"
    assert output_of(["tree", "ocean.zarr", "--depth", "2"], capfd) == output_of(["tree", "ocean.zarr"], capfd)
    nodes = json.loads(output_of(["tree", "ocean.zarr", "--json"], capfd))
    assert list(nodes) == ["", "flat", "level1", "level1/temp"]
    assert nodes["level1/temp"] == {"kind": "array", "shape": [3, 40, 50], "data_type": "float32"}
    assert nodes[""] == nodes["level1"] == {"kind": "group"}


def test_tree_of_an_array(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["tree", "sea.zarr"], capfd) == "/ (600, 700) uint16\n"
    assert json.loads(output_of(["tree", "sea.zarr", "--json"], capfd)) == {
        "": {"kind": "array", "shape": [600, 700], "data_type": "uint16"}
    }


def test_line_breaks_in_tables_are_escaped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    attributes = {"title": "one\ntwo\x1b[31m", "na\rme": "é"}
    frazil.create_array(tmp_path / "a.zarr", data=[1, 2], attributes=attributes)
    frazil.create_group(tmp_path / "b.zarr", attributes=attributes)
    for name in ("a.zarr", "b.zarr"):
        lines = output_of(["info", str(tmp_path / name)], capfd).split("\n")
        assert [line.split("  ")[0].rstrip() for line in lines[-3:]] == ["attribute title", "attribute na\\rme", ""]
        assert lines[-3].endswith("  one\\ntwo\\x1b[31m")
        assert lines[-2].endswith("  é")
        assert json.loads(output_of(["info", str(tmp_path / name), "--json"], capfd))["attributes"] == attributes
