"""Files of branches and tags that are damaged, or are no longer read: no commit that they alone named is lost."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.repository.maintenance.garbage import values
from tests.repository.repair.test_damaged_by_hand import filled, newest

import frazil
from frazil.errors import FormatError, NotFoundError


@pytest.mark.parametrize("ref", ["branch.dev", "tag.v1"])
@pytest.mark.parametrize("change", ["suffix", "deeper", "ref.json"])
def test_a_folder_without_a_file_that_is_read(tmp_path: Path, ref: str, change: str) -> None:
    """It is a branch or tag whose files were renamed or moved: no collection removes what it led to."""
    location = tmp_path / "r"
    repo = filled(location)
    tip, name = repo.lookup("main"), ref.replace(".", " ")
    repo.create_branch("dev", tip) if "branch" in ref else repo.create_tag("v1", tip)
    repo.reset_branch("main", list(repo.history())[3].id)
    folder = location / "refs" / ref
    (kept,) = [path for path in folder.iterdir() if path.suffix == ".json"]
    moved = {"suffix": kept.with_suffix(".bak"), "deeper": folder / "x" / kept.name, "ref.json": folder / "old.json"}[
        change
    ]
    moved.parent.mkdir(exist_ok=True)
    kept.rename(moved)
    repo = frazil.Repository.open(location)
    there = {path for path in location.rglob("*") if not path.is_dir()}
    for problems in (repo.verify().problems, repo.repair(tips=True).after):
        assert [(one.kind, one.ref, one.key) for one in problems] == [("ref", name, f"refs/{ref}/")]
        assert "restore its files, or remove the folder" in problems[0].text
    for remove in (
        lambda: repo.garbage_collect(now=True),
        lambda: repo.garbage_collect(dry_run=True),
        lambda: repo.expire(older_than=timedelta(0)),
    ):
        with pytest.raises(FormatError, match=f"{name} is not read: its folder has files") as caught:
            remove()
        assert caught.value.key == f"refs/{ref}/"
    assert {path for path in location.rglob("*") if not path.is_dir()} == there
    moved.rename(kept)
    repo = frazil.Repository.open(location)
    repo.garbage_collect(now=True)
    assert np.array_equal(repo.readonly_session(snapshot=tip).root["a"][:], values(2))


@pytest.mark.parametrize("content", [b"", b'{"snap', b"[]"])
@pytest.mark.parametrize("damaged", ["newest", "all"])
@pytest.mark.parametrize("tips", [False, True])
def test_a_damaged_branch_file_loses_no_commit(tmp_path: Path, content: bytes, damaged: str, tips: bool) -> None:
    """The newest file of a branch is the only one that names its last commit. A repair keeps that snapshot on a branch, and reports it; the user decides."""
    location = tmp_path / "r"
    repo = filled(location)
    newest_tip, before = repo.lookup("main"), [commit.id for commit in repo.history()][1]
    files = sorted((location / "refs" / "branch.main").glob("Z*.json"))
    for path in files[:1] if damaged == "newest" else files:
        path.write_bytes(content)
    repo = frazil.Repository.open(location)
    with pytest.raises(FormatError) as caught:
        repo.lookup("main")
    assert "repair" in (caught.value.hint or "")
    assert repo.repair(dry_run=True, tips=tips).created["main-found"] == newest_tip
    done = repo.repair(tips=tips)
    assert done.created["main-found"] == newest_tip
    assert any("main-found" in entry.text for entry in done.lost)
    assert done.ok == (tips and damaged == "newest")
    if done.ok:
        assert repo.lookup("main") == before
    repo.garbage_collect(now=True) if done.ok else None
    repo.reset_branch("main", "main-found")
    assert repo.verify(decode=True).ok
    assert repo.lookup("main") == newest_tip
    assert "main-found-2" not in repo.repair(tips=True).created


def test_snapshots_that_a_damaged_branch_file_cannot_have_named(tmp_path: Path) -> None:
    """A snapshot that does not follow the branch, or is incomplete, or that another branch keeps."""
    location = tmp_path / "r"
    repo = filled(location)
    repo.create_branch("other", "main")
    with repo.transaction("other", message="on another branch") as root:
        root["a"][0] = 1
    with repo.transaction(message="incomplete") as root:
        root["a"][1] = 1
    (location / "manifests" / newest(location, "manifests").name).unlink()
    min((location / "refs" / "branch.main").glob("Z*.json")).write_bytes(b"")
    assert list(frazil.Repository.open(location).repair().created) == ["main-repaired"]


def test_a_reset_replaces_a_damaged_branch_file_only_without_a_condition(tmp_path: Path) -> None:
    location = tmp_path / "r"
    repo = filled(location)
    tip = repo.lookup("main")
    min((location / "refs" / "branch.main").glob("Z*.json")).write_bytes(b"")
    repo = frazil.Repository.open(location)
    with pytest.raises(FormatError):
        repo.reset_branch("main", tip, expect=tip)
    repo.reset_branch("main", tip)
    assert repo.lookup("main") == tip


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_all_files_of_a_branch_are_gone(tmp_path: Path, branch: str) -> None:
    """The steps of docs/maintenance.md lead to its last commit."""
    location = tmp_path / "r"
    repo = filled(location)
    first = list(repo.history())[-1].id
    repo.create_branch("dev", "main")
    with repo.transaction(branch, message="last") as root:
        root["a"][0] = 99
    last = repo.lookup(branch)
    shutil.rmtree(location / "refs" / f"branch.{branch}")
    if branch == "main":
        with pytest.raises(NotFoundError, match="no repository"):
            frazil.Repository.open(location)
        (location / "refs" / "branch.main").mkdir()
        (location / "refs" / "branch.main" / "ZZZZZZZZ.json").write_text(f'{{"snapshot":"{first}"}}')
    repo = frazil.Repository.open(location)
    assert last in repo.verify().orphan_ids["snapshots"]
    assert repo.show(last).message == "last"
    if branch == "main":
        repo.reset_branch("main", last)
    else:
        repo.create_branch("dev", last)
    assert repo.verify(decode=True).ok
    with repo.transaction(branch, message="next") as root:
        assert root["a"][0, 0] == 99
        root["a"][0] = 98
    repo.garbage_collect(now=True)
    assert frazil.Repository.open(location).verify(decode=True).ok


def test_a_tag_whose_snapshot_stays_damaged(tmp_path: Path) -> None:
    """It stops collections, also after all repairs, until its folder is removed by hand (docs/maintenance.md)."""
    location = tmp_path / "r"
    repo = filled(location)
    repo.create_tag("damaged", "main")
    newest(location, "manifests").write_bytes(b"")
    repo = frazil.Repository.open(location)
    assert not repo.repair(accept_loss=True, history=True).ok
    assert {problem.ref for problem in repo.verify().problems} == {"tag damaged"}
    with pytest.raises(FormatError):
        repo.garbage_collect(now=True)
    shutil.rmtree(location / "refs" / "tag.damaged")
    repo = frazil.Repository.open(location)
    assert repo.verify().ok
    repo.garbage_collect(now=True)
    assert repo.verify(decode=True).ok
