"""Ctrl-C at every line of user operations: it always arrives, and no lock, file or thread is left."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.faults.interrupted_lines import Interrupts, ends, first_times, open_files

import frazil
from frazil._kernel import Descriptor
from frazil.api.forked import apart
from frazil.array.io import shard_writer
from frazil.stores import LocalStore, MemoryStore, Store, adapt
from frazil.stores.caches import cache_folder
from frazil.stores.caches.cache_folder import Entry, open_folder
from frazil.stores.keys.locks import Guard
from frazil.stores.local import case_folding, leftovers, new_files


class Values(dict[str, bytes]):
    """A store of a user."""

    def set(self, key: str, value: bytes) -> None:
        self[key] = value

    def erase(self, key: str) -> None:
        self.pop(key, None)

    def list(self) -> list[str]:
        return [*self]


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "disk": lambda path: LocalStore(path / "a"),
    "adapted": lambda _: adapt(Values()),  # which has the locks of keys
}
PARTS = 16


def open_and_drop(store: Store) -> None:
    array = frazil.open_array(store, "r+")
    array[3:17, 3:17] = 2
    array.refresh()


def interrupt(store: Store, part: int) -> None:
    frazil.create_array(store, shape=(20, 20), dtype="i4", chunks=(5, 5), shards=(10, 10))[...] = 1
    open_and_drop(store)
    whole = Interrupts()
    assert whole.run(lambda: open_and_drop(store))
    files = open_files()
    for number in first_times(whole.seen)[part::PARTS]:
        interrupted, place = Interrupts(number), whole.seen[number]
        ended = interrupted.run(lambda: open_and_drop(store))
        assert not interrupted.lost, place
        assert not ended or len(interrupted.seen) <= number, place  # one run reaches a few places more than another
        assert ends(lambda: open_and_drop(store)), place
        assert np.isin(frazil.open_array(store)[...], (0, 1, 2)).all(), place
        assert open_files() <= files, place


@pytest.mark.parametrize("kind", STORES)
def test_arrays_that_are_opened_and_dropped(kind: str, tmp_path: Path) -> None:
    """A part of the places, another one for each store. All of them are in the campaign."""
    interrupt(STORES[kind](tmp_path), 5 * list(STORES).index(kind))


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", STORES)
def test_interrupts_at_every_line_leave_consistent_data(kind: str, part: int, tmp_path: Path) -> None:
    interrupt(STORES[kind](tmp_path), part)


def test_an_interrupted_append_leaves_no_rows_of_fill_values(tmp_path: Path) -> None:
    array = frazil.create_array(tmp_path / "a", shape=(0,), dtype="i4", chunks=(4,), fill_value=-1)
    modules = {"array.py", "threads.py"}

    def append(at: int | None) -> list[tuple[str, int]]:
        interrupts, before = Interrupts(at, modules=modules), array.refresh().shape[0]
        done = interrupts.run(lambda: array.append([7] * 3))
        found = frazil.open_array(tmp_path / "a")[...].tolist()
        assert found in ([7] * before, [7] * (before + 3)), interrupts.seen[-1]
        assert not done or len(found) > before, interrupts.seen[-1]
        return interrupts.seen

    append(None)
    for number in first_times(append(None)):
        append(number)


def test_interrupts_leave_no_locked_key() -> None:
    """A lock that is acquired by Python code instead of `with` itself stays locked if an interrupt comes between the two."""

    # two keys may share a lock, which this thread must not take twice
    other = next(key for key in "cdef" if hash(key) % 64 not in {hash("a") % 64, hash("b") % 64})

    def write(guard: Guard) -> None:
        with guard.writing(["a", "b"]), guard.reading([other]):
            pass
        with guard.writing_all():
            pass

    whole, guard = Interrupts(), Guard()
    assert whole.run(lambda: write(guard))
    for number in first_times(whole.seen):
        guard = Guard()
        assert not Interrupts(number).run(lambda guard=guard: write(guard)), number  # type: ignore[misc]
        assert ends(lambda guard=guard: write(guard), 20), whole.seen[number]  # type: ignore[misc]
        assert guard.versions(["a", "b", other]) is not None, whole.seen[number]


def test_interrupts_leave_no_temporary_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a shard writer that is left before it closes its file, or while the standard library opens it."""
    monkeypatch.setattr(shard_writer, "_LITTLE", 0)
    array = frazil.create_array(tmp_path / "a", shape=(8, 8), dtype="i4", chunks=(4, 4), shards=(8, 8))

    def write() -> None:
        with array.shard_writer((0, 0)) as writer:
            writer[1, 1] = 2

    write()
    modules = {"encoded_chunks.py", "shard_writer.py", "tempfile.py", "threads.py"}
    whole = Interrupts(modules=modules)
    assert whole.run(write)
    files = open_files()
    for number in first_times(whole.seen):
        interrupted = Interrupts(number, modules=modules)
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            interrupted.run(write)
        assert not interrupted.lost, whole.seen[number]
        assert open_files() <= files, whole.seen[number]


