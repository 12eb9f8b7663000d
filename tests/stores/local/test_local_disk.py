"""LocalStore on a real disk: errors of the system, links, leftovers of a crash, disks that fold case."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from tests.faults.concurrent_calls import fork
from tests.few_files import few_files
from tests.no_backoff import no_pauses
from tests.stores.local_disks import mounted, run_processes
from tests.stores.refused_system_calls import lack, lack_sync_of, require_filters

import frazil
from frazil.array.shape import resize
from frazil.errors import AlreadyExistsError, FrazilError, StoreError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.values import ABSENT, ABSENT_KEY, FOLDER, NO_SPANS
from frazil.testing.checks import refusal


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def path_of(store: LocalStore, key: str) -> Path:
    return Path(store.path, key)


# --- errors --------------------------------------------------------------------------------------------------------------------------


def test_a_root_that_cannot_be_looked_at(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on a network disk that another machine has removed is stale; every other error is ours, and names the folder."""
    store.set("a", b"1")
    shutil.rmtree(store.path)
    failures = [errno.EIO, errno.ESTALE]
    look = os.fstat

    def fails(fd: int) -> os.stat_result:
        if not failures:
            return look(fd)
        raise OSError(failures.pop(0), "injected")

    monkeypatch.setattr(os, "fstat", fails)
    error = refusal(StoreError, store.list)
    assert (error.errno, error.path) == (errno.EIO, store.path)
    store.set("b", b"2")
    assert store.list() == ["b"]


def test_prefixes_and_keys_exclude_each_other(store: LocalStore) -> None:
    store.set("a/b", b"1")
    for key, number in (("a", errno.EISDIR), ("a/b/c", errno.ENOTDIR)):
        error = refusal(StoreError, lambda key=key: store.set(key, b"2"))  # type: ignore[misc]
        assert (error.errno, error.key) == (number, key)
    assert store.list() == ["a/b"]


def test_a_folder_at_a_key_is_absence_but_fetch_says_it(store: LocalStore) -> None:
    """docs/design/003-local-disk.md, What absence is."""
    store.set("a/b", b"1")
    store.erase("a/b")
    os.mkfifo(path_of(store, "fifo"))
    spans = np.array([[0, 0, -1]])
    for key in ("a", "a/b"):
        assert store.get(key) is None
        assert not store.exists(key)
        assert store.fetch([key], spans).status == [FOLDER if key == "a" else ABSENT_KEY]
    store.set("c", b"")
    assert store.fetch(["c/d"], spans).status == [ABSENT_KEY]
    error = refusal(StoreError, lambda: store.get("fifo"))
    assert (error.errno, error.key) == (errno.ENXIO, "fifo")


@pytest.mark.parametrize(
    "arguments", [{"chunks": (2, 2)}, {"chunks": (1, 1), "shards": (2, 2)}], ids=["chunks", "shards"]
)
def test_a_folder_or_fifo_in_place_of_a_chunk_is_no_fill_value(
    tmp_path: Path, arguments: dict[str, tuple[int, int]]
) -> None:
    array = frazil.create_array(tmp_path / "a.zarr", data=np.ones((4, 4)), fill_value=7, **arguments)  # type: ignore[arg-type]
    chunk = tmp_path / "a.zarr/c/0/1"
    chunk.unlink()
    assert array[0, 3] == 7
    for make in (os.mkdir, os.mkfifo):
        make(chunk)
        for selection in ((0, 3), (slice(None), slice(None)), (0, slice(None))):
            error = refusal(StoreError, lambda selection=selection: array[selection])  # type: ignore[misc]
            assert error.key == "c/0/1"
        shutil.rmtree(chunk) if chunk.is_dir() else chunk.unlink()


def test_a_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "none") as path:
        store = LocalStore(path)
        store.set("a", b"old")
        error = refusal(StoreError, lambda: store.set("a", bytes(2_000_000)))
        assert (error.errno, error.key) == (errno.ENOSPC, "a")
        assert "make room" in str(error)
        assert (store.get("a"), store.list()) == (b"old", ["a"])
        assert os.listdir(path) == ["a"]


def test_permissions(store: LocalStore) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    store.set("a", b"1")
    store.set("secret/b", b"2")
    path_of(store, "a").chmod(0o600)
    path_of(store, "secret").chmod(0o700)

    def as_nobody() -> None:
        os.setuid(65534)
        calls: list[tuple[str, Callable[[], object]]] = [
            ("a", lambda: store.get("a")),
            ("secret/b", lambda: store.get("secret/b")),
            ("a", lambda: store.set("a", b"3")),
            ("secret/", lambda: store.list_prefix("secret/")),
            ("", lambda: store.list_dir("")),
        ]
        for key, call in calls:
            error = refusal(StoreError, call)
            assert (error.errno, error.key) == (errno.EACCES, key)
            assert error.hint is not None
        assert store.exists("b") is False

    assert os.waitpid(fork(as_nobody), 0)[1] == 0
    assert store.get("a") == b"1"


