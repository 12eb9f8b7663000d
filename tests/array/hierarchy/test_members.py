"""Members of a group in a folder, in which other things lie beside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import frazil


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_links_pipes_and_folders_without_a_document_are_no_members(tmp_path: Path, zarr_format: int) -> None:
    group = frazil.create_group(tmp_path / "sea.zarr", zarr_format=zarr_format)
    group.create_array("heat", shape=3, chunks=3, dtype="i4")
    group.create_group("north/salt")
    folder = tmp_path / "sea.zarr"
    for name, target in (("link", folder / "heat"), ("dangling", "nowhere"), ("loop", "loop")):
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    (folder / "empty").mkdir()
    (folder / "other").mkdir()
    (folder / "other" / "notes.txt").write_text("no document")
    assert list(frazil.open(folder)) == ["heat", "north"]
    assert [path for path, _ in frazil.open(folder).members(None)] == ["heat", "north", "north/salt"]
