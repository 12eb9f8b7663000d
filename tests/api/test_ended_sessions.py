"""What handles do when their transaction has ended, and when their repository was removed and created again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError, NotFoundError, ReadOnlyError
from frazil.stores import LocalStore, MemoryStore


@pytest.fixture(params=["memory", "local"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> frazil.Repository:
    store = MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "sea.repo")
    return frazil.Repository.create(store, durable=False)


WRITES: dict[str, Callable[[frazil.Group, frazil.Array], object]] = {
    "chunk": lambda root, array: array.__setitem__(0, 5),
    "whole": lambda root, array: array.__setitem__(..., 5),
    "append": lambda root, array: array.append([5, 5]),
    "resize": lambda root, array: array.resize((2,)),
    "attribute": lambda root, array: array.attrs.__setitem__("x", 1),
    "group": lambda root, array: root.create_group("new"),
    "array": lambda root, array: root.create_array("new", data=np.zeros(3)),
    "remove": lambda root, array: root.__delitem__("t"),
    "move": lambda root, array: root.move("t", "u"),
    "document": lambda root, array: root.store.set("new/zarr.json", b'{"zarr_format":3,"node_type":"group"}'),
    "key": lambda root, array: root.store.set("t/c/0", b"12345678" * 4),
    "erased": lambda root, array: root.store.erase("t/c/0"),
}


@pytest.mark.parametrize("way", ["transaction", "run", "nothing", "raised", "conflict"])
def test_after_a_transaction_its_nodes_can_only_be_read(repo: frazil.Repository, way: str) -> None:
    with repo.transaction(message="first") as root:
        root.create_array("t", data=np.arange(4.0), chunks=(4,))
    kept: list[frazil.Group] = []

    def change(root: frazil.Group) -> None:
        kept.append(root)
        root["t"][0] = 1.0  # type: ignore[index]
        if way == "conflict":
            repo.run(lambda other: other["t"].__setitem__(0, 9.0), message="theirs")  # type: ignore[union-attr]
        if way == "raised":
            raise KeyError("x")

    if way == "run":
        repo.run(change, message="second")
    elif way == "nothing":
        with repo.transaction(message="second") as root:
            kept.append(root)
    else:
        with suppress(KeyError, ConflictError), repo.transaction(message="second") as root:
            change(root)
    root = kept[0]
    array = root["t"]
    assert isinstance(array, frazil.Array)
    assert array[0] == (1.0 if way in ("run", "transaction") else 0.0)
    before = repo.lookup("main")
    for name, write in WRITES.items():
        with pytest.raises(ReadOnlyError, match=r"writable_session|only be read|opened for reading"):
            write(root, array)
        assert list(root) == ["t"], name
    with pytest.raises(ReadOnlyError, match="writable_session"):
        array[0] = 5.0
    assert repo.lookup("main") == before


ENDINGS: dict[str, Callable[[frazil.Array], object]] = {
    **{
        name: lambda array, write=WRITES[name]: write(None, array)
        for name in ("chunk", "whole", "append", "resize", "attribute")
    },  # type: ignore[misc]
    "nothing": lambda array: array.__setitem__(slice(0, 0), 5),
    "orthogonal": lambda array: array.oindex.__setitem__([0], 5),
    "points": lambda array: array.vindex.__setitem__([0], 5),
    "blocks": lambda array: array.blocks.__setitem__(0, 5),
    "shard": lambda array: array.shard_writer(0),
}


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("raised", [KeyError, KeyboardInterrupt, None])
def test_arrays_of_an_ended_transaction_are_errors(
    repo: frazil.Repository, raised: type[BaseException] | None, name: str
) -> None:
    """Also those that it created itself, and that are gone after it raised."""
    arrays: list[frazil.Array] = []
    with suppress(KeyError, KeyboardInterrupt), repo.transaction(message="first") as root:
        arrays.append(root.create_array("t", data=np.arange(4.0), chunks=(2,), shards=(4,)))
        if raised is not None:
            raise raised
    with pytest.raises(ReadOnlyError, match="writable_session"):
        ENDINGS[name](arrays[0])


def test_a_handle_does_not_commit_to_a_repository_that_was_created_again(tmp_path: Path) -> None:
    repo = frazil.Repository.create(tmp_path / "r", durable=False)
    for value in range(3):
        with repo.transaction(message=f"{value}") as root:
            root.attrs["value"] = value
    session = repo.writable_session()
    session.root.attrs["value"] = 3
    shutil.rmtree(tmp_path / "r")
    anew = frazil.Repository.create(tmp_path / "r", durable=False)
    with pytest.raises(ConflictError, match="not the one"):
        session.commit("behind")
    with pytest.raises((ConflictError, NotFoundError)):
        session.commit("behind", rebase="ours")
    assert [commit.message for commit in anew.history()] == ["Repository initialized"]
    assert dict(repo.readonly_session().root.attrs) == {}, "what was known of the branch is not trusted"
    with repo.transaction(message="new") as root:
        root.attrs["value"] = 4
    assert [commit.message for commit in anew.history()] == ["new", "Repository initialized"]
