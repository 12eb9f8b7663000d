"""NetCDF classic files, of all three formats, written by the netCDF library: the scan equals what the library reads. Hostile headers are refused at once."""

from __future__ import annotations

import contextlib
import math
import struct
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.external_data import data
from tests.integrations.scanned_arrays import array_of, values_of
from xarray.backends.zarr import FillValueCoder

from frazil.errors import FormatError
from frazil.integrations.files import contiguous
from frazil.integrations.files.netcdf.classic import layouts_of, scan_netcdf_classic
from frazil.integrations.files.netcdf.header import parse_header
from frazil.integrations.files.scanned import ScannedFile
from frazil.integrations.files.scanner import scan_file
from frazil.metadata.json_text import NonFinite

OLD = ("i1", "i2", "i4", "f4", "f8")
NEW = (*OLD, "u1", "u2", "u4", "i8", "u8")
FORMATS = {"NETCDF3_CLASSIC": OLD, "NETCDF3_64BIT_OFFSET": OLD, "NETCDF3_64BIT_DATA": NEW}


def agrees(path: Path, scanned: ScannedFile) -> None:
    """Checks that the scan equals what the library reads."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        assert [array.path for array in scanned.arrays] == list(file.variables)
        for array in scanned.arrays:
            variable = file.variables[array.path]
            assert array.dimension_names == variable.dimensions
            assert array.shape == variable.shape
            np.testing.assert_array_equal(values_of(array, path), variable[...])
            fill = getattr(variable, "_FillValue", None)
            if fill is None or "_FillValue" not in array.attributes:
                fill = netCDF4.default_fillvals[array.dtype.str[1:]]
            np.testing.assert_array_equal(array.fill_value, np.array(fill).astype(array.dtype))


@st.composite
def variables(draw: st.DrawFn, kind: str) -> tuple[str, tuple[str, ...], bool]:
    """(type, dimensions, whether it has its own fill value)"""
    rest = draw(st.lists(st.sampled_from(["x", "y", "one"]), max_size=2))
    first = ["t"] if draw(st.booleans()) else []
    return draw(st.sampled_from(FORMATS[kind])), (*first, *rest), draw(st.booleans())


@given(st.data(), st.sampled_from([*FORMATS]), st.integers(0, 4), st.sampled_from([8, 2**20]))
def test_variables_of_every_kind_of_classic_file_are_read(
    tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject, kind: str, records: int, chunk_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("classic") / "a.nc"
    random = np.random.default_rng(7)
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for name, length in (("t", None), ("x", 5), ("y", 3), ("one", 1)):
            file.createDimension(name, length)
        for i, (dtype, dimensions, has_fill) in enumerate(draw.draw(st.lists(variables(kind), max_size=5))):
            fill = 7 if has_fill else None
            variable = file.createVariable(f"v{i}", dtype, dimensions, fill_value=fill)
            variable.set_auto_maskandscale(False)
            shape = tuple(records if name == "t" else len(file.dimensions[name]) for name in dimensions)
            if math.prod(shape):
                variable[...] = random.integers(0, 100, shape).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contiguous, "_CHUNK_BYTES", chunk_bytes)
        scanned = scan_file(path)
    assert scanned.kind == f"NetCDF classic (CDF-{dict(zip(FORMATS, (1, 2, 5), strict=True))[kind]})"
    assert not scanned.skipped
    agrees(path, scanned)


@pytest.mark.parametrize("dtype", ["i1", "i2", "f8"])
@pytest.mark.parametrize("others", [0, 1])
def test_a_sole_record_variable_has_no_filling(tmp_path: Path, dtype: str, others: int) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        for i in range(1 + others):
            file.createVariable(f"v{i}", dtype, ("t", "x"))[:] = np.arange(21).reshape(7, 3)
    scanned = scan_file(path)
    agrees(path, scanned)
    assert len(scanned.arrays[0].chunks.offsets) == (7 if others else 1)


def test_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_DATA") as file:
        file.setncatts(
            {"title": "Strömung", "numbers": np.array([1, 2], "i2"), "large": np.uint64(2**64 - 1), "empty": ""}
        )
        file.createDimension("x", 2)
        variable = file.createVariable("x", "f4", ("x",), fill_value=np.nan)
        variable.setncatts({"scale_factor": np.float32(0.5), "range": np.array([np.nan, np.inf, -np.inf, 1])})
        file.createVariable("name", "S1", ("x",)).setncattr("said", 1)
    scanned = scan_file(path)
    assert scanned.groups == {"": {"title": "Strömung", "numbers": [1, 2], "large": 2**64 - 1, "empty": ""}}
    assert not scanned.skipped
    array, text = scanned.arrays
    assert (text.dtype, text.fill_value, text.attributes) == (np.dtype("S1"), b"", {"said": 1})
    assert array.attributes == {
        "scale_factor": 0.5, "range": [*map(NonFinite, ("NaN", "Infinity", "-Infinity")), 1.0],
        "_FillValue": FillValueCoder.encode(np.float32(np.nan), np.dtype("f4")),
    }  # fmt: skip
    assert np.isnan(array.fill_value)
    assert scanned.size == path.stat().st_size and scanned.state.modified == path.stat().st_mtime_ns


def test_a_file_of_the_world() -> None:
    path = data("eraint_uvz.nc")
    scanned = scan_file(path)
    agrees(path, scanned)
    assert array_of(scanned, "u").attributes["scale_factor"] == -0.001572704938045535
    assert "_FillValue" not in array_of(scanned, "z").attributes, "NaN, which no integer is"
    assert {(part.path, part.attribute) for part in scanned.skipped} == {(name, "_FillValue") for name in "zuv"}


def test_records_that_the_header_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createVariable("a", "i2", ("t",))[:] = np.arange(5)
        file.createVariable("b", "f8", ("t",))[:] = np.arange(5)
    content = bytearray(path.read_bytes())
    content[4:8] = b"\xff" * 4
    path.write_bytes(content)
    scanned = scan_file(path)
    assert [array.shape for array in scanned.arrays] == [(5,), (5,)]
    np.testing.assert_array_equal(values_of(array_of(scanned, "b"), path), np.arange(5))


def test_a_file_that_is_cut_short_shows_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        file.createDimension("x", 100)
        file.createVariable("a", "i4", ("x",))[:] = np.arange(100)
        file.createVariable("b", "i4", ("x",))[:] = np.arange(100)
    path.write_bytes(path.read_bytes()[:-1])
    scanned = scan_file(path)
    assert [array.path for array in scanned.arrays] == ["a"]
    assert [one.path for one in scanned.skipped] == ["b"] and "cut short" in scanned.skipped[0].reason


# --- headers ------------------------------------------------------------------------------------------------------------------------------


def header(
    version: int = 1, *, records: bytes = b"\0" * 4, dimensions: bytes = b"\0" * 8, variables: bytes = b"\0" * 8
) -> bytes:
    return b"CDF" + bytes([version]) + records + dimensions + b"\0" * 8 + variables


def named(name: bytes) -> bytes:
    return struct.pack(">I", len(name)) + name + b"\0" * (-len(name) % 4)


def listed(tag: int, *items: bytes, count: int | None = None) -> bytes:
    return struct.pack(">II", tag, len(items) if count is None else count) + b"".join(items)


def variable(name: bytes = b"v", dimensions: tuple[int, ...] = (0,), kind: int = 4, begin: int = 0) -> bytes:
    numbers = struct.pack(f">I{len(dimensions)}I", len(dimensions), *dimensions)
    return named(name) + numbers + b"\0" * 8 + struct.pack(">III", kind, 0, begin)


X = listed(10, named(b"x") + struct.pack(">I", 5))
T = listed(10, named(b"t") + b"\0" * 4, named(b"x") + struct.pack(">I", 5))


def test_an_empty_header() -> None:
    assert parse_header(header()).end == 32
    assert parse_header(header(dimensions=X, variables=listed(11, variable()))).variables[0].dimensions == (0,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a NetCDF classic"),
        (b"CDF\3" + b"\0" * 28, "not a NetCDF classic"),
        (header()[:-1], "cut short"),
        (header(5)[:-1], "cut short"),
        (header(dimensions=listed(11, named(b"x") + b"\0\0\0\1")), "begins with 10, found 11"),
        (header(dimensions=listed(10, count=2**31 - 1)), "cut short|1 to 65536"),
        (header(dimensions=listed(10, count=2**31)), "must not be negative"),
        (header(dimensions=listed(0, count=1)), "begins with 10"),
        (header(dimensions=listed(10, struct.pack(">I", 2**31 - 1))), "1 to 65536 bytes"),
        (header(dimensions=listed(10, named(b"") + b"\0" * 4)), "1 to 65536 bytes"),
        (header(dimensions=listed(10, named(b"\xff") + b"\0" * 4)), "must be UTF-8"),
        (header(dimensions=listed(10, *[named(b"x") + b"\0\0\0\1"] * 2)), "two dimensions have the name 'x'"),
        (header(dimensions=listed(10, named(b"s") + b"\0" * 4, named(b"t") + b"\0" * 4)), "one dimension of records"),
        (header(dimensions=X, variables=listed(11, variable(), variable())), "two variables have the name 'v'"),
        (header(dimensions=X, variables=listed(11, variable(dimensions=(1,)))), "the dimension 1, and there are 1"),
        (header(dimensions=T, variables=listed(11, variable(dimensions=(1, 0)))), "not have its records along its first dimension"),
        (header(dimensions=X, variables=listed(11, variable(kind=7))), "type 7 of the variable 'v'"),
        (header(dimensions=X, variables=listed(11, variable(kind=0))), "type 0 of the variable 'v'"),
        (header(dimensions=X, variables=listed(11, variable(begin=2**31))), "must not be negative"),
        (header(dimensions=X, variables=listed(11, named(b"v") + struct.pack(">I", 2**30))), "cut short"),
    ],
)  # fmt: skip
def test_headers_that_break_the_format(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_header(content, "a.nc")
    assert caught.value.key == "a.nc" and ", at byte " in str(caught.value)


def test_variables_that_share_their_bytes_are_not_all_believed(tmp_path: Path) -> None:
    """Otherwise a small file could require any number of chunks."""
    x = listed(10, named(b"x") + struct.pack(">I", 500))
    content = header(dimensions=x, variables=listed(11, *[variable(str(i).encode()) for i in range(40)]))
    path = tmp_path / "a.nc"
    path.write_bytes(content.ljust(4000, b"\0"))
    scanned = scan_file(path)
    assert len(scanned.arrays) == 0 and len(scanned.skipped) == 40
    assert "overlaps" in scanned.skipped[0].reason


@pytest.mark.parametrize(("name", "change"), [("a", 4), ("b", -4), ("c", 1), ("c", 4), ("r", -4), ("s", -4), ("a", -100), ("dimension x", 1)])  # fmt: skip
@pytest.mark.parametrize("kind", FORMATS)
def test_variables_at_wrong_places_are_not_read(tmp_path: Path, kind: str, name: str, change: int) -> None:
    """The netCDF library opens no such file; bytes of other variables became values here."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.title = "sea"
        file.createDimension("t", None)
        file.createDimension("x", 5)
        for variable_name, of in (("a", "i2"), ("b", "f8"), ("c", "i1")):
            file.createVariable(variable_name, of, ("x",))[:] = range(5)
        for variable_name in ("r", "s"):
            file.createVariable(variable_name, "i2", ("t",))[:] = range(3)
    agrees(path, scan_file(path))
    content, parsed = path.read_bytes(), parse_header(path.read_bytes())
    width = 4 if kind == "NETCDF3_CLASSIC" else 8
    if name == "dimension x":
        width, old = 8 if kind == "NETCDF3_64BIT_DATA" else 4, 5
        at = content.index(b"\1x\0\0\0") + 5
    else:
        old = next(variable.begin for variable in parsed.variables if variable.name == name)
        at = content.index(old.to_bytes(width, "big"), content.index(name.encode() + bytes(3)))
    path.write_bytes(content[:at] + (old + change).to_bytes(width, "big") + content[at + width :])
    with pytest.raises(OSError, match="Unknown file format"):
        netCDF4.Dataset(path)
    scanned = scan_file(path)
    assert len(scanned.skipped) + len(scanned.arrays) == 5
    assert name.startswith("dimension") or name in [part.path for part in scanned.skipped]
    assert all("overlaps" in part.reason for part in scanned.skipped) and scanned.skipped


