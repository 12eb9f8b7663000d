"""`frazil checksum`: lines for arrays in every kind of location."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import SEA, TEMP
from tests.operations.test_checksum import by_definition
from tests.servers.buckets import S3
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main

OF_SEA, OF_TEMP = by_definition(SEA), by_definition(TEMP)


def output_of(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out


def test_an_array_a_group_and_for_programs(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["checksum", "sea.zarr"], capfd) == f"{OF_SEA}  .\n"
    flat, temp = output_of(["checksum", "ocean.zarr"], capfd).splitlines()
    assert (flat[64:], temp[64:]) == ("  flat", "  level1/temp")
    assert json.loads(output_of(["checksum", "ocean.zarr", "--json"], capfd)) == {
        "flat": flat[:64],
        "level1/temp": temp[:64],
    }
    assert output_of(["checksum", "ocean.zarr", "level1/temp"], capfd) == f"{temp[:64]}  .\n"


def test_the_checksum_does_not_depend_on_the_location_or_dialect(
    workdir: Path, s3: S3, web_server: WebServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert output_of(["checksum", "sea.repo@v1"], capfd) == f"{OF_TEMP}  level1/temp\n"
    assert output_of(["checksum", "old.zr3", "level1/temp"], capfd) == f"{OF_TEMP}  .\n"
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    frazil.copy("sea.zarr", f"s3://{bucket}/sea.zarr")
    assert output_of(["checksum", f"s3://{bucket}/sea.zarr"], capfd) == f"{OF_SEA}  .\n"
    with web_server(workdir) as url:
        assert output_of(["checksum", f"{url}/sea.zarr"], capfd) == f"{OF_SEA}  .\n"


def test_a_damaged_chunk_is_an_error(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (workdir / "ocean.zarr" / "flat" / "c" / "0").write_bytes(b"nonsense")
    assert main(["checksum", "ocean.zarr"]) == 1
    assert "flat" in capfd.readouterr().err


def test_control_characters_in_a_name_are_escaped(workdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    group = frazil.create_group("odd.zarr")
    group.create_array("a\x1b[31m\nb", data=SEA)
    assert output_of(["checksum", "odd.zarr"], capfd) == f"{OF_SEA}  a\\x1b[31m\\nb\n"
