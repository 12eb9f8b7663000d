"""README.md and the pages of docs/ are correct: Python blocks and the notebook run, commands exist, the page on the command line is up to date."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import subprocess
import sys
from argparse import _SubParsersAction
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil.cli.main import build_parser, main
from tests.servers.buckets import S3
from tests.test_readme import write_ocean

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
REPOSITORIES = (ROOT / "docs" / "repositories.md").read_text()


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def test_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    write_ocean(tmp_path / "ocean.nc")
    assert blocks("python")
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert isinstance(frazil.open("sea.zarr"), frazil.Array)


def test_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    test_python_blocks_run(tmp_path, monkeypatch)
    sessions = [part for block in blocks("console") for part in block.split("$ ")[1:]]
    assert any(" view " in session for session in sessions)
    for session in sessions:
        line, shown = session.split("\n", 1)
        program, *arguments = shlex.split(line)
        assert program == "frazil"
        assert main(arguments) == 0
        output = capfd.readouterr()
        assert output.err == ""
        assert output.out == shown


def test_bucket_examples_of_repositories_run(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    s3._make("public-data")
    names: dict[str, object] = {"__name__": "repositories"}
    exec(compile("".join(blocks("python s3", REPOSITORIES)), "repositories.md", "exec"), names)
    assert isinstance(names["session"], frazil.Session)


def test_the_page_on_object_stores_runs(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    page = "".join(blocks("python s3", (ROOT / "docs" / "object-stores.md").read_text()))
    names: dict[str, object] = {"__name__": "object_stores", "bucket": s3.new_bucket()}
    exec(compile(page, "object-stores.md", "exec"), names)
    assert isinstance(names["repo"], frazil.Repository)


def test_the_page_on_repositories_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "repositories"}
    exec(compile("".join(blocks("python", REPOSITORIES)), "repositories.md", "exec"), names)
    assert "~ /temp  240 chunks written" in capfd.readouterr().out
    for line in blocks("sh", REPOSITORIES)[0].splitlines():
        program, *arguments = shlex.split(line.split("  #")[0])
        assert program == "frazil"
        assert main(arguments) == (1 if "init" in arguments else 0)  # if one already exists


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of a cluster that is shut down
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_page_on_dask_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "".join(blocks("python", (ROOT / "docs" / "dask.md").read_text()))
    assert page.count("(512, 512, 512)") == 1  # 1 % of it suffices here
    exec(compile(page.replace("(512, 512, 512)", "(150, 100, 90)"), "dask.md", "exec"), {"__name__": "dask_page"})
    repo = frazil.Repository.open("sea.repo")
    assert [commit.message for commit in repo.history()][:2] == ["computed later", "a corner"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning:xarray")
def test_the_page_on_xarray_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "".join(blocks("python", (ROOT / "docs" / "xarray.md").read_text()))
    exec(compile(page, "xarray.md", "exec"), {"__name__": "xarray_page"})
    repo = frazil.Repository.open("sea.repo")
    assert next(iter(repo.history())).message == "twice as much"


@pytest.mark.filterwarnings("ignore::RuntimeWarning:xarray")
def test_the_four_programs_of_the_page_on_xarray_run(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that starts a cluster in its own process."""
    times = np.arange("2026-01-01", "2026-01-25", dtype="datetime64[D]").astype("datetime64[ns]")
    values = np.random.default_rng(1).uniform(0, 30, (2, 24, 40, 50))
    ocean = xr.Dataset(
        {"temp": (("time", "y", "x"), values[0]), "salt": (("time", "y", "x"), values[1] + 20)}, {"time": times}
    )
    ocean.to_netcdf(tmp_path / "ocean.nc")
    monkeypatch.chdir(tmp_path)
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    location = f"s3://{s3.new_bucket()}/"
    programs = blocks("python s3", (ROOT / "docs" / "xarray.md").read_text())
    assert len(programs) == 4
    for number, program in enumerate(programs):
        text = program.replace("s3://bucket/", location)
        if "LocalCluster" in text:
            (tmp_path / "program.py").write_text(text)
            done = subprocess.run([sys.executable, "program.py"], check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        else:
            exec(compile(text, f"program {number}", "exec"), {"__name__": "__main__"})
    assert "in kelvin" in capsys.readouterr().out


def test_the_page_on_zip_archives_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "".join(blocks("python", (ROOT / "docs" / "zip.md").read_text()))
    exec(compile(page.replace("(16, 720, 1440)", "(1, 720, 1440)"), "zip.md", "exec"), {"__name__": "zip_page"})
    assert len(frazil.open_group("many.zarr.zip")) == 20


def test_the_page_on_import_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = "".join(blocks("python", (ROOT / "docs" / "import.md").read_text()))
    exec(compile(page, "import.md", "exec"), {"__name__": "import_page"})
    assert "a map reads" in capfd.readouterr().out


def test_the_page_on_zarr_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "".join(blocks("python", (ROOT / "docs" / "zarr-python.md").read_text()))
    with zarr.config.set(
        {"codec_pipeline.path": zarr.config.get("codec_pipeline.path")}
    ):  # settings of the page end with it
        exec(compile(page, "zarr-python.md", "exec"), {"__name__": "zarr_page"})
    repo = frazil.Repository.open("sea.repo")
    assert [commit.message for commit in repo.history()][:2] == ["one day more", "the first day"]


def test_the_page_on_testing_runs(capfd: pytest.CaptureFixture[str]) -> None:
    page = "".join(blocks("python", (ROOT / "docs" / "testing.md").read_text()))
    exec(compile(page, "testing.md", "exec"), {"__name__": "testing_page"})
    assert " commits in " in capfd.readouterr().out


@pytest.mark.parametrize(
    "name",
    ["caches", "checksums", "drafts", "errors", "extending", "limits", "maintenance", "serving", "sharding", "zarr-v2"],
)
def test_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = "".join(blocks("python", (ROOT / "docs" / f"{name}.md").read_text()))
    assert page
    exec(compile(page, f"{name}.md", "exec"), {"__name__": name})
    if name == "sharding":
        for line in blocks("sh", (ROOT / "docs" / "sharding.md").read_text())[0].splitlines():
            assert main(shlex.split(line)[1:]) == 0


def test_every_page_with_python_is_run() -> None:
    """A new page is added to a test here: each of its blocks is in one of these languages."""
    here = Path(__file__).read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        languages = set(re.findall(r"^```([a-z][^\n]*)$", page.read_text(), re.MULTILINE))
        assert languages <= {"python", "python s3", "python definition", "python plain", "sh", "text", "console"}, page
        if languages & {"python", "python s3"}:
            assert f'"{page.stem}"' in here or f'"{page.name}"' in here, page


PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "cli")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_are_there(page: Path) -> None:
    """Lines of blocks are parsed. Commands within text may lack arguments: their names and options are compared."""
    text = page.read_text()
    for block in blocks("sh", text):
        for line in block.splitlines():
            if line.startswith("frazil "):
                build_parser().parse_args(shlex.split(line, comments=True)[1:])
    for line in re.findall(r"`frazil ([a-z][^`\n]*)`", text):
        words = shlex.split(line)
        known = _options(words)
        assert all(word.split("=")[0] in known for word in words if word.startswith("--")), line


