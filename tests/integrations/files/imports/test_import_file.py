"""frazil.import_file: from a file to a repository or a plain store, in one call."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.cli.conftest import TEMP, write_netcdf

import frazil
from frazil.errors import AlreadyExistsError, InvalidInputError, NotFoundError, StoreError
from frazil.integrations.files.imports import import_file as import_file_module
from frazil.integrations.files.imports import importer
from frazil.operations.copy.journal import JOURNAL_NAME
from frazil.stores import LocalStore
from frazil.stores.memory import MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore

VALUES = np.random.default_rng(0).normal(size=(40, 300, 400)).astype("f4")
FILTERED = np.round(VALUES[:7, :90, :110])
FILTERS = ["Zstd", "Blosc", "Bitshuffle", "LZ4", "BZip2"]
_WRITE = """
import h5py, hdf5plugin, numpy, sys
folder, *names = sys.argv[1:]
for name in names:
    options = getattr(hdf5plugin, name)()
    with h5py.File(f"{folder}/{name}.h5", "w") as made:
        made.create_dataset("a", data=numpy.load(f"{folder}/a.npy"), chunks=(2, 50, 50), **options)
        if name == "Blosc":  # which cannot encode text: it divides by 0
            options = {}
        text = [f"row {i}" for i in range(40)]
        made.create_dataset("text", data=text, dtype=h5py.string_dtype(), chunks=(10,), **options)
