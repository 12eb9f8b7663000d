"""Remote files: scanned by ranges, with no download, and read in place."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
from tests.cli.conftest import TEMP, write_netcdf

import frazil
from frazil.errors import DataError, FormatError, InvalidInputError, NotFoundError, StoreError
from frazil.integrations.files.imports.importer import import_scanned
from frazil.integrations.files.scanner import scan_file
from frazil.stores.memory import MemoryStore
from frazil.stores.values import Columns, Fetched, Version
from frazil.testing import CountingStore

URL = "s3://sea/data/ocean.nc"
LARGE = np.random.default_rng(1).integers(0, 2**31, (40, 300, 300), np.int32)  # 14 MB that filters cannot compress


def write_large(path: Path, kind: str) -> bytes:
    """The arrays `large` and `t`; the bytes of the file."""
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, length in zip("tyx", LARGE.shape, strict=True):
            file.createDimension(name, length)
        options = {"zlib": True, "chunksizes": (1, 100, 100)} if kind == "NETCDF4" else {}
        variable = file.createVariable("large", "i4", ("t", "y", "x"), **options)
        variable[...] = LARGE
        variable.units = "m"
        file.createVariable("t", "f8", ("t",))[...] = np.arange(40)
    return path.read_bytes()


@pytest.fixture(scope="module", params=["NETCDF4", "NETCDF3_64BIT_DATA"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_large(tmp_path_factory.mktemp("large") / "ocean.nc", request.param)


def holding(data: bytes, kind: type[CountingStore] = CountingStore) -> CountingStore:
    store = kind(MemoryStore())
    store.set("data/ocean.nc", data)
    store.clear()
    return store


def test_a_small_part_of_the_file_is_read(large: bytes) -> None:
    store = holding(large)
    prefixes = {"s3://sea/": store}
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=prefixes)
    session = repo.writable_session()
    scanned = scan_file(URL, virtual_prefixes=prefixes)
    done = import_scanned(session, scanned, URL, mode="virtual", virtual_prefixes=prefixes)
    session.commit("references")
    assert sorted(done.arrays) == ["large", "t"] and done.skipped == ()
    assert store.bytes_read < len(large) / 10
    assert store.count("fetch") < 20 and store.count("look up") < 6
    array = repo.readonly_session().open("large")
    assert isinstance(array, frazil.Array)
    assert array.attrs["units"] == "m"
    store.clear()
    assert np.array_equal(array[3, 50:150, 50:150], LARGE[3, 50:150, 50:150])
    assert store.count() <= 4 and store.bytes_read < 2**21
    store.clear()
    assert np.array_equal(array[...], LARGE)
    assert store.count() <= 4, "neighbours are asked for as one"


@pytest.mark.parametrize("how", ["copy", "virtual"])
def test_a_remote_file_is_imported_by_copy_and_by_reference(how: str, tmp_path: Path) -> None:
    write_netcdf(tmp_path / "ocean.nc")
    store = holding((tmp_path / "ocean.nc").read_bytes())
    prefixes = {"s3://sea/": store}
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=prefixes)
    session = repo.writable_session()
    import_scanned(session, scan_file(URL, virtual_prefixes=prefixes), URL, mode=how, virtual_prefixes=prefixes)  # type: ignore[arg-type]
    session.commit("imported")
    root = repo.readonly_session().root
    assert np.array_equal(root["level1/temp"][...], TEMP)
    if how == "virtual":
        store.set("data/ocean.nc", (tmp_path / "ocean.nc").read_bytes())
        with pytest.raises(DataError, match="has changed") as caught:
            repo.readonly_session().root["level1/temp"][...]
        assert caught.value.key == URL and caught.value.chunk == (0, 0, 0)


def test_adopting_is_refused_by_name(tmp_path: Path) -> None:
    write_netcdf(tmp_path / "ocean.nc")
    prefixes = {"s3://sea/": holding((tmp_path / "ocean.nc").read_bytes())}
    scanned = scan_file(URL, virtual_prefixes=prefixes)
    session = frazil.Repository.create(MemoryStore()).writable_session()
    with pytest.raises(InvalidInputError, match="cannot be adopted") as caught:
        import_scanned(session, scanned, URL, mode="adopt", virtual_prefixes=prefixes)
    assert caught.value.key == URL and not session.has_changes


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    write_netcdf(tmp_path / "ocean.nc")
    data = (tmp_path / "ocean.nc").read_bytes()
    prefixes = {"s3://sea/": (store := holding(data))}
    scanned = scan_file(URL, virtual_prefixes=prefixes)
    store.set("data/ocean.nc", data)
    session = frazil.Repository.create(MemoryStore(), virtual_prefixes=prefixes).writable_session()
    with pytest.raises(StoreError, match="changed while it was imported"):
        import_scanned(session, scanned, URL, mode="virtual", virtual_prefixes=prefixes)


class FailingStore(CountingStore):
    """Fails from the n-th fetch of bytes on."""

    left = 10**9

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        if len(spans):
            FailingStore.left -= 1
        if FailingStore.left < 0:
            raise StoreError("the connection is gone", key=names[0])
        return super().fetch(names, spans, expect=expect, continue_from=continue_from, single_read=single_read)


def test_a_store_that_fails_is_no_damaged_file() -> None:
    """At any failure, an error that h5py makes of it must not look like an unreadable dataset."""
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        for number in range(4):
            group = file.create_group(f"group{number}")
            group.attrs["about"] = "x" * 1000
            group.create_dataset("a", data=np.arange(50000) + number, chunks=(100,))
    prefixes = {"s3://sea/": holding(made.getvalue(), FailingStore)}
    FailingStore.left = 10**9
    expected = scan_file(URL, virtual_prefixes=prefixes)
    assert len(expected.arrays) == 4
    used = 10**9 - FailingStore.left
    assert used > 3
    for count in range(used):
        FailingStore.left = count
        with pytest.raises(StoreError, match="the connection is gone") as caught:
            scan_file(URL, virtual_prefixes=prefixes)
        assert caught.value.key == URL
    FailingStore.left = used
    assert scan_file(URL, virtual_prefixes=prefixes).groups == expected.groups


@pytest.mark.parametrize("data", [b"", b"no such file", b"\x89HDF\r\n\x1a\n" + bytes(100), b"CDF\x01"])
def test_files_of_other_formats(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        scan_file(URL, virtual_prefixes={"s3://sea/": holding(data)})
    assert caught.value.key == URL


def test_missing_and_forbidden_files() -> None:
    prefixes = {"s3://sea/": holding(b"")}
    with pytest.raises(NotFoundError, match="there is no file") as caught:
        scan_file("s3://sea/other.nc", virtual_prefixes=prefixes)
    assert caught.value.key == "s3://sea/other.nc"
    for url, message in (
        ("s3://lake/a.nc", "outside of the prefixes"),
        ("s3://sea/data/", "a folder"),
        ("s3://a:b@sea/c", "not a bucket"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            scan_file(url, virtual_prefixes=prefixes)
