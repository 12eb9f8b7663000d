"""Datasets of HDF5 whose chunks are not as the HDF5 library reports them, which only their object headers say."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from numcodecs.checksum32 import JenkinsLookup3

import frazil
from frazil.integrations.files.hdf5.object_header import chunk_layout
from frazil.integrations.files.scanner import scan_file


def imported(path: Path) -> frazil.Group:
    frazil.import_file(path, path.with_suffix(".zarr"))
    return frazil.open_group(path.with_suffix(".zarr"))


@pytest.mark.parametrize("limits", [(None, 9), (10, None), (5, None), (None, None), (10, 9), (5, 7)])
@pytest.mark.parametrize("version", ["earliest", "v108", "latest"])
@pytest.mark.parametrize("attributes", [0, 40])
def test_any_dimension_can_grow(
    limits: tuple[int | None, int | None], version: str, attributes: int, tmp_path: Path
) -> None:
    """The HDF5 library lists the chunks of the index of version 4 in a wrong order, if only a dimension behind the first can grow."""
    path, values = tmp_path / "a.h5", np.arange(35).reshape(5, 7) + 1
    text = np.array([str(value) for value in values.flat], object).reshape(5, 7)
    with h5py.File(path, "w", libver=version, userblock_size=512) as file:
        made = file.create_dataset("a", data=values, maxshape=limits, chunks=(2, 3))
        for number in range(attributes):  # these need another block of the header, and come before other messages there
            made.attrs[f"attribute{number}"] = number
        file.create_dataset("text", (5, 7), h5py.string_dtype(), maxshape=limits, chunks=(2, 3))[2:] = text[2:]
    group = imported(path)
    np.testing.assert_array_equal(group["a"][...], values)
    assert np.asarray(group["text"][...]).tolist() == [[""] * 7] * 2 + text[2:].tolist()
    by_library = limits[0] is not None and limits[1] is None and version == "latest"
    assert bool(scan_file(path).arrays[0].library) == by_library


def bare_edges(path: Path, values: np.ndarray[tuple[int, int], np.dtype[np.int32]], chunks: tuple[int, int]) -> None:
    """A dataset whose chunks at its end have no filters, which h5py cannot create: a flag of the message for its layout."""
    with h5py.File(path, "w", libver="latest") as file:
        made = file.create_dataset("a", values.shape, "i4", chunks=chunks, compression="gzip", shuffle=True)
        for row in range(0, values.shape[0], chunks[0]):
            for column in range(0, values.shape[1], chunks[1]):
                part = values[row : row + chunks[0], column : column + chunks[1]]
                if part.shape == chunks:
                    made[row : row + chunks[0], column : column + chunks[1]] = part
                else:
                    whole = np.zeros(chunks, "i4")
                    whole[: part.shape[0], : part.shape[1]] = part
                    made.id.write_direct_chunk((row, column), whole.tobytes())
        start = h5py.h5o.get_info(made.id).addr
    data = bytearray(path.read_bytes())
    assert data[start : start + 4] == b"OHDR"
    assert data[start + 5] == 1  # no times; two bytes for the size
    end = start + 8 + int.from_bytes(data[start + 6 : start + 8], "little")
    # version 4 or 5, chunked, no flag, rank 2 and the size of an element
    layout = re.compile(rb"[\x04\x05]\x02\x00\x03").search(data, start, end)
    assert layout is not None
    data[layout.start() + 2] = 1
    data[end : end + 4] = JenkinsLookup3.checksum(bytes(data[start:end])).to_bytes(4, "little")
    path.write_bytes(data)


def test_chunks_at_the_end_without_filters(tmp_path: Path) -> None:
    path, values = tmp_path / "a.h5", np.arange(35, dtype="i4").reshape(5, 7)
    bare_edges(path, values, (2, 3))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["a"][...], values)
    np.testing.assert_array_equal(imported(path)["a"][...], values)


def test_whole_chunks_of_such_a_dataset_need_no_library(tmp_path: Path) -> None:
    path, values = tmp_path / "a.h5", np.arange(36, dtype="i4").reshape(6, 6)
    bare_edges(path, values, (2, 3))
    assert scan_file(path).arrays[0].library is None
    np.testing.assert_array_equal(imported(path)["a"][...], values)


@pytest.mark.parametrize("flags", [0, 1])
def test_a_header_of_version_1_may_have_a_layout_of_version_4(flags: int) -> None:
    """The library writes it if chunks at the end are not filtered, and old programs shall read the rest of the file."""
    layout = bytes([4, 2, flags, 2, 1, 2, 3])
    message = bytes([8, 0, 8, 0, 0, 0, 0, 0]) + layout.ljust(8, b"\0")
    other = bytes([1, 0, 8, 0, 0, 0, 0, 0]) + bytes(8)
    there = 96
    leads_on = bytes([16, 0, 16, 0, 0, 0, 0, 0]) + there.to_bytes(8, "little") + len(message).to_bytes(8, "little")
    for first, second in ((other + message, b""), (other + leads_on, message)):
        prefix = bytes([1, 0, 2, 0, 1, 0, 0, 0]) + len(first).to_bytes(4, "little") + bytes(4)
        data = (b"\0" * 8 + prefix + first).ljust(there + 8, b"\0") + second
        found = chunk_layout(lambda start, length, data=data: data[start : start + length], 0, 8, (8, 8))  # type: ignore[misc]
        assert (found.indexed, found.bare_edges) == (True, flags == 1)


def test_many_chunks_are_decoded_in_few_calls(tmp_path: Path) -> None:
    """Each call is a request to another process."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("a", (16, 80_000), "i4", chunks=(16, 4), maxshape=(16, None))[:, :100] = 7
    array = scan_file(path).arrays[0]
    assert array.library
    assert array.chunk_shape[1] > 60_000
    values = imported(path)["a"][...]
    assert (values[:, :100] == 7).all()
    assert not values[:, 100:].any()