"""
# netCDF4 sets a filter folder for its own library, which h5py would load
_PLAIN = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
BUDGET = frazil.Runtime(bytes_in_flight=2**23)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_netcdf(tmp_path / "ocean.nc")
    return tmp_path / "ocean.nc"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "a.h5"
    with h5py.File(path, "w") as made:
        made["a"] = VALUES
        made.create_dataset("g/b", data=VALUES, chunks=(1, 100, 100), compression="gzip")
        made["g"].attrs["depth"] = 3
    return path


def killed(store: LocalStore, puts: int) -> FaultyStore:
    """A store that fails from one write on."""
    return FaultyStore(store, FaultPlan([Fault("put_many", call) for call in range(puts, puts + 1000)]))


def test_a_plain_store_by_its_name(file: Path) -> None:
    done = frazil.import_file(file, file.parent / "new.zarr")
    root = frazil.open_group(file.parent / "new.zarr")
    assert np.array_equal(root["level1/temp"][...], TEMP)
    assert root.attrs["title"] == "The sea" and root["level1"].attrs["depth"] == 10
    assert done.snapshot is None and sorted(done.arrays) == ["flat", "level1/temp"]
    assert not (file.parent / "new.zarr" / JOURNAL_NAME).exists()
    frazil.import_file(file, file.parent / "new.zarr", path="more", variables=["flat"])
    assert sorted(root["more"]) == ["flat", "level1"]
    with pytest.raises(AlreadyExistsError):
        frazil.import_file(file, file.parent / "new.zarr")


def test_a_repository_a_branch_a_session(file: Path) -> None:
    location = file.parent / "sea.repo"
    done = frazil.import_file(file, location, message="the first")
    repo = frazil.Repository.open(location)
    assert done.snapshot == repo.lookup("main") and next(iter(repo.history())).message == "the first"
    repo.create_branch("dev", "main")
    frazil.import_file(file, f"{location}@dev/level2", path="deep")
    assert np.array_equal(frazil.open(f"{location}@dev/level2/deep/flat")[...], np.arange(12))
    session = repo.writable_session()
    assert frazil.import_file(file, session, "adopt", path="adopted").snapshot is None
    assert session.has_changes
    assert np.array_equal(session.root["adopted/flat"][...], np.arange(12))


def test_refused_imports_write_nothing(file: Path) -> None:
    with pytest.raises(InvalidInputError, match="only a repository can refer"):
        frazil.import_file(file, file.parent / "new.zarr", "virtual")
    with pytest.raises(InvalidInputError, match="no variable 'salt'"):
        frazil.import_file(file, file.parent / "new.zarr", variables=["salt"])
    with pytest.raises(InvalidInputError, match="mode is"):
        frazil.import_file(file, file.parent / "new.zarr", "move")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="only where values are copied"):
        frazil.import_file(file, file.parent / "new.repo", "adopt", chunks=(1, 2, 3))
    with pytest.raises(InvalidInputError, match="neither a repository nor a Zarr group"):
        frazil.import_file(file, file.parent)
    done = frazil.import_file(file, file.parent / "new.zarr", dry_run=True)
    assert len(done.arrays) == len(done.layouts) == 2
    assert sorted(path.name for path in file.parent.iterdir()) == ["ocean.nc"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "a/../b"},
        {"path": "__a"},
        {"path": "a/zarr.json"},
        {"path": 5},
        {"message": 5},
        {"message": "\ud800"},
        {"mode": "adopt", "path": ".."},
    ],
)
@pytest.mark.parametrize("name", ["new.repo", "new.zarr"])
def test_a_wrong_path_or_message_creates_nothing(wrong: dict[str, Any], name: str, file: Path) -> None:
    with pytest.raises(InvalidInputError):
        frazil.import_file(file, file.parent / name, **wrong)
    assert [path.name for path in file.parent.iterdir()] == ["ocean.nc"]


def test_metadata_that_a_repository_cannot_hold_creates_none(tmp_path: Path) -> None:
    references = {".zgroup": '{"zarr_format": 2}', ".zattrs": '{"n": 36893488147419103232}'}
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "compressor": None, "filters": None}
    references |= {"a/.zarray": json.dumps(array | {"fill_value": 0, "order": "C"}), "a/0": "base64:AQAAAAIAAAA="}
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "refs": references}))
    with pytest.raises(InvalidInputError, match=r"attributes\.n"):
        frazil.import_file(tmp_path / "a.json", tmp_path / "new.repo")
    assert not (tmp_path / "new.repo").exists()


@pytest.mark.parametrize("option", ["chunks", "shards"])
def test_a_dimension_that_no_variable_has(option: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["a"], made["b"] = np.zeros((4, 6)), np.zeros(4)
        for name, labels in (("a", ["time", "x"]), ("b", ["time"])):
            for axis, label in enumerate(labels):
                made[name].dims[axis].label = label
    for dry_run in (False, True):
        with pytest.raises(InvalidInputError, match=f"{option} names the dimension 'tme'.*the dimensions are time, x"):
            frazil.import_file(tmp_path / "a.h5", tmp_path / "new.zarr", dry_run=dry_run, **{option: {"tme": 3}})
    assert not (tmp_path / "new.zarr").exists()
    frazil.import_file(tmp_path / "a.h5", tmp_path / "new.zarr", **{option: {"x": 3}})


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    for name in ("no.nc", "a.txt/no.nc"):
        (tmp_path / "a.txt").write_text("")
        with pytest.raises(NotFoundError, match="there is no file") as caught:
            frazil.import_file(tmp_path / name, tmp_path / "new.zarr")
        assert caught.value.key == str(tmp_path / name)


def test_a_file_that_is_removed_while_it_is_imported(tmp_path: Path) -> None:
    file = tmp_path / "a.h5"
    with h5py.File(file, "w") as made:
        made["a"] = np.zeros(4)
    with pytest.raises(NotFoundError, match="there is no file"):
        frazil.import_file(file, MemoryStore(), progress=lambda _: file.unlink())


@pytest.mark.parametrize("puts", [1, 3, 6, 10, 15, 25])
def test_an_import_that_was_killed_is_continued(puts: int, large: Path, tmp_path: Path) -> None:
    folder = LocalStore(tmp_path / "new.zarr")
    broken = killed(folder, puts)
    with pytest.raises(StoreError):
        frazil.import_file(large, broken, runtime=BUDGET)
    for path in ("a", "g/b"):  # the existing part is complete
        try:
            found = frazil.open_array(folder, path=path)
        except frazil.FrazilError:
            continue
        assert np.array_equal(found[...], VALUES)
    frazil.import_file(large, folder, runtime=BUDGET)
    root = frazil.open_group(folder)
    assert np.array_equal(root["a"][...], VALUES) and np.array_equal(root["g/b"][...], VALUES)
    assert root["g"].attrs["depth"] == 3
    assert not [key for key in folder.list() if JOURNAL_NAME in key]


@pytest.mark.parametrize(
    "written", [["snapshots"], ["snapshots", "refs/branch.main/0-not-for-the-icechunk-alpha-library"]]
)
def test_a_repository_whose_creation_was_killed_is_completed(written: list[str], file: Path) -> None:
    whole, part = file.parent / "whole.repo", file.parent / "part.repo"
    frazil.Repository.create(whole)
    for name in written:
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (whole / name).is_dir() else shutil.copy)(whole / name, part / name)
    frazil.import_file(file, part)
    assert np.array_equal(frazil.open_array(f"{part}@main", path="level1/temp")[...], TEMP)


def test_a_destination_that_cannot_be_read_is_an_error(file: Path) -> None:
    store = FaultyStore(LocalStore(file.parent / "a.zarr"), FaultPlan([Fault("list", 1)]))
    with pytest.raises(StoreError, match="injected"):
        frazil.import_file(file, store)


def test_an_import_of_a_file_that_may_have_changed_unnoticed_begins_again(large: Path, tmp_path: Path) -> None:
    """Size and time of modification are the same. New permissions, too, are a change of the file for the system."""
    folder, file = LocalStore(tmp_path / "new.zarr"), tmp_path / "a.h5"
    shutil.copy(large, file)
    before = file.stat()
    with pytest.raises(StoreError):
        frazil.import_file(file, killed(folder, 38), runtime=BUDGET)
    assert np.array_equal(frazil.open_array(folder, path="a")[...], VALUES), "complete"
    with h5py.File(file, "r+") as changed:
        changed["a"][...] = changed["g/b"][...] = VALUES + 1
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    with pytest.raises(StoreError):
        frazil.import_file(file, killed(folder, 2), runtime=BUDGET)
    frazil.import_file(file, folder, runtime=BUDGET)
    for path in ("a", "g/b"):
        assert np.array_equal(frazil.open_array(folder, path=path)[...], VALUES + 1)
    file.write_bytes(large.read_bytes())
    with pytest.raises(StoreError):
        frazil.import_file(file, killed(LocalStore(tmp_path / "b.zarr"), 8), runtime=BUDGET)
    file.write_bytes(large.read_bytes())
    with pytest.raises(AlreadyExistsError, match="changed file"):
        frazil.import_file(file, tmp_path / "b.zarr", runtime=BUDGET)


def test_an_import_with_other_options_does_not_continue_a_killed_one(large: Path, tmp_path: Path) -> None:
    folder = LocalStore(tmp_path / "new.zarr")
    with pytest.raises(StoreError):
        frazil.import_file(large, killed(folder, 8), runtime=BUDGET)
    with pytest.raises(AlreadyExistsError, match="other options"):
        frazil.import_file(large, folder, chunks=(10, 50, 50), runtime=BUDGET)


@pytest.mark.parametrize(
    "options", [{"codecs": ["none"]}, {"codecs": ["numcodecs.delta"]}, {"chunks": (2, 2, 2), "shards": (3, 3, 3)}]
)
@pytest.mark.parametrize("name", ["new.repo", "new.zarr"])
def test_options_that_do_not_fit_create_nothing(options: dict[str, Any], name: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["a"] = VALUES[:7, :9, :11]
    with pytest.raises(InvalidInputError):
        frazil.import_file(tmp_path / "a.h5", tmp_path / name, **options)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_text_of_a_fixed_length_that_only_the_library_decodes(encoding: str, tmp_path: Path) -> None:
    text = h5py.string_dtype(encoding, 6)
    values = np.array([("été".encode() if encoding == "utf-8" else b"ete", 1), (b"", 2)], [("name", text), ("n", "i4")])
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["compound"] = values
        made.create_dataset("text", data=values["name"], chunks=(1,), compression="lzf")
    frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    root = frazil.open_group(tmp_path / "a.zarr")
    assert root["compound"][...].tolist() == values.tolist()
    assert root["text"][...].tolist() == values["name"].tolist()


@pytest.mark.parametrize("options", [{"compression": "lzf"}, {"scaleoffset": 3}, {"compression": "szip"}])
def test_filters_that_only_the_library_undoes(options: dict[str, object], tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        if options.get("compression") == "szip" and not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
            pytest.skip("this HDF5 library has no szip")
        made.create_dataset("a", data=VALUES[:7, :90, :110], chunks=(2, 50, 50), **options)
        expected = made["a"][...]
    store = MemoryStore()
    frazil.import_file(tmp_path / "a.h5", store)
    assert np.array_equal(frazil.open_array(store, path="a")[...], expected)
    with pytest.raises(InvalidInputError, match="can only be copied: /a: its chunks are encoded with"):
        frazil.import_file(tmp_path / "a.h5", tmp_path / "new.repo", "virtual")
    assert not (tmp_path / "new.repo").exists()


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file for each filter."""
    pytest.importorskip("hdf5plugin")
    folder = tmp_path_factory.mktemp("filtered")
    np.save(folder / "a.npy", FILTERED)
    subprocess.run([sys.executable, "-c", _WRITE, str(folder), *FILTERS], check=True, env=_PLAIN)
    return folder


