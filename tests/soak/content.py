"""The content of the repository of a round, the changes of a writer, and the invariant of every snapshot: each writer's commits are there whole or not at all.

Commit n of writer w sets all data of w to n: its rows of `cells`, the array `of/w`, its attribute `n`; and appends the row (w, n) to `log`."""

from __future__ import annotations

import pickle
from random import Random
from typing import Final

import numpy as np

import frazil
from tests.soak.plan import WRITERS

_ROWS: Final = 3  # of `cells`, of each writer
_BYTES: Final = 700  # too large for an inline reference


def create(repo: frazil.Repository) -> None:
    with repo.transaction(message="made") as root:
        root.create_array("log", shape=(0, 2), chunks=(16, 2), dtype="i8", fill_value=0)
        root.create_array(
            "cells", shape=(WRITERS * _ROWS, _BYTES), chunks=(1, _BYTES), dtype="i4", codecs=["bytes"], fill_value=0
        )
        root.create_group("tmp")
        for writer in range(WRITERS):
            array = root.create_array(
                f"of/{writer}", shape=(4, 64), chunks=(1, 16), shards=(2, 64), dtype="i4", fill_value=0
            )
            array.attrs["n"] = 0


def change(session: frazil.Session, writer: int, number: int, random: Random) -> None:
    """The changes of a commit, some of them in forks, and written twice."""
    part = session.fork() if random.random() < 0.3 else session
    _array(part, "cells")[writer * _ROWS : (writer + 1) * _ROWS] = number
    if part is not session:
        session.merge(pickle.loads(pickle.dumps(part)) if random.random() < 0.5 else part)
    array = _array(session, f"of/{writer}")
    if random.random() < 0.3:
        array[:2] = -number  # superseded before it is committed
    array[...] = number
    array.attrs["n"] = number
    _array(session, "log").append(np.array([[writer, number]]))
    name = f"tmp/{writer}"
    if name in session.root:
        del session.root[name]
    elif random.random() < 0.5:
        session.root.create_array(name, data=np.full((2, _BYTES), number), chunks=(1, _BYTES), codecs=["bytes"])
    if random.random() < 0.2:
        discarded = session.fork()
        _array(discarded, "cells")[writer * _ROWS] = -1


def check(session: frazil.Session) -> dict[int, int]:
    """The number of the last commit of each writer in a snapshot. Raises AssertionError if one is torn."""
    if "log" not in session.root:  # before `create`
        assert not list(session.root), f"only {list(session.root)} are there"
        return {}
    log, cells = _array(session, "log")[...], _array(session, "cells")[...]
    last: dict[int, int] = {}
    for writer, number in log.tolist():
        assert number > last.get(writer, 0), f"writer {writer}: commit {number} follows {last.get(writer)}"
        last[writer] = number
    for writer in range(WRITERS):
        array, number = _array(session, f"of/{writer}"), last.get(writer, 0)
        found = {*cells[writer * _ROWS : (writer + 1) * _ROWS].ravel().tolist(), *array[...].ravel().tolist()}
        found.add(int(str(array.attrs["n"])))
        assert found == {number}, f"writer {writer}: {sorted(found)} where its last commit is {number}"
    for name, node in session.root["tmp"].members():
        values = {*node[...].ravel().tolist()}
        assert len(values) == 1, f"tmp/{name} holds {sorted(values)}"
    return last


def committed(session: frazil.Session) -> dict[int, list[int]]:
    """The numbers of the commits of each writer, from the log."""
    found: dict[int, list[int]] = {}
    for writer, number in _array(session, "log")[...].tolist():
        found.setdefault(writer, []).append(number)
    return found


def _array(session: frazil.Session, path: str) -> frazil.Array:
    array = session.root[path]
    assert isinstance(array, frazil.Array)
    return array
