"""folders.py: listings against sorted lists of keys, for any tree."""

from __future__ import annotations

import operator
import os
import subprocess
from _thread import interrupt_main
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.concurrent_calls import in_threads
from tests.few_files import few_files

from frazil.errors import ReadOnlyError, StoreError
from frazil.stores import LocalStore, MemoryStore
from frazil.stores.keys.listing import first_level
from frazil.stores.local.folders import RootFolder, clear_below, has_keys, page_below
from frazil.stores.store import Store
from frazil.stores.values import Page
from frazil.stores.wrappers import WrappedStore

component = st.text(st.sampled_from("ab!/-.0é\U0001f600\uffff"), min_size=1, max_size=4).filter(
    lambda text: not set(text.split("/")) & {"", ".", ".."}
)
trees = st.sets(st.lists(component, min_size=1, max_size=4).map("/".join), max_size=25)


def keys_below(root: int, prefix: str, after: str, limit: int) -> Sequence[str]:
    return page_below(prefix, after, limit, root, delimited=False, details=False).keys


def rows_below(root: int, prefix: str, after: str = "", limit: int = 10**6) -> Sequence[str]:
    return page_below(prefix, after, limit, root, delimited=True, details=False).keys


@contextmanager
def tree(keys: set[str]) -> Iterator[tuple[int, list[str]]]:
    """A folder with these keys, except those that are a prefix of an earlier one; returns the keys, sorted by their bytes."""
    with TemporaryDirectory() as name:
        made = []
        for key in sorted(keys, key=len, reverse=True):
            path = Path(name, key)
            if path.exists() or any(parent.is_file() for parent in path.parents):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            made.append(key)
        root = os.open(name, os.O_RDONLY)
        try:
            yield root, sorted(made, key=str.encode)
        finally:
            os.close(root)


@given(trees, st.data())
def test_listings(keys: set[str], data: st.DataObject) -> None:
    with tree(keys) as (root, made):
        prefixes = ["", *{key[: i + 1] for key in made for i, one in enumerate(key) if one == "/"}, "none/"]
        prefix = data.draw(st.sampled_from(prefixes))
        after = data.draw(st.sampled_from(["", *made, *prefixes]) | component)
        limit = data.draw(st.integers(1, 8) | st.just(100))
        below = [key for key in made if key.startswith(prefix)]
        assert keys_below(root, prefix, after, limit) == [key for key in below if key > after][:limit]
        rows = list(first_level(below, prefix))
        assert rows_below(root, prefix) == rows
        assert rows_below(root, prefix, after, limit) == [row for row in rows if row > after][:limit]
        assert has_keys(root, prefix) == bool(below)


@given(trees, st.data())
def test_clearing(keys: set[str], data: st.DataObject) -> None:
    with tree(keys) as (root, made):
        prefixes = ["", *{key[: i + 1] for key in made for i, one in enumerate(key) if one == "/"}, "none/"]
        prefix = data.draw(st.sampled_from(prefixes))
        erased: list[str] = []

        def erase(names: list[str]) -> None:
            for name in names:
                os.unlink(name, dir_fd=root)
            erased.extend(names)

        clear_below(root, prefix, erase)
        assert sorted(erased) == sorted(key for key in made if key.startswith(prefix))
        assert keys_below(root, "", "", 100) == [key for key in made if not key.startswith(prefix)]
        if prefix == "":
            assert os.listdir(root) == []


def test_descriptors_are_closed(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/key").write_bytes(b"")
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        before = len(os.listdir("/proc/self/fd"))
        assert keys_below(root, "a/", "", 1) == ["a/b/c/key"]
        assert keys_below(root, "a/none/c/", "", 1) == []
        assert rows_below(root, "a/b/") == ["a/b/c/"]

        def erase(names: list[str]) -> None:
            for name in names:
                os.unlink(name, dir_fd=root)

        clear_below(root, "", erase)
        assert len(os.listdir("/proc/self/fd")) <= before  # connections of other tests may end meanwhile
    finally:
        os.close(root)


def test_folders_of_any_depth_are_listed() -> None:
    """Deeper than Python's recursion limit, and than a process may have open files."""
    name = "/".join("a" * 1100)
    folder = mkdtemp()  # which a TemporaryDirectory cannot remove
    with few_files(256):
        root = os.open(folder, os.O_RDONLY)
        try:
            inner = os.dup(root)
            for part in name.split("/"):
                os.mkdir(part, dir_fd=inner)
                outer, inner = inner, os.open(part, os.O_RDONLY, dir_fd=inner)
                os.close(outer)
            assert not has_keys(root, "")
            os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
            os.close(inner)
            assert has_keys(root, "")
            assert rows_below(root, "") == ["a/"]
            assert rows_below(root, f"{name}/") == [f"{name}/x"]
            assert keys_below(root, "", "", 100) == [f"{name}/x"]
            assert keys_below(root, "a/", f"{name}/w", 1) == [f"{name}/x"]
        finally:
            os.close(root)
            subprocess.run(["rm", "-rf", folder], check=True)


# --- millions of names -------------------------------------------------------------------------------------------------------------------


def test_a_column_of_names(tmp_path: Path) -> None:
    """Of one length and only of letters and digits, sorted; folders, links, locks and other names are left out."""
    folder = tmp_path / "of"
    folder.mkdir()
    names = [f"{number * 7919 % 100_003:05}" for number in range(3000)]
    for name in [*names, "short", "longer name", "12-45", "äöüäö", "12345.__lock"]:
        (folder / name).touch()
    (folder / "abcde").mkdir()
    (folder / "abcde/fghij").touch()
    (folder / "linkt").symlink_to("short")
    store = LocalStore(tmp_path)
    assert [name.decode() for name in store.list_column("of/", 5).names.tolist()] == sorted([*names, "short"])
    assert store.list_column("of/abcde/", 5).names.tolist() == [b"fghij"]
    assert (
        len(store.list_column("none/", 5).names) == len(LocalStore(tmp_path / "none").list_column("of/", 5).names) == 0
    )
    assert len(store.list_column("linkt/", 5).names) == 0
    memory = MemoryStore()
    for name in ("of/bcdef", "of/abcde", "of/ab", "of/abcde/x", "of/ab_de"):
        memory.set(name, b"")
    assert memory.list_column("of/", 5).names.tolist() == [b"abcde", b"bcdef"]


def test_values_that_never_change_are_erased_without_locks(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, sync=True)
    for name in ("a/x", "a/y", "b/z", "c"):
        store.set(name, b"1")
    store.erase_immutable(["a/x", "a/none", "none/x", "b/z", "c", "c/x"])
    assert store.list() == ["a/y"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "y"]
    LocalStore(tmp_path / "none").erase_immutable(["x"])
    with pytest.raises(StoreError, match="cannot be erased"):
        store.erase_immutable(["a/y", "b"])
    with pytest.raises(ReadOnlyError):
        LocalStore(tmp_path, read_only=True).erase_immutable(["c"])


NAMES = st.text(st.sampled_from("aB0-._ä"), min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})


