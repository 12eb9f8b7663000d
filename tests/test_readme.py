"""The README is correct: its code runs, its commands and its links exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import netCDF4
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]


def write_ocean(path: Path) -> None:
    """The NetCDF file that the README reads."""
    with netCDF4.Dataset(path, "w") as file:
        for name, length in {"time": 12, "lat": 9, "lon": 18}.items():
            file.createDimension(name, length)
        file.createVariable("temp", "f4", ("time", "lat", "lon"))[...] = 1


def test_the_code_of_the_readme_runs(tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    assert code
    write_ocean(tmp_path / "ocean.nc")
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, check=True)


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"`make (\w+)`", README)
    assert {"demo", "test"} <= set(commands)
    assert [command for command in commands if not re.search(rf"^{command}:", makefile, re.MULTILINE)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_the_readme_have_targets(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []
