"""Damaged HDF5 files: any damage is an error of ours, or is listed as skipped; if the library hangs in a file, its process is ended."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.external_data import defect

import frazil
from frazil.cli.main import main
from frazil.errors import DataError, FormatError, FrazilError, InvalidInputError, StoreError
from frazil.integrations.files.imports import import_file
from frazil.integrations.files.libraries import scan_process
from frazil.integrations.files.scanner import scan_file
from frazil.stores import MemoryStore

h5py = pytest.importorskip("h5py")

SECONDS = 2.0  # a file that takes longer on a busy machine is an error of ours, too


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file with groups, attributes, dimensions, and every layout."""
    path = tmp_path_factory.mktemp("hdf5") / "valid.h5"
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "text"
        group = file.create_group("g")
        group.attrs["a"] = [1, 2, 3]
        x = group.create_dataset("x", data=np.arange(40.0))
        x.make_scale("x")
        z = group.create_dataset(
            "z", data=np.arange(400.0).reshape(40, 10), chunks=(8, 5), compression="gzip", shuffle=True
        )
        z.dims[0].attach_scale(x)
        z.attrs["_FillValue"] = np.float64(-1)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((5,))
        h5py.h5d.create(group.id, b"compact", h5py.h5t.NATIVE_INT32, space, plist)
        file["other"] = h5py.SoftLink("/g/x")
    return path.read_bytes()


def is_told(path: Path, seconds: float = SECONDS) -> None:
    """Scans a file: it returns a result, or raises an error of ours in one line."""
    error: FrazilError | None = None
    try:
        scan_file(path, time_limit=seconds)
    except FrazilError as caught:
        error = caught
    if error is not None:
        assert "\n" not in error.args[0]
        assert error.key == str(path)


