"""Ctrl-C while an array of a session is created or replaced: what is committed afterwards is the old array or the new one, with all of its chunks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.faults.interrupted_lines import Interrupts, first_times

import frazil
from frazil.stores import MemoryStore

OLD, NEW = np.zeros((3, 64), "i4"), np.ones((3, 64), "i4")
MODULES = {"transaction.py", "change_set.py"}


def create(session: frazil.Session, path: str) -> None:
    session.root.create_array(path, data=NEW, chunks=(1, 64), codecs=[], overwrite=path == "x")


@pytest.mark.parametrize(("path", "packing"), [("x", "off"), ("x", "auto"), ("new", "off")])
def test_what_is_committed_after_an_interrupt_is_whole(path: str, packing: str) -> None:
    def new_repository() -> frazil.Repository:
        repo = frazil.Repository.create(MemoryStore(), chunk_packing=packing)
        with repo.transaction(message="old") as root:
            root.create_array("x", data=OLD, chunks=(1, 64), codecs=[])
        return repo

    whole, session = Interrupts(modules=MODULES), new_repository().writable_session()
    assert whole.run(lambda: create(session, path))
    places = first_times(whole.seen)
    assert len(places) > 20
    for number in places:
        repo, place = new_repository(), whole.seen[number]
        session = repo.writable_session()
        ended = Interrupts(number, modules=MODULES).run(partial(create, session, path))
        session.commit("what is left", allow_empty=True)
        root = repo.readonly_session().root
        found = root[path][...] if path in root else None  # type: ignore[index]
        before = OLD if path == "x" else None
        assert np.array_equal(found, NEW) or (np.array_equal(found, before) and not ended), place  # type: ignore[arg-type]
