"""Arguments of any type in every public call of repositories and sessions: a wrong one raises an error of ours that names it, never one of Python's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.errors import FrazilError, InvalidInputError
from frazil.stores import MemoryStore
from tests.array.test_arguments import WRONG, ours

OF_REPOSITORIES: dict[str, dict[str, Any]] = {
    "readonly_session": {},
    "writable_session": {},
    "transaction": {"message": "m"},
    "run": {"change": lambda root: None, "message": "m", "retries": 0},
    "lookup": {"name": "main"},
    "history": {},
    "diff": {"old": "main", "new": "main"},
    "lookup_branch": {"name": "main"},
    "create_branch": {"name": "b", "snapshot": "main"},
    "reset_branch": {"name": "main", "snapshot": "main"},
    "delete_branch": {"name": "b"},
    "lookup_tag": {"name": "t"},
    "create_tag": {"name": "t", "snapshot": "main"},
}
OF_SESSIONS: dict[str, dict[str, Any]] = {
    "open": {"path": "t"},
    "set_virtual_chunks": {"path": "t", "coords": [[0]], "urls": "file:///x", "offsets": 0, "lengths": 1},
    "adopt_file": {"file": __file__},
    "set_adopted_chunks": {"path": "t", "coords": [[0]], "adopted": "0" * 20, "offsets": 0, "lengths": 1},
}
SOURCE = st.sampled_from([frazil.Repository.create, frazil.Repository.open, frazil.Repository.open_or_create])


def repository() -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore(), durable=False)
    with repo.transaction(message="an array") as root:
        root.create_array("t", shape=(8,), dtype="u1", chunks=4)
    return repo


@given(SOURCE, st.data())
def test_making_and_opening(call: Callable[..., Any], data: st.DataObject) -> None:
    of_new = {"compatible"} if call == frazil.Repository.create else {"compatible", "chunk_digests"}
    names = [name for name in list(inspect.signature(frazil.Repository.create).parameters)[1:] if name not in of_new]
    name = data.draw(st.sampled_from(names))
    store = MemoryStore()
    if call == frazil.Repository.open:
        frazil.Repository.create(store)
    ours(lambda: call(store, **{name: data.draw(WRONG)}))
    ours(lambda: frazil.Repository.create(MemoryStore(), compatible=data.draw(WRONG)))


@pytest.mark.parametrize("name", OF_REPOSITORIES)
@given(data=st.data())
def test_methods_of_repositories(name: str, data: st.DataObject) -> None:
    def act() -> None:
        found = method(**changed)
        if name == "transaction":
            with found as root:
                root.attrs["a"] = 1
        elif name == "history":
            list(found)

    method = getattr(repository(), name)
    changed = {
        **OF_REPOSITORIES[name],
        data.draw(st.sampled_from(list(inspect.signature(method).parameters))): data.draw(WRONG),
    }
    ours(act)


@pytest.mark.parametrize("name", OF_SESSIONS)
@given(data=st.data())
def test_methods_of_sessions(name: str, data: st.DataObject) -> None:
    method = getattr(repository().writable_session(), name)
    known = list(inspect.signature(method).parameters)
    changed = {**OF_SESSIONS[name], data.draw(st.sampled_from(known)): data.draw(WRONG)}
    ours(lambda: method(**changed))


@pytest.mark.parametrize("wrong", [[], {}, None, 5, ["main"], np.zeros(2)], ids=repr)
def test_names_of_branches(wrong: Any) -> None:
    repo = repository()
    for act in (
        lambda: repo.lookup_branch(wrong),
        lambda: repo.delete_branch(wrong),
        lambda: repo.reset_branch(wrong, "main"),
        lambda: repo.writable_session(wrong),
        lambda: repo.transaction(wrong, message="m").__enter__(),
        lambda: repo.run(lambda root: None, branch=wrong, message="m"),
    ):
        with pytest.raises(InvalidInputError, match="branch"):
            act()


def test_wrong_arguments_are_refused_before_anything_is_done() -> None:
    repo = repository()
    done: list[int] = []
    for act in (
        lambda: repo.run(None, message="m"),  # type: ignore[arg-type]
        lambda: repo.run(lambda root: done.append(1), message=None),  # type: ignore[arg-type]
        lambda: repo.transaction(message=None).__enter__(),  # type: ignore[arg-type]
        lambda: repo.transaction(message="m", rebase="mine").__enter__(),
        lambda: repo.transaction(message="m", rebase=5).__enter__(),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInputError):
            act()
    assert not done


@pytest.mark.parametrize("location", ["\ud800", "memory://\ud800", "file:///\ud800"])
def test_places_that_have_no_name(location: str) -> None:
    for call in (frazil.Repository.exists, frazil.Repository.open, frazil.Repository.create):
        with pytest.raises(InvalidInputError):
            call(location)


@pytest.mark.parametrize("wrong", [None, 5, {}, b"x", "\0", "\ud800", ""], ids=repr)
def test_adopted_files(wrong: Any, tmp_path: Path) -> None:
    session = repository().writable_session()
    for act in (lambda: session.adopt_file(wrong), lambda: session.set_adopted_chunks("t", [[0]], wrong, 0, 1)):
        with pytest.raises(InvalidInputError):
            act()


def test_repositories_inside_repositories_are_refused(tmp_path: Path) -> None:
    store = MemoryStore("of_repositories")
    frazil.Repository.create("memory://of_repositories/a/b")
    for location in (tmp_path / "c.repo",):
        frazil.Repository.create(location)
    for location, inside in (
        ("memory://of_repositories/a/b/c", "c"),
        ("memory://of_repositories/a/b/c/d", "c/d"),
        (tmp_path / "c.repo" / "basin", "basin"),
        (str(tmp_path / "c.repo" / "x" / "y"), "x/y"),
    ):
        with pytest.raises(InvalidInputError, match="among the files of a repository") as caught:
            frazil.Repository.create(location)
        assert caught.value.path == inside
        with pytest.raises(InvalidInputError, match="among the files of a repository"):
            frazil.Repository.open_or_create(location)
    assert not (tmp_path / "c.repo" / "basin").exists()
    for beside in ("memory://of_repositories/a/bc", "memory://of_repositories/c", tmp_path / "d"):
        frazil.Repository.create(beside)
    assert store.is_empty("a/b/c/")


def test_all_errors_are_ours() -> None:
    assert issubclass(frazil.ConflictError, FrazilError)
    assert issubclass(frazil.CommitUnknownError, FrazilError)