@pytest.mark.parametrize("name", FILTERS)
def test_filters_of_hdf5plugin(name: str, filtered: Path, tmp_path: Path) -> None:
    """Of text the scan reads some elements, in a process that has read no such file before."""
    script = "import frazil, sys; frazil.import_file(sys.argv[1], sys.argv[2])"
    words = [sys.executable, "-c", script, str(filtered / f"{name}.h5"), str(tmp_path / "a.zarr")]
    subprocess.run(words, check=True, env=_PLAIN)
    root = frazil.open_group(tmp_path / "a.zarr")
    assert np.array_equal(root["a"][...], FILTERED)
    assert root["text"][...].tolist() == [f"row {i}" for i in range(40)]


def test_text_with_an_unknown_filter(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made.create_dataset("a", data=["x"] * 40, dtype=h5py.string_dtype(), chunks=(10,), compression="gzip")
    content = bytearray((tmp_path / "a.h5").read_bytes())
    place = content.index(b"deflate") - 8
    content[place : place + 2] = (32123).to_bytes(2, "little")
    content[place + 4 : place + 6] = bytes(2)  # the filter is not optional
    (tmp_path / "a.h5").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"encoded with deflate \(filter 32123\), which needs hdf5plugin"):
        frazil.import_file(tmp_path / "a.h5", MemoryStore())


