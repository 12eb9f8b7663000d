"""Files in a real bucket and on a real web server: scanned without a download, read in place, by Python and on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from tests.cli.conftest import TEMP, write_netcdf
from tests.integrations.files.test_remote import LARGE, write_large
from tests.servers.buckets import S3
from tests.servers.web import WebServer

import frazil
from frazil.cli.main import main
from frazil.errors import FormatError, InvalidInputError
from frazil.integrations.files.imports.importer import import_scanned
from frazil.integrations.files.scanner import scan_file
from frazil.stores import ObjectStore
from frazil.stores.memory import MemoryStore
from frazil.testing import CountingStore


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_64BIT_DATA"])
def test_a_file_in_a_bucket(kind: str, s3: S3, tmp_path: Path) -> None:
    data = write_large(tmp_path / "ocean.nc", kind)
    bucket = s3.new_bucket()
    s3.store(bucket).set("data/ocean.nc", data)
    url, prefixes = f"s3://{bucket}/data/ocean.nc", {f"s3://{bucket}/": (store := CountingStore(s3.store(bucket)))}
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=prefixes)
    session = repo.writable_session()
    scanned = scan_file(url, virtual_prefixes=prefixes)
    assert scanned.state.tag and scanned.state.mapped_to == "", "it lies under its own name"
    import_scanned(session, scanned, url, mode="virtual", virtual_prefixes=prefixes)
    session.commit("references")
    assert store.bytes_read < len(data) / 10
    assert store.count() < 20
    array = repo.readonly_session().root["large"]
    assert isinstance(array, frazil.Array)
    assert np.array_equal(array[...], LARGE)


@pytest.mark.parametrize("folder", ["", "day/"])
@pytest.mark.parametrize("mode", ["copy", "virtual"])
def test_references_of_kerchunk_in_a_bucket(mode: Literal["copy", "virtual"], folder: str, s3: S3) -> None:
    """Targets are URLs, names beside the references, and whole objects."""
    values = np.arange(24, dtype="<i4").reshape(4, 6)
    bucket = s3.new_bucket()
    store = s3.store(bucket)
    document = {
        "zarr_format": 2, "shape": [4, 6], "chunks": [1, 6], "dtype": "<i4", "compressor": None, "filters": None, "fill_value": 0, "order": "C",
    }  # fmt: skip
    references: dict[str, object] = {"temp/.zarray": json.dumps(document), ".zgroup": json.dumps({"zarr_format": 2})}
    targets = [
        [f"s3://{bucket}/data.bin", 4, 24],
        ["../" * folder.count("/") + "data.bin", 28, 24],
        ["row.bin"],
        ["below/two.bin", 8, 24],
    ]
    references |= {f"temp/{row}.0": target for row, target in enumerate(targets)}
    store.set("data.bin", b"head" + values[:2].tobytes())
    store.set(f"{folder}row.bin", values[2].tobytes())
    store.set(f"{folder}below/two.bin", b"8 bytes." + values[3].tobytes())
    store.set(f"{folder}refs.json", json.dumps({"version": 1, "refs": references}).encode())
    prefixes = {f"s3://{bucket}/": store}
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=prefixes)
    done = frazil.import_file(f"s3://{bucket}/{folder}refs.json", repo, mode, virtual_prefixes=prefixes)
    assert done.arrays == ("temp",)
    found = repo.readonly_session().root["temp"]
    assert isinstance(found, frazil.Array)
    np.testing.assert_array_equal(found[...], values)
    references["temp/0.0"] = ["../../../data.bin", 0, 24]
    store.set(f"{folder}refs.json", json.dumps({"version": 1, "refs": references}).encode())
    with pytest.raises(InvalidInputError, match="leads out of"):
        frazil.import_file(f"s3://{bucket}/{folder}refs.json", repo, mode, virtual_prefixes=prefixes, path="again")


def test_tables_of_references_in_a_bucket(s3: S3, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'frazil[parquet]'")
    from tests.integrations.files.kerchunk import test_reference_tables as tables

    bucket = s3.new_bucket()
    store = s3.store(bucket)
    place = tables.write(tmp_path)
    for file in [file for file in place.rglob("*") if file.is_file()]:
        store.set(file.relative_to(tmp_path).as_posix(), file.read_bytes())
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=[tmp_path.as_uri() + "/"])
    frazil.import_file(f"s3://{bucket}/refs.parq", repo, virtual_prefixes={f"s3://{bucket}/": store})
    found = repo.readonly_session().root["deep/temp"]
    assert isinstance(found, frazil.Array)
    np.testing.assert_array_equal(found[...], tables.expected())


def test_grib_in_a_bucket(s3: S3) -> None:
    pytest.importorskip("cfgrib", reason="cfgrib is not installed: pip install 'frazil[grib]'", exc_type=Exception)
    from tests.integrations.files.grib import test_fields as fields

    bucket = s3.new_bucket()
    store = s3.store(bucket)
    data = fields.levels(2)
    store.set("day/levels.grib2", data)
    repo = frazil.Repository.create(MemoryStore())
    url, prefixes = f"s3://{bucket}/day/levels.grib2", {f"s3://{bucket}/": store}
    with pytest.raises(InvalidInputError, match="can only be copied"):
        frazil.import_file(url, repo, "virtual", virtual_prefixes=prefixes)
    frazil.import_file(url, repo, virtual_prefixes=prefixes)
    found = repo.readonly_session().root["t"]
    assert isinstance(found, frazil.Array)
    assert found.shape == (2, 3, fields.NY, fields.NX)
    values = found[...]
    assert isinstance(values, np.ndarray)
    assert np.isnan(values[1, 1]).all() and 250 < np.nanmean(values) < 310
    with_end = found[0, 0, -1]
    store.set("day/levels.grib2", data[:-9])
    with pytest.raises(FormatError):
        frazil.import_file(url, repo, virtual_prefixes=prefixes, path="cut")
    np.testing.assert_array_equal(found[0, 0, -1], with_end)


@pytest.mark.parametrize("how", [[], ["--virtual"]])
@pytest.mark.parametrize("server", ["s3", "web"])
def test_a_file_on_a_server_is_imported_on_the_command_line(
    how: list[str], server: str, s3: S3, tmp_path: Path, web_server: WebServer,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "web").mkdir()
    write_netcdf(tmp_path / "web" / "ocean.nc")
    bucket = s3.new_bucket()
    s3.store(bucket).set("ocean.nc", (tmp_path / "web" / "ocean.nc").read_bytes())
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with web_server(tmp_path / "web") as address:
        url = f"s3://{bucket}/ocean.nc" if server == "s3" else f"{address}/ocean.nc"
        assert main(["import", url, "new.repo", *how]) == 0, capfd.readouterr().err
        repo = frazil.Repository.open("new.repo", virtual_prefixes=[url.removesuffix("ocean.nc")] if how else [])
        assert next(iter(repo.history())).message == "Import ocean.nc"
        assert np.array_equal(repo.readonly_session().root["level1/temp"][...], TEMP)  # type: ignore[index, arg-type]
        prefix = ["--virtual-prefix", url.removesuffix("ocean.nc")] if how else []
        capfd.readouterr()
        assert main(["get", "new.repo", "flat", "3:5", *prefix]) == 0
        assert capfd.readouterr().out == "[3 4]\n"
        if how:
            assert main(["get", "new.repo", "flat", "3:5"]) == 1
            assert "--virtual-prefix" in capfd.readouterr().err


def test_errors_have_one_line(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    s3.store(bucket).set("notes.txt", b"no such file")
    for url, message in (
        (f"s3://{bucket}/missing.nc", "there is no file"),
        (f"s3://{bucket}/notes.txt", "none of NetCDF, HDF5"),
        (f"s3://{bucket}-not/a.nc", "bucket or container does not exist"),
        (f"s3://{s3.key}:{s3.secret}@{bucket}/a.nc", "not a bucket or host"),
    ):
        assert main(["import", url, "other.repo", "--virtual"]) == 1
        output = capfd.readouterr().err
        assert message in output and s3.secret not in output and output.count("\n") <= 2
    assert main(["import", f"s3://{bucket}/a.nc", "other.repo", "--adopt"]) == 2
    assert "copy it here first" in capfd.readouterr().err
    assert not os.path.exists("other.repo")


def test_several_files_of_a_bucket_share_its_store(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Together with a local one."""
    monkeypatch.chdir(tmp_path)
    bucket = s3.new_bucket()
    for number in range(3):
        write_netcdf(tmp_path / f"here{number}.nc")
        s3.store(bucket).set(f"day{number}/far{number}.nc", (tmp_path / f"here{number}.nc").read_bytes())
    made: list[str] = []

    make = ObjectStore.__init__

    def counted(self: ObjectStore, url: str, **options: object) -> None:
        made.append(url)
        make(self, url, **options)  # type: ignore[arg-type]

    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ObjectStore, "__init__", counted)
    files = [*(f"s3://{bucket}/day{number}/far{number}.nc" for number in range(3)), "here1.nc"]
    assert main(["import", *files, "new.repo", "--virtual"]) == 0, capfd.readouterr().err
    assert made == [f"s3://{bucket}"]
    repo = frazil.Repository.open(
        "new.repo", virtual_prefixes={f"s3://{bucket}/": s3.store(bucket), f"{tmp_path.as_uri()}/": None}
    )
    for group in ("far0", "far1", "far2", "here1"):
        assert np.array_equal(repo.readonly_session().root[f"{group}/level1/temp"][...], TEMP)  # type: ignore[index, arg-type]
