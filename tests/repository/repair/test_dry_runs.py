"""A dry run announces what a repair then does, and a second repair finds nothing more to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.repository.maintenance.garbage import fill, values
from tests.repository.repair.test_damaged_by_hand import newest

import frazil
from frazil.errors import FormatError
from frazil.formats.alpha.snapshots import decode_snapshot, encode_and_index
from frazil.repository.repair.branches import last_complete
from frazil.repository.repair.report import Repair

ALL = {"older": True, "accept_loss": True, "tips": True, "history": True}


def created(location: Path) -> frazil.Repository:
    """Branches `main` and `dev`, whose last commit has a manifest of its own, and attributes of the first commit that all have."""
    repo = frazil.Repository.create(location, chunk_packing="off", durable=False, attributes_file_bytes=10)
    with repo.transaction(message="attributes") as root:
        root.attrs["title"] = "x" * 50
    fill(repo, 3)
    repo.create_branch("dev", "main")
    with repo.transaction("dev", message="on dev") as root:
        root["a"][:] = values(7)
    return repo


def both(location: Path, **consents: bool) -> Repair:
    """A repair that does what a dry run announces."""
    dry = frazil.Repository.open(location).repair(dry_run=True, **consents)  # type: ignore[arg-type]
    done = frazil.Repository.open(location).repair(**consents)  # type: ignore[arg-type]
    for name in ("repaired", "lost"):
        assert [*map(str, getattr(dry, name))] == [*map(str, getattr(done, name))], name
    for name in ("commits", "created", "moved"):
        assert getattr(dry, name).keys() == getattr(done, name).keys(), name
    again = frazil.Repository.open(location).repair(**consents)  # type: ignore[arg-type]
    assert not (again.commits or again.created or again.moved), again
    return done


def lose_manifest(location: Path) -> None:
    newest(location, "manifests").unlink()


def lose_branch_and_attributes(location: Path) -> None:
    """The branch that a collection has seen is gone, and the new branch that keeps its commit has a loss."""
    frazil.Repository.open(location).garbage_collect()
    shutil.rmtree(location / "refs" / "branch.dev")
    newest(location, "attributes").unlink()


def lose_branch_beside_a_damaged_one(location: Path) -> None:
    """The record of tips stays as it is, as not all tips can be read."""
    repo = frazil.Repository.open(location)
    repo.create_branch("third", "main")
    lose_branch_and_attributes(location)
    (location / "refs" / "branch.third" / "ZZZZZZZZ.json").write_bytes(b"")


def lose_tip_and_tag(location: Path) -> None:
    repo = frazil.Repository.open(location)
    repo.create_tag("v1", "dev")
    (location / "snapshots" / repo.lookup("main")).unlink()
    newest(location, "manifests").unlink()


DAMAGES: tuple[Callable[[Path], object], ...] = (
    lose_manifest,
    lose_branch_and_attributes,
    lose_branch_beside_a_damaged_one,
    lose_tip_and_tag,
)


@pytest.mark.parametrize("consents", [{}, {"history": True}, {"accept_loss": True}, ALL], ids=str)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_dry_run_announces_the_same(
    tmp_path: Path, damage: Callable[[Path], object], consents: dict[str, bool]
) -> None:
    created(tmp_path)
    damage(tmp_path)
    both(tmp_path, **consents)


def test_a_branch_that_nothing_can_change_does_not_stop_the_repair_of_others(tmp_path: Path) -> None:
    repo = created(tmp_path)
    repo.create_branch("also", "dev")
    (tmp_path / "refs" / "branch.also" / "ZZZZZZZY.json").mkdir()
    lose_manifest(tmp_path)
    done = both(tmp_path)
    assert list(done.commits) == ["dev"]
    (lost,) = [entry for entry in done.lost if entry.ref == "branch also"]
    assert "refs/branch.also/ZZZZZZZY.json" in lost.text
    assert np.array_equal(repo.readonly_session("dev").root["a"][:], values(2))


def test_what_refuses_a_repair_refuses_a_dry_run(tmp_path: Path) -> None:
    repo = created(tmp_path)
    repo.garbage_collect()
    record = newest(tmp_path, "gc/tips")
    record.unlink()
    record.symlink_to("nothing")
    lose_manifest(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(FormatError, match="replaced by a link"):
            frazil.Repository.open(tmp_path).repair(dry_run=dry_run)


def test_tips_go_back_instead_of_a_mix_of_two_commits(tmp_path: Path) -> None:
    """If a manifest of the tip is lost, its array is that of the commit before, and other arrays are those of the tip."""
    repo = created(tmp_path)
    before = repo.lookup("main")
    with repo.transaction("dev", message="another array") as root:
        root.create_array("n", data=[1])
    tip = repo.lookup("dev")
    for path in (tmp_path / "manifests").iterdir():
        if "used by branch dev, /a" in str(repo.show(path.name)):
            path.unlink()
    done = both(tmp_path, tips=True)
    assert done.moved == {"dev": before}
    assert done.created == {"dev-damaged": tip}
    frazil.Repository.open(tmp_path).delete_branch("dev-damaged")
    assert frazil.Repository.open(tmp_path).verify(decode=True).ok


def test_the_snapshot_to_go_back_to_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = created(tmp_path)
    with repo.transaction("dev", message="another array") as root:
        root.create_array("n", data=[1])
    for path in (tmp_path / "manifests").iterdir():
        if "used by branch dev, /a" in str(repo.show(path.name)):
            path.unlink()
    searches: list[object] = []

    def counted(*arguments: object) -> object:
        searches.append(arguments)
        return last_complete(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("frazil.repository.repair.repair.last_complete", counted)
    assert list(frazil.Repository.open(tmp_path).repair(tips=True).moved) == ["dev"]
    assert len(searches) == 1


def test_the_repaired_state_of_a_tag_does_not_go_back(tmp_path: Path) -> None:
    """What is lost there is lost in the tag, too."""
    repo = created(tmp_path)
    repo.create_tag("v1", "dev")
    with repo.transaction(message="more") as root:
        root["a"].attrs["more"] = "y" * 50
    for path in (tmp_path / "attributes").iterdir():
        path.unlink()
    lose_manifest(tmp_path)
    repo.reset_branch("dev", list(repo.history())[-1].id)
    done = both(tmp_path, tips=True)
    (created_at,) = [done.created[name] for name in done.created if name.startswith("v1")]
    assert repo.lookup("v1-repaired") == created_at
    assert "v1-repaired" not in done.moved


def test_tips_go_back_to_a_commit_whose_chunks_can_be_decoded(tmp_path: Path) -> None:
    """Commits after the one that wrote a damaged chunk refer to it, too."""
    repo = created(tmp_path)
    before = repo.lookup("dev")
    with repo.transaction("dev", message="damaged") as root:
        root.create_array("n", data=np.random.default_rng(0).random(1000), chunks=1000)
    key = newest(tmp_path, "chunks")
    for number in range(3):
        with repo.transaction("dev", message=str(number)) as root:
            root.attrs["number"] = number
    key.write_bytes(bytes(key.stat().st_size))
    tip = repo.lookup("dev")
    done = both(tmp_path, decode=True, tips=True)
    assert done.moved == {"dev": before}
    assert done.created == {"dev-damaged": tip}
    assert not frazil.Repository.open(tmp_path).repair(decode=True, tips=True).moved


@pytest.mark.parametrize("consents", [{"older": True}, {"older": True, "accept_loss": True}], ids=str)
def test_chunks_that_the_snapshot_before_has_lost_become_older_ones_at_once(
    tmp_path: Path, consents: dict[str, bool]
) -> None:
    """The manifest of the tip is lost, and of the commit before a chunk file."""
    repo = frazil.Repository.create(tmp_path, chunk_packing="off", durable=False)
    with repo.transaction(message="0") as root:
        root.create_array("a", data=values(0), chunks=(1, 256))
    with repo.transaction(message="1") as root:
        root["a"][:1] = values(1)[:1]
    key = newest(tmp_path, "chunks")
    with repo.transaction(message="2") as root:
        root["a"][:] = values(2)
    lose_manifest(tmp_path)
    key.unlink()
    done = both(tmp_path, **consents)
    assert not done.lost
    assert np.array_equal(frazil.Repository.open(tmp_path).readonly_session().root["a"][:], values(0))


def test_a_dry_run_ends_a_history_before_a_tip_whose_list_of_ancestors_is_wrong(tmp_path: Path) -> None:
    """The repair commits behind that tip, which then is an older snapshot; what it has lost ends the history."""
    repo = created(tmp_path)
    tip = repo.lookup("dev")
    path = tmp_path / "snapshots" / tip
    found = decode_snapshot(path.read_bytes(), tip)
    path.write_bytes(encode_and_index(found._replace(history=found.history[:3], total_parents=3), tip)[0])
    repo.create_tag("v1", "dev")
    lose_manifest(tmp_path)
    done = both(tmp_path, history=True)
    assert f"branch dev: it ends before {tip}" in str(done)
    assert "tag v1: it ends with" in str(done)
