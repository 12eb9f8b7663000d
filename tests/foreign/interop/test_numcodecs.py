"""The codecs of numcodecs in arrays of the final Zarr v3, exchanged with zarr-python, which has them by the same names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import frazil
from tests.conformance.shards import BIG, LITTLE, sharding
from tests.foreign.interop.cases import Case
from tests.foreign.interop.peers import ZarrPython
from tests.strategies import same

PEER = ZarrPython()
RAW = {"name": "bytes"}


def codec(name: str, **configuration: object) -> dict[str, object]:
    return {"name": f"numcodecs.{name}", "configuration": configuration}


DELTA = codec("delta", dtype="<u2", astype="<u2")
CASES = [
    *(Case(f"bz2 {level}", (10, 12), (5, 4), [LITTLE, codec("bz2", level=level)]) for level in (1, 9)),
    Case("lzma", (10, 12), (5, 4), [LITTLE, codec("lzma", format=1, check=-1, preset=1, filters=None)]),
    *(Case(f"lz4 {speed}", (10, 12), (5, 4), [LITTLE, codec("lz4", acceleration=speed)]) for speed in (1, 10)),
    Case("zlib", (10, 12), (5, 4), [LITTLE, codec("zlib", level=9)]),
    Case("shuffle", (10, 12), (5, 4), [LITTLE, codec("shuffle", elementsize=2), codec("zlib", level=1)]),
    Case("crc32", (10, 12), (5, 4), [LITTLE, codec("crc32")]),
    Case("crc32 at the end", (10, 12), (5, 4), [LITTLE, codec("crc32", location="end")]),
    Case("adler32", (10, 12), (5, 4), [LITTLE, codec("adler32", location="start")]),
    Case("fletcher32", (10, 12), (5, 4), [LITTLE, codec("fletcher32")]),
    Case("delta", (10, 12), (5, 4), [DELTA, LITTLE]),
    Case("larger delta", (10, 12), (5, 4), [codec("delta", dtype="<u2", astype="<i4"), LITTLE]),
    Case("delta in shards", (11, 13), (6, 8), [sharding([3, 2], [DELTA, LITTLE, codec("bz2", level=1)])]),
    Case(
        "fixedscaleoffset",
        (10, 12),
        (5, 4),
        [codec("fixedscaleoffset", offset=1000, scale=10, dtype="<f8", astype="<i4"), LITTLE],
        "float64",
    ),
    Case("quantize", (10, 12), (5, 4), [codec("quantize", digits=2, dtype="<f4", astype="<f4"), LITTLE], "float32"),
    Case("bitround", (10, 12), (5, 4), [codec("bitround", keepbits=5), LITTLE], "float32"),
    Case("astype", (10, 12), (5, 4), [codec("astype", encode_dtype="<u2", decode_dtype="<f4"), LITTLE], "float32"),
    Case("packbits", (10, 12), (5, 4), [codec("packbits"), RAW], "bool", False),
    Case("blosc", (10, 12), (5, 4), [LITTLE, codec("blosc", cname="zstd", clevel=3, shuffle=2, blocksize=0)]),
    Case("gzip", (10, 12), (5, 4), [LITTLE, codec("gzip", level=3)]),
    Case("zstd", (10, 12), (5, 4), [LITTLE, codec("zstd", level=3)]),
    Case("jenkins_lookup3", (10, 12), (5, 4), [LITTLE, codec("jenkins_lookup3", initval=3)]),
    Case("pcodec", (10, 12), (5, 4), [codec("pcodec", level=6)], "float32"),
]
CASE = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def written(case: Case) -> np.ndarray:
    """Numbers that all of the codecs can store, some of them rounded."""
    numbers = np.random.default_rng(0).integers(0, 1000, case.shape)
    return (numbers > 500) if case.dtype == "bool" else (numbers + numbers / 8).astype(case.numpy_dtype)


@pytest.mark.rule("Z5", "Z6")
@CASE
def test_arrays_with_numcodecs_of_zarr_python_are_read(case: Case, tmp_path: Path) -> None:
    PEER.create(tmp_path / "a", case)
    PEER.write(tmp_path / "a", (...,), written(case))
    assert same(frazil.open_array(tmp_path / "a")[...], PEER.read(tmp_path / "a"))


@pytest.mark.rule("Z5", "Z6")
@CASE
def test_our_arrays_with_numcodecs_are_read_by_zarr_python(case: Case, tmp_path: Path) -> None:
    """They also hold the same values as theirs."""
    array = frazil.create_array(tmp_path / "ours", **case.arguments())
    array[...] = written(case)
    PEER.create(tmp_path / "theirs", case)
    PEER.write(tmp_path / "theirs", (...,), written(case))
    assert same(PEER.read(tmp_path / "ours"), PEER.read(tmp_path / "theirs"))
    assert same(array[...], PEER.read(tmp_path / "ours"))


@pytest.mark.parametrize(
    "codecs",
    [
        [codec("delta", dtype=">u2", astype=">u2"), BIG],
        [{"name": "transpose", "configuration": {"order": [1, 0]}}, DELTA, LITTLE],
    ],
    ids=["big-endian", "layout F"],
)
def test_filters_of_converted_arrays_are_read(codecs: list[dict[str, object]], tmp_path: Path) -> None:
    """zarr-python reads these correctly, but cannot read its own."""
    case = Case("converted", (10, 12), (5, 4), codecs)
    frazil.create_array(tmp_path / "a", **case.arguments())[...] = written(case)
    assert (PEER.read(tmp_path / "a") == written(case)).all()