def test_interrupts_leave_no_name_in_a_probed_folder(tmp_path: Path) -> None:
    """The file that shows whether the disk folds case; not at the lines that remove it."""
    folder = Descriptor(str(tmp_path))

    def probe() -> None:
        case_folding.folds_by_probe(folder.fd)

    whole, files = Interrupts(), open_files()
    assert whole.run(probe)
    lines = {line for *_, line in case_folding._is_found_swapped.__code__.co_lines()}
    ours = [file == case_folding.__file__ and line in lines for file, line in whole.seen]
    for number in first_times(whole.seen[: len(ours) - ours[::-1].index(True)]):
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            assert not Interrupts(number).run(probe), whole.seen[number]
        assert open_files() <= files, whole.seen[number]
        assert [*tmp_path.iterdir()] == [], whole.seen[number]


def test_interrupts_leave_no_open_folder(tmp_path: Path) -> None:
    """If a descriptor is a number, an interrupt may come between its opening and the block that closes it."""
    store = LocalStore(tmp_path / "a")
    keys = ["a", "b/c", "b/d/e", "f/g/h/i"]

    def walk() -> None:
        for key in keys:
            store.set(f"x/{key}", b"1")
        assert store.list_page("x/").keys == [f"x/{key}" for key in keys]
        store.erase_prefix("x/")

    whole = Interrupts()
    walk()
    assert whole.run(walk)
    files = open_files()
    for number in first_times(whole.seen)[::2]:
        assert not Interrupts(number).run(walk), whole.seen[number]
        assert open_files() <= files, whole.seen[number]
    walk()


def test_interrupts_leave_no_open_file(tmp_path: Path) -> None:
    """Of those that Python opens in one step, and closes in another one."""
    root, cache, entry = Descriptor(str(tmp_path)), open_folder(tmp_path / "cache"), Entry("0" * 32, b"1", 0, 4, 4)

    def use() -> None:
        cache.write(entry, b"1234")
        cache.read(entry, 0, 4)
        (tmp_path / "b").write_bytes(b"")
        new_files.sync_files(root.fd, ["b"])
        (tmp_path / "b.__lock").write_bytes(b"")
        leftovers.erase_leftovers(root.fd, "", 2**63)

    use()
    modules = {"cache_folder.py", "new_files.py", "leftovers.py", "threads.py"}
    whole, files = Interrupts(modules=modules), open_files()
    assert whole.run(use)
    assert {path for path, _ in whole.seen} >= {cache_folder.__file__, new_files.__file__, leftovers.__file__}
    for number in first_times(whole.seen):
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            assert not Interrupts(number, modules=modules).run(use), whole.seen[number]
        assert open_files() <= files, whole.seen[number]


def test_interrupts_of_a_merge_of_forks_leave_no_session_locked() -> None:
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="first") as root:
        root.create_array("a", shape=(4,), chunks=(1,), dtype="i4")

    def forked() -> list[frazil.Session]:
        session = repo.writable_session()
        return [session, session.fork(), session.fork()]

    modules = {"forks.py", "contextlib.py", "threading.py", "whole_changes.py"}
    whole, sessions = Interrupts(modules=modules), forked()
    assert whole.run(lambda: sessions[0].merge(*sessions[1:]))
    for number in first_times(whole.seen):
        sessions = forked()
        Interrupts(number, modules=modules).run(lambda every=sessions: every[0].merge(*every[1:]))  # type: ignore[misc]
        for session in sessions:
            assert ends(session.fork, 20), whole.seen[number]


def test_interrupts_where_a_fork_is_merged_remove_no_chunk_file() -> None:
    """The fork is discarded after an interrupt, also after one that comes when the session has its changes."""
    repo = frazil.Repository.create(MemoryStore())
    with repo.transaction(message="first") as root:
        root.create_array("a", shape=(2, 2**21), chunks=(1, 2**21), dtype="u1", fill_value=1, codecs=["bytes"])

    def write(session: frazil.Session) -> None:
        with apart(session.store) as store:
            frazil.open_array(store, "r+", path="a")[...] = 2  # large chunks have files of their own at once

    modules = {"forks.py", "forked.py"}
    whole = Interrupts(modules=modules)
    assert whole.run(lambda: write(repo.writable_session()))
    for number in first_times(whole.seen):
        session = repo.writable_session()
        Interrupts(number, modules=modules).run(lambda session=session: write(session))  # type: ignore[misc]
        assert np.isin(session.root["a"][...], (1, 2)).all(), whole.seen[number]  # type: ignore[index]