def test_empty_text_is_not_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("a", (6,), h5py.string_dtype(), chunks=(2,), fillvalue="n/a")
        made[:2], made[2:4] = ["", ""], ["", "."]
    assert np.asarray(imported(path)["a"][...]).tolist() == ["", "", "", ".", "n/a", "n/a"]


@pytest.mark.parametrize(
    "loop", [b"OHDR\x02\x00\x14\x10\x10\x00\x00" + bytes(8) + (20).to_bytes(8, "little"), b"OHDR", b"", b"\x01" * 40]
)
def test_damaged_headers_say_nothing(loop: bytes) -> None:
    layout = chunk_layout(lambda start, length: loop[start : start + length], 0, 0, (8, 8))
    assert (layout.indexed, layout.bare_edges) == (False, False)


def test_a_fill_value_that_is_undefined(tmp_path: Path) -> None:
    """h5py cannot create it: old programs do."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("chunked", (4,), "f8", chunks=(2,), fill_time="never")[:2] = [1, 2]
        file.create_dataset("run", data=np.arange(3, dtype="i2"))
        file.create_dataset("fixed", (4,), "S3", chunks=(2,))[:2] = ["x", "y"]
        file.create_dataset("text", (4,), h5py.string_dtype(), chunks=(2,))[:2] = ["x", "y"]
    data = path.read_bytes()
    # messages of version 2, without a value
    defined = re.compile(rb"(\x05\x00\x08\x00.\x00\x00\x00\x02..)\x01(\x00{4})", re.DOTALL)
    data, count = defined.subn(lambda found: found[1] + b"\0" + found[2], data)
    assert count == 4
    path.write_bytes(data)
    with h5py.File(path) as file:
        for dataset in file.values():
            assert dataset.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_UNDEFINED
    group = imported(path)
    assert group["chunked"][...].tolist() == [1, 2, 0, 0]
    assert group["run"][...].tolist() == [0, 1, 2]
    assert group["fixed"][...].tolist() == [b"x", b"y", b"", b""]
    assert np.asarray(group["text"][...]).tolist() == ["x", "y", "", ""]
