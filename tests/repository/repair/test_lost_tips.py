"""Which snapshots a repair keeps for damaged files of branches, if several come into question."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.repository.repair.test_damaged_by_hand import filled

import frazil


def leave(repo: frazil.Repository, at: str, number: int) -> str:
    """A snapshot behind another that no branch or tag leads to, as of a deleted branch or a killed writer."""
    repo.create_branch("left", at)
    snapshot = commit(repo, "left", number)
    repo.delete_branch("left")
    return snapshot


def commit(repo: frazil.Repository, branch: str, number: int) -> str:
    with repo.transaction(branch, message=str(number)) as root:
        root["a"][number % 4] = 1000 + number
    return repo.lookup(branch)


def damage(location: Path, branch: str, count: int = 1) -> frazil.Repository:
    for path in sorted((location / "refs" / f"branch.{branch}").glob("Z*.json"))[:count]:
        path.write_bytes(b"")
    return frazil.Repository.open(location)


def repaired(repo: frazil.Repository, **consents: bool) -> dict[str, str]:
    """What a repair creates, as a dry run announces it. Everything is named in the report, and is still named by the next one."""
    dry = repo.repair(dry_run=True, **consents)  # type: ignore[arg-type]
    done = repo.repair(**consents)  # type: ignore[arg-type]
    assert dry.created == done.created
    assert [*map(str, (*dry.repaired, *dry.lost))] == [*map(str, (*done.repaired, *done.lost))]
    named = [entry.text for entry in done.lost]
    for name in done.created:
        assert any(f"branch {name} begins" in text for text in named) or name.endswith("-repaired")
    return {name: at for name, at in done.created.items() if not name.endswith("-repaired")}


@pytest.mark.parametrize("tips", [False, True])
def test_newer_commits_of_other_origin_do_not_hide_the_lost_one(tmp_path: Path, tips: bool) -> None:
    """Of a deleted branch, or of a killed writer that had read the acknowledged commit."""
    location = tmp_path / "r"
    repo = filled(location)
    base = repo.lookup("main")
    acknowledged = commit(repo, "main", 1)
    beside = leave(repo, base, 2)
    leave(repo, acknowledged, 3)
    leave(repo, beside, 4)
    repo = damage(location, "main")
    assert repaired(repo, tips=tips) == {"main-found": beside, "main-found-2": acknowledged}
    if tips:
        repo.garbage_collect(now=True)
        assert repo.readonly_session(snapshot=acknowledged).root["a"][1, 0] == 1001


def test_one_repair_is_enough_after_a_collection(tmp_path: Path) -> None:
    """The damaged newest file hides that the branch leaves the tip that the collection recorded. It became a problem once the branch was moved back."""
    location = tmp_path / "r"
    repo = filled(location)
    acknowledged = commit(repo, "main", 1)
    repo.garbage_collect()
    dry = damage(location, "main").repair(tips=True, history=True, dry_run=True)
    done = frazil.Repository.open(location).repair(tips=True, history=True)
    assert (dry.created, dry.repaired, dry.lost) == (done.created, done.repaired, done.lost)
    assert len([entry for entry in done.repaired if "when garbage was collected last" in entry.text]) == 1
    assert done.created == {"main-found": acknowledged}
    assert done.ok
    assert repo.garbage_collect().live


def test_a_branch_file_that_is_restored_after_a_repair(tmp_path: Path) -> None:
    """A letter of the id in it was wrong. The repair recorded the wrong id as the tip, and collections were refused."""
    location = tmp_path / "r"
    repo = filled(location)
    acknowledged = commit(repo, "main", 1)
    repo.garbage_collect()
    path = min((location / "refs" / "branch.main").glob("Z*.json"))
    content = path.read_text()
    path.write_text(content.replace(acknowledged, "0" * len(acknowledged)))
    assert frazil.Repository.open(location).repair().created["main-found"] == acknowledged
    path.write_text(content)
    assert frazil.Repository.open(location).verify().ok
    assert frazil.Repository.open(location).garbage_collect().live


def test_further_repairs_find_nothing_more(tmp_path: Path) -> None:
    """They name the branches that the first made, also if users continued one. It made a branch of each commit of deleted branches, one by one."""
    location = tmp_path / "r"
    repo = filled(location)
    first = list(repo.history())[-2].id
    others = [leave(repo, first, number) for number in range(3)]
    acknowledged = commit(repo, "main", 5)
    repo = damage(location, "main")
    assert repaired(repo) == {"main-found": acknowledged}
    texts = [entry.text for entry in repo.repair().lost]
    assert len(texts) == 1
    assert "main-found begins" in texts[0]
    commit(repo, "main-found", 6)
    again = frazil.Repository.open(location).repair()
    assert [entry.text for entry in again.lost] == texts
    assert not set(again.created.values()) & set(others)


def test_without_a_commit_behind_the_known_one_the_newest_is_kept_once(tmp_path: Path) -> None:
    """The damaged file may be a reset to it."""
    location = tmp_path / "r"
    repo = filled(location)
    first = list(repo.history())[-2].id
    leave(repo, first, 1)
    newest = leave(repo, first, 2)
    repo.reset_branch("main", list(repo.history())[1].id)
    repo = damage(location, "main")
    assert repaired(repo) == {"main-found": newest}
    assert repaired(repo) == {}
    assert ["main-found begins" in entry.text for entry in repo.repair().lost] == [True]


def test_a_branch_that_was_found_before_and_not_adopted(tmp_path: Path) -> None:
    """It does not hide what another damaged file named: a reset to a snapshot that no branch leads to."""
    location = tmp_path / "r"
    repo = filled(location)
    first = list(repo.history())[-2].id
    before = leave(repo, first, 1)
    repo.reset_branch("main", list(repo.history())[1].id)
    repo = damage(location, "main")
    assert repaired(repo, tips=True) == {"main-found": before}
    commit(repo, "main", 2)
    target = leave(repo, first, 3)
    repo.reset_branch("main", target)
    repo = damage(location, "main")
    assert repaired(repo) == {"main-found-2": target}
    assert repaired(repo) == {}
    assert repaired(repo, tips=True) == {}


def test_two_damaged_branches(tmp_path: Path) -> None:
    """What was committed on the known tip of one is not taken for the other, unless they had the same tip."""
    location = tmp_path / "r"
    repo = filled(location)
    repo.create_branch("dev", "main")
    of_main, of_dev = commit(repo, "main", 1), commit(repo, "dev", 2)
    damage(location, "dev")
    both = {f"{name}-found{end}": at for name in ("dev", "main") for end, at in (("", of_dev), ("-2", of_main))}
    assert repaired(damage(location, "main")) == both
    location = tmp_path / "other"
    repo = filled(location)
    older = list(repo.history())[1].id
    repo.create_branch("dev", older)
    commit(repo, "dev", 2)
    repo.reset_branch("dev", older)
    of_main = commit(repo, "main", 1)
    damage(location, "dev")
    assert repaired(damage(location, "main")) == {"main-found": of_main}


def test_several_damaged_files(tmp_path: Path) -> None:
    """The last of as many commits as files are damaged is kept, with those before it."""
    location = tmp_path / "r"
    repo = filled(location)
    commit(repo, "main", 1)
    last = commit(repo, "main", 2)
    leave(repo, last, 3)
    assert repaired(damage(location, "main", 2), tips=True) == {"main-found": last}


def test_earlier_repairs_do_not_hide_a_new_loss(tmp_path: Path) -> None:
    """The branch NAME-found of a damage before stays, and the lost commit gets another."""
    location = tmp_path / "r"
    repo = filled(location)
    former = commit(repo, "main", 1)
    repo = damage(location, "main")
    assert repaired(repo, tips=True) == {"main-found": former}
    commit(repo, "main", 2)
    acknowledged = commit(repo, "main", 3)
    assert repaired(damage(location, "main"), tips=True) == {"main-found-2": acknowledged}


def test_a_branch_of_that_name_that_is_damaged_too(tmp_path: Path) -> None:
    location = tmp_path / "r"
    repo = filled(location)
    repo.create_branch("main-found", "main")
    acknowledged = commit(repo, "main", 1)
    damage(location, "main-found")
    assert repaired(damage(location, "main"))["main-found-2"] == acknowledged