@pytest.mark.parametrize("seed", range(12))
def test_a_file_with_other_bytes_here_and_there(seed: int, valid: bytes, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "damaged.h5"
    for _ in range(25):
        data = bytearray(valid)
        for _ in range(chance.choice([1, 2, 8, 60])):
            at = chance.randrange(8, len(data))
            data[at] = chance.choice([0, 0xFF, chance.randrange(256), data[at] ^ 1 << chance.randrange(8)])
        if chance.random() < 0.2:
            del data[chance.randrange(8, len(data)) :]
        path.write_bytes(data)
        is_told(path)


@pytest.mark.parametrize("name", ["bad-13.h5", "bad-130.h5", "hang-2755.h5", "hang-2823.h5"])
def test_damaged_files_that_crashed_the_library_are_refused(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, limit = defect(f"hdf5/{name}"), "1"
    if name.startswith("hang"):
        limit = "0.25"
        with pytest.raises(FormatError, match=r"did not finish within 0\.25 seconds") as caught:
            scan_file(path, time_limit=0.25)
        assert "time_limit=" in f"{caught.value.hint}"
    else:
        assert scan_file(path).skipped, "what cannot be read is listed"
    assert main(["import", str(path), str(tmp_path / "new.repo"), "--time-limit", limit]) == 1
    output = capfd.readouterr().err
    assert output.startswith("frazil: ") and "Traceback" not in output and output.count("\n") == 1
    assert not (tmp_path / "new.repo").exists()


def scanned_by(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the other process run this instead of the library."""
    start = scan_process._START.replace(
        "work({number})", f"import frazil.integrations.files.libraries.scan_worker as p; {code}; work({{number}})"
    )
    monkeypatch.setattr(scan_process, "_START", start)
    monkeypatch.setattr(scan_process, "_idle", [])


def test_a_library_that_never_comes_back(valid: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.h5").write_bytes(valid)
    scanned_by("p.scan_hdf5 = lambda *_, **__: __import__('threading').Event().wait()", monkeypatch)
    with pytest.raises(FormatError, match=r"within 0\.2 seconds"):
        scan_file(tmp_path / "a.h5", time_limit=0.2)
    assert scan_process._idle == [], "the process was ended"


@pytest.mark.parametrize("code", ["__import__('os').abort()", "__import__('os')._exit(3)"])
def test_a_library_that_ends_its_process(
    code: str, valid: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.h5").write_bytes(valid)
    scanned_by(f"p.scan_hdf5 = lambda *_, **__: {code}", monkeypatch)
    with pytest.raises(DataError, match="ended its process"):
        scan_file(tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("__import__('threading').Event().wait()", r"did not finish within 0\.5 seconds"),
        ("__import__('os')._exit(3)", "ended its process"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_library_that_does_not_decode_a_dataset(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library was called in this process, which then never ended, or was ended."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(40.0), chunks=(10,), compression="lzf")
    scanned_by(f"p.read_box = lambda *_: {code}", monkeypatch)
    scanned = scan_file(tmp_path / "a.h5")
    if "0" in message:  # the limit of the import applies
        scanned = scanned._replace(time_limit=0.5)
    monkeypatch.setattr(import_file, "scan_file", lambda *_, **__: scanned)
    with pytest.raises(DataError, match=message):
        frazil.import_file(tmp_path / "a.h5", MemoryStore())
    scan_process._end_all()


def test_a_process_scans_many_files(valid: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_process, "_idle", [])
    (tmp_path / "a.h5").write_bytes(valid)
    (tmp_path / "b.h5").write_bytes(valid[:2000])
    first = scan_file(tmp_path / "a.h5")
    (process,) = scan_process._idle
    with pytest.raises(FormatError):
        scan_file(tmp_path / "b.h5")
    monkeypatch.chdir(tmp_path)
    assert scan_file("a.h5").arrays[0].path == first.arrays[0].path, "also by a name in another folder"
    assert scan_process._idle == [process]
    process.end()


@pytest.mark.parametrize("limit", [0, -1, float("inf"), float("nan"), True, "5"])
def test_invalid_limits_are_refused(limit: object, valid: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(valid)
    with pytest.raises(InvalidInputError, match="time_limit"):
        scan_file(tmp_path / "a.h5", time_limit=limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("filters", [{"compression": "gzip"}, {"compression": "lzf"}])
def test_a_dataset_that_is_nearly_all_fill_value_is_not_copied(filters: dict[str, object], tmp_path: Path) -> None:
    """Such a header has a few bytes, but copying it would take years."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", shape=(2**40,), chunks=(2**20,), dtype="f8", **filters)
        file["b"] = np.arange(3)
    with pytest.raises(InvalidInputError, match=r"8.0 TiB") as raised:
        frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert raised.value.path == "a"
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]
    assert frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", skip=["a"]).arrays == ("b",)


def test_a_process_that_cannot_be_started(valid: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_process, "_idle", [])
    monkeypatch.setattr(scan_process.sys, "executable", "")  # as in a program that embeds Python
    (tmp_path / "file.h5").write_bytes(valid)
    with pytest.raises(StoreError, match="cannot be started"):
        frazil.import_file(tmp_path / "file.h5", MemoryStore())


def test_groups_of_a_hundred_levels_are_not_entered(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        file["/".join("a" * 300)] = 1
        file["/".join("b" * 100)] = 1
    scanned = scan_file(tmp_path / "deep.h5")
    assert [array.path for array in scanned.arrays] == ["/".join("b" * 100)]
    assert [(part.path, part.loses_values) for part in scanned.skipped] == [("/".join("a" * 101), True)]


def test_elements_that_are_too_large_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", shape=(2,), dtype="S67108865", chunks=(1,))
        file.create_dataset("b", shape=(2,), dtype=[("x", "S67108864"), ("y", "i4")])
        file.create_dataset("c", shape=(2, 2), dtype="S2097153")
    scanned = scan_file(tmp_path / "a.h5")
    assert [(array.path, array.chunk_shape) for array in scanned.arrays] == [("c", (1, 1))]
    assert [part.path for part in scanned.skipped] == ["a", "b"]
    assert all("at most 67108864 are possible" in part.reason for part in scanned.skipped)


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    """An attribute with such a name, as older programs wrote, made the import of the whole file fail."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs[b"gr\xf6\xdfe"] = 2
        file["a"] = np.arange(3)
        h5py.h5ds.set_label(file["a"].id, 0, b"l\xe4nge")
        kind = h5py.h5t.enum_create(h5py.h5t.NATIVE_INT8)
        kind.enum_insert(b"k\xfchl", 0)
        h5py.h5d.create(file.id, b"e", kind, h5py.h5s.create_simple((3,)))
        file[b"sp\xe4t"] = 1
        file["g"] = 1
    with pytest.raises(InvalidInputError, match="/spät: its name is not UTF-8"):
        frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", skip=["spät"])
    root = frazil.open_group(tmp_path / "a.zarr")
    assert dict(root.attrs) == {"größe": 2}
    assert root["a"].dimension_names == ("länge",)
    assert root["e"].attrs["flag_meanings"] == "kühl"


def with_second_key(path: Path, mask: int, first: int) -> None:
    """Writes a dataset of two chunks of 16 bytes, and changes the second key of its B-tree."""
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("x", data=np.arange(4.0), chunks=(2,))
    key = struct.pack("<IIQQ", 16, 0, 2, 0)
    content = path.read_bytes()
    assert content.count(key) == 1
    path.write_bytes(content.replace(key, struct.pack("<IIQQ", 16, mask, first, 0)))


def test_a_chunk_in_two_places(tmp_path: Path) -> None:
    """An import that refers to chunks found it late, and left an empty repository."""
    with_second_key(tmp_path / "a.h5", 0, 0)
    with pytest.raises(InvalidInputError, match=r"/x: the file is damaged: its chunk \(0,\) is in two places"):
        frazil.import_file(tmp_path / "a.h5", tmp_path / "a.repo", "virtual")
    assert not (tmp_path / "a.repo").exists()


def test_filters_that_a_dataset_does_not_have_are_not_missed(tmp_path: Path) -> None:
    """Such a chunk was left to the library, which does not compare the number of its bytes."""
    with_second_key(tmp_path / "a.h5", 1 << 24, 2)
    frazil.import_file(tmp_path / "a.h5", tmp_path / "a.repo", "virtual")
    allowed = frazil.Repository.open(tmp_path / "a.repo", virtual_prefixes=[f"{tmp_path.as_uri()}/"])
    assert allowed.readonly_session().open("x")[...].tolist() == [0, 1, 2, 3]


def test_a_wrong_size_of_contiguous_data_does_not_hide_it(tmp_path: Path) -> None:
    """A size of 0 meant that nothing was written: the elements were the fill value, and the library reads them."""
    with h5py.File(tmp_path / "a.h5", "w", libver="earliest") as file:
        file["x"] = np.arange(5.0)
        place = struct.pack("<QQ", file["x"].id.get_offset(), 40)
        file.create_dataset("empty", shape=(0, 3), dtype="f4")
        file.create_dataset("unwritten", shape=(3,), dtype="f4", fillvalue=7)
    content = (tmp_path / "a.h5").read_bytes()
    assert content.count(place) == 1
    (tmp_path / "a.h5").write_bytes(content.replace(place, place[:8] + bytes(8)))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"][...].tolist() == [0, 1, 2, 3, 4]
    frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    root = frazil.open_group(tmp_path / "a.zarr")
    assert root["x"][...].tolist() == [0, 1, 2, 3, 4]
    assert root["empty"].shape == (0, 3) and root["unwritten"][...].tolist() == [7, 7, 7]
