"""Repositories of later formats are refused by name, and nothing is created among their files."""

from __future__ import annotations

import pytest
from tests.repository.archived_repositories import created, empty_files, info, snapshot

import frazil
from frazil.errors import AlreadyExistsError, FormatError, NotFoundError
from frazil.repository.alpha.branches import create_repository, exists, later_format, open_tip

MARKS = {
    "refs/branch.main/ref.json": (b'{"snapshot":"1CECHNKREP0F1RSTCMT0"}', "format 1"),
    "repo": ("ICE🧊CHUNK".encode() + b"ic-2.1.2", "format 2"),
}


@pytest.mark.parametrize("key", MARKS)
def test_later_formats_are_refused_by_name(key: str) -> None:
    files = empty_files()
    data, name = MARKS[key]
    files.store.set(key, data)
    assert name in str(later_format(files))
    assert not exists(files)
    with pytest.raises(FormatError, match=f"Icechunk repository of {name}, which Frazil does not read yet"):
        open_tip(files, "main")
    for opens in (frazil.open, frazil.open_group, frazil.open_array, frazil.Repository.open):
        with pytest.raises(FormatError, match=f"Icechunk repository of {name}, which"):
            opens(files.store)
    with pytest.raises(FormatError, match=f"Icechunk repository of {name}, which"):
        frazil.open(files.store, path="a/b")
    with pytest.raises(AlreadyExistsError):
        create_repository(files, info(1).id, snapshot(info(1)))
    assert files.store.list() == [key]


def test_a_location_without_a_repository() -> None:
    files = empty_files()
    files.store.set("repo", b"something else")
    files.store.set("refs/branch.main/ref.json", b"<html>a page that a proxy has for everything</html>")
    assert later_format(files) is None
    with pytest.raises(NotFoundError, match="no repository here"):
        open_tip(files, "dev")
    create_repository(files, info(1).id, snapshot(info(1)))
    with pytest.raises(NotFoundError, match="no branch of this name: 'dev'"):
        open_tip(files, "dev")


def test_marks_beside_a_repository_do_no_harm() -> None:
    files, first = created()
    for key, (data, _) in MARKS.items():
        files.store.set(key, data)
    assert open_tip(files, "main") == first
    with pytest.raises(NotFoundError):
        open_tip(files, "dev")
