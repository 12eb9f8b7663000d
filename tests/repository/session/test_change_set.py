"""Keys of nodes, which are permanent: handles of arrays after moves, commits, rebases and discards, if files assign ids again."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, NotFoundError
from frazil.repository.session import change_set
from frazil.repository.session.change_set import NodeKeys
from frazil.stores import MemoryStore


def test_keys() -> None:
    keys = NodeKeys()
    one, other = keys.of("/a"), keys.of("/b")
    assert keys.of("/a") == one != other
    assert keys.paths == {one: "/a", other: "/b"}
    assert keys.new() not in keys.paths
    copies = [NodeKeys(keys.paths), pickle.loads(pickle.dumps(keys)), keys]
    assert [copy.of("/b") for copy in copies] == [other] * 3
    assert len({copy.new() for copy in copies} | {copy.of("/new") for copy in copies}) == 6


def test_keys_go_with_their_nodes() -> None:
    session = begun(None)[1]
    changes = session._transaction.changes
    keys = {name: changes.key_at(f"/{name}") for name in "abc"}
    session.root.move("a", "t")
    session.root.move("b", "a")
    del session.root["c"]
    new = session.root.create_array("c", data=np.zeros(2))
    made = changes.key_at("/c")
    after = changes.committed(changes.base)
    assert {at: after.keys.paths.get(key or 0) for at, key in keys.items()} == {"a": "/t", "b": "/a", "c": None}
    assert after.keys.paths[made or 0] == f"/{new.path}"
    before = changes.rebased(changes.base, {"/a": "/b", "/b": None}.get)
    assert {at: before.keys.paths.get(key or 0) for at, key in keys.items()} == {"a": "/b", "b": None, "c": None}


def test_a_session_is_asked_for_changes_while_another_thread_makes_some(monkeypatch: pytest.MonkeyPatch) -> None:
    session = begun(None)[1]
    numbers = iter(range(10))

    def meanwhile(*_: object) -> bool:
        session.root.create_group(f"{next(numbers)}")
        return True

    session._transaction.changes.touch("/a")
    monkeypatch.setattr(change_set, "same_stored_attributes", meanwhile)
    assert not session.has_changes, "as it was before"


def begun(compatible: str | None) -> tuple[frazil.Repository, frazil.Session]:
    repo = frazil.Repository.create(MemoryStore(), compatible=compatible)
    with repo.transaction(message="base") as root:
        for at, name in enumerate("abc"):
            root.create_array(name, data=np.full(4, at + 1.0))
    return repo, repo.writable_session()


def is_gone(array: frazil.Array) -> bool:
    for act in (array.read, lambda: array.__setitem__(0, 99)):
        try:
            act()
        except NotFoundError:
            continue
        return False
    return True


def values(session: frazil.Session) -> dict[str, float]:
    return {name: float(array[0]) for name, array in session.root.arrays()}  # type: ignore[arg-type]


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize("through", ["commit", "rebase", "discard"])
def test_a_handle_of_a_removed_array_never_writes_to_another(compatible: str | None, through: str) -> None:
    repo, session = begun(compatible)
    stale = session.open("c")
    assert isinstance(stale, frazil.Array)
    if through == "rebase":
        for change in (lambda root: root.__delitem__("c"), lambda root: root.create_array("d", data=np.full(4, 4.0))):
            with repo.transaction(message="theirs") as root:
                change(root)
        session.rebase()
    else:
        del session.root["c"]
        session.commit("removed")
        new = session.root.create_array("d", data=np.full(4, 4.0))
        if through == "commit":
            session.commit("new")
        else:
            session.discard()
            assert is_gone(new)
            session.root.create_array("d", data=np.full(4, 4.0))
    assert is_gone(stale)
    assert values(session) == {"a": 1, "b": 2, "d": 4}


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
def test_chunks_stay_with_their_array(compatible: str | None) -> None:
    """After a swap, a commit of it, and a rebase over another one."""
    repo, session = begun(compatible)
    held = {name: session._transaction.chunks(name, session.open(name).metadata) for name in "ab"}  # type: ignore[arg-type]

    def swap(root: frazil.Group) -> None:
        for old, new in (("a", "t"), ("b", "a"), ("t", "b")):
            root.move(old, new)

    def kept() -> bool:
        now = {key: session._transaction.path_of(chunks._key) for key, chunks in held.items()}
        return now == {"a": "/b", "b": "/a"}

    swap(session.root)
    assert kept()
    session.commit("swapped")
    assert kept()
    with repo.transaction(message="theirs") as root:
        swap(root)
    session.rebase()
    assert not kept()
    with repo.transaction(message="theirs") as root:
        swap(root)
    session.root.attrs["x"] = 1
    session.rebase()
    assert kept()
    session.discard()
    assert kept()


NEWER: list[Callable[[frazil.Session], object]] = [
    lambda session: session.root.create_array("new", data=np.ones(2)),
    lambda session: session.root["a"].__setitem__(0, 5),  # type: ignore[union-attr]
]


@pytest.mark.parametrize("change", NEWER)
def test_new_arrays_keep_their_handles(change: Callable[[frazil.Session], object]) -> None:
    repo, session = begun(None)
    mine = session.root.create_array("mine", data=np.zeros(3))
    change(session)
    with repo.transaction(message="theirs") as root:
        root.create_array("theirs", data=np.zeros(3))
    session.commit("mine", rebase="disjoint")
    mine[1] = 7
    session.commit("again")
    assert repo.readonly_session().open("mine")[...].tolist() == [0, 7, 0]  # type: ignore[index, union-attr]


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize("through", ["session", "commit", "rebase"])
def test_a_handle_does_not_change_the_array_that_took_its_place(compatible: str | None, through: str) -> None:
    """Neither its shape nor its attributes, although both arrays have the same form."""
    repo, session = begun(compatible)
    stale = session.open("c")
    assert isinstance(stale, frazil.Array)

    def replace(root: frazil.Group) -> None:
        del root["c"]
        root.create_array("c", data=np.full(4, 9.0))

    if through == "rebase":
        with repo.transaction(message="theirs") as root:
            replace(root)
        session.rebase()
    else:
        replace(session.root)
    if through == "commit":
        session.commit("replaced")
    acts: list[Callable[[], object]] = [
        lambda: stale.append([1.0]),
        lambda: stale.resize(2),
        lambda: stale.attrs.update(x=1),
        lambda: stale.__setitem__(0, 1.0),
        stale.read,
    ]
    for act in acts:
        with pytest.raises((NotFoundError, ConflictError)):
            act()
    new = session.open("c")
    assert isinstance(new, frazil.Array)
    assert (new[...].tolist(), dict(new.attrs)) == ([9.0] * 4, {})  # type: ignore[union-attr]


@pytest.mark.parametrize("compatible", [None, "alpha-library"])
@pytest.mark.parametrize("through", ["session", "commit", "rebase"])
def test_a_handle_follows_an_array_that_is_moved(compatible: str | None, through: str) -> None:
    """If two arrays swap places, each handle appends to its own array, and sets its attributes."""
    repo, session = begun(compatible)
    held = {name: session.open(name) for name in "ab"}

    def swap(root: frazil.Group) -> None:
        for old, new in (("a", "t"), ("b", "g/a"), ("t", "b")):
            root.move(old, new)

    if through == "rebase":
        with repo.transaction(message="theirs") as root:
            swap(root)
        session.root.attrs["mine"] = 1
        session.rebase()
    else:
        swap(session.root)
    if through == "commit":
        session.commit("swapped")
    for name, array in held.items():
        assert isinstance(array, frazil.Array)
        array.append([5.0])
        array.attrs["was"] = name
        array[1] = 7
        array.resize(6)
        assert array.refresh().shape == (6,)
        array[5] = 8
    session.commit("changed")
    for now, was, first in (("b", "a", 1.0), ("g/a", "b", 2.0)):
        found = repo.readonly_session().open(now)
        assert isinstance(found, frazil.Array)
        assert found[...].tolist() == [first, 7, first, first, 5, 8]
        assert dict(found.attrs) == {"was": was}
        assert held[was].path == now
    del session.root["b"]
    assert isinstance(held["a"], frazil.Array)
    assert is_gone(held["a"])
    with pytest.raises(NotFoundError):
        held["a"].append([1.0])


@pytest.mark.parametrize("through", ["session", "commit", "rebase"])
def test_a_handle_follows_a_group_that_is_moved(through: str) -> None:
    repo, session = begun(None)
    with repo.transaction(message="groups") as root:
        for name in "gh":
            root.create_group(name, attributes={"name": name})
    session = repo.writable_session()
    held = {name: session.root[name] for name in "gh"}

    def swap(root: frazil.Group) -> None:
        for old, new in (("g", "t"), ("h", "g"), ("t", "i/h")):
            root.move(old, new)

    if through == "rebase":
        with repo.transaction(message="theirs") as root:
            swap(root)
        session.root.attrs["mine"] = 1
        session.rebase()
    else:
        swap(session.root)
    if through == "commit":
        session.commit("swapped")
    for name, group in held.items():
        assert isinstance(group, frazil.Group)
        group.attrs["was"] = name
        group.create_array(f"of_{name}", shape=(1,), dtype="u1")
    session.commit("changed")
    root = repo.readonly_session().root
    for now, was in (("i/h", "g"), ("g", "h")):
        found = root[now]
        assert isinstance(found, frazil.Group)
        assert dict(found.attrs) == {"name": was, "was": was}
        assert list(found) == [f"of_{was}"]
        assert held[was].path == now
        assert list(held[was]) == [f"of_{was}"]  # type: ignore[call-overload]


def test_a_handle_does_not_change_the_group_that_took_its_place() -> None:
    _, session = begun(None)
    old = session.root.create_group("g")
    session.root.create_group("g", overwrite=True)
    with pytest.raises(NotFoundError, match="gone"):
        old.attrs["x"] = 1
    new = session.root["g"]
    assert isinstance(new, frazil.Group)
    assert dict(new.attrs) == {}


def test_a_moved_array_pickles_where_it_is() -> None:
    _, session = begun(None)
    fork = session.fork()
    array = fork.open("a")
    fork.root.move("a", "t")
    fork.root.move("b", "a")
    assert pickle.loads(pickle.dumps(array))[...].tolist() == [1] * 4