def test_a_chunk_without_a_filter_of_the_others(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        data = made.create_dataset("a", shape=(20, 10), dtype="i4", chunks=(10, 10), compression="gzip", fillvalue=-1)
        data[10:] = 5
        data.id.write_direct_chunk((0, 0), np.arange(100, dtype="<i4").tobytes(), filter_mask=1)
    store = MemoryStore()
    frazil.import_file(tmp_path / "a.h5", store)
    found = frazil.open_array(store, path="a")[...]
    assert np.array_equal(found[:10].ravel(), np.arange(100)) and (found[10:] == 5).all()


def test_a_new_zip_archive_is_a_plain_store(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6))
    frazil.import_file(tmp_path / "a.npy", tmp_path / "a.zarr.zip")
    found = frazil.open(tmp_path / "a.zarr.zip")
    assert isinstance(found, frazil.Group) and found["a"][...].tolist() == list(range(6))  # type: ignore[union-attr]
    done = frazil.export_file(tmp_path / "a.zarr.zip", tmp_path / "b.zarr.zip")
    assert done.format == "zarr" and frazil.open(tmp_path / "b.zarr.zip/a")[...].tolist() == list(range(6))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
@pytest.mark.parametrize("kind", ["h5", "npz"])
def test_the_number_of_arrays_does_not_open_more_files(kind: str, tmp_path: Path) -> None:
    """Each array opened the folder of the destination, and its own member of an .npz, until the end: with some thousand arrays no file could be opened."""
    arrays = {f"a{number}": np.arange(number) for number in range(12)}
    if kind == "npz":
        np.savez_compressed(tmp_path / "a.npz", **arrays)
    else:
        with h5py.File(tmp_path / "a.h5", "w") as made:
            for name, values in arrays.items():
                made[name] = values
    counts: list[int] = []
    frazil.import_file(
        tmp_path / f"a.{kind}",
        tmp_path / "new.zarr",
        progress=lambda nbytes: counts.append(len(os.listdir("/proc/self/fd"))),
    )
    assert len(counts) == 11 and max(counts) < counts[0] + 4  # connections of other tests may end meanwhile
    for name, values in arrays.items():
        np.testing.assert_array_equal(frazil.open_array(tmp_path / "new.zarr", path=name)[...], values)


def test_a_hierarchy_of_zarr_is_copied_not_imported(tmp_path: Path) -> None:
    frazil.zeros(3, store=tmp_path / "x.zarr")
    for source, command in (
        (tmp_path / "x.zarr", "frazil convert"),
        (tmp_path / "x.zarr" / "zarr.json", "frazil copy"),
    ):
        with pytest.raises(frazil.FrazilError, match=command):
            frazil.import_file(source, tmp_path / "sea.zarr")
        assert not (tmp_path / "sea.zarr").exists()


@pytest.mark.parametrize("chunks", [None, (500,)])
def test_chunks_of_long_text_have_about_a_megabyte(chunks: tuple[int, ...] | None, tmp_path: Path) -> None:
    """The text counts, not only the places of it that the file has in the array."""
    values = ["x" * 10_000 + str(i) for i in range(2000)]
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made.create_dataset("a", data=values, dtype=h5py.string_dtype(), chunks=chunks)
    plan = frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", dry_run=True)
    assert plan.layouts[0].chunks[0] * 10_000 <= 2**21
    frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", runtime=frazil.Runtime(bytes_in_flight=2**23))
    assert frazil.open_array(tmp_path / "a.zarr", path="a")[...].tolist() == values


@pytest.mark.parametrize("mode", ["copy", "virtual"])
def test_an_import_plans_once(mode: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, plan = list[int](), importer.plan_import

    def counted(*arguments: Any, **named: Any) -> Any:
        planned.append(1)
        return plan(*arguments, **named)

    monkeypatch.setattr(importer, "plan_import", counted)
    monkeypatch.setattr(import_file_module, "plan_import", counted)
    repo = frazil.Repository.create(MemoryStore(), virtual_prefixes=[file.parent.as_uri() + "/"])
    frazil.import_file(file, repo, mode)
    assert planned == [1]