def test_too_many_open_files(store: LocalStore) -> None:
    for i in range(40):
        store.set(f"{i}", b"%d" % i)

    def with_few() -> None:
        with few_files(20):
            error = refusal(StoreError, lambda: store.fetch([f"{i}" for i in range(40)], NO_SPANS))
            assert error.errno == errno.EMFILE
            assert store.get("7") == b"7", "those that were open are closed again"

    assert os.waitpid(fork(with_few), 0)[1] == 0


# --- links and other things ----------------------------------------------------------------------------------------------------------


def test_links_are_not_followed_out_of_the_store(store: LocalStore, tmp_path: Path) -> None:
    outside = LocalStore(tmp_path / "outside")
    outside.set("secret", b"outside")
    store.set("a/b", b"inside")
    path_of(store, "file").symlink_to(tmp_path / "outside/secret")
    path_of(store, "folder").symlink_to(tmp_path / "outside")
    path_of(store, "a/inner").symlink_to("b")
    path_of(store, "dangling").symlink_to("nothing")
    for key in ("file", "folder/secret", "folder/new", "a/inner", "dangling"):
        for call in (store.get, store.exists, store.erase, lambda key: store.set(key, b"2")):
            error = refusal(StoreError, lambda call=call, key=key: call(key))  # type: ignore[misc]
            assert (error.errno, error.key) == (errno.ELOOP, key)
            assert "links are not followed" in str(error)
    assert store.list() == ["a/b"]
    assert store.list_prefix("folder/") == []
    assert store.list_dir("") == ([], ["a/"])
    store.erase_prefix("")
    assert outside.get("secret") == b"outside"
    assert sorted(os.listdir(store.path)) == ["a", "dangling", "file", "folder"], "links of others are left alone"


def test_a_folder_swapped_for_a_link_meanwhile(store: LocalStore, tmp_path: Path) -> None:
    outside = LocalStore(tmp_path / "outside")
    outside.set("key", b"outside")
    store.set("place/key", b"inside")
    place, link = path_of(store, "place"), path_of(store, "link")
    link.symlink_to(tmp_path / "outside")
    libc = ctypes.CDLL(None)
    done = Event()

    def swap() -> None:
        here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        while not done.is_set():
            assert libc.renameat2(here, bytes(place), here, bytes(link), exchange) == 0

    swapping = Thread(target=swap)
    swapping.start()
    seen: set[object] = set()
    try:
        while not {b"inside", errno.ELOOP, "put"} <= seen:
            try:
                seen.add(store.get("place/key"))
                store.put("place/key", b"inside")
                seen.add("put")
                store.erase("place/new")
                assert store.list_prefix("place/") in (["place/key"], [])
            except StoreError as error:
                seen.add(error.errno)
    finally:
        done.set()
        swapping.join()
    assert seen == {b"inside", errno.ELOOP, "put"}
    assert (outside.list(), outside.get("key")) == (["key"], b"outside")


