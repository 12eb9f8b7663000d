"""Archives between programs: Python's zipfile and zarr-python read ours, and we read theirs. Random operations against a dict."""

from __future__ import annotations

import os
import warnings
import zipfile
from errno import EMFILE
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers.web import Suffixes, web_server

import frazil
from frazil.errors import FormatError, InvalidInputError, ReadOnlyError, StoreError
from frazil.stores import LocalStore, MemoryStore, ObjectStore, ZipStore
from frazil.stores.zip import directory

VALUES = np.arange(60 * 80, dtype="f4").reshape(60, 80)
KEYS = st.sampled_from(["a", "b/c", "b/d", "é/ü", "zarr.json"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.binary(max_size=40)),
        st.tuples(st.just("erase"), KEYS, st.just(b"")),
        st.tuples(st.just("prefix"), st.sampled_from(["", "b/"]), st.just(b"")),
        st.tuples(st.just("reopen"), st.just(""), st.just(b"")),
        st.tuples(st.just("large"), KEYS, st.just(bytes(700_000))),
    ),
    max_size=12,
)


def members(path: str) -> dict[str, bytes]:
    """Written by zipfile, each once."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert len(file.namelist()) == len(set(file.namelist()))
        return {name: file.read(name) for name in file.namelist()}


@given(STEPS, st.booleans())
def test_random_operations(steps: list[tuple[str, str, bytes]], held: bool) -> None:
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.zip")
        expected: dict[str, bytes] = {}
        store = ZipStore(path)
        if held:
            store.__enter__()
        for step, key, value in steps:
            if step in {"put", "large"}:
                store.set(key, value)
                expected[key] = value
            elif step == "erase":
                store.erase(key)
                expected.pop(key, None)
            elif step == "prefix":
                store.erase_prefix(key)
                expected = {name: kept for name, kept in expected.items() if not name.startswith(key)}
            else:
                store.close()
                store = ZipStore(path)
            assert store.list() == sorted(expected)
            assert store.get_many(list(expected)) == list(expected.values())
        store.close()
        if os.path.exists(path):
            assert members(path) == expected
            live = sum(len(name.encode()) * 2 + len(value) + 200 for name, value in expected.items())
            assert os.path.getsize(path) <= 2 * live + 2**20 + 200, "dead bytes have a limit"
            assert os.listdir(folder) == ["x.zip"]
        assert ZipStore(path).list() == sorted(expected)


def test_zarr_python_reads_written_archives(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    path = str(tmp_path / "x.zarr.zip")
    frazil.create_array(path, path="g/sharded", data=VALUES, chunks=(10, 10), shards=(30, 40))
    plain = frazil.create_array(f"{path}/g/plain", data=VALUES, chunks=(20, 20))
    plain[5:25, 5:25] = -1
    plain.attrs["unit"] = "m"
    with zarr.storage.ZipStore(path, mode="r") as store:
        group = zarr.open_group(store, mode="r")
        assert (group["g/sharded"][:] == VALUES).all()
        assert (group["g/plain"][:] == plain[:]).all()
        assert dict(group["g/plain"].attrs) == {"unit": "m"}


def test_archives_of_zarr_python_are_read_and_written_on(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    path = str(tmp_path / "x.zarr.zip")
    with warnings.catch_warnings(), zarr.storage.ZipStore(path, mode="w") as store:
        warnings.simplefilter("ignore")  # zipfile warns of a second entry of one name
        made = zarr.create_array(store, name="a", shape=VALUES.shape, dtype="f4", chunks=(10, 10), shards=(30, 40))
        made[:] = VALUES
        made.attrs["n"] = 1
    array = frazil.open_array(f"{path}/a", mode="r+")
    assert len(ZipStore(path).list()) < len(zipfile.ZipFile(path).namelist()), "the attributes were written twice"
    assert (array[:] == VALUES).all()
    assert (array[3:50:7, 11], array.attrs["n"]) == (pytest.approx(VALUES[3:50:7, 11]), 1)
    array[:10] = 7
    with zarr.storage.ZipStore(path, mode="r") as store:
        assert (zarr.open_array(store, path="a")[:] == array[:]).all()
    assert len(members(path)) == len(ZipStore(path).list())


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_zipfile_are_read_and_written_on(tmp_path: Path, method: int) -> None:
    path = tmp_path / "x.zip"
    values = {"a": b"1" * 1000, "b/c": b"", "é": os.urandom(200_000)}
    with zipfile.ZipFile(path, "w", method) as file:
        file.comment = b"a comment"
        file.mkdir("folder")
        for name, value in values.items():
            with file.open(name, "w", force_zip64=True) as member:
                member.write(value)
    store = ZipStore(path)
    assert {key: store.get(key) for key in store.list()} == values
    store.set("new", b"value")
    store.set("a", b"other")
    store.set("large", bytes(2**21))
    store.erase("large")
    assert members(str(path)) == {**values, "new": b"value", "a": b"other"}
    with zipfile.ZipFile(path, "a") as file:
        assert file.comment == b"a comment", "also in the archive that was rewritten without unused bytes"
        file.writestr("of zipfile", b"!")
    assert store.get("of zipfile") == b"!", "a changed archive is noticed"
    os.replace(path, tmp_path / "y.zip")
    assert (store.get("a"), store.list()) == (None, [])


def test_entries_of_streams(tmp_path: Path) -> None:
    """Their sizes follow the data."""

    class Stream:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> int:
            self.data += data
            return len(data)

        def flush(self) -> None:
            pass

    stream = Stream()
    with zipfile.ZipFile(stream, "w") as file:  # type: ignore[arg-type] # a stream that is only written
        for name in ("a", "b"):
            file.writestr(zipfile.ZipInfo(name), name.encode() * 100)
    (tmp_path / "x.zip").write_bytes(stream.data)
    store = ZipStore(tmp_path / "x.zip")
    store.set("large", bytes(2**21))
    store.erase("large")  # and the archive is rewritten
    assert (tmp_path / "x.zip").stat().st_size < 2**20
    assert members(str(tmp_path / "x.zip")) == {"a": b"a" * 100, "b": b"b" * 100}


def test_a_comment_with_the_mark_of_an_end_record() -> None:
    tail = directory.end_records(0, 0, 0, b"PK\5\6 in a comment")
    assert directory.find_end(tail, len(tail)) == (0, 0, 0, b"PK\5\6 in a comment")


def test_large_numbers(tmp_path: Path) -> None:
    """zip64 fields, with limits that small archives reach."""
    path = str(tmp_path / "x.zip")
    with patch.object(directory, "_FULL", 50), patch.object(directory, "_FULL16", 2):
        local = directory.local_header(b"a", 60, 1, 0)
        record = directory.central_record(b"a", 70, 60, 1, 0)
        end = directory.end_records(100, 100, 5)
    assert len(local) == 30 + 1 + 20
    assert len(record) == 46 + 1 + 28
    assert len(end) == 56 + 20 + 22
    with ZipStore(path) as store:  # more entries than 16 bits can count
        keys = [f"c/{i}" for i in range(2**16)]
        store.put_many(keys, frazil.stores.values.pieces_of([b"%d" % i for i in range(2**16)]), [None] * 2**16)
    with zipfile.ZipFile(path) as file:
        assert (len(file.namelist()), file.read("c/65535")) == (2**16, b"65535")
    assert ZipStore(path).get("c/65534") == b"65534"


def test_a_sparse_archive_beyond_four_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    store = ZipStore(path)
    store.set("a", b"1")
    raw = path.read_bytes()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", b"1")
        file.fp.seek(2**32 + 5)  # type: ignore[union-attr]
        file.start_dir = 2**32 + 5  # type: ignore[attr-defined]
        file.writestr("b", b"2")
    assert len(raw) < 2**10
    assert (store.get("a"), store.get("b")) == (b"1", b"2")
    store.set("c", b"3")
    with zipfile.ZipFile(path) as file:
        assert [file.read(name) for name in "abc"] == [b"1", b"2", b"3"]


# --- in buckets and on web servers -----------------------------------------------------------------------------------------------------------


def filled(path: str) -> None:
    with ZipStore(path) as store:
        frazil.create_array(store, path="sharded", data=VALUES, chunks=(10, 10), shards=(30, 40))
        frazil.create_array(store, path="plain", data=VALUES, chunks=(10, 10))
        store.set("large", bytes(300_000))


@pytest.mark.parametrize("suffix", [True, "refused"])
def test_web_servers(tmp_path: Path, suffix: Suffixes) -> None:
    filled(str(tmp_path / "x.zarr.zip"))
    with web_server(tmp_path, suffix=suffix) as url:
        group = frazil.open_group(f"{url}/x.zarr.zip")
        assert sorted(group) == ["plain", "sharded"], "listed by the directory"
        for name in group:
            array = group[name]
            assert isinstance(array, frazil.Array)
            assert (array[:] == VALUES).all()
            assert (array[5:31:5, 70:] == VALUES[5:31:5, 70:]).all()
        assert frazil.open_array(f"{url}/x.zarr.zip/plain")[3, 4] == VALUES[3, 4]
        for _ in range(2):
            assert (frazil.open_array(f"{url}/x.zarr.zip/sharded", cache=tmp_path / "cache")[:] == VALUES).all()
        store = ZipStore(f"{url}/x.zarr.zip")
        assert store.get_partial_values([("large", (299_990, None)), ("large", (0, 3))]) == [bytes(10), bytes(3)]
        with pytest.raises(ReadOnlyError) as caught:
            store.set("a", b"1")
        assert caught.value.hint is not None
        filled_again = ZipStore(tmp_path / "x.zarr.zip")
        filled_again.set("plain/zarr.json", b"{}")
        assert store.get("plain/zarr.json") == b"{}", "a changed object is noticed"


def test_objects_of_buckets(tmp_path: Path) -> None:
    obstore = pytest.importorskip("obstore")
    filled(str(tmp_path / "x.zarr.zip"))
    for place in (ObjectStore(obstore.store.MemoryStore()), MemoryStore()):
        place.set("p/x.zarr.zip", (tmp_path / "x.zarr.zip").read_bytes())
        store = ZipStore("p/x.zarr.zip", store=place)
        for name in ("plain", "sharded"):
            assert (frazil.open_array(store, path=name)[2:50:3, ::7] == VALUES[2:50:3, ::7]).all()
        held = store.fetch(["large"], frazil.stores.values.WHOLE)
        place.set("p/x.zarr.zip", b"PK\5\6" + bytes(18))
        assert store.list() == []
        assert store.get("large") is None
        del held


# --- refusals --------------------------------------------------------------------------------------------------------------------------------


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "text.zip").write_bytes(b"text")
    for wrong in ("", "a/", 5, b"a", "a\0b"):
        with pytest.raises(InvalidInputError):
            ZipStore(wrong)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="folder"):
        ZipStore(tmp_path / "folder.zip").list()
    for call in (lambda: frazil.open(tmp_path / "text.zip"), lambda: frazil.create_group(tmp_path / "text.zip")):
        with pytest.raises(FormatError):
            call()
    assert (tmp_path / "text.zip").read_bytes() == b"text"
    with pytest.raises(InvalidInputError, match="inside the other"):
        LocalStore(tmp_path / "d").set("zarr.json", b"{}")
        frazil.copy(tmp_path / "d", tmp_path / "d/x.zip")


def test_archives_have_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    ZipStore(path).set("a", b"old")
    with ZipStore(path) as first:
        first.set("a", b"new")
        other = ZipStore(path)
        assert (other.get("a"), first.get("a")) == (b"old", b"new"), "until the end readers find the old archive"
        with (
            patch(
                "frazil.stores.zip.archive_file.FREE_FILES",
                frazil.base.retry.FREE_FILES._replace(attempts=2),
            ),
            pytest.raises(StoreError, match="another writer"),
        ):
            other.set("b", b"1")
    assert other.get("a") == b"new"
    other.set("b", b"1")
    assert members(str(path)) == {"a": b"new", "b": b"1"}


def test_values_are_kept_while_too_many_files_are_open(tmp_path: Path) -> None:
    """No descriptor can be copied when the archive is finished."""
    with ZipStore(tmp_path / "a.zip") as store, patch("os.dup", side_effect=OSError(EMFILE, "too many")):
        store.set("a", b"1")
    assert ZipStore(tmp_path / "a.zip").get("a") == b"1"
