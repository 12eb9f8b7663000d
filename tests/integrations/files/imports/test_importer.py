"""Files imported into repositories in three ways, and read back."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
from tests.cli.conftest import TEMP, write_netcdf

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError, StoreError
from frazil.integrations.files.imports.importer import Mode, folder_prefix, import_scanned, import_size
from frazil.integrations.files.scanner import scan_file
from frazil.stores.memory import MemoryStore

HOW: tuple[Mode, ...] = ("copy", "virtual", "adopt")


@pytest.fixture(params=["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write_netcdf(tmp_path / "ocean.nc", request.param)
    return tmp_path / "ocean.nc"


def opened(file: Path) -> frazil.Repository:
    return frazil.Repository.create(MemoryStore(), virtual_prefixes=[folder_prefix(str(file))])


def check(root: frazil.Group, nested: bool) -> None:
    temp = root["level1/temp" if nested else "temp"]
    assert isinstance(temp, frazil.Array)
    assert np.array_equal(temp[...], TEMP)
    assert np.array_equal(temp[1, 5:9, ::-3], TEMP[1, 5:9, ::-3])
    assert temp.dimension_names == ("t", "y", "x")
    assert temp.attrs["units"] == "degrees"
    assert temp.fill_value == -1
    assert np.array_equal(root["flat"][...], np.arange(12))
    assert root.attrs["title"] == "The sea"
    if nested:
        assert root["level1"].attrs["depth"] == 10


@pytest.mark.parametrize("path", ["", "a/b"])
@pytest.mark.parametrize("how", HOW)
def test_imported_values_equal_those_of_the_file(how: Mode, path: str, file: Path) -> None:
    repo, scanned, reports = opened(file), scan_file(file), [0]
    session = repo.writable_session()
    done = import_scanned(session, scanned, str(file), path=path, mode=how, report=reports.append)
    nested = scanned.kind == "NetCDF4"
    names = ["flat", "level1/temp" if nested else "temp"]
    assert sorted(done.arrays) == [f"{path}/{name}" if path else name for name in names]
    assert done.skipped == ()
    assert sum(reports) == import_size(scanned, how)
    session.commit("imported")
    root = repo.readonly_session().root
    below = root[path] if path else root
    assert isinstance(below, frazil.Group)
    check(below, nested)


@pytest.mark.parametrize("how", ["copy", "adopt"])
def test_inline_chunks_need_no_file(how: Mode, file: Path) -> None:
    repo, session = (repo := opened(file)), repo.writable_session()
    import_scanned(session, scanned := scan_file(file), str(file), mode=how)
    session.commit("imported")
    file.unlink()
    check(repo.readonly_session().root, scanned.kind == "NetCDF4")


def test_a_copy_has_codecs_of_ours(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, length in (("y", 500), ("x", 400)):
            file.createDimension(name, length)
        options = {"fletcher32": True, "endian": "big"}
        file.createVariable("large", ">f8", ("y", "x"), chunksizes=(100, 80), **options)[...] = 1.5
        file.createVariable("small", ">f8", ("y", "x"), chunksizes=(5, 4), **options)[...] = 2.5
    session = opened(tmp_path / "a.nc").writable_session()
    import_scanned(session, scan_file(tmp_path / "a.nc"), str(tmp_path / "a.nc"))
    expected = frazil.create_array(MemoryStore(), shape=(500, 400), dtype="f8")
    root = session.root
    assert root["large"].codecs == root["small"].codecs == expected.codecs
    assert root["large"].chunks == (400, 320), "four times and four times as large"
    assert root["small"].chunks == (500, 256)
    assert (root["large"][...] == 1.5).all() and (root["small"][...] == 2.5).all()


def test_scalars_and_arrays_without_elements(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createVariable("none", "i4", ("t",))
        file.createVariable("one", "i4", ())[...] = 7
    for how in HOW:
        session = opened(tmp_path / "a.nc").writable_session()
        done = import_scanned(session, scan_file(tmp_path / "a.nc"), str(tmp_path / "a.nc"), mode=how)
        assert sorted(done.arrays) == ["none", "one"]
        assert session.open("one")[()] == 7  # type: ignore[index]
        assert session.open("none").shape == (0,)  # type: ignore[union-attr]


@pytest.mark.parametrize("how", HOW)
def test_a_variable_that_cannot_be_imported_is_an_error(how: Mode, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for name in ("text", "g/names"):
            file.create_dataset(name, (3,), h5py.vlen_dtype("i4"))
        file["good"] = np.ones(3, "i4")
    scanned, session = scan_file(tmp_path / "a.nc"), opened(tmp_path / "a.nc").writable_session()
    for skip in ([], ["text"], ["text", "good"], ["g/names"]):
        with pytest.raises(InvalidInputError, match="any length") as caught:
            import_scanned(session, scanned, str(tmp_path / "a.nc"), mode=how, skip=skip)
        lost = {"text", "g/names"} - {*skip}
        assert all(repr(name) in str(caught.value.hint) for name in lost)
        assert not session.has_changes
    for wrong in (True, "text", [1]):
        with pytest.raises(InvalidInputError, match="a list of their paths"):
            import_scanned(session, scanned, str(tmp_path / "a.nc"), mode=how, skip=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="no variable 'txet'"):
        import_scanned(session, scanned, str(tmp_path / "a.nc"), mode=how, skip=["txet"])
    done = import_scanned(session, scanned, str(tmp_path / "a.nc"), mode=how, skip=["text", "*/names"])
    assert done.arrays == ("good",)
    assert {(part.path, part.attribute) for part in done.skipped} == {("text", None), ("g/names", None)}


def test_a_variable_may_be_skipped_that_could_be_imported(file: Path) -> None:
    session = opened(file).writable_session()
    done = import_scanned(session, scan_file(file), str(file), skip=["flat"])
    assert "flat" not in session.root and len(done.arrays) == 1
    assert [part.path for part in done.skipped] == ["flat"]


def test_skipped_parts_without_values_are_no_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["type"] = np.dtype([("a", "i4")])
        file["values"] = [1, 2]
        file["again"] = file["values"]
    session = opened(tmp_path / "a.h5").writable_session()
    done = import_scanned(session, scan_file(tmp_path / "a.h5"), str(tmp_path / "a.h5"))
    assert len(done.arrays) == 1 and len(done.skipped) == 2
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["elsewhere"] = h5py.ExternalLink("b.h5", "x")
    with pytest.raises(InvalidInputError, match="/elsewhere: it is a link"):
        import_scanned(session, scan_file(tmp_path / "a.h5"), str(tmp_path / "a.h5"), path="more")


def test_invalid_imports_are_refused(file: Path, tmp_path: Path) -> None:
    scanned = scan_file(file)
    session = opened(file).writable_session()
    import_scanned(session, scanned, str(file))
    with pytest.raises(AlreadyExistsError):
        import_scanned(session, scanned, str(file), mode="virtual")
    with pytest.raises(InvalidInputError, match="outside of the prefixes"):
        import_scanned(frazil.Repository.create(MemoryStore()).writable_session(), scanned, str(file), mode="virtual")
    state = file.stat()
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with pytest.raises(StoreError, match="changed while it was imported"):
        import_scanned(opened(file).writable_session(), scanned, str(file))
