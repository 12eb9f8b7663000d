"""Tokens of arrays: equal only if the content is equal, and equal for all readers of one snapshot, in any process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask.base import tokenize

import frazil
from frazil.errors import FrazilError


def new_array(location: Any) -> frazil.Array:
    return frazil.create_array(location, shape=(8,), dtype="i4", chunks=(2,))


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    repo = frazil.Repository.create(tmp_path / "r")
    with repo.transaction(message="x") as root:
        for name in "ab":
            root.create_array(name, shape=(8,), dtype="i4", chunks=(2,))
    return repo


def elsewhere(code: str) -> str:
    head = "import frazil; from dask.base import tokenize; "
    return subprocess.run(
        [sys.executable, "-c", head + code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_snapshot_is_identified_by_its_id(repo: frazil.Repository, tmp_path: Path) -> None:
    first = tokenize(repo.readonly_session().root["a"])
    again = frazil.Repository.open(tmp_path / "r").readonly_session().root["a"]
    assert first == tokenize(again) == tokenize(pickle.loads(pickle.dumps(again)))
    assert first == elsewhere(
        f"print(tokenize(frazil.Repository.open({str(tmp_path / 'r')!r}).readonly_session().root['a']))"
    )
    assert first != tokenize(repo.readonly_session().root["b"])
    old = repo.readonly_session()
    with repo.transaction(message="y") as root:
        root["a"][0] = 1
    assert first != tokenize(repo.readonly_session().root["a"])
    assert first == tokenize(old.root["a"])


def test_changes_of_a_session_change_the_token(repo: frazil.Repository) -> None:
    session, other = repo.writable_session(), repo.writable_session()
    array = session.root["a"]
    tokens = [tokenize(array)]
    assert tokens[0] == tokenize(repo.readonly_session().root["a"])
    for one in (array, session.root["a"], session.root["b"]):
        one[0] = len(tokens)
        tokens.append(tokenize(array))
        assert tokenize(array) == tokens[-1]
    other.root["a"][0] = 1
    tokens.append(tokenize(other.root["a"]))
    session.commit("y")
    tokens.append(tokenize(array))
    assert tokens[-1] == tokenize(repo.readonly_session().root["a"])
    assert len(set(tokens)) == len(tokens)


def test_virtual_chunks_that_are_read_elsewhere_are_another_content(tmp_path: Path) -> None:
    for number, folder in enumerate(("own", "copy", "other")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_bytes(bytes([number]) * 8)
    prefix = f"file://{tmp_path}/own/"
    repo = frazil.Repository.create(tmp_path / "r", virtual_prefixes=[prefix])
    session = repo.writable_session()
    session.root.create_array("a", shape=(8,), dtype="u1", chunks=(8,), codecs=[])
    session.set_virtual_chunks("a", [[0]], f"{prefix}f", 0, 8, check=False)
    session.commit("x")

    def opened(places: Any) -> frazil.Array:
        return frazil.Repository.open(tmp_path / "r", virtual_prefixes=places).readonly_session().root["a"]  # type: ignore[return-value]

    arrays = [opened([prefix]), *[opened({prefix: str(tmp_path / folder)}) for folder in ("copy", "other")]]
    assert [array[0] for array in arrays] == [0, 1, 2]
    assert len({tokenize(array) for array in arrays}) == 3
    assert tokenize(arrays[0]) == tokenize(opened({prefix: None})) == tokenize(pickle.loads(pickle.dumps(arrays[0])))
    assert tokenize(arrays[1]) == tokenize(opened({prefix: str(tmp_path / "copy")}))
    assert tokenize(arrays[1]) == tokenize(pickle.loads(pickle.dumps(arrays[1])))


def test_tokens_of_one_array_are_equal_in_all_processes(tmp_path: Path) -> None:
    new_array(tmp_path / "a")
    first = tokenize(frazil.open_array(tmp_path / "a"))
    assert first == tokenize(frazil.open_array(tmp_path / "a"))
    assert first == elsewhere(f"print(tokenize(frazil.open_array({str(tmp_path / 'a')!r})))")
    new_array(tmp_path / "b")
    assert first != tokenize(frazil.open_array(tmp_path / "b"))
    frazil.open_array(tmp_path / "a", "w", shape=(8,), dtype="i4", chunks=(2,))  # the same document, written again
    assert first != tokenize(frazil.open_array(tmp_path / "a"))


@pytest.mark.parametrize("change", ["write", "append", "resize", "refresh", "oindex"])
def test_a_handle_that_writes_is_another_one_after_each_write(tmp_path: Path, change: str) -> None:
    array = new_array(tmp_path / "a")
    first = tokenize(array)
    assert first == tokenize(array) != tokenize(frazil.open_array(tmp_path / "a", "r+"))
    match change:
        case "write":
            array[0] = 1
        case "append":
            array.append(np.ones(1, "i4"))
        case "resize":
            array.resize(5)
        case "refresh":  # others may have written
            array.refresh()
        case _:
            array.oindex[[1, 2]] = 3
    assert first != tokenize(array)


def test_the_token_of_a_removed_array_changes(tmp_path: Path) -> None:
    group = frazil.create_group(tmp_path / "g")
    array = group.create_array("a", shape=(8,), dtype="i4", chunks=(2,))
    first = tokenize(array)
    del group["a"]
    try:
        assert tokenize(array) != first
    except FrazilError:
        pytest.fail("a token is no promise that something is there")
