"""A file that changed between references to it: references from before are refused, those from after are read, in any combination."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import DataError, InvalidInputError
from frazil.stores import MemoryStore


class Sea:
    """A repository with an array of 50 chunks of 4 bytes, and a file of 200 bytes."""

    def __init__(self, folder: Path, compatible: str | None = None) -> None:
        self.file = folder / "d.bin"
        self.prefix = folder.as_uri() + "/"
        self.url = self.prefix + "d.bin"
        self.written = 0
        self.write(1)
        self.repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=[self.prefix], compatible=compatible)
        with self.repo.transaction(message="an array") as root:
            root.create_array("t", shape=200, dtype="u1", chunks=4, codecs=[])

    def write(self, value: int) -> None:
        """Writes the file again, at another time."""
        self.file.write_bytes(bytes([value]) * 200)
        self.written += 10**9
        os.utime(self.file, ns=(self.written, self.written))

    def refer(self, session: frazil.Session, *chunks: int, check: bool = True) -> None:
        session.set_virtual_chunks(
            "t", [[chunk] for chunk in chunks], self.url, [4 * chunk for chunk in chunks], 4, check=check
        )

    def look(self, session: frazil.Session, old: list[int], new: list[int], value: int) -> None:
        """Chunks with old references are refused, those with new ones are read."""
        array = session.open("t")
        assert isinstance(array, frazil.Array)
        for chunk in old:
            with pytest.raises(DataError, match="has changed") as caught:
                array[4 * chunk : 4 * chunk + 4]
            assert caught.value.key == self.url
        for chunk in new:
            assert (np.asarray(array[4 * chunk : 4 * chunk + 4]) == value).all()


@pytest.fixture
def sea(tmp_path: Path) -> Sea:
    return Sea(tmp_path)


def test_generations_of_a_file_are_distinguished_in_later_commits(sea: Sea) -> None:
    for number in range(6):  # so that manifests are merged
        sea.write(number + 1)
        session = sea.repo.writable_session()
        sea.refer(session, number)
        sea.look(session, list(range(number)), [number], number + 1)
        session.commit("more")
        sea.look(session, list(range(number)), [number], number + 1)
        sea.look(sea.repo.readonly_session(), list(range(number)), [number], number + 1)


def test_generations_of_a_file_are_distinguished_in_one_session(sea: Sea) -> None:
    session = sea.repo.writable_session()
    sea.refer(session, 0, 1)
    sea.write(2)
    sea.refer(session, 1, 2)
    sea.refer(session, 3, check=False)
    sea.look(session, [0], [1, 2, 3], 2)
    session.commit("both")
    sea.write(3)
    sea.look(sea.repo.readonly_session(), [0, 1, 2], [3], 3)


def test_generations_of_a_file_are_distinguished_in_forks(sea: Sea) -> None:
    session = sea.repo.writable_session()
    first, second = session.fork(), session.fork()
    sea.refer(first, 0)
    sea.write(2)
    sea.refer(second, 1)
    session.merge(second, first)
    sea.look(session, [0], [1], 2)
    session.commit("both")
    sea.look(sea.repo.readonly_session(), [0], [1], 2)


@pytest.mark.parametrize("newer_first", [True, False])
def test_generations_of_a_file_are_distinguished_after_a_rebase(sea: Sea, newer_first: bool) -> None:
    older, newer = sea.repo.writable_session(), sea.repo.writable_session()
    sea.refer(older, 0)
    sea.write(2)
    sea.refer(newer, 1)
    sessions = (newer, older) if newer_first else (older, newer)
    for session in sessions:
        session.commit("mine", rebase="disjoint")
    sea.look(sea.repo.readonly_session(), [0], [1], 2)
    with sea.repo.transaction(message="joined") as root:
        root["t"][100] = 1
    sea.look(sea.repo.readonly_session(), [0], [1], 2)


def test_another_state_of_a_file_is_a_difference(sea: Sea) -> None:
    ids = []
    for value in (2, 3, 3):
        sea.write(value) if value != sea.file.read_bytes()[0] else None
        session = sea.repo.writable_session()
        sea.refer(session, 0)
        ids.append(session.commit("again"))
    assert sea.repo.diff(ids[0], ids[1]).chunks["/t"].written.tolist() == [[0]]
    assert sea.repo.diff(ids[1], ids[2]).is_empty


def test_urls_with_the_fragment_of_frazil_are_refused(sea: Sea) -> None:
    session = sea.repo.writable_session()
    with pytest.raises(InvalidInputError):
        session.set_virtual_chunks("t", [[0]], sea.url + "#frazil-0123456789abcdef", 0, 4)
    assert not session.has_changes


def test_compatible_references_have_no_checks(tmp_path: Path) -> None:
    sea = Sea(tmp_path, "alpha-library")
    for number in range(2):
        sea.write(number + 1)
        session = sea.repo.writable_session()
        sea.refer(session, number)
        session.commit("more")
    sea.look(sea.repo.readonly_session(), [], [0, 1], 2)
    store = sea.repo._files.store
    values = [store.get(key) for key in store.list_prefix("manifests/")]
    assert values
    assert not any(b"frazil" in bytes(value or b"") for value in values)
