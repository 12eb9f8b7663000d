"""HDF5 and NetCDF4 files, written by their own libraries: the scan equals what those read, and objects that cannot be an array here are skipped by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.external_data import data
from tests.integrations.scanned_arrays import array_of, values_of

import frazil
from frazil.errors import FormatError, InvalidInputError, NotFoundError
from frazil.integrations.files import contiguous
from frazil.integrations.files.scanned import ScannedFile
from frazil.integrations.files.scanner import scan_file
from frazil.metadata.json_text import NonFinite

NUMBERS = [
    order + kind for order in "<>" for kind in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
]
DTYPES = ["i1", "u1", "?", *NUMBERS]


def write(path: Path, fill: Callable[[h5py.File], object], **options: object) -> ScannedFile:
    with h5py.File(path, "w", **options) as file:
        fill(file)
    return scan_file(path)


def agrees(path: Path, scanned: ScannedFile) -> None:
    with h5py.File(path) as file:
        for array in scanned.arrays:
            dataset = file[array.path]
            assert array.dtype == dataset.dtype
            np.testing.assert_array_equal(values_of(array, path), dataset[...])


def reasons(scanned: ScannedFile) -> dict[str, str]:
    return {one.path if one.attribute is None else f"{one.path}@{one.attribute}": one.reason for one in scanned.skipped}


def values(shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    return np.random.default_rng(3).integers(0, 2 if dtype == "?" else 100, shape).astype(dtype)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.sampled_from(DTYPES),
    st.fixed_dictionaries(
        {},
        optional={
            "compression": st.integers(0, 9),
            "shuffle": st.booleans(),
            "fletcher32": st.booleans(),
            "fillvalue": st.just(1),
        },
    ),
    st.sampled_from(["contiguous", "chunked", "part"]),
    st.sampled_from(["earliest", "latest"]),
    st.sampled_from([0, 512]),
)
def test_datasets_of_every_kind(
    tmp_path_factory: pytest.TempPathFactory,
    shape: list[int],
    dtype: str,
    options: dict[str, object],
    layout: str,
    libver: str,
    user_block: int,
) -> None:
    path = tmp_path_factory.mktemp("hdf5") / "a.h5"
    if dtype == "?" or dtype[1:2] == "c":  # for which h5py writes no fill value
        options.pop("fillvalue", None)
    if layout == "contiguous":
        options = {name: value for name, value in options.items() if name == "fillvalue"}

    def fill(file: h5py.File) -> None:
        chunks = None if layout == "contiguous" else tuple(max(1, extent // 2) for extent in shape)
        dataset = file.create_dataset("group/a", shape, dtype, chunks=chunks, **options)
        if layout == "part":
            dataset[0] = values(tuple(shape[1:]), dtype)
        else:
            dataset[...] = values(tuple(shape), dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contiguous, "_CHUNK_BYTES", 32)
        scanned = write(path, fill, libver=libver, userblock_size=user_block)
    assert scanned.kind == "HDF5" and not scanned.skipped
    assert [array.path for array in scanned.arrays] == ["group/a"] and list(scanned.groups) == ["", "group"]
    agrees(path, scanned)
    (array,) = scanned.arrays
    np.testing.assert_array_equal(array.fill_value, np.array(options.get("fillvalue", 0), dtype))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (5,)])
@pytest.mark.parametrize("layout", ["late", "never", "compact", "chunked"])
@pytest.mark.parametrize("user_block", [0, 1024])
def test_layouts_at_their_edges(tmp_path: Path, shape: tuple[int, ...], layout: str, user_block: int) -> None:
    def fill(file: h5py.File) -> None:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if layout == "compact":
            properties.set_layout(h5py.h5d.COMPACT)
        if layout == "chunked" and shape:
            properties.set_chunk((2,) * len(shape))
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"a", h5py.h5t.IEEE_F32BE, space, properties))
        if layout != "never" and 0 not in shape:
            dataset[...] = values(shape, "f4")

    scanned = write(tmp_path / "a.h5", fill, userblock_size=user_block)
    assert not scanned.skipped
    agrees(tmp_path / "a.h5", scanned)
    assert bool(scanned.arrays[0].inline_chunks) is (layout == "compact" and 0 not in shape)


def test_unsupported_datasets_are_skipped_by_name(tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        file["good"] = np.arange(3)
        file["enum"] = np.zeros(2, h5py.enum_dtype({"a": 0, "b": 1}, "i4"))
        file["fixed"] = np.array([b"abc"])
        file["pairs"] = np.zeros(2, [("x", "i4"), ("y", "f8", (2,))])
        nameless = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
        nameless.insert(b"\xff", 0, h5py.h5t.STD_I32LE)
        h5py.h5d.create(file.id, b"nameless", nameless, h5py.h5s.create_simple((2,)))
        file.create_dataset("named", (2,), np.dtype([("x", "i4"), ("name", h5py.string_dtype())]))
        file["vlen"] = np.array([np.zeros(1), np.zeros(2)], object).astype(h5py.vlen_dtype("f8"))
        file.create_dataset("reference", (1,), h5py.ref_dtype)
        file.create_dataset("opaque", (1,), "V7")
        file.create_dataset("inner", (2,), np.dtype(("f4", (3,))))
        file["empty"] = h5py.Empty("f4")
        file.create_dataset("elsewhere", (4,), "i4", external=[("other", 0, 16)])
        layout = h5py.VirtualLayout((3,), "i8")
        layout[:] = h5py.VirtualSource(file["good"])
        file.create_virtual_dataset("put/together", layout)
        file["type"] = np.dtype("f8")
        file["soft"] = h5py.SoftLink("/good")
        file["outside"] = h5py.ExternalLink("b.h5", "/x")
        file["again"] = file["good"]
        file["__x"] = 1
        file["loop/group"] = file["/"]
        bits = h5py.h5t.STD_I32LE.copy()
        bits.set_precision(20)
        h5py.h5d.create(file.id, b"odd", bits, h5py.h5s.create_simple((2,)))

    scanned = write(tmp_path / "a.h5", fill)
    found = reasons(scanned)
    # of two names of one node, the alphabetically first is the array
    assert {array.path for array in scanned.arrays} == {"again", "enum", "fixed"}
    assert array_of(scanned, "fixed").dtype == np.dtype("S3")
    expected = {
        "pairs": "its member 'y': its data type is HDF5's array of arrays", "named": "its member 'name' is text", "nameless": "no name in UTF-8", "vlen": "sequence of any length",
        "reference": "reference", "opaque": "opaque", "inner": "array of arrays", "empty": "null dataspace",
        "elsewhere": "external storage", "put/together": "virtual layout", "type": "named data type",
        "soft": "another name of 'good'", "outside": "link", "good": "another name of 'again'", "__x": "reserved", "loop/group": "another name of ''",
        "odd": "odd precision",
    }  # fmt: skip
    assert set(found) == set(expected)
    for path, text in expected.items():
        assert text in found[path], (path, found[path])
    agrees(tmp_path / "a.h5", scanned)


def test_soft_links_within_a_file_lose_nothing(tmp_path: Path) -> None:
    """Others do, and no other file is opened for them."""

    def fill(file: h5py.File) -> None:
        file["g/deep/x"] = np.arange(3)
        for name, target in {
            "absolute": "/g/deep/x", "relative": "g/./deep/x", "group": "g", "chain": "group/deep/x", "g/up": "/group/deep/",
            "root": "/", "nothing": "/g/none", "in/array": "/g/deep/x/y", "loop": "pool", "pool": "loop", "far": "outside/x",
            "again": "/again/again",
        }.items():  # fmt: skip
            file[name] = h5py.SoftLink(target)
        file["outside"] = h5py.ExternalLink("a.h5", "/g")

    scanned = write(tmp_path / "a.h5", fill)
    assert {array.path for array in scanned.arrays} == {"g/deep/x"}
    named = {
        part.path: part.reason.partition("another name of ")[2] for part in scanned.skipped if not part.loses_values
    }
    assert named == {
        **dict.fromkeys(("absolute", "relative", "chain"), "'g/deep/x'"), "group": "'g'", "g/up": "'g/deep'", "root": "''",
    }  # fmt: skip
    lost = {part.path for part in scanned.skipped if part.loses_values}
    assert lost == {"nothing", "in/array", "loop", "pool", "far", "again", "outside"}
    made = frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr", skip=[*lost, "chain"])  # a link may be named, too
    assert made.arrays == ("g/deep/x",)


def test_text_of_any_length_and_structs_are_copied(tmp_path: Path) -> None:
    """Text in UTF-8 and in Latin-1, written and unwritten; compounds in any layout of HDF5."""
    text = h5py.string_dtype()
    struct = np.dtype(
        [("x", "<f8"), ("n", ">i4"), ("s", "S3"), ("b", "?"), ("in", [("p", "u1"), ("q", "f4")]), ("c", "c8")]
    )
    structs = np.zeros(7, struct)
    structs["x"], structs["s"], structs["b"][::2], structs["in"]["q"], structs["c"] = range(7), b"ab", True, 2.5, 1 + 2j
    words = np.array([[f"{i}-{'ä' * j}" for j in range(3)] for i in range(40)], object)
    expected: dict[str, Any] = {
        "flat": np.array(["a", "", "äö" * 9], object),
        "chunked": words,
        "scalar": np.array("one", object),
        "filled": np.array(["x", "", *["none"] * 6], object),
        "unwritten": np.full(5, "", object),
        "structs": structs,
        "packed": structs.reshape(7, 1),
        "aligned": np.ones(3, np.dtype([("a", "u1"), ("b", "f8")], align=True)),
    }

    def fill(file: h5py.File) -> None:
        for name in ("flat", "scalar"):
            file.create_dataset(name, data=expected[name], dtype=text)
        file.create_dataset("chunked", data=words, dtype=text, chunks=(7, 2), compression="gzip")
        file.create_dataset("filled", (8,), text, chunks=(3,), fillvalue="none")[:2] = ["x", ""]
        file.create_dataset("unwritten", (5,), text, chunks=(3,))
        file.create_dataset("packed", data=expected["packed"], chunks=(3, 1), compression="gzip")
        for name in ("structs", "aligned"):
            file.create_dataset(name, data=expected[name])
        file.create_dataset("latin", data=np.array([b"\xe4"], object), dtype=text)

    scanned = write(tmp_path / "a.h5", fill)
    assert not reasons(scanned)
    assert all(array.library for array in scanned.arrays)
    done = frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert set(done.arrays) == {*expected, "latin"}
    group = frazil.open_group(tmp_path / "a.zarr")
    for name, values in expected.items():
        array = group[name]
        assert isinstance(array, frazil.Array)
        np.testing.assert_array_equal(array[...], values, name)
    assert group["latin"][...].tolist() == ["ä"]  # type: ignore[index]
    assert group["filled"].fill_value == "none"  # type: ignore[union-attr]
    with pytest.raises(InvalidInputError, match="text of variable length"):
        frazil.import_file(tmp_path / "a.h5", tmp_path / "a.repo", mode="virtual", variables=["flat"])
    frazil.export_file(group, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        for name, values in expected.items():
            there = file[name].asstr()[...] if values.dtype == object else file[name][...]
            np.testing.assert_array_equal(there, values, name)


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_text_is_read_without_its_padding(chunks: tuple[int, ...] | None, tmp_path: Path) -> None:
    """As C and Fortran write it. The bytes of the file were taken: with spaces, and what is behind a NUL."""
    stored = np.array([b"ab   ", b"a\0bcd", b"abcde"], "S5")

    def fill(file: h5py.File) -> None:
        for name in ("NULLTERM", "NULLPAD", "SPACEPAD"):
            kind = h5py.h5t.C_S1.copy()
            kind.set_size(5)
            kind.set_strpad(getattr(h5py.h5t, f"STR_{name}"))
            options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if chunks:
                options.set_chunk(chunks)
            dataset = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((3,)), options)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, stored, kind)

    write(tmp_path / "a.h5", fill)
    frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    with h5py.File(tmp_path / "a.h5") as file:
        for name in file:
            assert frazil.open_array(tmp_path / "a.zarr", path=name)[...].tolist() == file[name][...].tolist()
            assert len(set(file[name][...].tolist())) == 3


@pytest.mark.parametrize(("value", "virtual"), [(b"ab", True), (b"ab\0cd", False)])
def test_text_that_ends_with_a_nul_is_virtual_if_nothing_follows(value: bytes, virtual: bool, tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(8)
        kind.set_strpad(h5py.h5t.STR_NULLTERM)
        dataset = h5py.h5d.create(file.id, b"a", kind, h5py.h5s.create(h5py.h5s.SCALAR))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(value, "S8"), kind)

    scanned = write(tmp_path / "a.h5", fill)
    assert (array_of(scanned, "a").library is None) == virtual
    frazil.import_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert frazil.open_array(tmp_path / "a.zarr", path="a")[()] == b"ab"


def test_names_of_an_enumeration_become_flags(tmp_path: Path) -> None:
    kind = h5py.enum_dtype({"clear sky": 0, "cloudy": 7}, "i2")

    def fill(file: h5py.File) -> None:
        file.create_dataset("a", data=[0, 7, 0], dtype=kind)
        file.create_dataset("b", data=[0, 7, 0], dtype=kind).attrs["flag_meanings"] = "own"
        file.create_dataset("c", data=[True, False])

    scanned = write(tmp_path / "a.h5", fill)
    assert array_of(scanned, "a").attributes == {"flag_values": [0, 7], "flag_meanings": "clear_sky cloudy"}
    assert array_of(scanned, "b").attributes == {"flag_meanings": "own"}
    assert array_of(scanned, "c").attributes == {}


def test_szip_is_left_to_the_library(tmp_path: Path) -> None:
    if not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        pytest.skip("this HDF5 library has no szip")
    scanned = write(
        tmp_path / "a.h5", lambda file: file.create_dataset("a", data=np.arange(64), chunks=(32,), compression="szip")
    )
    library = array_of(scanned, "a").library
    assert library is not None and "szip (filter 4)" in library.reason


def test_a_chunk_without_one_of_the_filters_is_left_to_the_library(tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        dataset = file.create_dataset("a", (4, 4), "i4", chunks=(2, 2), shuffle=True, compression="gzip")
        dataset[...] = 1
        dataset.id.write_direct_chunk((2, 0), bytes(16), filter_mask=2)

    library = array_of(write(tmp_path / "a.h5", fill), "a").library
    assert library is not None and "its chunk (1, 0) was stored without deflate" in library.reason


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write(path, lambda file: file.create_dataset("a", data=np.arange(10**4)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match="cannot be opened as an HDF5 file") as caught:
        scan_file(path)
    assert caught.value.key == str(path)


@pytest.mark.parametrize(
    "content", [b"", b"CD", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(100), b"GRIB" * 500]
)
def test_files_of_other_formats(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FormatError):
        scan_file(tmp_path / "a")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, expected in ((tmp_path / "no", NotFoundError), (tmp_path, InvalidInputError)):
        with pytest.raises(expected) as caught:
            scan_file(path)
        assert caught.value.key == str(path)
    with pytest.raises(InvalidInputError):
        scan_file("a\0b")


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.h5", lambda file: None)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'frazil\[hdf5\]'"):
        scan_file(tmp_path / "a.h5")


# --- netCDF -------------------------------------------------------------------------------------------------------------------------------


def agrees_with_netcdf(path: Path, scanned: ScannedFile) -> None:
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        for array in scanned.arrays:
            variable = file[array.path]
            assert array.dimension_names == variable.dimensions
            assert array.shape == variable.shape
            if array.library is None:
                np.testing.assert_array_equal(values_of(array, path), variable[...])
            for name in variable.ncattrs():
                if name != "_FillValue":
                    np.testing.assert_array_equal(array.attributes[name], variable.getncattr(name))
            assert set(array.attributes) <= set(variable.ncattrs())


def test_netcdf4(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.setncatts({"title": "Strömung", "texts": ["a", "b"], "count": np.int16(3)})
        for name, length in (("t", None), ("x", 4), ("y", 3), ("z", 2)):
            file.createDimension(name, length)
        file.createVariable("x", "f4", ("x",))[:] = [1, 2, 3, 4]
        file.createVariable("t", "f8", ("t",))[:] = [1, 2, 3]
        file.createVariable("z", "f8", ("x", "y"))[:] = 5  # has the name of a dimension, but is not its coordinate
        options = {"compression": "zlib", "shuffle": True, "fletcher32": True, "chunksizes": (1, 3, 2)}
        a = file.createVariable("a", ">i2", ("t", "y", "x"), endian="big", fill_value=-1, **options)
        a.setncatts({"scale_factor": 0.25, "add_offset": np.float32(1), "units": "m"})
        a.set_auto_maskandscale(False)
        a[:] = np.arange(36).reshape(3, 3, 4)
        file.createVariable("odd", "f8", ("t", "y", "x"), **options)[:] = np.arange(36).reshape(3, 3, 4)
        file.createVariable("short", "i4", ("t",))[:1] = 1  # the other records are the fill value
        file.createVariable("none", "f4", ("t", "y"))
        group = file.createGroup("in/ner")
        group.createDimension("w", 5)
        group.createVariable("b", "u8", ("w", "x", "x"))[:] = 7
        group.createVariable("name", str, ("w",))
    scanned = scan_file(path)
    assert scanned.kind == "NetCDF4"
    assert list(scanned.groups) == ["", "in", "in/ner"]
    assert scanned.groups[""] == {"title": "Strömung", "texts": ["a", "b"], "count": 3}
    assert not reasons(scanned)
    assert {array.path for array in scanned.arrays} == {
        "x", "t", "z", "a", "odd", "short", "none", "in/ner/b", "in/ner/name"
    }  # fmt: skip
    agrees_with_netcdf(path, scanned)
    a = array_of(scanned, "a")
    assert (
        a.attributes == {"scale_factor": 0.25, "add_offset": 1.0, "units": "m", "_FillValue": -1} and a.fill_value == -1
    )
    assert [codec["name"] for codec in a.codecs] == [
        "bytes", "numcodecs.fletcher32", "numcodecs.shuffle", "numcodecs.zlib"
    ]  # fmt: skip
    assert array_of(scanned, "short").fill_value == netCDF4.default_fillvals["i4"]


def test_dimensions_without_names_are_called_as_netcdf_calls_them(tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        file["a"] = np.zeros((3, 4, 3))
        file["b"] = np.zeros((4,))
        file["c"] = np.zeros((4, 5))
        file["c"].dims[1].label = "width"

    scanned = write(tmp_path / "a.h5", fill)
    assert {array.path: array.dimension_names for array in scanned.arrays} == {
        "a": ("phony_dim_0", "phony_dim_1", "phony_dim_2"),
        "b": ("phony_dim_1",),
        "c": ("phony_dim_1", "width"),
    }


def test_attributes_that_json_cannot_express_are_reported(tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        file["a"] = np.zeros(2)
        attributes = file["a"].attrs
        attributes["pair"] = np.zeros((), [("x", "i4")])
        attributes["complex"] = 1j
        attributes["reference"] = file["a"].ref
        attributes["nothing"] = h5py.Empty("S1")
        attributes["unknown"] = h5py.Empty("f4")
        attributes["large"] = np.float64("inf")
        attributes["matrix"] = np.array([[1, 2], [3, 4]])
        attributes["flag"] = True
        attributes["latin"] = np.bytes_(b"caf\xe9\0")

    scanned = write(tmp_path / "a.h5", fill)
    assert set(reasons(scanned)) == {"a@pair", "a@complex", "a@reference"}
    assert scanned.arrays[0].attributes == {
        "nothing": "", "unknown": None, "large": NonFinite("Infinity"), "matrix": [[1, 2], [3, 4]], "flag": True, "latin": "café"
    }  # fmt: skip


def test_a_fill_value_that_differs_from_what_was_never_written(tmp_path: Path) -> None:
    def fill(file: h5py.File) -> None:
        for name, written in (("part", 2), ("whole", 4)):
            dataset = file.create_dataset(name, (4,), "i4", chunks=(2,), fillvalue=5)
            dataset[:written] = 1
            dataset.attrs["_FillValue"] = np.array([-1], "i4")

    scanned = write(tmp_path / "a.h5", fill)
    agrees(tmp_path / "a.h5", scanned)
    part, whole = (array_of(scanned, name) for name in ("part", "whole"))
    assert part.fill_value == 5 and part.attributes == {"_FillValue": -1}
    assert whole.fill_value == -1 and whole.attributes == {"_FillValue": -1}


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
def test_variables_without_fill_values_are_filled_to_the_end_of_their_dimension(dtype: str, tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", None)
        file.createVariable("time", "i4", ("time",))[:9] = 1
        file.createVariable("text", str, ("time",), fill_value=False)[:2] = np.array(["a", "b"], object)
        for name, end in {"within": 2, "whole": 4}.items():
            for compressed in (False, True):
                variable = file.createVariable(
                    f"{name}{compressed:d}", dtype, ("time",), fill_value=False, chunksizes=(4,), zlib=compressed
                )
                variable[:end] = 7
    with h5py.File(tmp_path / "a.nc", "a") as file:  # the fill value of HDF5, of which netCDF knows nothing
        for name, stored in {"zeros": slice(0, 2), "sparse": slice(4, 8)}.items():
            dataset = file.create_dataset(name, (8,), dtype, maxshape=(None,), chunks=(4,))
            dataset[stored] = 7
            dataset.dims[0].attach_scale(file["time"])
            dataset.attrs["_Netcdf4Coordinates"] = np.zeros(1, "i4")
    frazil.import_file(tmp_path / "a.nc", tmp_path / "a.zarr")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        file.set_auto_mask(False)
        for name, variable in file.variables.items():
            np.testing.assert_array_equal(frazil.open_array(tmp_path / "a.zarr", path=name)[...], variable[...], name)
    virtual = {array.path for array in scan_file(tmp_path / "a.nc").arrays if array.library is None}
    assert virtual == {"time", "whole0", "whole1"}


def test_a_mask_of_the_world() -> None:
    path = data("basin_mask.nc")
    scanned = scan_file(path)
    assert {array.path for array in scanned.arrays} == {"X", "Y", "Z", "basin"} and not scanned.skipped
    agrees_with_netcdf(path, scanned)
    assert [codec["name"] for codec in array_of(scanned, "basin").codecs] == ["bytes", "numcodecs.zlib"]
