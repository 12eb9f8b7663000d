"""Imported GRIB files written by eccodes: the same variables, coordinates and values as xarray's engine "cfgrib"."""

from __future__ import annotations

import io
import sys
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.errors import DataError, FormatError, InvalidInputError
from frazil.integrations.files.grib.messages import Field, read_field, read_messages, split_fields
from frazil.integrations.files.scanner import scan_file

eccodes = pytest.importorskip(
    "eccodes", reason="eccodes is not installed: pip install 'frazil[grib]'", exc_type=Exception
)
cfgrib = pytest.importorskip("cfgrib", reason="cfgrib is not installed: pip install 'frazil[grib]'", exc_type=Exception)
xarray = pytest.importorskip("xarray")

NY, NX = 5, 8


def message(edition: int, seed: int, keys: Mapping[str, object], *, missing: bool = False) -> bytes:
    """A field of random values on a grid of 5 x 8."""
    handle = eccodes.codes_new_from_samples(f"regular_ll_sfc_grib{edition}", eccodes.CODES_PRODUCT_GRIB)
    grid = {
        "Ni": NX, "Nj": NY, "latitudeOfFirstGridPointInDegrees": 50, "latitudeOfLastGridPointInDegrees": 46,
        "longitudeOfFirstGridPointInDegrees": 3, "longitudeOfLastGridPointInDegrees": 10,
        "iDirectionIncrementInDegrees": 1, "jDirectionIncrementInDegrees": 1,
    }  # fmt: skip
    for key, value in {**grid, **keys}.items():
        eccodes.codes_set(handle, key, value)
    values = np.random.default_rng(seed).normal(280, 10, NY * NX)
    if missing:
        eccodes.codes_set(handle, "missingValue", 9999)
        eccodes.codes_set(handle, "bitmapPresent", 1)
        values[::3] = 9999
    eccodes.codes_set_values(handle, values)
    made = eccodes.codes_get_message(handle)
    eccodes.codes_release(handle)
    return bytes(made)


def levels(edition: int) -> bytes:
    """Temperature at two times and three levels, with one field missing."""
    found = []
    for time in (0, 1200):
        for level in (1000, 850, 500):
            if (time, level) != (1200, 850):
                keys = {
                    "dataDate": 20240229,
                    "dataTime": time,
                    "typeOfLevel": "isobaricInhPa",
                    "level": level,
                    "shortName": "t",
                }
                found.append(message(edition, time + level, keys, missing=level == 500))
    return b"".join(found)


def surface(edition: int) -> bytes:
    return message(edition, 1, {"dataDate": 20240229, "dataTime": 0, "shortName": "2t"})


def check(group: frazil.Group, dataset: object) -> None:
    for name, variable in dataset.variables.items():  # type: ignore[attr-defined]
        array = group[name]
        assert isinstance(array, frazil.Array)
        assert array.dimension_names == variable.dims
        np.testing.assert_array_equal(array[...], variable.values)
        expected = {key: value for key, value in variable.attrs.items() if key != "GRIB_missingValue"}
        assert {key: array.attrs[key] for key in expected} == expected
    assert group.attrs["Conventions"] == "CF-1.7" and "history" not in group.attrs


