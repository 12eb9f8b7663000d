"""A program of a user, which `make check` gives to mypy: it must have no error under `strict`, and the types that it states. It is not run."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, assert_type

import numpy as np

import frazil
from frazil.base.arrays import Values
from frazil.errors import NodeConflict


def reads(array: frazil.Array) -> None:
    """Selections whose results are arrays and never scalars can be calculated with."""
    assert_type(array[:], Values)
    assert_type(array[2:4, 0], Values)
    assert_type(array[0, 1, ::-2], Values)
    assert_type(array[[3, 1]], Values)
    assert_type(array[0, None], Values)
    assert_type(array.oindex[[3, 1], :], Values)
    assert_type(array.read((0, ...)), Values)
    assert_type(array[0, 0], Values | np.generic)
    assert_type(array[()], Values | np.generic)
    doubled = array[:10] * 2
    array[:10] = doubled[: len(array[1:3])]
    array[0, 0] = float(np.asarray(array[1, 1]).mean())
    assert_type(array.info_complete().stored_nbytes, int)
    assert_type(array.nbytes_stored(), int)


def change(root: frazil.Group) -> int:
    temp = root.open_array("t")
    temp[:2] = temp[:2] + 10
    for name, member in root.members():
        assert_type(name, str)
        assert_type(member, frazil.Array | frazil.Group)
    return 3


def solve(conflict: NodeConflict) -> Literal["ours", "theirs", "fail"]:
    return "ours" if conflict.kind == "chunks" and conflict.path.startswith("/level1") else "fail"


def commits(repo: frazil.Repository) -> None:
    session = repo.writable_session("main")
    session.root.open_array("t")[0] = 5
    try:
        assert_type(session.commit("first", rebase=solve), str)
    except frazil.ConflictError as error:
        for conflict in error.conflicts:
            chunks = [] if conflict.chunks is None else conflict.chunks.tolist()
            print(conflict.kind, conflict.path, chunks)
    session.rebase(solve)
    assert_type(repo.run(change, message="second"), int)
    assert_type(repo.merge("dev", into="main", solver=solve), str)
    assert_type([commit.message for commit in repo.history()], list[str])
    assert_type(repo.garbage_collect(wait=timedelta(hours=24)).removed_bytes, int)
