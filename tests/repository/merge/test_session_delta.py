"""The changes that a session reports: only net changes; and how a rebase changes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.pairs import pairs

import frazil
from frazil.repository.merge.delta import Delta
from frazil.repository.merge.session_delta import session_delta
from frazil.stores import MemoryStore


def repository(**options: object) -> frazil.Repository:
    repo = frazil.Repository.create(MemoryStore(), **options)  # type: ignore[arg-type]
    with repo.transaction(message="base") as root:
        array = root.create_array("a", shape=(6,), chunks=(3,), dtype="i4", attributes={"k": 1}, fill_value=0)
        array[5] = 4
        root.create_array("full", data=np.arange(6, dtype="i4"), chunks=(3,))
    return repo


def array(session: frazil.Session, path: str = "a") -> frazil.Array:
    found = session.open(path)
    assert isinstance(found, frazil.Array)
    return found


def write_and_revert(session: frazil.Session) -> None:
    array(session)[0] = 5
    array(session)[0] = 0


def append_and_resize_back(session: frazil.Session) -> None:
    array(session).append(np.full(3, 9, "i4"))
    array(session).resize(6)


def grow_write_and_shrink(session: frazil.Session) -> None:
    array(session).resize(12)
    array(session)[6:] = 4
    array(session).resize(6)


def append_and_set_the_document_back(session: frazil.Session) -> None:
    """Which leaves the chunk in place, beyond the grid."""
    document = session.store.get("a/zarr.json")
    assert document is not None
    array(session).append(np.full(3, 9, "i4"))
    session.store.set("a/zarr.json", document)


def attributes_and_back(session: frazil.Session) -> None:
    array(session).attrs["k"] = 2
    array(session).attrs["k"] = 1


def move_and_back(session: frazil.Session) -> None:
    session.root.move("a", "b")
    session.root.move("b", "a")


def make_and_remove(session: frazil.Session) -> None:
    session.root.create_array("g/new", data=np.arange(3))
    del session.root["g"]


NOTHING = [
    write_and_revert,
    append_and_resize_back,
    grow_write_and_shrink,
    append_and_set_the_document_back,
    attributes_and_back,
    move_and_back,
    make_and_remove,
]


@pytest.mark.parametrize("large", [False, True], ids=["attributes in the snapshot", "attributes in a file"])
@pytest.mark.parametrize("change", NOTHING)
def test_reverted_changes_are_not_in_the_delta(change: Callable[[frazil.Session], None], large: bool) -> None:
    session = repository(attributes_file_bytes=0 if large else None).writable_session()
    change(session)
    assert session_delta(session._transaction) == Delta()
    assert session.diff().is_empty


THEIRS: list[Callable[[frazil.Group], object]] = [
    lambda root: root["a"].__setitem__(1, 77),  # type: ignore[union-attr]
    lambda root: root["a"].append(np.full(3, 7, "i4")),  # type: ignore[union-attr]
    lambda root: root["a"].attrs.update(k=3),
    lambda root: root.move("a", "c"),
    lambda root: root.__delitem__("a"),
    lambda root: (root.__delitem__("a"), root.create_array("a", data=np.ones(6, "i4"))),
]


@pytest.mark.parametrize(("change", "theirs", "compatible"), pairs(NOTHING, THEIRS, [None, "alpha-library"]))
def test_reverted_changes_keep_the_changes_of_others(
    change: Callable[[frazil.Session], None], theirs: Callable[[frazil.Group], object], compatible: str | None
) -> None:
    repo = repository(compatible=compatible)
    session = repo.writable_session()
    change(session)
    session.root.attrs["mine"] = 1
    with repo.transaction(message="theirs") as root:
        theirs(root)
    expected = listing(repo)
    session.commit("mine", rebase="disjoint")
    assert listing(repo) == expected
    assert repo.readonly_session().root.attrs["mine"] == 1


def listing(repo: frazil.Repository) -> dict[str, object]:
    members = repo.readonly_session().root.members(max_depth=None)
    return {path: (node[...].tolist(), dict(node.attrs)) for path, node in members if isinstance(node, frazil.Array)}


def test_removed_chunks_are_those_that_were_there() -> None:
    session = repository().writable_session()
    array(session, "full")[:3] = 0
    array(session)[:3] = 0
    delta = session_delta(session._transaction)
    assert delta.chunks.keys() == {"/full"}
    assert delta.chunks["/full"].removed.tolist() == [[0]]


def test_attributes_that_went_to_a_file_are_not_restored_over_those_of_others() -> None:
    repo = repository(attributes_file_bytes=0)
    session = repo.writable_session()
    attributes_and_back(session)
    array(session)[0] = 5
    with repo.transaction(message="theirs") as root:
        root["a"].attrs["k"] = 3
    session.commit("mine", rebase="disjoint")
    found = repo.readonly_session().root["a"]
    assert isinstance(found, frazil.Array)
    assert (dict(found.attrs), found[0]) == ({"k": 3}, 5)