@settings(max_examples=60)
@given(
    files=st.dictionaries(NAMES, st.integers(0, 9)),
    folders=st.sets(NAMES),
    links=st.sets(NAMES),
    threads=st.integers(1, 3),
    length=st.integers(1, 4),
)
def test_sizes_beside_a_column_of_names(
    files: dict[str, int], folders: set[str], links: set[str], threads: int, length: int
) -> None:
    """In pages, as a subclass and a wrapped store are called."""
    with TemporaryDirectory() as place:
        below = Path(place, "of")
        below.mkdir()
        for name, size in files.items():
            (below / name).write_bytes(bytes(size))
        for name in folders - files.keys():
            (below / name).mkdir()
            (below / name / "abc").touch()
        for name in links - files.keys() - folders:
            (below / name).symlink_to(Path(place))
        store = LocalStore(place, threads=threads)
        found = store.list_column("of/", length, sizes=True)
        expected = {n: s for n, s in files.items() if len(n) == length and n.isascii() and n.isalnum()}
        assert found.sizes is not None
        assert list(zip(found.names.tolist(), found.sizes.tolist(), strict=True)) == [
            (name.encode(), expected[name]) for name in sorted(expected)
        ]
        for paged in (
            Store.list_column(store, "of/", length, sizes=True),
            WrappedStore(store).list_column("of/", length, sizes=True),
        ):
            assert paged.sizes is not None
            assert paged.names.tolist() == found.names.tolist()
            assert paged.sizes.tolist() == found.sizes.tolist()
        assert store.list_column("of/", length).sizes is None


def test_names_that_vanish_while_their_sizes_are_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "of"
    folder.mkdir()
    names = [f"{number:05}" for number in range(8_000)]
    for name in names:
        (folder / name).write_bytes(b"123")
    remover = Thread(target=lambda: [(folder / name).unlink() for name in names[::2]])
    remover.start()
    while remover.is_alive():
        found = LocalStore(tmp_path, threads=2).list_column("of/", 5, sizes=True)
        assert found.sizes is not None
        assert len(found.names) == len(found.sizes)
        assert set(found.sizes.tolist()) == {3}
        assert {name.encode() for name in names[1::2]} <= set(found.names.tolist())
    remover.join()


def test_a_subclass_is_asked_for_sizes_by_its_own_pages(tmp_path: Path) -> None:
    class Half(LocalStore):
        __slots__ = ()

        def list_page(
            self,
            prefix: str,
            after: str = "",
            *,
            delimited: bool = False,
            details: bool = False,
            limit: int | None = None,
        ) -> Page:
            page = super().list_page(prefix, after, delimited=delimited, details=details, limit=limit)
            assert page.sizes is not None
            return page._replace(sizes=page.sizes * 2)

    LocalStore(tmp_path).set("of/abcde", b"123")
    found = Half(tmp_path).list_column("of/", 5, sizes=True)
    assert found.sizes is not None
    assert found.sizes.tolist() == [6]


def test_an_interrupt_while_a_root_is_closed_is_not_lost(tmp_path: Path) -> None:
    """The code that Python runs to close it would get the interrupt first, and could not raise it."""
    held = [RootFolder(str(tmp_path))]
    fd = held[0].fd
    with pytest.raises(KeyboardInterrupt):
        deque(map(operator.call, (interrupt_main, held.clear)), maxlen=0)
        for _ in range(10):  # Python 3.14 does not look for an interrupt after each call
            pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_threads_list_the_root_at_once(tmp_path: Path) -> None:
    """Each has its own position in the folder."""
    names = [f"k{number:04}" for number in range(2000)]
    for name in names:
        (tmp_path / name).touch()
    store = LocalStore(tmp_path)

    def list_often(_: int) -> None:
        for _ in range(20):
            assert store.list_page("").keys == names

    in_threads(4, list_often)
