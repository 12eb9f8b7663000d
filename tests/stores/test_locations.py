"""Locations: the store for a text, a path or a store, and the keys below a path in it."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from frazil.errors import InvalidInputError
from frazil.stores.local.local_store import LocalStore
from frazil.stores.locations import key_prefix, resolve
from frazil.stores.memory import MemoryStore
from frazil.stores.objects.object_store import ObjectStore
from frazil.stores.store import Store
from frazil.stores.zip.zip_store import ZipStore


def local_path(place: tuple[Store, str]) -> str:
    store, prefix = place
    assert isinstance(store, LocalStore)
    assert prefix == ""
    return store.path


def same_place(one: Store, other: Store) -> bool:
    one.set("a/b", key := uuid.uuid4().bytes)
    return other.get("a/b") == key


@pytest.mark.parametrize("name", ["sea.zarr", "with space", "a:b", "%41", "C:x", "a:/b", "é"])
def test_folders(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for location in (name, tmp_path / name, str(tmp_path / name), Path(name)):
        assert local_path(resolve(location)) == str(tmp_path / name)
    assert not os.listdir(tmp_path), "nothing is made before something is written"


def test_file_urls(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    for url in (folder.as_uri(), f"file://localhost{folder.as_uri()[7:]}", folder.as_uri().replace("file:", "FILE:")):
        assert local_path(resolve(url)) == str(folder)


@pytest.mark.parametrize("url", ["file://server/share", "file://relative", "file://", "file:///a%00b"])
def test_file_urls_of_elsewhere_are_refused(url: str) -> None:
    with pytest.raises(InvalidInputError):
        resolve(url)


def test_memory() -> None:
    name = str(uuid.uuid4())
    store, prefix = resolve(f"memory://{name}")
    assert prefix == ""
    assert same_place(store, MemoryStore(name))
    inside, prefix = resolve(f"memory://{name}/sea.zarr/", "foo/bar")
    assert prefix == "sea.zarr/foo/bar/"
    assert same_place(inside, store)
    for wrong in ("memory://", "memory:///x", f"memory://{name}/../x"):
        with pytest.raises(InvalidInputError):
            resolve(wrong)


def test_stores_are_themselves() -> None:
    store = MemoryStore()
    assert resolve(store) == (store, "")
    assert resolve(store, "/foo/bar") == (store, "foo/bar/")


@pytest.mark.parametrize(
    ("location", "archive", "prefix"),
    [
        ("a.zip", "a.zip", ""),
        ("b/c.ZIP", "b/c.ZIP", ""),
        (Path("a.zarr.zip"), "a.zarr.zip", ""),
        ("a.zarr.zip/", "a.zarr.zip", ""),
        ("d/a.zarr.zip/group/b", "d/a.zarr.zip", "group/b/"),
        ("a.zip/b.zip", "a.zip", "b.zip/"),
        ("folder.zip/b.zip/c", "folder.zip/b.zip", "c/"),
        ("file:///d/a.zip/g", "/d/a.zip", "g/"),
    ],
)
def test_archives(
    location: str | Path, archive: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.zip").mkdir()
    store, found = resolve(location)
    assert isinstance(store, ZipStore)
    assert (store.path, found) == (os.path.abspath(archive), prefix)
    assert not Path(archive).exists(), "nothing is made"


@pytest.mark.parametrize(
    ("url", "archive", "prefix"),
    [
        ("s3://b/x.zarr.zip", "s3://b/x.zarr.zip", "foo/"),
        ("https://h/p/x.zip/group/a", "https://h/p/x.zip", "group/a/foo/"),
        ("s3://b.zip/x", None, "foo/"),
        ("s3://b.zip", None, "foo/"),
        ("s3://b/x.zipped", None, "foo/"),
    ],
)
def test_archives_in_buckets(url: str, archive: str | None, prefix: str) -> None:
    store, found = resolve(url, "foo")
    assert found == prefix
    assert isinstance(store, ObjectStore if archive is None else ZipStore)
    assert archive is None or store.path == archive  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://b/p/q/", "s3://b/p/q"),
        ("S3://b", "s3://b"),
        ("gs://b", "gs://b"),
        ("http://h/x", "http://h/x"),
        ("https://h:80/x.zarr", "https://h:80/x.zarr"),
    ],
)
def test_urls_are_object_stores(location: str, shown: str) -> None:
    store, prefix = resolve(location, "foo", requests_in_flight=7)
    assert (repr(store), prefix) == (f"ObjectStore({shown!r})", "foo/")
    assert isinstance(store, ObjectStore)
    assert store.requests_in_flight == 7


def test_a_folder_may_be_called_zip(tmp_path: Path) -> None:
    (tmp_path / "folder.zip").mkdir()
    assert isinstance(resolve(tmp_path / "folder.zip")[0], LocalStore)


@pytest.mark.parametrize("location", ["ftp://h/x", "memry://x", "git+ssh://h", "", "a\0b", b"bytes", 5, None])
def test_errors_for_other_locations_list_the_allowed_ones(location: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve(location)  # type: ignore[arg-type]
    assert caught.value.hint is not None


@pytest.mark.parametrize("location", ["./s3://x", "C://x", "c:\\data", "://x", "1x y://z", "a b://c"])
def test_paths_similar_to_urls_are_folders(location: str) -> None:
    assert isinstance(resolve(location)[0], LocalStore)


@pytest.mark.parametrize(
    ("path", "prefix"),
    [("", ""), ("/", ""), ("a", "a/"), ("/a/b", "a/b/"), ("a/b/", "a/b/"), ("/é/", "é/"), (".a", ".a/")],
)
def test_key_prefix(path: str, prefix: str) -> None:
    assert key_prefix(path) == prefix


@pytest.mark.parametrize("path", ["//", "a//b", "../a", "a/./b", "a\0", "//a", 5, None])
def test_bad_paths(path: object) -> None:
    with pytest.raises(InvalidInputError):
        key_prefix(path)  # type: ignore[arg-type]
