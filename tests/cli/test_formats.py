"""Elements as text and files, against NumPy."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from tests.strategies import DTYPES

import frazil
from frazil.cli import formats
from frazil.errors import InvalidInputError
from frazil.operations.window import Window, window
from frazil.stores import MemoryStore

NUMBERS = [dtype for dtype in DTYPES if dtype != "V3"]


def stored(values: np.ndarray) -> Window:
    return window(frazil.create_array(MemoryStore(), data=values, chunks=tuple(max(1, n // 2) for n in values.shape)))


def written(write, whole: Window) -> bytes:
    stream = io.BytesIO()
    done: list[int] = []
    write(whole, stream, done.append)
    assert sum(done) == whole.nbytes
    return stream.getvalue()


@st.composite
def values(draw: st.DrawFn, dtypes: list[str] | tuple[str, ...] = DTYPES, most_dims: int = 3) -> np.ndarray:
    shape = draw(array_shapes(min_dims=0, max_dims=most_dims, min_side=0, max_side=5))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if dtype.kind == "V":
        return draw(arrays(np.uint8, (*shape, dtype.itemsize))).view(dtype)[..., 0]
    return draw(arrays(dtype, shape))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PIECE_BYTES", 24)
    monkeypatch.setattr(formats, "_CELLS", 3)


@pytest.mark.parametrize(
    "shape", [(1001,), (8, 200), (3, 3, 200), (7, 7, 30), (1000,), (6, 6, 40), (1, 5000), (2000, 1), (2, 0, 900), ()]
)
@pytest.mark.parametrize("dtype", ["int16", "float32", "bool", "complex64"])
def test_abbreviated_as_numpy_does(shape: tuple[int, ...], dtype: str) -> None:
    random = np.random.default_rng(len(shape)).normal(0, 300, shape)
    data = (random > 0 if dtype == "bool" else random).astype(dtype)
    assert formats.abbreviated(stored(data)) == np.array2string(data, max_line_width=120, threshold=1000)


def test_abbreviated_reads_what_it_shows() -> None:
    array = frazil.create_array(MemoryStore(), shape=(2**40, 2**40), dtype="f8", chunks=(100, 100), fill_value=1.5)
    lines = formats.abbreviated(window(array)).splitlines()
    assert lines[0] == "[[1.5 1.5 1.5 ... 1.5 1.5 1.5]"
    assert len(lines) == 7


@given(values())
def test_npy(data: np.ndarray) -> None:
    read = np.load(io.BytesIO(written(formats.write_npy, stored(data))))
    assert read.dtype == data.dtype
    assert read.shape == data.shape
    assert read.tobytes() == data.tobytes()


def test_npy_in_pieces(small_pieces: None) -> None:
    data = np.arange(7 * 5 * 6, dtype=np.int32).reshape(7, 5, 6)
    np.testing.assert_array_equal(np.load(io.BytesIO(written(formats.write_npy, stored(data)))), data)


@given(values(NUMBERS, most_dims=2))
def test_csv_reads_back_exactly(data: np.ndarray) -> None:
    text = written(formats.write_csv, stored(data)).decode()
    rows = [line.split(",") for line in text.splitlines()]
    if not data.size:
        assert text == ""
        return
    cells = (
        [cell == "True" for row in rows for cell in row]
        if data.dtype == bool
        else [cell for row in rows for cell in row]
    )
    table = data.reshape(data.shape[0] if data.ndim else 1, -1)
    assert [len(row) for row in rows] == [table.shape[1]] * len(table)
    np.testing.assert_array_equal(np.array(cells).astype(data.dtype).reshape(data.shape), data)


@pytest.mark.parametrize("shape", [(1,), (50,), (1, 1), (7, 5), (5, 1), (1, 40), (3, 40)])
def test_csv_in_pieces(shape: tuple[int, ...], small_pieces: None) -> None:
    data = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    text = written(formats.write_csv, stored(data)).decode()
    assert text == "".join(",".join(map(str, row)) + "\n" for row in data.reshape(shape[0], -1).tolist())


def test_csv_of_raw_bytes() -> None:
    data = np.frombuffer(b"\x00\x01\xff\x7f\x80\x20", "V3")
    assert written(formats.write_csv, stored(data)) == b"0001ff\n7f8020\n"


@given(values())
def test_json(data: np.ndarray) -> None:
    document = json.loads(written(formats.write_json, stored(data)), parse_constant=pytest.fail)
    assert document["shape"] == list(data.shape)
    cells = np.array(document["values"], dtype=object).reshape(-1)
    if data.dtype.kind == "V":
        assert bytes(cells.tolist()) == data.tobytes()
    elif data.dtype.kind in "fc":
        parts = data.reshape(-1).view(f"f{data.dtype.itemsize // (2 if data.dtype.kind == 'c' else 1)}")
        np.testing.assert_array_equal(np.array([float(cell) for cell in cells.tolist()], parts.dtype), parts)
    else:
        assert cells.tolist() == data.reshape(-1).tolist()


def test_large_selections_are_refused() -> None:
    array = frazil.create_array(MemoryStore(), shape=(10**6, 11), dtype="u1")
    for write in (formats.write_text, formats.write_json):
        with pytest.raises(InvalidInputError, match="too many"):
            written(write, window(array))
    with pytest.raises(InvalidInputError, match="two dimensions"):
        written(formats.write_csv, window(frazil.create_array(MemoryStore(), shape=(2, 2, 2), dtype="u1")))