def test_sizes_that_no_file_has(tmp_path: Path) -> None:
    huge = listed(10, named(b"t") + b"\0" * 4, *[named(name) + struct.pack(">I", 2**31 - 1) for name in (b"a", b"b")])
    dimensions = [(0,), (0, 1), (0, 1, 2), (1, 2, 1), (1,) * 40]
    content = header(
        records=b"\x7f\xff\xff\xff",
        dimensions=huge,
        variables=listed(11, *[variable(str(i).encode(), one) for i, one in enumerate(dimensions)]),
    )
    path = tmp_path / "a.nc"
    path.write_bytes(content)
    scanned = scan_file(path)
    assert not scanned.arrays and len(scanned.skipped) == len(dimensions)


def test_names_that_no_node_can_have(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    names = (b"..", b"__x", b"a/b", b"ok")
    content = header(dimensions=X, variables=listed(11, *[variable(name, begin=300 + 20 * i) for i, name in enumerate(names)]))  # fmt: skip
    path.write_bytes(content.ljust(400, b"\0"))
    scanned = scan_file(path)
    assert [array.path for array in scanned.arrays] == ["ok"]
    assert [one.path for one in scanned.skipped] == ["..", "__x", "a/b"]


WHOLE = header(
    2,
    dimensions=T,
    variables=listed(
        11,
        named(b"v")
        + struct.pack(">III", 2, 0, 1)
        + listed(12, named(b"n") + struct.pack(">IIII", 4, 2, 1, 2))
        + struct.pack(">IIQ", 6, 0, 0),
    ),
)


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.integers(0, len(WHOLE)))
@example(0, 67, len(WHOLE))
def test_any_damage_is_an_error_or_is_skipped(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, size: int
) -> None:
    content = bytearray(WHOLE)
    content[place] = value
    path = tmp_path_factory.mktemp("damaged") / "a.nc"
    path.write_bytes(content[:size])
    with path.open("rb") as file, contextlib.suppress(FormatError):
        scanned = scan_netcdf_classic(file, "a.nc")
        assert len(scanned.arrays) + len(scanned.skipped) <= 2


