"""Repositories on a disk that somebody damaged by hand: links and folders in the place of files, damaged lists of collections."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.repository.maintenance.garbage import fill, orphan, values

import frazil
from frazil.errors import FormatError


def filled(place: Path) -> frazil.Repository:
    repo = frazil.Repository.create(place, chunk_packing="off", durable=False, attributes_file_bytes=10)
    fill(repo, 3)
    with repo.transaction(message="attributes") as root:
        root["a"].attrs["long"] = "x" * 100
    return repo


def newest(place: Path, kind: str) -> Path:
    return max((place / kind).iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("kind", ["snapshots", "manifests", "attributes", "chunks"])
@pytest.mark.parametrize("instead", ["link", "dangling link", "folder"])
def test_something_else_in_the_place_of_a_file(tmp_path: Path, kind: str, instead: str) -> None:
    """It is a problem of its own, not an error that ends verification and repair; and nobody follows links."""
    place = tmp_path / "r"
    repo = filled(place)
    path = newest(place, kind)
    path.rename(tmp_path / "kept")
    if instead == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / ("kept" if instead == "link" else "nothing"))
    repo = frazil.Repository.open(place)
    found = repo.verify()
    assert found.problems
    assert {problem.key for problem in found.problems} & {f"{kind}/{path.name}", None} or kind == "chunks"
    if kind in ("snapshots", "manifests"):  # which collections read
        with pytest.raises(FormatError) as caught:
            repo.garbage_collect(now=True)
        assert caught.value.hint
    repo.repair(older=True, accept_loss=True, tips=True, history=True)
    assert repo.verify(decode=True, history=False).ok
    assert path.is_symlink() or path.is_dir()


def test_a_link_in_the_place_of_the_first_snapshot(tmp_path: Path) -> None:
    """Whose id is asked for before it is read."""
    repo = filled(tmp_path / "r")
    first = list(repo.history())[-1].id
    path = tmp_path / "r" / "snapshots" / first
    path.unlink()
    path.symlink_to(tmp_path / "nothing")
    assert f"snapshots/{first}" in {problem.key for problem in frazil.Repository.open(tmp_path / "r").verify().problems}
    assert frazil.Repository.open(tmp_path / "r").repair(history=True).ok


def test_hints_of_collections(tmp_path: Path) -> None:
    """A list that is damaged says how to go on: it is removed, and what it named is condemned anew."""
    repo = filled(tmp_path / "r")
    orphan(repo)
    repo.garbage_collect()
    path = newest(tmp_path / "r", "gc/condemned")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FormatError) as caught:
        repo.garbage_collect()
    assert caught.value.key == f"gc/condemned/{path.name}"
    assert "remove this file" in (caught.value.hint or "")
    path.unlink()
    assert repo.garbage_collect().condemned["chunks"] == 2
    assert np.array_equal(repo.readonly_session().root["a"][:], values(2))
    with repo.transaction(message="which no collection has seen") as root:
        root["a"][0] = 1
    (snapshot,) = [one for one in (tmp_path / "r" / "snapshots").iterdir() if one.name == repo.lookup("main")]
    snapshot.write_bytes(bytes(100))
    for dry_run in (True, False):
        with pytest.raises(FormatError) as caught:
            frazil.Repository.open(tmp_path / "r").garbage_collect(now=True, dry_run=dry_run)
        assert "verify" in (caught.value.hint or "")
