"""Stores of zarr-python over ours: what as_store accepts, and how zarr-python reads and writes it. zarr-python's own suites run in tests/foreign."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zarr", minversion="3.0")

import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.storage import MemoryStore as ZarrMemoryStore

import frazil
import frazil.zarr
from frazil.base.threads import Threads
from frazil.errors import InvalidInputError, ReadOnlyError
from frazil.integrations.zarr import threads
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.store import Store
from frazil.testing import SlowStore

VALUES = np.arange(60, dtype="f4").reshape(6, 10)


def run(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(call)


def filled(store: Any) -> None:
    group = zarr.open_group(store, mode="w", attributes={"title": "sea"})
    group.create_array("a/t", shape=VALUES.shape, dtype="f4", chunks=(2, 5), shards=(4, 10))[:] = VALUES


@pytest.fixture
def repository(tmp_path: Path) -> frazil.Repository:
    repo = frazil.Repository.create(str(tmp_path / "sea.repo"), durable=False)
    session = repo.writable_session("main")
    filled(frazil.zarr.as_store(session))
    session.commit("temperatures")
    repo.create_tag("v1", "main")
    return repo


Target = Callable[[frazil.Repository, Path], Any]
READ_ONLY: dict[str, Target] = {
    "repository": lambda repo, at: repo,
    "reading session": lambda repo, at: repo.readonly_session("main"),
    "its store": lambda repo, at: repo.readonly_session("main").store,
    "its root": lambda repo, at: repo.readonly_session("main").root,
    "branch by name": lambda repo, at: f"{at}/sea.repo@main",
    "tag by name": lambda repo, at: f"{at}/sea.repo@v1",
    "folder of a repository": lambda repo, at: at / "sea.repo",
}
WRITABLE: dict[str, Target] = {
    "folder as text": lambda repo, at: f"{at}/sea.zarr",
    "folder as a path": lambda repo, at: at / "sea.zarr",
    "file URL": lambda repo, at: f"file://{at}/sea.zarr",
    "memory": lambda repo, at: MemoryStore("zarr over memory"),
    "dict": lambda repo, at: {},
    "store over a store": lambda repo, at: SlowStore(MemoryStore(), 0.0),
    "group": lambda repo, at: frazil.create_group(at / "other.zarr", overwrite=True),
    "session": lambda repo, at: repo.writable_session("main"),
    "its store": lambda repo, at: repo.writable_session("main").store,
}


@pytest.mark.parametrize("kind", READ_ONLY)
def test_read_only_locations(kind: str, repository: frazil.Repository, tmp_path: Path) -> None:
    store = frazil.zarr.as_store(READ_ONLY[kind](repository, tmp_path))
    assert store.read_only
    assert np.array_equal(zarr.open(store, mode="r")["a/t"][:], VALUES)
    with pytest.raises(ValueError, match="read-only"):
        run(store.set("zarr.json", cpu.Buffer.from_bytes(b"{}")))
    with pytest.raises(ReadOnlyError, match="writable_session"):
        frazil.zarr.as_store(READ_ONLY[kind](repository, tmp_path), read_only=False)
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert np.array_equal(zarr.open(copy, mode="r")["a/t"][:], VALUES)


@pytest.mark.parametrize("kind", WRITABLE)
def test_written_values_are_read_back(kind: str, repository: frazil.Repository, tmp_path: Path) -> None:
    target = WRITABLE[kind](repository, tmp_path)
    store = frazil.zarr.as_store(target)
    assert not store.read_only
    filled(store)
    zarr.open(store)["a/t"][1] = 7
    assert (zarr.open_array(store, path="a/t", mode="r")[1] == 7).all()
    assert zarr.open_group(store, mode="r").attrs["title"] == "sea"
    assert sorted(name for name, _ in zarr.open_group(store, mode="r").members(max_depth=None)) == ["a", "a/t"]
    reader = frazil.zarr.as_store(target, read_only=True)
    assert reader.read_only
    assert reader != store
    with pytest.raises(ValueError, match="read-only"):
        run(reader.delete("zarr.json"))


def test_a_commit_has_the_values_that_zarr_python_wrote(repository: frazil.Repository) -> None:
    session = repository.writable_session("main")
    zarr.open(frazil.zarr.as_store(session), path="a/t")[0] = -1
    session.commit("corrected")
    assert (repository.readonly_session("main").root["a/t"][0] == -1).all()
    assert (repository.readonly_session(tag="v1").root["a/t"][0] == VALUES[0]).all()


def test_a_session_has_all_steps_of_zarr_python_in_a_fork_or_none(repository: frazil.Repository) -> None:
    session = repository.writable_session("main")
    fork = session.fork()
    zarr.open_array(frazil.zarr.as_store(fork), path="a/t", mode="r+").append(VALUES[:1])
    assert session.root["a/t"].shape == VALUES.shape
    session.merge(fork)
    assert np.array_equal(session.root["a/t"][...], np.append(VALUES, VALUES[:1], axis=0))
    fork = session.fork()
    del zarr.open_group(frazil.zarr.as_store(fork), mode="r+")["a/t"]  # as overwrite=True does first
    assert "a/t" in session.root
    assert "a/t" not in fork.root


def test_a_path_below(tmp_path: Path) -> None:
    filled(frazil.zarr.as_store(tmp_path / "sea.zarr"))
    assert np.array_equal(zarr.open_array(frazil.zarr.as_store(tmp_path / "sea.zarr", path="a/t"))[:], VALUES)
    below = frazil.zarr.as_store(frazil.open_group(tmp_path / "sea.zarr")["a"])
    assert [name for name, _ in zarr.open_group(below, mode="r").members()] == ["t"]
    assert below.read_only


def test_stores_of_zarr_python_stay_what_they_are() -> None:
    theirs = ZarrMemoryStore()
    ours = frazil.zarr.as_store("memory://stays")
    assert frazil.zarr.as_store(theirs) is theirs
    assert frazil.zarr.as_store(ours) is ours


@pytest.mark.parametrize(
    "open_",
    [
        zarr.open,
        zarr.open_group,
        lambda store: zarr.open(store, mode="r"),
        lambda store: zarr.create_array(store, shape=4, dtype="i4"),
    ],
)
def test_a_store_of_a_session_names_as_store(open_: Callable[[Store], object], repository: frazil.Repository) -> None:
    with pytest.raises(InvalidInputError, match=r"frazil\.zarr\.as_store"):
        open_(repository.writable_session("main").store)


def test_invalid_locations_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="a location cannot be of type int"):
        frazil.zarr.as_store(3)  # type: ignore[arg-type]


# --- keys and bytes ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "folder"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    store = MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "keys")
    for key in ("a/b/c/0", "a/b/c/1", "a/bc/zarr.json", "a/zarr.json"):
        store.set(key, key.encode())
    return frazil.zarr.as_store(store)


async def listed(rows: Any) -> list[str]:
    return sorted([row async for row in rows])


def test_listings(keys: Any) -> None:
    assert run(listed(keys.list())) == ["a/b/c/0", "a/b/c/1", "a/bc/zarr.json", "a/zarr.json"]
    assert run(listed(keys.list_prefix("a/b"))) == ["a/b/c/0", "a/b/c/1", "a/bc/zarr.json"]  # text, not a folder
    assert run(listed(keys.list_prefix("a/b/"))) == ["a/b/c/0", "a/b/c/1"]
    for folder in ("a", "a/", "/a"):
        assert run(listed(keys.list_dir(folder))) == ["b", "bc", "zarr.json"]
    assert run(keys.is_empty("a/b")) is False
    assert run(keys.is_empty("a/b/d")) is True
    assert run(keys.getsize_prefix("a/b")) == len("a/b/c/0") * 2
    run(keys.delete_dir("a/b"))
    assert run(listed(keys.list())) == ["a/bc/zarr.json", "a/zarr.json"]


def test_byte_ranges(keys: Any) -> None:
    ranges = [None, RangeByteRequest(1, 3), RangeByteRequest(3, 99), OffsetByteRequest(2), SuffixByteRequest(2)]
    requests = [(key, part) for key in ("a/b/c/0", "nowhere") for part in ranges]
    values = run(keys.get_partial_values(default_buffer_prototype(), requests))
    found = [None if value is None else value.to_bytes() for value in values]
    assert found == [b"a/b/c/0", b"/b", b"/c/0", b"b/c/0", b"/0", *[None] * 5]


def test_sizes_cost_no_reads() -> None:
    class Sized(MemoryStore):
        def fetch(self, names: Any, spans: Any, **options: Any) -> Any:
            assert not len(spans) or "a" in names  # which is missing: zarr-python reads it to raise its error
            return super().fetch(names, spans, **options)

    target = Sized()
    target.set("a/zarr.json", b"{}")
    store = frazil.zarr.as_store(target)
    assert run(store.getsize("a/zarr.json")) == run(store.getsize_prefix("a")) == 2
    with pytest.raises(FileNotFoundError):
        run(store.getsize("a"))


def test_errors_are_what_zarr_python_expects(tmp_path: Path) -> None:
    store = frazil.zarr.as_store(tmp_path / "file")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(OSError, match="file"):
        run(store.set("zarr.json", cpu.Buffer.from_bytes(b"{}")))
    with pytest.raises(ValueError, match="not a key"):
        run(store.get("../file"))


def test_zarr_python_is_imported_on_first_use() -> None:
    code = "import sys, frazil; assert 'zarr' not in sys.modules; frazil.zarr.as_store; assert 'zarr' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("old", "new"), [(2, 3), (3, 2)])
def test_nodes_of_another_dialect_are_not_hidden(tmp_path: Path, old: Any, new: Any) -> None:
    store = frazil.zarr.as_store(tmp_path / "sea.zarr")
    zarr.open_group(store, mode="w", zarr_format=old).create_array("t", shape=(2,), dtype="i4")[:] = 7
    before = sorted(tmp_path.rglob("*"))

    def make(path: str) -> None:
        zarr.create_array(store, name=path, shape=(1,), dtype="i4", zarr_format=new)

    acts: list[Callable[[], object]] = [lambda: zarr.create_group(store, zarr_format=new)]
    acts += [lambda: make("t"), lambda: make("u/v"), lambda: zarr.create_group(store, path="g", zarr_format=new)]
    for act in acts:
        with pytest.raises(InvalidInputError, match="another dialect"):
            act()
        assert sorted(tmp_path.rglob("*")) == before
    group = zarr.open_group(store, mode="r+")
    group.attrs["title"] = "sea"
    group["t"].attrs["units"] = "K"
    zarr.create_array(store, name="t", shape=(3,), dtype="i4", zarr_format=old, overwrite=True)
    zarr.open_group(store, mode="w", zarr_format=new).create_array("t", shape=(4,), dtype="i4")
    assert zarr.open_array(store, path="t", mode="r").metadata.zarr_format == new
    frazil.convert(tmp_path / "sea.zarr", tmp_path / "other.zarr", zarr_format=old)
    assert zarr.open_array(frazil.zarr.as_store(tmp_path / "other.zarr"), path="t", mode="r").shape == (4,)


def test_calls_that_no_thread_can_run_are_made_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_threads", Threads(3, "test"))
    monkeypatch.setattr(threading.Thread, "start", start)
    assert asyncio.run(threads.in_thread(threading.get_ident)) == threading.get_ident()
