"""Files under gc/ in the wrong place, or with the wrong columns: a collection is refused, or goes on without what was remembered; nothing that is in use is
removed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.repository.maintenance.garbage import fill, orphan, values

import frazil
from frazil.errors import FormatError
from frazil.repository.maintenance.records import NamedColumns, emit_columns, parse_columns

NAME = "0" * 20


def collected(location: Path) -> frazil.Repository:
    """A repository with one file in each of gc/condemned, gc/expired and gc/marks."""
    repo = frazil.Repository.create(location, chunk_packing="off", durable=False)
    fill(repo, 3)
    orphan(repo)
    repo.garbage_collect()
    repo.expire(older_than=timedelta(0))
    return frazil.Repository.open(location, durable=False)


def whole(location: Path) -> bool:
    """Whether everything that the branch leads to is there."""
    repo = frazil.Repository.open(location)
    return repo.verify(decode=True, history=False).ok and np.array_equal(
        repo.readonly_session().root["a"][:], values(2)
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [("marks", "expired"), ("condemned", "expired"), ("expired", "condemned"), ("marks", "pins"), ("expired", "marks")],
)
def test_a_file_in_another_folder(tmp_path: Path, source: str, target: str) -> None:
    """Its columns have names that the other folder has, too: marks in the place of a record of expiry ended all histories."""
    location = tmp_path / "r"
    repo = collected(location)
    history = [commit.id for commit in repo.history()]
    (path,) = (location / "gc" / source).iterdir()
    (location / "gc" / target).mkdir(exist_ok=True)
    (location / "gc" / target / NAME).write_bytes(path.read_bytes())
    there = set(location.rglob("*"))
    repo = frazil.Repository.open(location)
    if target == "marks":  # which are read again
        repo.garbage_collect(now=True)
        assert whole(location)
        return
    assert [problem.key for problem in repo.verify().problems] == [f"gc/{target}/{NAME}"]
    for dry_run in (True, False):
        with pytest.raises(FormatError) as caught:
            repo.garbage_collect(wait=timedelta(hours=1), dry_run=dry_run)
        assert caught.value.key == f"gc/{target}/{NAME}"
    assert set(location.rglob("*")) >= there
    (location / "gc" / target / NAME).unlink()
    assert [commit.id for commit in repo.history()] == history
    assert whole(location)


@pytest.mark.parametrize("folder", ["condemned", "expired", "pins"])
def test_columns_of_another_type(tmp_path: Path, folder: str) -> None:
    location = tmp_path / "r"
    collected(location)
    names = ["snapshots", "attributes", "manifests", "chunks"] if folder == "condemned" else ["snapshots"]
    (location / "gc" / folder).mkdir(exist_ok=True)
    (location / "gc" / folder / NAME).write_bytes(emit_columns({name: np.arange(5) for name in names}))
    with pytest.raises(FormatError, match="type int64"):
        frazil.Repository.open(location).garbage_collect()
    (location / "gc" / folder / NAME).unlink()
    assert whole(location)


SHORTENED: dict[str, Callable[[NamedColumns], NamedColumns]] = {
    "no chunks": lambda columns: {**columns, "chunks": columns["chunks"][:0]},
    "no parents": lambda columns: {**columns, "parents": columns["parents"][:0]},
    "fewer starts": lambda columns: {**columns, "starts": columns["starts"][:-1]},
    "other order": lambda columns: {**columns, "snapshots": columns["snapshots"][::-1]},
    "another type": lambda columns: {**columns, "chunks": np.arange(len(columns["chunks"]))},
    "no columns": lambda columns: {},
}


@pytest.mark.parametrize("change", SHORTENED.values(), ids=SHORTENED)
def test_marks_that_do_not_fit_together(tmp_path: Path, change: Callable[[NamedColumns], NamedColumns]) -> None:
    """They are forgotten, and everything is read again."""
    location = tmp_path / "r"
    repo = collected(location)
    (path,) = (location / "gc/marks").iterdir()
    path.write_bytes(emit_columns(change(parse_columns(path.read_bytes(), ""))))
    repo.garbage_collect(now=True)
    assert whole(location)


def test_a_file_of_a_later_version_ends_a_collection(tmp_path: Path) -> None:
    """It may protect objects."""
    location = tmp_path / "r"
    collected(location)
    (location / "gc/leases").mkdir()
    (location / "gc/leases" / NAME).write_bytes(b"frazil-gc-2\n")
    there = set(location.rglob("*"))
    repo = frazil.Repository.open(location)
    assert [problem.kind for problem in repo.verify().problems] == ["collection"]
    for now in (True, False):
        with pytest.raises(FormatError, match="later version"):
            repo.garbage_collect(now=now)
    assert set(location.rglob("*")) == there
