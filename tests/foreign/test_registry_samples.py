"""The sample arrays of the registered data types and codecs that zarrs wrote: each opens, with the same values for each data type."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import frazil
from tests.external_data import data

ARCHIVE = "zarr-registry-samples.tar.gz"
LOSSY = ("numcodecs.fixedscaleoffset",)


def _float8(name: str) -> Callable[[int], float]:
    def value(bits: int) -> float:
        import ml_dtypes

        return float(np.frombuffer(bytes([bits]), np.dtype(getattr(ml_dtypes, name)))[0])

    return value


E4M3, E5M2 = _float8("float8_e4m3"), _float8("float8_e5m2")
EXPECTED: dict[str, Callable[[int], object]] = {  # data type -> the value of element i, in C order
    "bool": lambda i: i % 2 == 1,
    "int2": lambda i: i % 4 - 2,
    "int4": lambda i: i % 16 - 8,
    "int8": lambda i: (i + 128) % 256 - 128,
    "uint2": lambda i: i % 4,
    "uint4": lambda i: i % 16,
    **dict.fromkeys(("int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), lambda i: i),
    **dict.fromkeys(("bfloat16", "float16", "float32", "float64"), lambda i: i / 2),
    "float8_e4m3": lambda i: E4M3(i % 128),
    "float8_e5m2": lambda i: E5M2(i % 128),
    **dict.fromkeys(("complex64", "complex128", "complex_float32", "complex_float64"), lambda i: complex(i / 2, i / 4)),
    **dict.fromkeys(("complex_bfloat16", "complex_float16"), lambda i: (i / 2, i / 4)),
    "complex_float8_e4m3": lambda i: (E4M3(i % 128), E4M3((i + 1) % 128)),
    "complex_float8_e5m2": lambda i: (E5M2(i % 128), E5M2((i + 1) % 128)),
    "numpy.datetime64": lambda i: np.datetime64(i, "s").item(),
    "numpy.timedelta64": lambda i: np.timedelta64(i, "s").item(),
    "r24": lambda i: bytes([i]) * 3,
    "string": lambda i: f"str_{i:04}",
    "bytes": lambda i: bytes([i]) * (i % 8 + 1),
    "zarrs.optional(uint8)": lambda i: (False, 0) if i % 4 == 3 else (True, i),
    "zarrs.optional(float32)": lambda i: (False, 0.0) if i % 4 == 3 else (True, i / 2),
    "zarrs.optional(string)": lambda i: None if i % 4 == 3 else f"str_{i:04}",
    "zarrs.optional(zarrs.optional(float32))": lambda i: (False, (False, 0.0)) if i % 4 == 3 else (True, (True, i / 2)),
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    with tarfile.open(data(ARCHIVE)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "zarr-registry-samples" / "supported" / "regular"


def _arrays(folder: Path) -> Iterator[tuple[Path, str]]:
    for document in sorted(folder.rglob("zarr.json")):
        yield document.parent, document.parent.parent.name.partition("(")[0]


def test_samples_cover_each_data_type(samples: Path) -> None:
    assert {folder.name for folder in samples.iterdir()} == EXPECTED.keys()
    assert len(list(_arrays(samples))) == 369


@pytest.mark.parametrize("name", EXPECTED)
def test_arrays_have_the_values_of_their_data_type(samples: Path, name: str) -> None:
    expected = [EXPECTED[name](i) for i in range(192)]
    for folder, codec in _arrays(samples / name):
        array = frazil.open_array(folder)
        if codec in LOSSY:
            np.testing.assert_allclose(array[...].reshape(-1), np.array(expected), atol=0.5)
        else:
            assert repr(array[...].reshape(-1).tolist()) == repr(expected), folder  # which distinguishes NaN and -0.0


@pytest.mark.parametrize("name", EXPECTED)
def test_parts_and_writing(samples: Path, name: str) -> None:
    """A part equals that part of the whole, and values written with the same codecs are read back."""
    part, inside = (slice(1, None, 3), slice(2, 20, 5)), (slice(2, 6), slice(4, 20))
    for folder, _ in _arrays(samples / name):
        array = frazil.open_array(folder, mode="r+")
        whole = array[...]
        assert repr(array[part].tolist()) == repr(whole[part].tolist()), folder
        array[inside] = whole[inside]
        assert repr(array[...].tolist()) == repr(whole.tolist()), folder
