"""Object arrays of Zarr v2, exchanged with zarr-python 2.18, in its own process, with zarr-python 3, and with numcodecs."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil.codecs import DEFAULT_REGISTRY, Pickle
from tests.external_data import zarr2_python

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

TEXT = ["a", "bé", "", "x", "yy", "zzz"]
OBJECTS = ["a", 1, None, [1, {"b": [2.5]}], {"c": None}, True]
# the codec of objects, and the values in JSON
KINDS: dict[str, tuple[dict[str, object], list[object]]] = {
    "utf8": ({"id": "vlen-utf8"}, TEXT),
    "bytes": ({"id": "vlen-bytes"}, TEXT),
    "array": ({"id": "vlen-array", "dtype": "<i2"}, [[1], [], [2, 3], [], [4, 5, 6], [7]]),
    "json": ({"id": "json2"}, OBJECTS),
    "categorize": ({"id": "categorize", "labels": ["x", "a"], "dtype": "|O", "astype": "|u1"}, ["a", "x", "", "a", "x", "x"]),
}  # fmt: skip
WORKER = """
import sys, json, warnings, numpy as np
warnings.simplefilter("ignore")
import zarr, numcodecs
def object_values(kind, plain):
    values = np.empty(6, object)
    for i, value in enumerate(plain):
        values[i] = value.encode() if kind == "bytes" else np.array(value, "<i2") if kind == "array" else value
    return values.reshape(2, 3)
def plain(value):
    return value.decode() if isinstance(value, bytes) else value.tolist() if isinstance(value, np.ndarray) else value
for job in json.load(sys.stdin):
    if job["do"] == "write":
        array = zarr.open(job["path"], mode="w", shape=(2, 3), chunks=(2, 2), dtype=object, order=job["order"],
            filters=[numcodecs.get_codec(dict(job["codec"]))], fill_value=job["fill"], dimension_separator=job["separator"])
        array[...] = object_values(job["kind"], job["values"])
    else:
        values = zarr.open(job["path"], mode="r")[...]
        json.dump([plain(value) for value in values.reshape(-1).tolist()], open(job["path"] + ".json", "w"))
"""


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def zarr2(jobs: list[dict[str, object]]) -> None:
    done = subprocess.run(
        [zarr2_python(), "-c", WORKER], check=False, input=json.dumps(jobs), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def of(kind: str, plain: list[object]) -> np.ndarray:
    values = np.empty(6, object)
    for i, value in enumerate(plain):
        values[i] = str(value).encode() if kind == "bytes" else np.array(value, "<i2") if kind == "array" else value
    return values.reshape(2, 3)


def plain_of(values: object) -> list[object]:
    found = np.asarray(values).reshape(-1).tolist()
    return [v.decode() if isinstance(v, bytes) else v.tolist() if isinstance(v, np.ndarray) else v for v in found]


def test_zarr_python_2(tmp_path: Path) -> None:
    jobs: list[dict[str, object]] = [
        {"do": "write", "path": str(tmp_path / f"{kind}{order}"), "kind": kind, "codec": codec, "values": values, "order": order,
         "fill": {"json": None, "array": None, "bytes": 0}.get(kind, ""), "separator": "/" if order == "F" else "."}
        for kind, (codec, values) in KINDS.items() for order in ("C", "F") if (kind, order) != ("json", "F")
    ]  # fmt: skip
    zarr2(jobs)
    mine: list[dict[str, object]] = []
    for job in jobs:
        kind, expected = str(job["kind"]), list(KINDS[str(job["kind"])][1])
        array = frazil.open_array(str(job["path"]), "r+")
        assert plain_of(array[...]) == expected
        array[1, 1:] = array[0, :1]
        ours = f"{job['path']}-ours"
        frazil.create_array(
            ours, data=of(kind, expected), chunks=(2, 2), dtype=object, filters=[job["codec"]],
            order=job["order"], zarr_format=2,
        )  # fmt: skip
        mine.append({**job, "path": ours})
    zarr2([{**job, "do": "read"} for job in [*jobs, *mine]])
    for job, own in zip(jobs, mine, strict=True):
        expected = list(KINDS[str(job["kind"])][1])
        assert json.loads(Path(f"{own['path']}.json").read_text()) == expected
        expected[4:] = [expected[0]] * 2
        assert json.loads(Path(f"{job['path']}.json").read_text()) == expected


def test_text_of_zarr_python_3(tmp_path: Path) -> None:
    texts = np.array(TEXT, np.dtypes.StringDType()).reshape(2, 3)
    theirs = zarr.create_array(tmp_path / "theirs", shape=(2, 3), chunks=(2, 2), dtype=str, zarr_format=2)
    theirs[...] = texts
    array = frazil.open_array(tmp_path / "theirs", "r+")
    assert (array.dtype, array.fill_value) == (texts.dtype, "")
    np.testing.assert_array_equal(array[...], texts)
    array[0, 1:] = "new"
    assert zarr.open_array(tmp_path / "theirs", mode="r", zarr_format=2)[0].tolist() == ["a", "new", "new"]
    frazil.create_array(tmp_path / "ours", data=texts, chunks=(2, 2), zarr_format=2)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "ours", mode="r", zarr_format=2)[...], texts)
    frazil.create_array(tmp_path / "bytes", data=of("bytes", list(TEXT)), dtype="bytes", zarr_format=2)
    assert plain_of(zarr.open_array(tmp_path / "bytes", mode="r", zarr_format=2)[...]) == TEXT


@pytest.mark.parametrize("kind", ["json2", "msgpack2", "pickle"])
def test_chunks_of_numcodecs(kind: str, tmp_path: Path) -> None:
    if kind == "msgpack2":
        pytest.importorskip("msgpack")
    codec = numcodecs.get_codec({"id": kind})
    registry = DEFAULT_REGISTRY.with_codec(Pickle)
    values = of("", list(OBJECTS))
    array = frazil.create_array(
        tmp_path, shape=(2, 3), chunks=(2, 3), dtype=object, filters=[codec], compressors=None, zarr_format=2,
        registry=registry,
    )  # fmt: skip
    (tmp_path / "0.0").write_bytes(bytes(codec.encode(values)))
    assert plain_of(array[...]) == OBJECTS
    array[0, 1:] = "new"
    if kind != "pickle":  # numcodecs itself imports none
        back = codec.decode((tmp_path / "0.0").read_bytes())
        assert plain_of(back) == [OBJECTS[0], "new", "new", *OBJECTS[3:]]
