"""Virtual chunks: permissions, where they are read, and that a missing or changed file is reported, whatever else is read with it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil import _kernel
from frazil.errors import DataError, FrazilError, InvalidInputError, StoreError
from frazil.formats.manifests import FileCheck
from frazil.repository.virtual import virtual_fetch
from frazil.repository.virtual.locations import file_location
from frazil.repository.virtual.virtual_fetch import NO_CONTAINERS, VirtualContainers, open_containers
from frazil.stores.local.local_store import LocalStore
from frazil.stores.memory import MemoryStore
from frazil.stores.values import Columns, Sources
from frazil.testing import CountingStore


def url(path: Path, name: str = "") -> str:
    return file_location(f"{path}/{name}")


def spans_of(*rows: tuple[int, int, int]) -> Columns:
    return np.array(rows, np.int64).reshape(-1, 3)


def read(fetched: tuple[Sources, Columns]) -> list[bytes]:
    """The bytes of each row, as returned by the kernel."""
    sources, rows = fetched
    starts = np.concatenate(([0], np.cumsum(rows[:, 2])))
    out = np.empty(int(starts[-1]), np.uint8)
    assert not _kernel.read_rows(*sources, np.ascontiguousarray(rows), out, starts, 1)
    return [out[a:b].tobytes() for a, b in zip(starts, starts[1:], strict=False)]


def bytes_of(places: VirtualContainers, location: str, start: int = 0, length: int = 3) -> bytes:
    return read(places.fetch([location], spans_of((0, start, length))))[0]


# --- permissions ------------------------------------------------------------------------------------------------------------------------


def test_virtual_chunks_need_an_allowed_prefix(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    for places in (NO_CONTAINERS, open_containers(None), open_containers([]), open_containers({})):
        with pytest.raises(InvalidInputError, match="outside of the prefixes") as caught:
            bytes_of(places, url(tmp_path, "a"))
        assert caught.value.key == url(tmp_path, "a")
        assert f"virtual_prefixes=['{url(tmp_path)}']" in str(caught.value)


@pytest.mark.parametrize(
    "inside",
    ["secret", "../secret", "%2e%2e/secret", ".%2E/secret", "..%2Fsecret", "%2e%2e%2fsecret", "in/../../secret"],
)
def test_paths_cannot_leave_a_prefix(tmp_path: Path, inside: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "secret").write_bytes(b"key")
    (tmp_path / "data-secret").write_bytes(b"key")
    places = open_containers([url(tmp_path, "data/")])
    for location in (url(tmp_path, "data/") + inside, url(tmp_path, "data") + "-secret", url(tmp_path, "secret")):
        with pytest.raises(FrazilError):
            bytes_of(places, location)
    assert not places.look_up([url(tmp_path, "data/secret")])


@pytest.mark.parametrize("links", ["file", "folder"])
def test_links_are_not_followed(tmp_path: Path, links: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").write_bytes(b"key")
    place, target = ("f", "out/f") if links == "file" else ("inner", "out")
    (tmp_path / "data" / place).symlink_to(tmp_path / target)
    location = url(tmp_path, "data/f" if links == "file" else "data/inner/f")
    with pytest.raises(StoreError, match="link") as caught:
        bytes_of(open_containers([url(tmp_path, "data/")]), location)
    assert caught.value.key == location


def test_a_folder_that_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(b"abc")
    (tmp_path / "named").symlink_to(tmp_path / "real")
    assert bytes_of(open_containers([url(tmp_path, "named/")]), url(tmp_path, "named/f")) == b"abc"


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        ("file:///data/", "must be a list or a mapping"),
        (3, "must be a list or a mapping"),
        (["file:///data"], "ends in a slash"),
        (["/data/"], "it is not a URL"),
        ([None], "ends in a slash"),
        (["file://host/data/"], "of a machine"),
        (["ftp://bucket/data/"], "no store for the scheme 'ftp'"),
        (["https://example.com/?key=1/"], "no query"),
        (["s3://key:word@bucket/"], "not a bucket or host"),
        ({"s3://bucket/": "s3://key:word@other/"}, "not a bucket or host"),
        ({"s3://bucket/": "nothing://other/"}, "no store for the scheme"),
        ({"https://host/a%20b/": "/copy", "https://HOST:443/a b/": "/other"}, "mapped twice"),
        ({"s3://": "file:///copy/"}, "no bucket"),
    ],
)
def test_prefixes_that_are_none_are_refused_at_opening(prefixes: list[str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        open_containers(prefixes)


def test_other_schemes_are_refused_by_location() -> None:
    with pytest.raises(InvalidInputError, match="outside of the prefixes"):
        open_containers(["file:///"]).find("s3://bucket/x")


def test_the_longest_prefix_counts(tmp_path: Path) -> None:
    inner, outer = MemoryStore(), MemoryStore()
    inner.set("c", b"one")
    outer.set("a/b/c", b"two")
    outer.set("a/d", b"three")
    for prefixes in ({"s3://x/": outer, "s3://x/a/b/": inner}, {"s3://x/a/b/": inner, "s3://x/": outer}):
        places = open_containers(prefixes)
        assert bytes_of(places, "s3://x/a/b/c") == b"one"
        assert bytes_of(places, "s3://x/a/d") == b"thr"


# --- locations --------------------------------------------------------------------------------------------------------------------------


def test_names_with_signs_that_urls_encode(tmp_path: Path) -> None:
    name = "ä b%25#?.nc"
    (tmp_path / name).write_bytes(b"abc")
    places = open_containers([url(tmp_path)])
    assert bytes_of(places, url(tmp_path, name)) == b"abc"
    assert bytes_of(places, url(tmp_path) + "/ä%20b%2525%23%3F.nc") == b"abc"
    with pytest.raises(InvalidInputError, match="fragment"):
        places.find(url(tmp_path) + "a#b")


def test_the_kernel_reads_local_files_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    fetched = open_containers([url(tmp_path)]).fetch([url(tmp_path, "a")], spans_of((0, 2, 3), (0, 0, 1)))
    assert fetched[0].files is not None and not fetched[0].buffers
    assert read(fetched) == [b"cde", b"a"]


@pytest.mark.parametrize("kind", ["folder", "url", "store", "memory"])
def test_a_prefix_is_mapped(tmp_path: Path, kind: str) -> None:
    (tmp_path / "copy" / "in").mkdir(parents=True)
    (tmp_path / "copy" / "in" / "f").write_bytes(b"abcdef")
    memory = MemoryStore()
    memory.set("in/f", b"abcdef")
    to = {
        "folder": tmp_path / "copy",
        "url": url(tmp_path, "copy/"),
        "store": LocalStore(tmp_path / "copy"),
        "memory": memory,
    }[kind]
    for prefix in ("s3://bucket/x/", "file:///not/here/"):
        places = open_containers({prefix: to})
        assert bytes_of(places, prefix + "in/f", 1, 2) == b"bc"
        checks = places.look_up([prefix + "in/f"])
        assert checks[prefix + "in/f"].size == 6
        assert read(places.fetch([prefix + "in/f"], spans_of((0, 0, 6)), checks=list(checks.values()))) == [b"abcdef"]


def test_places_pickle(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    places = pickle.loads(pickle.dumps(open_containers({url(tmp_path): None, "s3://b/": tmp_path})))
    assert bytes_of(places, url(tmp_path, "a")) == bytes_of(places, "s3://b/a") == b"abc"


# --- missing and changed files -----------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"abc")
    (tmp_path / "folder").mkdir()
    places = open_containers({url(tmp_path): None, "s3://gone/": tmp_path / "nowhere", "s3://memory/": MemoryStore()})
    for location in (
        url(tmp_path, "no"),
        url(tmp_path, "folder"),
        url(tmp_path, "there/x"),
        "s3://gone/a",
        "s3://memory/a",
    ):
        for names in ([location], [url(tmp_path, "there"), location]):
            with pytest.raises(StoreError, match="does not exist") as caught:
                places.fetch(names, spans_of(*((i, 0, 3) for i in range(len(names)))))
            assert caught.value.key == location


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_file_that_changed_is_an_error(tmp_path: Path, change: str) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    places, location = open_containers([url(tmp_path)]), url(tmp_path, "a")
    checks = list(places.look_up([location]).values())
    assert checks == [FileCheck(3, os.stat(file).st_mtime_ns)]
    assert read(places.fetch([location], spans_of((0, 0, 3)), checks=checks)) == [b"abc"]
    if change == "size":
        file.write_bytes(b"abcd")
    else:
        os.utime(file, ns=(0, os.stat(file).st_mtime_ns + 1))
    with pytest.raises(
        DataError, match="it had 3 bytes and has 4" if change == "size" else "it was written at"
    ) as caught:
        places.fetch([location], spans_of((0, 0, 3)), checks=checks)
    assert caught.value.key == location
    assert read(places.fetch([location], spans_of((0, 0, 3)), checks=[None])) == [b"abc"]


def test_a_changed_object_of_a_store_is_an_error() -> None:
    store = MemoryStore("virtual-changed")
    store.set("a", b"abc")
    places = open_containers({"s3://x/": store})
    checks = list(places.look_up(["s3://x/a"]).values())
    store.set("a", b"abd")
    with pytest.raises(DataError, match="version"):
        places.fetch(["s3://x/a"], spans_of((0, 0, 3)), checks=checks)


def test_a_copy_is_compared_by_its_size_alone(tmp_path: Path) -> None:
    for folder, time in (("one", 10**9), ("two", 2 * 10**9)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_bytes(b"abc")
        os.utime(tmp_path / folder / "a", ns=(0, time))
    one, two = url(tmp_path, "one/"), url(tmp_path, "two/")
    straight, mapped = open_containers([one]), open_containers({one: two})
    location = one + "a"
    for places, others in ((straight, mapped), (mapped, straight)):
        checks = list(places.look_up([location]).values())
        assert read(others.fetch([location], spans_of((0, 0, 3)), checks=checks)) == [b"abc"]
    (tmp_path / "two" / "a").write_bytes(b"abcd")
    with pytest.raises(DataError, match="has 4"):
        mapped.fetch([location], spans_of((0, 0, 3)), checks=list(straight.look_up([location]).values()))


@pytest.mark.parametrize("to", ["file", "memory"])
@pytest.mark.parametrize("span", [(0, 0, 7), (0, 6, 1), (0, 7, 1), (0, 2**62, 2**62)])
def test_reading_beyond_the_end_is_an_error(tmp_path: Path, to: str, span: tuple[int, int, int]) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    memory = MemoryStore()
    memory.set("a", b"abcdef")
    places = open_containers({"s3://x/": tmp_path if to == "file" else memory})
    with pytest.raises(DataError, match="it has 6 bytes") as caught:
        places.fetch(["s3://x/a"], spans_of(span))
    assert caught.value.key == "s3://x/a"


# --- several places -----------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 20), st.integers(0, 12)), max_size=30), st.booleans())
def test_places_of_every_kind_in_one_fetch(
    tmp_path_factory: pytest.TempPathFactory, requested: Sequence[tuple[int, int, int]], few: bool
) -> None:
    folder = tmp_path_factory.mktemp("places")
    memory = MemoryStore()
    contents, names = [], []
    for i in range(9):
        contents.append(bytes(range(32 * i % 200, 32 * i % 200 + 32)))
        names.append([f"file://{folder}/a/{i}", f"s3://one/{i}", f"s3://two/{i}", f"https://three/{i}"][i % 4])
        for part in "ab":
            (folder / part).mkdir(exist_ok=True)
            (folder / part / str(i)).write_bytes(contents[i])
        memory.set(str(i), contents[i])
    far = CountingStore(memory)
    places = open_containers(
        {f"file://{folder}/a/": None, "s3://one/": folder / "b", "s3://two/": memory, "https://three/": far}
    )
    spans = spans_of(*requested)
    expected = [contents[name][start : start + length] for name, start, length in requested]
    with pytest.MonkeyPatch.context() as patch:
        if few:
            patch.setattr(virtual_fetch, "_OPEN_AT_ONCE", 2)
        fetched = places.fetch(names, spans, checks=[places.look_up(names).get(name) for name in names])
    assert read(fetched) == expected


def test_the_same_file_may_be_asked_for_twice(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    places, location = open_containers([url(tmp_path)]), url(tmp_path, "a")
    checks = [None, FileCheck(6), FileCheck(7)]
    assert read(places.fetch([location] * 2, spans_of((0, 0, 1), (1, 1, 2)), checks=checks)) == [b"a", b"bc"]
    with pytest.raises(DataError):
        places.fetch([location] * 3, spans_of((0, 0, 1)), checks=checks)


def test_empty_fetches_send_no_request() -> None:
    _, rows = NO_CONTAINERS.fetch([], spans_of())
    assert len(rows) == 0