def test_a_large_header_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.setncattr("large", np.arange(10**5, dtype="f8"))
        file.createDimension("x", 2)
        file.createVariable("x", "f8", ("x",))[:] = [1, 2]
    scanned = scan_file(path)
    assert scanned.groups[""]["large"][-1] == 10**5 - 1
    agrees(path, scanned)
    assert layouts_of(parse_header(path.read_bytes()), path.stat().st_size)[0].shape == (2,)


def test_files_of_other_formats() -> None:
    with pytest.raises(FormatError):
        parse_header(b"\x89HDF\r\n\x1a\n")


def test_names_end_at_a_nul(tmp_path: Path) -> None:
    """Old programs counted the NULs behind a name."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("xLONGER", 3)
        file.createVariable("vLONGER", "i4", ("xLONGER",))[:] = [1, 2, 3]
        file["vLONGER"].setncattr("aLONGER", "text")
    path.write_bytes(path.read_bytes().replace(b"LONGER", bytes(6)))
    scanned = scan_file(path)
    agrees(path, scanned)
    assert (scanned.arrays[0].path, scanned.arrays[0].dimension_names) == ("v", ("x",))
    assert scanned.arrays[0].attributes["a"] == "text"
    path.write_bytes(path.read_bytes().replace(b"v\0", b"\0\0"))
    with pytest.raises(FormatError, match="the name of a variable is empty"):
        scan_file(path)