def _options(words: list[str]) -> set[str]:
    """The options of the command at the start of these words."""
    parser = build_parser()
    for word in words:
        commands = next((action for action in parser._actions if isinstance(action, _SubParsersAction)), None)
        if commands is None:
            break
        assert word in commands.choices, words
        parser = commands.choices[word]
    return {option for action in parser._actions for option in action.option_strings}


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs" / "tour.ipynb").read_text())
    names: dict[str, object] = {"__name__": "tour"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs are not kept"
            exec(compile("".join(cell["source"]), f"tour.ipynb, cell {cell['id']}", "exec"), names)
    assert next(commit.message for commit in names["repo"].history()) == "one map line"  # type: ignore[attr-defined]


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    for name in frazil.__all__:
        value = getattr(frazil, name)
        if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)) and name != "Registry":
            assert f" frazil.{name}\n" in page
    for kind in (frazil.Array, frazil.Group, frazil.Repository, frazil.Session):
        for name in (name for name in dir(kind) if not name.startswith("_")):
            assert inspect.getdoc(getattr(kind, name)), f"{kind.__name__}.{name} has no docstring"


def test_links_of_the_docs_have_targets() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\((?!\w+://)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_of_the_command_line_is_up_to_date() -> None:
    written = subprocess.run(
        [sys.executable, ROOT / "tools" / "cli_page.py"], capture_output=True, text=True, check=True
    )
    assert written.stdout == (ROOT / "docs" / "cli.md").read_text(), (
        "write it anew: python tools/cli_page.py >docs/cli.md"
    )
