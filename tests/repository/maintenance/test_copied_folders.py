"""Folders of repositories copied by other programs while they are written, and older copies put back while sessions are open."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.repository.maintenance.garbage import orphan, values

import frazil
from frazil.errors import ConflictError, FrazilError, StoreError
from frazil.repository.commit import condemned_chunks

FOLDERS = ("refs", "attributes", "chunks", "gc", "manifests", "snapshots")


def write(repo: frazil.Repository, number: int, array: str = "a") -> None:
    with repo.transaction(message=str(number)) as root:
        if array not in root:
            root.create_array(array, shape=(4, 256), dtype="f8", chunks=(1, 256), codecs=[])
        root[array][:] = values(number)
        root.attrs["number"] = [number] * 20


def created(place: Path) -> frazil.Repository:
    repo = frazil.Repository.create(place, chunk_packing="off", durable=False, attributes_file_bytes=10)
    for number in range(3):
        write(repo, number)
    repo.expire(older_than=timedelta(0), keep_last=2)
    orphan(repo)
    repo.garbage_collect()
    return repo


@settings(max_examples=8)
@given(order=st.permutations(FOLDERS))
@example(order=list(FOLDERS))
@example(order=[*FOLDERS[1:], "refs"])
@example(order=sorted(FOLDERS))
def test_a_folder_that_is_copied_while_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, order: list[str]
) -> None:
    """If refs/ is copied first, and gc/tips/ is not copied, the copy is complete. Otherwise it may be damaged: a verification reports that, readers get errors
    but no wrong values, and a repair goes back to a complete commit, never to a mix of two, and keeps the damaged tip as another branch."""
    place, copy = (tmp_path_factory.mktemp("copied") / name for name in ("live", "copy"))
    repo = created(place)
    copy.mkdir()
    for number, folder in enumerate(order):
        shutil.copytree(place / folder, copy / folder, ignore=shutil.ignore_patterns("tips"))
        write(repo, 3 + number)
        repo.expire(older_than=timedelta(0), keep_last=4)
        repo.garbage_collect()
    copied = frazil.Repository.open(copy)
    sound = copied.verify(history=False).ok
    assert sound or order[0] != "refs"
    try:
        session = copied.readonly_session()
        assert np.array_equal(session.root["a"][:], values(session.root.attrs["number"][0]))
    except FrazilError:
        assert not sound
    copied.repair(tips=True, history=True)
    copied = frazil.Repository.open(copy)
    session = copied.readonly_session()
    assert np.array_equal(session.root["a"][:], values(session.root.attrs["number"][0]))
    for name in set(copied.branches) - {"main"}:
        assert name == "main-damaged"  # which keeps what is there of the damaged tip
        copied.delete_branch(name)
    assert copied.repair(tips=True, history=True).ok
    copied.garbage_collect(now=True)
    assert frazil.Repository.open(copy).verify(decode=True).ok


@pytest.mark.parametrize("later", [0, 2, 8])
def test_an_older_copy_that_is_put_back_while_sessions_are_open(
    tmp_path: Path, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit of theirs is acknowledged whose chunk files the copy does not have, whether the copy has the commit they began from or not."""
    monkeypatch.setattr(condemned_chunks, "_RESTORED_WITHIN", 0)
    place, copy = tmp_path / "r", tmp_path / "copy"
    repo = created(place)
    shutil.copytree(place, copy)
    early = repo.writable_session()
    early.root["a"][1] = values(20)[1]
    other = frazil.Repository.open(place)
    for number in range(4):
        write(other, number, "b")
    late, reader = other.writable_session(), other.readonly_session()
    late.root["b"][2] = values(21)[2]
    shutil.rmtree(place)
    copy.rename(place)
    early.root["a"][3] = values(20)[3]
    third = frazil.Repository.open(place)
    for number in range(later):
        write(third, number, "c")
    with pytest.raises(StoreError, match="missing"):
        reader.root["b"][:]
    with pytest.raises(ConflictError, match="is not the one that the session began from"):
        late.commit("late")
    with pytest.raises(ConflictError, match="an older copy"):
        early.commit("early", rebase="disjoint")
    write(other, 30)
    assert frazil.Repository.open(place).verify(decode=True).ok
    assert len(list(other.history())) == 3 + later
    assert np.array_equal(third.readonly_session().root["a"][:], values(30))


def test_a_copy_of_a_time_at_which_the_session_had_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy has the first chunk files of the session, and not the last ones."""
    monkeypatch.setattr(condemned_chunks, "_RESTORED_WITHIN", 0)
    place, copy = tmp_path / "r", tmp_path / "copy"
    session = created(place).writable_session()
    for row in range(2):
        session.root["a"][row] = values(20)[row]
    shutil.copytree(place, copy)
    for row in range(2, 4):
        session.root["a"][row] = values(20)[row]
    shutil.rmtree(place)
    copy.rename(place)
    with pytest.raises(ConflictError, match="an older copy"):
        session.commit("written before and after the copy")
