"""Changes of both sides of a merge that are equal, beside others that are not. tests/api/test_merge.py has those that are no conflict."""

from __future__ import annotations

import numpy as np
import pytest

import frazil
from frazil.errors import ConflictError
from frazil.stores import MemoryStore


def test_equal_new_arrays_do_not_hide_that_the_old_one_was_removed_and_moved() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="base") as root:
        root.create_array("u", data=np.arange(4))
    repo.create_branch("dev", "main")
    with repo.transaction("dev", message="removed") as root:
        del root["u"]
        root.create_array("u", data=[9, 9])
    session = repo.writable_session()
    session.root["u"][0] = 77  # type: ignore[index]
    session.root.move("u", "w")
    session.root.create_array("u", data=[9, 9])
    session.commit("changed and moved")
    with pytest.raises(ConflictError):
        repo.merge("dev")


@pytest.mark.parametrize("renamed_on", ["main", "dev"])
def test_another_array_in_place_of_one_that_was_renamed_conflicts_in_both_directions(renamed_on: str) -> None:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="base") as root:
        root.create_array("u", data=np.arange(4))
    repo.create_branch("dev", "main")
    with repo.transaction(renamed_on, message="renamed") as root:
        root.move("u", "w")
    with repo.transaction("main" if renamed_on == "dev" else "dev", message="replaced") as root:
        del root["u"]
        root.create_array("u", data=np.arange(4) + 9)
    with pytest.raises(ConflictError, match="removed what") as caught:
        repo.merge("dev")
    assert len(caught.value.conflicts) == 1


def test_an_array_that_was_created_again_with_its_content_is_renamed_by_a_merge() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="base") as root:
        root.create_array("u", data=np.arange(4))
    repo.create_branch("dev", "main")
    with repo.transaction("dev", message="renamed") as root:
        root.move("u", "w")
    with repo.transaction(message="removed") as root:
        del root["u"]
    repo.revert("main")
    repo.merge("dev")
    assert [path for path, _ in repo.readonly_session().root.arrays()] == ["w"]