def test_sockets_pipes_and_undecodable_names_are_no_keys(store: LocalStore) -> None:
    store.set("a", b"1")
    os.mkfifo(path_of(store, "fifo"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(path_of(store, "socket")))
    with open(os.fsencode(store.path) + b"/not-\xff-text", "wb"):
        pass
    os.mkdir(os.fsencode(store.path) + b"/folder-\xff")
    path_of(store, "empty/folder").mkdir(parents=True)
    assert store.list() == ["a"]
    assert store.list_dir("") == (["a"], [])
    assert refusal(StoreError, lambda: store.get("fifo")).errno == errno.ENXIO
    assert store.get("empty") is None


def test_leftovers_of_a_crash_are_hidden(store: LocalStore) -> None:
    store.set("a/b", b"1")
    for key in ("a/b", "a/c", "d", "e/f/g"):
        path_of(store, key).parent.mkdir(parents=True, exist_ok=True)
        path_of(store, key + ".__lock").write_bytes(b"half of a val")
    assert store.list() == ["a/b"]
    assert store.list_dir("") == ([], ["a/"])
    assert store.list_dir("a/") == (["a/b"], [])
    assert store.is_empty("e/")
    assert store.get("d") is None
    store.set("d", b"2")
    assert store.get("d") == b"2"
    store.erase_prefix("")
    assert os.listdir(store.path) == [], "erase_prefix clears it away"


def test_removed_files_that_are_still_open_are_hidden(store: LocalStore) -> None:
    """NFS and FUSE rename a file that is removed or replaced while it is open, and remove it when it is closed."""
    store.set("a/b", b"1")
    store.set("a/.nfs", b"2")
    for name in (".nfs00000000000001a400000002", ".fuse_hidden0000000c00000005"):
        path_of(store, f"a/{name}").write_bytes(b"")
        path_of(store, f"c/{name}").parent.mkdir(exist_ok=True)
        path_of(store, f"c/{name}").write_bytes(b"")
    assert store.list() == ["a/.nfs", "a/b"]
    assert store.list_dir("") == ([], ["a/"])
    assert store.list_names("a/") == [".nfs", "b"]
    assert store.is_empty("c/")
    store.erase_prefix("")
    assert len(os.listdir(path_of(store, "a"))) == 2, "the system may refuse to remove them"


def test_what_other_machines_do_to_open_files_is_told(tmp_path: Path) -> None:
    require_filters()
    array = frazil.create_array(tmp_path / "array", shape=(8,), dtype="int32", chunks=(4,), shards=(8,))
    array[:] = 1

    plain = frazil.create_array(tmp_path / "plain", shape=(8,), dtype="int32", chunks=(4,))
    text = frazil.create_array(tmp_path / "text", shape=(8,), dtype=str, chunks=(4,))
    plain[:], text[:] = 1, "a"

    def run(lacks: str, call: Callable[[], object], expected: str) -> None:
        lack(lacks)
        with no_pauses():
            assert expected in str(refusal(FrazilError, call))

    def write(array: frazil.Array) -> None:
        array[3] = 2

    cases: list[tuple[str, Callable[[], object], str]] = [
        ("leases that end", lambda: array[:], "has a lease on it"),
        ("open files that others remove", lambda: array[:], "replaced 100 times"),
        ("open files that others remove", lambda: plain[:], "replaced 100 times"),
        ("open files that others remove", lambda: text[:], "another machine has removed it"),
        ("open files that others remove", partial(write, plain), "another machine has"),
        ("lock files that others remove", partial(write, array), "another machine has removed it"),
    ]
    run_processes([partial(run, *case) for case in cases])
    assert (array[:] == 1).all() and (plain[:] == 1).all()


@pytest.mark.parametrize("shards", [None, (8,)])
@pytest.mark.parametrize("dtype", ["int32", str])
def test_chunks_that_other_machines_replace_are_read_again(
    tmp_path: Path, shards: tuple[int] | None, dtype: str | type[str]
) -> None:
    require_filters()
    array = frazil.create_array(tmp_path, shape=(8,), dtype=dtype, chunks=(4,), shards=shards)
    first, other, new = (np.array([value] * 8, dtype)[:4] for value in (1, 2, 3))
    chunk = tmp_path / "c/0"
    array[:4] = other
    content = chunk.read_bytes()

    def run(call: Callable[[], object]) -> None:
        fetch = LocalStore.fetch
        open_ones: list[str] = []

        def fetched(store: LocalStore, *given: object, **named: object) -> object:
            if open_ones:
                os.open(os.devnull, os.O_RDONLY)  # no later file has the number of the first one
            answer = fetch(store, *given, **named)  # type: ignore[arg-type]
            if not open_ones:
                links = Path("/proc/self/fd").iterdir()
                open_ones.extend(one.name for one in links if os.path.realpath(one) == str(chunk))
                if open_ones:
                    lack_sync_of(int(open_ones[0]), errno.ESTALE, "pread64")
                    (tmp_path / "new").write_bytes(content)
                    os.replace(tmp_path / "new", chunk)
            return answer

        LocalStore.fetch = fetched  # type: ignore[assignment, method-assign]
        call()
        assert open_ones, "a file was open"

    def write() -> None:
        array[3] = new[0]

    def read() -> None:
        assert (array[:4] == other).all()

    def count() -> None:
        assert array.nchunks_initialized == 1

    for call in (write, *([count] if shards else []), *([read] if shards and dtype is str else [])):
        array[:4] = first
        run_processes([partial(run, call)])
    array[:4] = first
    run_processes([partial(run, write)])
    np.testing.assert_array_equal(array[:4], [*other[:3], new[0]])


def test_an_array_that_cannot_be_cleared_again_is_an_error(tmp_path: Path) -> None:
    """By a resize: other processes may have written to the chunks outside of the new lengths."""
    require_filters()
    array = frazil.create_array(tmp_path, shape=(8,), dtype="int32", chunks=(4,))
    array[:] = 1

    def run() -> None:
        clear_again = resize.Cut.clear_again

        def cleared_again(cut: resize.Cut) -> None:
            lack("open files that others remove")
            clear_again(cut)

        resize.Cut.clear_again = cleared_again  # type: ignore[assignment, method-assign]
        with no_pauses():
            assert "another machine has" in str(refusal(StoreError, lambda: array.resize((6,))))

    run_processes([run])


def test_a_disk_that_cannot_sync_folders(tmp_path: Path) -> None:
    require_filters()
    store = LocalStore(tmp_path, sync=True)
    assert store.create("a/0", b"")

    def run() -> None:
        free = os.open(os.devnull, os.O_RDONLY)  # the kernel opens the folder first, Python the root
        os.close(free)
        lack_sync_of(free, errno.EINVAL)
        assert store.create("a/1", b"1")
        assert store.create("a/2", b"2")
        assert store.put("a/3", b"3", ABSENT)
        store.erase("a/1")
        store.erase_immutable(["a/2"])

    run_processes([run])
    assert store.list() == ["a/0", "a/3"]


def test_a_disk_without_times_of_change(tmp_path: Path) -> None:
    require_filters()
    array = frazil.create_array(
        tmp_path / "array", shape=(8,), dtype="int32", chunks=(4,), shards=(8,), codecs=[], shard_writes="in_place"
    )
    array[:] = 1
    shard = tmp_path / "array/c/0"
    before = shard.stat().st_ino

    def run() -> None:
        lack("times of change")
        array[3] = 2  # in place, no reader could notice it

    run_processes([run])
    assert array[:].tolist() == [1, 1, 1, 2, 1, 1, 1, 1]
    assert shard.stat().st_ino != before


def test_erase_prefix_keeps_keys_that_are_not_below(store: LocalStore) -> None:
    for key in ("a/b/c", "a/b/d/e", "a/x", "ab", "b/a/b/c"):
        store.set(key, b"")
    store.erase_prefix("a/b/")
    assert store.list() == ["a/x", "ab", "b/a/b/c"]
    assert sorted(os.listdir(path_of(store, "a"))) == ["x"]
    store.erase("a/x")
    assert os.listdir(path_of(store, "a")) == [], "single erasures leave folders"
    assert store.list_dir("") == (["ab"], ["b/"])


# --- disks that fold case ------------------------------------------------------------------------------------------------------------


def test_keys_that_differ_by_case_alone_are_refused(tmp_path: Path) -> None:
    (tmp_path / "probe").write_bytes(b"")
    os.link(
        tmp_path / "probe", tmp_path / "PROBE"
    )  # like a disk that folds case: the name is also found in the other case
    store = LocalStore(tmp_path)
    assert not store.capabilities.case_sensitive
    store.set("foo/bar", b"1")
    for key, other in (("Foo/new", "foo"), ("foo/BAR", "foo/bar"), ("FOO", "foo")):
        error = refusal(AlreadyExistsError, lambda key=key: store.set(key, b"2"))  # type: ignore[misc]
        assert error.key == key
        assert repr(other) in str(error)
    error = refusal(AlreadyExistsError, lambda: store.set_partial_values([("new/a", 0, b"1"), ("new/A", 0, b"2")]))
    assert error.key == "new/A"
    assert store.get("new/a") is None
    store.set("foo/bar", b"3")
    store.set("foo/Other/0/1", b"4")
    store.set("foo/Other/0/1", b"5")
    assert (store.get("foo/bar"), store.get("foo/Other/0/1")) == (b"3", b"5")


FOLDING = [
    ("tmpfs", ["-t", "tmpfs", "-o", "size=1m,casefold", "none"]),
    ("vfat", ["-t", "vfat", "-o", "loop"]),
]


@pytest.mark.parametrize(("kind", "words"), FOLDING, ids=[kind for kind, _ in FOLDING])
def test_a_disk_that_folds_case(tmp_path: Path, kind: str, words: list[str]) -> None:
    if kind == "vfat":
        if shutil.which("mkfs.vfat") is None:
            pytest.skip("mkfs.vfat is not installed")
        image = tmp_path / "image"
        image.write_bytes(bytes(4 << 20))
        subprocess.run(["mkfs.vfat", image], check=True, capture_output=True)
        words = [*words, str(image)]
    with mounted(tmp_path / "disk", *words) as path:
        folder = path / "store"
        folder.mkdir()
        if kind == "tmpfs":
            subprocess.run(["chattr", "+F", folder], check=True)
        store = LocalStore(folder)
        store.set("foo", b"1")
        assert not store.capabilities.case_sensitive
        assert refusal(AlreadyExistsError, lambda: store.set("Foo", b"2")).key == "Foo"
        assert store.list() == ["foo"]


def test_a_disk_that_tells_case_apart(store: LocalStore) -> None:
    assert store.capabilities.case_sensitive
    store.set("a/B", b"1")
    store.set("A/b", b"2")
    store.set("a/b", b"3")
    assert store.list() == ["A/b", "a/B", "a/b"]
    assert sorted(os.listdir(store.path)) == ["A", "a"], "the question left nothing behind"
    assert store.capabilities.case_sensitive
