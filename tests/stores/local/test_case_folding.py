"""case_folding.py: how a disk that folds case is recognized, and which keys collide on it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frazil.stores.local.case_folding import find_clash, folds_by_path, folds_by_probe, folds_visibly


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    folder = os.open(tmp_path, os.O_RDONLY)
    yield folder
    os.close(folder)


def test_folding_is_detected_from_existing_names(root: int, tmp_path: Path) -> None:
    assert folds_visibly(root) is None
    (tmp_path / "0").write_bytes(b"")
    assert folds_visibly(root) is None, "a digit has no case"
    (tmp_path / "0").unlink()
    (tmp_path / "abc").write_bytes(b"")
    assert folds_visibly(root) is False
    (tmp_path / "ABC").write_bytes(b"")
    assert folds_visibly(root) is False, "another file"
    (tmp_path / "ABC").unlink()
    (tmp_path / "ABC").hardlink_to(tmp_path / "abc")
    assert folds_visibly(root) is True
    assert folds_by_path(str(tmp_path / "abc")) is True
    assert folds_by_path(str(tmp_path / "abc/0/1")) is True
    assert folds_by_path("/0/1/2") is False


def test_a_name_that_cannot_be_looked_at_proves_nothing(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "abc").write_bytes(b"")
    look = os.stat

    def fails(path: str, **options: Any) -> os.stat_result:
        if path == "ABC":
            raise OSError(errno.EIO, "injected")
        return look(path, **options)

    monkeypatch.setattr(os, "stat", fails)
    assert folds_visibly(root) is None


def test_the_probe_leaves_nothing(root: int, tmp_path: Path) -> None:
    assert folds_by_probe(root) is False
    assert list(tmp_path.iterdir()) == []


def test_names_that_differ_in_case_clash(root: int, tmp_path: Path) -> None:
    (tmp_path / "Sea/level").mkdir(parents=True)
    (tmp_path / "Sea/level/zarr.json").write_bytes(b"")
    assert find_clash(root, ["Sea/level/zarr.json", "Sea/new/c/0/1", "other/Sea", "0/1"]) is None
    assert find_clash(root, ["ok", "sea/level"]) == ("sea/level", "Sea")
    assert find_clash(root, ["Sea/level/ZARR.json"]) == ("Sea/level/ZARR.json", "Sea/level/zarr.json")
    assert find_clash(root, ["new/a/b", "new/A/c"]) == ("new/A/c", "new/a")
    assert find_clash(root, ["straße", "STRASSE"]) == ("STRASSE", "straße")
