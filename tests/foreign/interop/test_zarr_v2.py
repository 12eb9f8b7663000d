"""Zarr v2 exchanged with zarr-python 2.18, in its own process, and with zarr-python 3."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import frazil
from tests.external_data import zarr2_python

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

DTYPES = [
    *("<i2", ">i4", "|u1", "|b1", "<f2", "<f4", ">f8", "<c8", "<c16", "|S5", "<U3", ">U2", "<M8[s]", "<m8[ns]", "|V3"),
    [["a", "<i4"], ["b", ">f8"]],
    [["a", "<i4"], ["b", "<U2"], ["c", "<f4", [2]]],
]
COMPRESSORS = [
    None,
    {"id": "zlib", "level": 1},
    {"id": "gzip", "level": 1},
    {"id": "zstd", "level": 3},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": -1, "blocksize": 0},
    {"id": "bz2", "level": 1},
    {"id": "lz4", "acceleration": 1},
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
]
FILTERS: list[list[dict[str, object]]] = [
    [{"id": "delta", "dtype": "<i4", "astype": "<i4"}],
    [{"id": "fixedscaleoffset", "offset": 5, "scale": 10, "dtype": "<f8", "astype": "<i4"}],
    [{"id": "quantize", "digits": 3, "dtype": "<f4", "astype": "<f4"}],
    [{"id": "shuffle", "elementsize": 4}],
    [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}],
    [{"id": "crc32"}],
]
WORKER = """
import sys, json, warnings, numpy as np
warnings.simplefilter("ignore")
import zarr, numcodecs
for job in json.load(sys.stdin):
    values = np.load(job["values"], allow_pickle=False) if job["do"] == "write" else None
    if job["do"] == "write":
        codec = lambda c: None if c is None else numcodecs.get_codec(dict(c))
        filters = job["filters"] and [codec(c) for c in job["filters"]]
        array = zarr.open(job["path"], mode="w", shape=values.shape, chunks=job["chunks"], dtype=values.dtype, compressor=codec(job["compressor"]),
            filters=filters, order=job["order"], dimension_separator=job["separator"], fill_value=job["fill"])
        array[...] = values
        array.attrs["a"] = [1, None]
    elif job["do"] == "group":
        group = zarr.open_group(job["path"], mode="w")
        group.attrs["t"] = 1
        group.create_dataset("a/x", data=np.arange(6), chunks=2)
        group.create_group("a/empty")
        zarr.consolidate_metadata(job["path"])
    else:
        array = zarr.open(job["path"], mode="r")
        np.save(job["values"], array[...], allow_pickle=False)
