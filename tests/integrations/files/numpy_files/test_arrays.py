"""NumPy's files, imported."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frazil
from frazil.errors import ChecksumError, DataError, FormatError, InvalidInputError
from frazil.integrations.files.scanner import scan_file
from frazil.stores.memory import MemoryStore

VALUES = np.random.default_rng(0).normal(size=(7, 200, 333))


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "i1", "<u2", ">i8", "?", "<c16", "S5"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mode", ["copy", "virtual", "adopt"])
def test_an_array(dtype: str, order: str, mode: str, tmp_path: Path) -> None:
    values = np.asarray((VALUES * 100).astype("i4").astype(dtype), order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", values)
    frazil.import_file(tmp_path / "a.npy", tmp_path / "new.repo", mode)  # type: ignore[arg-type]
    repo = frazil.Repository.open(tmp_path / "new.repo", virtual_prefixes=[tmp_path.resolve().as_uri() + "/"])
    assert np.array_equal(repo.readonly_session().root["a"][...], values)


RECORD = np.dtype([("n", "i4"), ("time", "M8[s]"), ("inner", [("name", "U2"), ("raw", "V3")])])


@pytest.mark.parametrize(
    "dtype", ["<M8[ns]", ">M8[D]", "<m8[10s]", "<U4", ">U3", "V5", RECORD, RECORD.newbyteorder(">")]
)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mode", ["copy", "adopt"])
def test_times_text_raw_bytes_and_structs(dtype: np.typing.DTypeLike, order: str, mode: str, tmp_path: Path) -> None:
    """They were refused, although `frazil export` writes them."""
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(0).integers(0, 100, 70 * dtype.itemsize, np.uint8)
    values = np.zeros((7, 10), dtype)
    if dtype.kind == "U":
        values[...] = np.array(["ab", "ü"]).astype(dtype)[raw[:70].reshape(7, 10) % 2]
    elif dtype.names:
        values["n"], values["time"], values["inner"]["name"] = 5, 7, "ä"  # type: ignore[call-overload]
        values["inner"]["raw"][3:] = b"abc"  # type: ignore[call-overload]
    else:
        values = raw.view(dtype).reshape(7, 10)
    arrays = {"a": np.asarray(values, order=order)}  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", arrays["a"])
    for name in ("a.npy", "z.npz"):
        np.savez_compressed(tmp_path / "z.npz", **arrays)  # type: ignore[arg-type]
        if mode == "adopt" and name == "z.npz":
            continue
        frazil.import_file(tmp_path / name, tmp_path / f"{name}.repo", mode)  # type: ignore[arg-type]
        array: Any = frazil.Repository.open(tmp_path / f"{name}.repo").readonly_session().root["a"]
        assert dtype.kind not in "mM" or np.isnat(array.fill_value)
        found = array[...]
        assert found.dtype == dtype.newbyteorder("=")
        assert found.tolist() == values.tolist()


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype({"names": ["a", "b"], "formats": ["u1", "i8"], "offsets": [0, 8]}),
        np.dtype([("a", "<i4"), ("b", ">i4")]),
        np.dtype([("a", "i4", (2,))]),
        np.dtype("O"),
    ],
)
def test_elements_in_a_form_that_no_array_has_are_refused(dtype: np.dtype[np.generic], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(4, dtype))
    (skipped,) = scan_file(tmp_path / "a.npy").skipped
    assert "no counterpart" in skipped.reason


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_odd_shapes(shape: tuple[int, ...], order: str, tmp_path: Path) -> None:
    values = np.asarray(np.ones(shape), order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", values)
    store = MemoryStore()
    frazil.import_file(tmp_path / "a.npy", store)
    assert np.array_equal(frazil.open_array(store, path="a")[...], values)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_several_arrays(save: object, tmp_path: Path) -> None:
    arrays = {"x": VALUES, "deep/y": np.arange(5), "z": np.asfortranarray(VALUES), "none": np.zeros((0, 2))}
    save(tmp_path / "a.npz", **arrays)  # type: ignore[operator]
    store = MemoryStore()
    done = frazil.import_file(tmp_path / "a.npz", store)
    assert sorted(done.arrays) == sorted(arrays)
    for name, values in arrays.items():
        assert np.array_equal(frazil.open_array(store, path=name)[...], values)


def test_objects_are_refused_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", good=np.arange(3), bad=np.array([{}, []], object), text=np.array(["ab"]))
    with pytest.raises(InvalidInputError, match="/bad: its data type is object"):
        frazil.import_file(tmp_path / "a.npz", MemoryStore())
    assert frazil.import_file(tmp_path / "a.npz", MemoryStore(), skip=["bad", "text"]).arrays == ("good",)


def test_damaged_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-1])
    with pytest.raises(InvalidInputError, match="cut short"):
        frazil.import_file(tmp_path / "a.npy", MemoryStore())
    for content in (whole[:20], whole[:8] + b"\xff" * 100, whole.replace(b"'shape'", b"'shope'")):
        (tmp_path / "a.npy").write_bytes(content)
        with pytest.raises(FormatError):
            scan_file(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as made:
        made.writestr("notes.txt", "no array")
    with pytest.raises(FormatError, match="no arrays"):
        scan_file(tmp_path / "b.npz")
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(FormatError, match="damaged"):
        scan_file(tmp_path / "b.npz")


def test_a_compressed_member_that_is_damaged(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=VALUES)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(frazil.FrazilError):
        frazil.import_file(tmp_path / "a.npz", MemoryStore())


@pytest.mark.parametrize("mode", ["copy", "adopt"])
@pytest.mark.parametrize("size", [3, 400_000])
def test_a_stored_member_that_is_damaged(mode: str, size: int, tmp_path: Path) -> None:
    values = np.arange(size)
    np.savez(tmp_path / "a.npz", good=np.ones(4), x=values)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[content.index(values.tobytes()) + values.nbytes // 2] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ChecksumError, match=r"CRC.*path 'x'"):
        frazil.import_file(tmp_path / "a.npz", tmp_path / "new.repo", mode)  # type: ignore[arg-type]
    assert frazil.import_file(tmp_path / "a.npz", MemoryStore(), skip=["x"]).arrays == ("good",)


def npy(header: str, data: bytes = bytes(64)) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + data


def described(shape: str, descr: str = "'<i4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    "header",
    [
        described("(-3,)"), described("(-3, -3)"), described("(10**30,)"), described("(9" + "9" * 30 + ",)"), described("(3,)", "{'a': 1}"),
        "{'descr': [[[", "(" * 9000, "-" * 9000 + "1", "[" * 900 + "]" * 900, "{\0}", "",
    ],
)  # fmt: skip
def test_hostile_headers(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(npy(header))
    with pytest.raises((FormatError, InvalidInputError)):
        frazil.import_file(tmp_path / "a.npy", MemoryStore())


def test_an_array_without_elements_may_have_any_extent(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(npy(described(f"(0, {10**15})")))
    store = MemoryStore()
    frazil.import_file(tmp_path / "a.npy", store)
    assert frazil.open_array(store, path="a").shape == (0, 10**15)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("at", [40, 60, 200, 1000])
def test_damaged_compressed_members(compression: int, at: int, tmp_path: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.arange(100_000, dtype="i4") ** 2)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as made:
        made.writestr("a.npy", array.getvalue())
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[at : at + 50] = b"\xff" * 50
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError):
        frazil.import_file(tmp_path / "a.npz", MemoryStore())


def test_a_stored_member_ends_where_its_directory_says(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as made:
        made.writestr("a.npy", npy(described("(5,)"), bytes(8)))
        made.writestr("b.npy", npy(described("(16,)")))
    with pytest.raises(InvalidInputError, match="cut short"):
        frazil.import_file(tmp_path / "a.npz", MemoryStore())


def test_a_member_that_grows_beyond_its_header(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.npy", npy(described("(5,)"), bytes(2**24)))
    with pytest.raises(DataError, match="size"):
        frazil.import_file(tmp_path / "a.npz", MemoryStore())


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("what", ["header", "elements"])
def test_a_member_takes_no_more_memory_than_is_needed(compression: int, what: str, tmp_path: Path) -> None:
    """32 MiB are compressed to a few KiB: a header of so many bytes is refused, and elements are decoded chunk by chunk."""
    text = described("(16, 262144)", "'<f8'").encode()
    begin = b"\x93NUMPY\2\0" + struct.pack("<I", 2**25 if what == "header" else len(text))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as made:
        made.writestr("a.npy", begin + (b" " * 2**25 if what == "header" else text + bytes(2**25)))
    tracemalloc.start()
    try:
        if what == "header":
            with pytest.raises(FormatError, match="header has more than"):
                frazil.import_file(tmp_path / "a.npz", MemoryStore())
        else:
            store = MemoryStore()
            frazil.import_file(tmp_path / "a.npz", store, runtime=frazil.Runtime(bytes_in_flight=2**21))
            assert not frazil.open_array(store, path="a")[3].any()  # type: ignore[union-attr]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 2**23  # LZMA has a dictionary of 8 MiB


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunks", [(5, 128, 64), (64, 32, 32), (16, 8, 64)])
def test_a_compressed_member_with_other_chunks(order: str, chunks: tuple[int, ...], tmp_path: Path) -> None:
    """Chunks of the member are read forwards, and those that are read again from a temporary file."""
    values = np.asarray(np.random.default_rng(0).integers(0, 99, (64, 128, 64), "i4"), order=order)  # type: ignore[call-overload]
    np.savez_compressed(tmp_path / "a.npz", a=values)
    store = MemoryStore()
    limit = frazil.Runtime(bytes_in_flight=2**20)
    frazil.import_file(tmp_path / "a.npz", store, chunks=chunks, shards=None, runtime=limit)
    np.testing.assert_array_equal(frazil.open_array(store, path="a")[...], values)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_name_of_thousands_of_levels(compression: int, tmp_path: Path) -> None:
    """Each level would be a group: four bytes of a file must not make one each."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as made:
        made.writestr("a/" * 20_000 + "b.npy", npy(described("(16,)")))
    with pytest.raises(InvalidInputError, match="100 levels"):
        frazil.import_file(tmp_path / "a.npz", MemoryStore())


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_of_one_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as made:
        for _ in range(2):
            made.writestr("a.npy", npy(described("(16,)")))
    with pytest.raises(FormatError, match="directory"):
        scan_file(tmp_path / "a.npz")
