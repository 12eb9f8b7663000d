"""`frazil repo stats`, `frazil repo show` and `frazil repo du`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main


def filled_repository(folder: Path) -> str:
    location = str(folder / "sea.repo")
    repo = frazil.Repository.create(location, chunk_packing="off")
    with repo.transaction(message="first") as root:
        root.create_array("g/a", shape=(4, 256), chunks=(1, 256), dtype="f8", codecs=[])[:] = 1
    return location


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["repo", *arguments]) == 0
    return capsys.readouterr().out


def test_inspections_print_tables_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = filled_repository(tmp_path)
    repo = frazil.Repository.open(location)
    assert "8,192" in output_of(capsys, "stats", location)
    assert json.loads(output_of(capsys, "stats", location, "--json", "--largest", "1"))["live"]["chunks"] == {
        "objects": 4,
        "nbytes": 8192,
    }
    assert output_of(capsys, "show", location).startswith(f"commit {repo.lookup('main')} (branch main)\n")
    assert json.loads(output_of(capsys, "show", location, "main", "--json"))["message"] == "first"
    assert output_of(capsys, "du", location).splitlines()[-1].split() == ["8,192", "8,192", "0", "4", "/g/a"]
    assert [one["path"] for one in json.loads(output_of(capsys, "du", location, "g", "--at", "main", "--json"))] == [
        "/g",
        "/g/a",
    ]
    assert main(["repo", "show", location, "nothing"]) != 0


def test_a_commit_on_a_web_server_is_shown_with_the_names_that_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], web_server: WebServer
) -> None:
    location = filled_repository(tmp_path)
    repo = frazil.Repository.open(location)
    repo.create_tag("v1", "main")
    repo.create_branch("dev", "main")
    with web_server(tmp_path) as url:
        for name, refs in (("v1", "main, tag v1"), ("dev", "dev, branch main"), (repo.lookup("v1"), "main")):
            shown = output_of(capsys, "show", f"{url}/sea.repo", name)
            assert shown.splitlines()[0] == f"commit {repo.lookup('v1')} (branch {refs})"
            assert shown.splitlines()[1:] == output_of(capsys, "show", location, name).splitlines()[1:]
        assert main(["repo", "show", f"{url}/sea.repo", next(Path(location, "chunks").iterdir()).name]) == 1
        assert "which web servers do not give" in capsys.readouterr().err