"""


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    """Those that data types and consolidated metadata may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def zarr2(jobs: list[dict[str, object]]) -> None:
    done = subprocess.run(
        [zarr2_python(), "-c", WORKER], check=False, input=json.dumps(jobs), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def dtype_of(described: object) -> np.dtype:
    return np.dtype(described if isinstance(described, str) else [tuple(field) for field in described])  # type: ignore[attr-defined, misc]


def values_of(dtype: np.dtype, shape: tuple[int, ...] = (5, 7)) -> np.ndarray:
    data = np.random.default_rng(1).integers(1, 120, size=(*shape, dtype.itemsize), dtype=np.uint8)
    if dtype.kind in "fc" or dtype.kind in "biu":
        return data[..., 0].astype(dtype)
    if dtype.kind in "mM":
        return data[..., 0].astype("i8").astype(dtype)
    if dtype.kind in "SU":
        return data[..., 0].astype("U").astype(dtype)
    if dtype.names:
        made = np.zeros(shape, dtype)
        for name in dtype.names:
            field = made[name]
            field[...] = values_of(field.dtype, field.shape)
        return made
    return data.view(dtype).reshape(shape)


def same(found: object, expected: np.ndarray) -> None:
    got = np.asarray(found)
    assert got.shape == expected.shape
    assert got.astype(expected.dtype).tobytes() == expected.tobytes()


def cases() -> list[dict[str, object]]:
    plain: dict[str, object] = {
        "chunks": [2, 3],
        "compressor": None,
        "filters": None,
        "order": "C",
        "separator": ".",
        "fill": None,
    }
    found: list[dict[str, object]] = [{**plain, "dtype": dtype} for dtype in DTYPES]
    found += [{**plain, "dtype": "<i4", "compressor": compressor} for compressor in COMPRESSORS]
    found += [
        {
            **plain,
            "dtype": {"fixedscaleoffset": "<f8", "quantize": "<f4"}.get(str(filters[0]["id"]), "<i4"),
            "filters": filters,
        }
        for filters in FILTERS
    ]
    found += [{**plain, "dtype": "<f4", "order": "F", "separator": "/"}, {**plain, "dtype": "<f8", "fill": 1.5}]
    return found


def test_arrays_of_zarr_python_2_are_read(tmp_path: Path) -> None:
    jobs: list[dict[str, object]] = []
    expected = []
    for at, case in enumerate(cases()):
        dtype = dtype_of(case["dtype"])
        expected.append(values_of(dtype))
        np.save(tmp_path / f"{at}.npy", expected[-1], allow_pickle=False)
        jobs.append(
            {"do": "write", "path": str(tmp_path / f"{at}.zarr"), "values": str(tmp_path / f"{at}.npy"), **case}
        )
    zarr2(jobs)
    for at, case in enumerate(cases()):
        array = frazil.open_array(tmp_path / f"{at}.zarr")
        assert array.attrs.asdict() == {"a": [1, None]}
        filtered = case["filters"] is not None and case["dtype"] != "<i4"
        if filtered:
            np.testing.assert_allclose(array[...], expected[at], atol=0.1)
        else:
            same(array[...], expected[at])
        writable = frazil.open_array(tmp_path / f"{at}.zarr", "r+")
        writable[1:3, 2:5] = array[0, 0]
        expected[at][1:3, 2:5] = expected[at][0, 0]
    zarr2([{"do": "read", "path": job["path"], "values": job["values"]} for job in jobs])
    for at, case in enumerate(cases()):
        read = np.load(str(jobs[at]["values"]), allow_pickle=False)
        if case["filters"] is None:
            same(read, expected[at])


def test_both_libraries_read_our_arrays(tmp_path: Path) -> None:
    jobs: list[dict[str, object]] = []
    expected = []
    for at, case in enumerate(cases()):
        if case["filters"] is not None or case["compressor"] is not None:
            continue
        values = values_of(dtype_of(case["dtype"]))
        path = tmp_path / f"{at}.zarr"
        separator = {"name": "v2", "separator": case["separator"]}
        codecs: list[object] = (
            [{"name": "transpose", "configuration": {"order": [1, 0]}}] if case["order"] == "F" else []
        )
        array = frazil.create_array(
            path,
            data=values,
            chunks=(2, 3),
            zarr_format=2,
            chunk_key_encoding=separator,
            codecs=[*codecs, "bytes", "zstd"],
        )
        array[0, 0] = values[0, 0]
        expected.append(values)
        jobs.append({"do": "read", "path": str(path), "values": str(tmp_path / f"{at}.npy")})
        document = json.loads((path / ".zarray").read_text())
        assert (document["order"], document["dimension_separator"]) == (case["order"], case["separator"])
    zarr2(jobs)
    for job, values in zip(jobs, expected, strict=True):
        same(np.load(str(job["values"]), allow_pickle=False), values)
        if values.dtype.kind != "V":
            same(zarr.open_array(job["path"], mode="r", zarr_format=2)[...], values)


def test_groups(tmp_path: Path) -> None:
    zarr2([{"do": "group", "path": str(tmp_path / "two")}])
    group = frazil.open_consolidated(tmp_path / "two")
    assert [path for path, _ in group.members(None)] == ["a", "a/empty", "a/x"]
    three = zarr.open_group(str(tmp_path / "three"), mode="w", zarr_format=2, attributes={"t": 1})
    three.create_array("a/x", shape=6, chunks=2, dtype="i8")[...] = np.arange(6)
    three.create_group("a/empty")
    zarr.consolidate_metadata(str(tmp_path / "three"))
    group = frazil.open_consolidated(tmp_path / "three")
    assert [path for path, _ in group.members(None)] == ["a", "a/empty", "a/x"]
    ours = frazil.create_group(tmp_path / "ours", zarr_format=2, attributes={"t": 1})
    ours.create_array("a/x", data=np.arange(6), chunks=2)
    ours.create_group("a/empty")
    frazil.consolidate_metadata(tmp_path / "ours")
    opened = zarr.open_consolidated(str(tmp_path / "ours"), zarr_format=2)
    assert sorted(name for name, _ in opened.members(max_depth=None)) == ["a", "a/empty", "a/x"]
    assert opened["a/x"][...].tolist() == list(range(6))


def test_xarray_reads_ours_and_ours_reads_it(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    data = xarray.Dataset(
        {"v": (("y", "x"), np.arange(12.0).reshape(3, 4)), "n": ("x", [1, 2, 3, 4])}, attrs={"t": "sea"}
    )
    data.to_zarr(tmp_path / "theirs", zarr_format=2, consolidated=True)
    xarray.testing.assert_identical(xarray.open_dataset(tmp_path / "theirs", engine="frazil").load(), data)
    root = frazil.create_group(tmp_path / "ours", zarr_format=2, attributes={"t": "sea"})
    root.create_array("v", data=data.v.values, dimension_names=["y", "x"], fill_value=np.nan)
    root.create_array("n", data=data.n.values, dimension_names=["x"], fill_value=-1)
    found = xarray.open_zarr(str(tmp_path / "ours"), zarr_format=2, consolidated=False)
    xarray.testing.assert_equal(found.load(), data)