@pytest.mark.parametrize("edition", [1, 2])
@pytest.mark.parametrize("target", ["a.zarr", "a.repo"])
def test_a_file_of_one_kind_of_levels(tmp_path: Path, edition: int, target: str) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(levels(edition))
    done = frazil.import_file(file, tmp_path / target)
    assert "t" in done.arrays and not done.skipped
    with xarray.open_dataset(file, engine="cfgrib", decode_cf=False, indexpath="") as expected:
        assert expected["t"].shape == (2, 3, NY, NX) and np.isnan(expected["t"][1, 1]).all()
        where = tmp_path / target
        root = frazil.open(where) if target.endswith("zarr") else frazil.Repository.open(where).readonly_session().root
        check(root, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([target, "t.grib"]), "no index file"


def test_sets_of_fields_that_do_not_go_together_have_groups(tmp_path: Path) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(levels(2) + surface(2))  # their times also differ
    frazil.import_file(file, tmp_path / "a.zarr")
    root = frazil.open(tmp_path / "a.zarr")
    assert isinstance(root, frazil.Group) and sorted(root) == ["heightAboveGround", "isobaricInhPa"]
    for name in root:
        filters = {"filter_by_keys": {"typeOfLevel": name}, "indexpath": ""}
        with xarray.open_dataset(file, engine="cfgrib", decode_cf=False, backend_kwargs=filters) as expected:
            check(root[name], expected)


def test_variables_of_different_times_have_groups_of_their_names(tmp_path: Path) -> None:
    keys = {"typeOfLevel": "isobaricInhPa", "level": 500, "dataTime": 0}
    file = tmp_path / "t.grib"
    parts = [("t", 20240229), ("t", 20240301), ("q", 20240229)]
    file.write_bytes(
        b"".join([message(2, i, {**keys, "shortName": name, "dataDate": date}) for i, (name, date) in enumerate(parts)])
    )
    frazil.import_file(file, tmp_path / "a.zarr")
    assert frazil.open(tmp_path / "a.zarr/t/t").shape == (2, NY, NX)
    assert frazil.open(tmp_path / "a.zarr/q/q").shape == (NY, NX)


def test_bytes_between_messages_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(levels(1)[:0] + surface(1) + bytes(100_001) + b"GRI" + surface(1)[:0] + bytes(9))
    assert [array.path for array in scan_file(file).arrays if array.library] == ["t2m"]


@pytest.mark.parametrize("prefix", [b"\1\r\r\n123\r\r\nHTXE21 KWBC 010000\r\r\n", bytes(60_000)])
def test_bytes_before_the_first_message_are_skipped(tmp_path: Path, prefix: bytes) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(prefix + levels(2) + prefix)
    frazil.import_file(file, tmp_path / "t.repo")
    root = frazil.open_group(f"{tmp_path}/t.repo@main")
    check(root, xarray.open_dataset(file, engine="cfgrib", decode_cf=False, indexpath=""))
    with pytest.raises(FormatError, match="none of NetCDF"):
        file.write_bytes(prefix + b"a GRIB file")
        scan_file(file)


def together(fields: Sequence[bytes]) -> bytes:
    """One message with the sections of several messages, which share sections 1 to 3 of the first."""
    body = fields[0][16:-4]
    for field in fields[1:]:
        at = 16
        while field[at + 4] < 4:
            at += int.from_bytes(field[at : at + 4], "big")
        body += field[at:-4]
    return fields[0][:8] + (20 + len(body)).to_bytes(8, "big") + body + b"7777"


def test_several_fields_in_one_message(tmp_path: Path) -> None:
    keys = {"dataDate": 20240229, "dataTime": 0, "typeOfLevel": "isobaricInhPa", "shortName": "t"}
    fields = [message(2, level, {**keys, "level": level}) for level in (1000, 850, 500)]
    file = tmp_path / "t.grib"
    file.write_bytes(b"".join(fields))
    frazil.import_file(file, tmp_path / "one.zarr")
    file.write_bytes(surface(2)[:0] + together(fields))
    frazil.import_file(file, tmp_path / "two.zarr")
    one, two = (frazil.open(tmp_path / name / "t") for name in ("one.zarr", "two.zarr"))
    assert one.shape == two.shape == (3, NY, NX)
    np.testing.assert_array_equal(one[...], two[...])


def test_a_bitmap_of_the_field_before() -> None:
    keys = {"dataDate": 20240229, "typeOfLevel": "isobaricInhPa", "shortName": "t"}
    one, two = (message(2, level, {**keys, "level": level}, missing=True) for level in (1000, 850))
    at = 16
    while two[at + 4] != 6:
        at += int.from_bytes(two[at : at + 4], "big")
    length = int.from_bytes(two[at : at + 4], "big")
    shared = two[:at] + (6).to_bytes(4, "big") + b"\6\xfe" + two[at + length :]
    whole = together([one, shared])
    first, second = split_fields(whole, 0, "t")
    handle = eccodes.codes_new_from_message(second)
    assert eccodes.codes_get(handle, "numberOfMissing") == -(-NY * NX // 3)
    assert first == one and len(second) == len(two)
    with pytest.raises(FormatError, match="bitmap"):
        list(split_fields(together([shared, one]), 0, "t"))


def test_fields_that_share_a_large_section_are_made_one_after_the_other() -> None:
    large = (2**20).to_bytes(4, "big") + b"\x03" + bytes(2**20 - 5)
    sections = large + b"\0\0\0\x05\x07" * 100
    whole = b"GRIB\0\0\0\x02" + (16 + len(sections) + 4).to_bytes(8, "big") + sections + b"7777"
    tracemalloc.start()
    try:
        read = read_field(io.BytesIO(whole), Field(0, len(whole), 99), "t")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(read) == 16 + 2**20 + 5 + 4
    assert peak < 10 * 2**20


def test_two_fields_for_one_place_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(surface(2) * 2)
    with pytest.raises(InvalidInputError, match="2 of its fields have the same position"):
        frazil.import_file(file, tmp_path / "a.zarr")
    assert "t2m" not in frazil.import_file(file, tmp_path / "a.zarr", skip=["t2m"]).arrays


@pytest.mark.parametrize("edition", [1, 2])
def test_damaged_files_raise_our_errors(tmp_path: Path, edition: int) -> None:
    whole = surface(edition)
    file = tmp_path / "t.grib"
    for end in range(4, len(whole), 7):
        file.write_bytes(whole[:end])
        with pytest.raises(FormatError):
            scan_file(file)
    rng = np.random.default_rng(edition)
    for number in range(40):
        damaged = bytearray(whole)
        for at in rng.integers(4, len(whole), 3):
            damaged[at] = rng.integers(256)
        file.write_bytes(damaged)
        try:
            frazil.import_file(file, tmp_path / f"{number}.zarr")
        except (FormatError, DataError, InvalidInputError):
            pass


def test_a_large_message_of_edition_1(tmp_path: Path) -> None:
    """A message of 8 MiB or more has a length in units of 120 bytes, and a number in place of the length of its last section."""
    handle = eccodes.codes_new_from_samples("regular_ll_sfc_grib1", eccodes.CODES_PRODUCT_GRIB)
    grid = {"Ni": 2200, "Nj": 2000, "iDirectionIncrementInDegrees": 0.01, "jDirectionIncrementInDegrees": 0.01}
    ends = {"latitudeOfLastGridPointInDegrees": 40.01, "longitudeOfLastGridPointInDegrees": 21.99}
    begins = {"latitudeOfFirstGridPointInDegrees": 60, "longitudeOfFirstGridPointInDegrees": 0}
    for key, value in {**grid, **begins, **ends, "bitsPerValue": 16}.items():
        eccodes.codes_set(handle, key, value)
    values = np.random.default_rng(0).normal(280, 10, 2200 * 2000)
    eccodes.codes_set_values(handle, values)
    large = bytes(eccodes.codes_get_message(handle))
    eccodes.codes_release(handle)
    assert len(large) > 2**23
    assert large[4] & 0x80
    small = surface(1)
    found = list(read_messages(io.BytesIO(small + large + small), len(large) + 2 * len(small), "t.grib"))
    assert [(at, len(message)) for at, message in found] == [
        (0, len(small)),
        (len(small), len(large)),
        (len(small) + len(large), len(small)),
    ]
    (tmp_path / "t.grib").write_bytes(large)
    frazil.import_file(tmp_path / "t.grib", tmp_path / "t.zarr")
    array = frazil.open_array(tmp_path / "t.zarr" / "t2m")
    np.testing.assert_allclose(np.asarray(array[...]).reshape(-1), values, rtol=1e-5)


def test_the_mark_of_large_messages_in_a_damaged_one(tmp_path: Path) -> None:
    file = tmp_path / "t.grib"
    damaged = bytearray(surface(1))
    damaged[4] |= 0x80
    file.write_bytes(damaged)
    with pytest.raises(FormatError, match="cut short"):
        scan_file(file)
    damaged[8:11] = b"\0\0\1"
    file.write_bytes(damaged)
    with pytest.raises(FormatError, match="impossible"):
        scan_file(file)


def test_a_grid_that_no_message_has_values_of(tmp_path: Path) -> None:
    """If all values are equal, a message stores none of them, and only its header has their number."""
    message = bytearray(surface(2))
    at = 16
    while at < len(message) - 4:
        if message[at + 4] == 3:
            message[at + 6 : at + 10] = (30_000**2).to_bytes(4, "big")
            message[at + 30 : at + 38] = 2 * (30_000).to_bytes(4, "big")
        at += int.from_bytes(message[at : at + 4], "big")
    (tmp_path / "t.grib").write_bytes(message)
    with pytest.raises(FormatError, match="900000000 points") as raised:
        scan_file(tmp_path / "t.grib")
    assert raised.value.key == str(tmp_path / "t.grib")


def test_fields_are_found_where_they_are(tmp_path: Path) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(surface(2) + surface(1))
    with open(file, "rb") as opened:
        found = list(read_messages(opened, file.stat().st_size, "t"))
        assert [at for at, _ in found] == [0, len(surface(2))]
        assert read_field(opened, Field(found[1][0], len(found[1][1])), "t") == surface(1)
        with pytest.raises(FormatError):
            read_field(opened, Field(0, len(surface(2)), 1), "t")


def test_without_the_packages_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(surface(2))
    monkeypatch.setitem(sys.modules, "cfgrib", None)
    with pytest.raises(InvalidInputError, match="cfgrib") as raised:
        frazil.import_file(file, tmp_path / "a.zarr")
    assert raised.value.hint == "pip install 'frazil[grib]'"


def test_fields_are_only_copied(tmp_path: Path) -> None:
    file = tmp_path / "t.grib"
    file.write_bytes(surface(2))
    with pytest.raises(InvalidInputError, match="only be copied"):
        frazil.import_file(file, tmp_path / "a.repo", "virtual")
