"""An object read by ranges like a file: the same bytes as a local file, few requests, and never another version."""

from __future__ import annotations

import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import NotFoundError, StoreError
from frazil.integrations.files.sources import ranged_file
from frazil.integrations.files.sources.ranged_file import PAGE, RangedFile
from frazil.stores.memory import MemoryStore
from frazil.testing import CountingStore

LENGTH = 40 * PAGE + 17


def stored(data: bytes) -> CountingStore:
    store = CountingStore(MemoryStore())
    store.set("a/b", data)
    store.clear()
    return store


steps = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 300)),
    st.tuples(st.just("seek"), st.integers(0, 1100)),
    st.tuples(st.just("from end"), st.integers(0, 1000)),
    st.tuples(st.just("on"), st.integers(-50, 50)),
)


@given(st.integers(0, 1000), st.lists(steps, max_size=30), st.integers(1, 8))
def test_ranged_files_read_like_files(size: int, steps: list[tuple[str, int]], kept: int) -> None:
    data = os.urandom(size)
    plain = io.BytesIO(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranged_file, "PAGE", 16)
        patch.setattr(ranged_file, "_CACHED_PAGES", kept)
        patch.setattr(ranged_file, "_LARGE", 200)
        file = RangedFile(store := stored(data), "a/b", "b")
        for step, number in steps:
            if step == "read":
                assert file.read(number) == plain.read(number)
            elif step == "seek":
                assert file.seek(number) == plain.seek(number)
            elif step == "from end":
                assert file.seek(-min(number, size), os.SEEK_END) == plain.seek(-min(number, size), os.SEEK_END)
            else:
                there = max(plain.tell() + number, 0)
                assert file.seek(there - file.tell(), os.SEEK_CUR) == plain.seek(there)
            assert file.tell() == plain.tell()
            assert len(file._pages) <= kept
        assert file.requests == store.count()
        assert file.bytes_read == store.bytes_read


def test_small_reads_near_each_other_are_one_request() -> None:
    file = RangedFile(store := stored(bytes(LENGTH)), "a/b", "b")
    for at in range(0, PAGE, 512):
        file.seek(at)
        file.read(100)
    assert store.count("look up") == store.count("fetch") == 1
    assert store.bytes_read == PAGE


def test_reading_on_asks_for_more_at_once() -> None:
    file = RangedFile(store := stored(bytes(LENGTH)), "a/b", "b")
    while file.read(1000):
        pass
    assert store.bytes_read == LENGTH
    assert store.count("fetch") <= 8


def test_a_large_read_is_one_request_and_not_kept() -> None:
    file = RangedFile(store := stored(bytes(LENGTH)), "a/b", "b")
    file.seek(5)
    assert len(file.read(2**20 + 3)) == 2**20 + 3
    assert store.count("fetch") == 1 and store.bytes_read == 2**20 + 3
    assert not file._pages


def test_a_small_file_is_one_request() -> None:
    file = RangedFile(store := stored(bytes(10 * PAGE)), "a/b", "b")
    for at in (9 * PAGE, 0, 4 * PAGE):
        file.seek(at)
        assert file.read(10) == bytes(10)
    assert store.count("fetch") == 1


def test_another_version_is_an_error() -> None:
    file = RangedFile(store := stored(bytes(LENGTH)), "a/b", "b")
    file.read(10)
    store.set("a/b", bytes(LENGTH))
    file.read(10)  # from the cached page
    file.seek(PAGE)
    with pytest.raises(StoreError, match="changed while it was read") as caught:
        file.read(10)
    assert file.failure is caught.value


def test_missing_objects() -> None:
    with pytest.raises(NotFoundError, match="there is no file") as caught:
        RangedFile(MemoryStore(), "a/b", "s3://x/a/b")
    assert caught.value.key == "s3://x/a/b"
