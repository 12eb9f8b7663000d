"""Data outside of the project: files of other programs, and an environment with an old zarr-python. Tests skip if it is absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = "shared"


def data(name: str) -> Path:
    """A file of `shared/data`, which is next to the project or above it; FRAZIL_SHARED names the folder if it is elsewhere."""
    for folder in _folders():
        if (folder / "data" / name).is_file():
            return folder / "data" / name
    pytest.skip(f"{FOLDER}/data/{name} is not beside the project, nor where FRAZIL_SHARED says")


def defect(name: str) -> Path:
    """A file of `shared/defects`, the input of reproductions from external testing; found like those of `data`."""
    for folder in _folders():
        if (folder / "defects" / name).is_file():
            return folder / "defects" / name
    pytest.skip(f"{FOLDER}/defects/{name} is not beside the project, nor where FRAZIL_SHARED says")


def zarr2_python() -> Path:
    """The Python that has zarr-python 2.18."""
    for root in _roots():
        environment = root / ".venv-zarr2"
        if (environment / "ready").is_file():
            return environment / "bin" / "python"
    pytest.skip("zarr-python 2.18 is not here: `make .venv-zarr2/ready` makes its environment")


def _folders() -> Iterator[Path]:
    if "FRAZIL_SHARED" in os.environ:
        yield Path(os.environ["FRAZIL_SHARED"])
    for root in _roots():
        yield from (parent / FOLDER for parent in root.parents)


def _roots() -> Iterator[Path]:
    """The project, and the one of which it is a working tree."""
    yield ROOT
    link = ROOT / ".git"
    if link.is_file():
        yield Path(link.read_text().removeprefix("gitdir:").strip()).parent.parent.parent
