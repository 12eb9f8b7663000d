"""Arrays of `string` and `bytes`: every way to read and write them, against NumPy; and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.slow_properties import search

import frazil
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError, StoreError, UnknownExtensionError
from frazil.metadata.types import heap as heaps
from frazil.stores import MemoryStore

T = np.dtypes.StringDType()
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VLEN = {"name": "vlen-utf8"}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
BZ2 = {"name": "numcodecs.bz2", "configuration": {"level": 1}}
TURN = {"name": "transpose", "configuration": {"order": [1, 0]}}
LAYOUTS = [
    {},
    {"shards": (6, 8)},
    {"codecs": [TURN, VLEN, ZSTD]},
    {"codecs": [VLEN, BZ2]},
    {"codecs": [TURN, VLEN, BZ2], "shards": (6, 8)},
    {"codecs": []},
]


def of(kind: str, values: object, shape: tuple[int, ...]) -> np.ndarray:
    made = np.empty(shape, T if kind == "string" else object)
    made.reshape(-1)[:] = values
    return made


def elements(draw: st.DrawFn, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    values = draw(st.lists(texts, min_size=size, max_size=size))
    return of(kind, values if kind == "string" else [value.encode() for value in values], shape)


@search(slowness=2)
@given(st.data(), st.sampled_from(LAYOUTS), st.sampled_from(["string", "bytes"]), texts)
def test_values_are_those_of_numpy(data: st.DataObject, layout: dict, kind: str, fill: str) -> None:
    if kind == "bytes":
        layout = json.loads(json.dumps(layout).replace("vlen-utf8", "vlen-bytes"))
    empty = fill if kind == "string" else fill.encode()
    a = frazil.create_array(MemoryStore(), shape=(7, 9), chunks=(3, 4), dtype=kind, fill_value=empty, **layout)
    expected = of(kind, empty, (7, 9))
    assert a.fill_value == empty
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(st.slices(7))
        columns = data.draw(st.slices(9))
        expected[rows, columns] = values = elements(data.draw, kind, expected[rows, columns].shape)
        a[rows, columns] = values
        np.testing.assert_array_equal(a[...], expected)
    expected[2, 3] = a[2, 3] = empty
    picked = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4)), [1, 8, 0]
    np.testing.assert_array_equal(a.oindex[picked], expected[np.ix_(*picked)])
    assert a[2, 3] == empty
    out = np.empty((9, 7), expected.dtype).T
    np.testing.assert_array_equal(a.read(out=out), expected)
    points = (np.array([0, 6, 3]), np.array([5, 5, 8]))
    expected[points] = a.vindex[points] = of(kind, [empty + empty, empty, empty * 3], (3,))
    np.testing.assert_array_equal(a.vindex[points], expected[points])
    added = elements(data.draw, kind, (2, 9))
    a.append(added)
    np.testing.assert_array_equal(a[...], np.concatenate([expected, added]))
    a.resize((4, 9))
    a.resize((5, 9))
    np.testing.assert_array_equal(a[:4], expected[:4])
    np.testing.assert_array_equal(a[4], of(kind, empty, (9,)))  # NumPy strips trailing NULs of a str


def test_chunks_of_fill_value_are_not_stored() -> None:
    a = frazil.create_array(MemoryStore(), shape=8, chunks=4, dtype="string", fill_value="none")
    a[...] = ["none"] * 4 + ["none", "", "x", "none"]
    assert a.nchunks_initialized == 1
    a[4:] = "none"
    assert a.nchunks_initialized == 0


@pytest.mark.parametrize("dtype", ["string", str, T])
def test_text_has_several_spellings(dtype: object) -> None:
    a = frazil.create_array(MemoryStore(), shape=3, dtype=dtype)
    assert (a.dtype, a.metadata.data_type.name, a.fill_value) == (T, "string", "")
    a[...] = ["a", "ß" * 20, ""]
    assert a[...].tolist() == ["a", "ß" * 20, ""]


@pytest.mark.parametrize("name", ["bytes", "variable_length_bytes", "binary"])
def test_bytes_have_several_names(name: str) -> None:
    store = MemoryStore()
    frazil.create_array(store, shape=2, dtype=name)[...] = of("bytes", [b"", b"\xff"], (2,))
    a = frazil.open_array(store)
    assert (a.metadata.data_type.name, a[...].tolist()) == (name, [b"", b"\xff"])


def test_data_of_text_makes_an_array_of_strings() -> None:
    a = frazil.create_array(MemoryStore(), data=np.array(["x", "yy"], T))
    assert a.metadata.data_type.name == "string"
    assert a[1] == "yy"


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("shards", [None, (4,)])
def test_zarr_python_reads_what_is_written_and_the_other_way_round(
    tmp_path: Path, kind: str, shards: tuple[int] | None
) -> None:
    values = of(
        kind, ["", "ü", "abc" * 50, "d", ""] if kind == "string" else [b"", b"\xff", b"abc" * 50, b"d", b""], (5,)
    )
    name = "string" if kind == "string" else "variable_length_bytes"
    a = frazil.create_array(tmp_path / "a", shape=5, chunks=2, shards=shards, dtype=name)
    a[...] = values
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a")[...], values)
    b = zarr.create_array(tmp_path / "b", shape=5, chunks=(2,), shards=shards, dtype=name)
    b[...] = values
    np.testing.assert_array_equal(frazil.open_array(tmp_path / "b")[...], values)


def test_a_shard_writer_takes_text() -> None:
    a = frazil.create_array(MemoryStore(), shape=8, chunks=2, shards=8, dtype="string")
    with a.shard_writer(0) as writer:
        writer[1] = ["one", "two"]
        writer[3] = "three"
    assert a[...].tolist() == ["", "", "one", "two", "", "", "three", "three"]


def test_a_heap_keeps_what_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heaps, "_LEAST_COMPACTED", 1)
    values = of("string", [f"{i}" * (i % 7) for i in range(400)], (20, 20))
    a = frazil.create_array(
        MemoryStore(),
        data=values,
        chunks=(3, 3),
        runtime=frazil.Runtime(bytes_in_flight=4096),
    )
    np.testing.assert_array_equal(a[1::2, ::-3], values[1::2, ::-3])
    np.testing.assert_array_equal(a.vindex[[1, 19, 7], [0, 3, 11]], values[[1, 19, 7], [0, 3, 11]])
    a[::2, 1:7] = values[::2, 2:8]
    np.testing.assert_array_equal(a[::2, 1:7], values[::2, 2:8])


@pytest.mark.parametrize(
    ("kind", "value"),
    [("string", "\ud800"), ("bytes", [1, 2]), ("bytes", "text"), ("bytes", [None, b"x"]), ("bytes", [object(), b""])],
)
def test_other_elements_are_refused(kind: str, value: object) -> None:
    a = frazil.create_array(MemoryStore(), shape=2, dtype=kind)
    with pytest.raises(InvalidInputError):
        a[...] = value
    assert a.nchunks_initialized == 0


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([]), np.zeros(1, "i4,i4")[0]])
def test_a_fill_value_is_one_element(kind: str, value: object) -> None:
    """NumPy's own errors were raised."""
    with pytest.raises(MetadataError, match="fill_value"):
        frazil.create_array({}, shape=2, dtype=kind, fill_value=value)


def test_objects_are_refused_with_a_hint() -> None:
    with pytest.raises(UnknownExtensionError) as caught:
        frazil.create_array(MemoryStore(), shape=2, dtype=object)
    assert 'dtype="string"' in str(caught.value)


@pytest.mark.parametrize("codecs", [[{"name": "bytes"}], [{"name": "vlen-utf8"}, {"name": "bytes"}]])
def test_codecs_of_fixed_elements_are_refused(codecs: list[dict]) -> None:
    with pytest.raises(MetadataError):
        frazil.create_array(MemoryStore(), shape=2, dtype="string", codecs=codecs)


def test_vlen_codecs_refuse_numbers() -> None:
    with pytest.raises(MetadataError, match="vlen-utf8"):
        frazil.create_array(MemoryStore(), shape=2, dtype="int32", codecs=[VLEN])


@given(st.binary(max_size=40), st.sampled_from([(), (BZ2,)]), st.booleans())
def test_any_bytes_are_elements_or_a_decode_error(data: bytes, after: tuple[dict, ...], counted: bool) -> None:
    store = MemoryStore()
    a = frazil.create_array(store, shape=3, chunks=3, dtype="string", codecs=[VLEN, *after])
    data = b"\x03\0\0\0" + data if counted else data
    if after:
        import bz2

        data = bz2.compress(data)
    store.set("c/0", data)
    try:
        read, key = a[...].shape, "c/0"
    except ChunkDecodeError as error:
        read, key = (3,), error.key
    assert (read, key) == ((3,), "c/0")


@pytest.mark.parametrize("kind", ["string", "bytes"])
def test_iteration_gives_the_elements_of_one_dimension(kind: str) -> None:
    expected = ["a", "", "漢"] if kind == "string" else [b"a", b"", b"\0"]
    a = frazil.create_array(MemoryStore(), shape=(3,), chunks=(2,), dtype=kind)
    a[...] = of(kind, expected, (3,))
    assert list(a) == expected


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no StringDType")
@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        [1, 2],
        np.array(["a", None], object),
        np.array(["a", 1.5], object),
        *(
            [np.array(["a", np.nan], np.dtypes.StringDType(na_object=np.nan))]
            if hasattr(np.dtypes, "StringDType")
            else []
        ),
    ],
    ids=str,
)
def test_invalid_text_is_refused(values: object) -> None:
    """NumPy would write "None", "1" and "nan"."""
    array = frazil.create_array({}, shape=(2,), dtype="string", fill_value="old")
    with pytest.raises(InvalidInputError, match="cannot be turned into StringDType"):
        array[:] = values  # type: ignore[call-overload]
    assert array[...].tolist() == ["old", "old"]


def test_the_error_for_a_missing_text_is_not_repeated() -> None:
    array = frazil.create_array(MemoryStore(), shape=(2,), dtype="string", chunks=(2,))
    with pytest.raises(InvalidInputError) as caught:
        array[...] = np.array(["a", np.nan], np.dtypes.StringDType(na_object=np.nan))  # type: ignore[call-arg]
    assert str(caught.value).count("cannot be turned into") == 1


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("dtype", "element"), [("string", "a"), ("bytes", b"a")])
def test_chunks_larger_than_memory(dtype: str, element: object, zarr_format: int) -> None:
    """They raised a MemoryError."""
    shape = (2**22, 2**21)  # 2^47 bytes: more than a process can address
    array = frazil.create_array({}, shape=shape, chunks=shape, dtype=dtype, zarr_format=zarr_format)
    with pytest.raises(StoreError, match=r"not enough memory to decode or encode a chunk.*smaller chunks"):
        array[0, 0] = element
    with pytest.raises(StoreError, match=r"not enough memory to decode or encode a chunk.*smaller chunks"):
        array[0, 0]
    assert array.nchunks_initialized == 0


def test_bytes_that_are_not_utf8_are_refused_as_text() -> None:
    """NumPy casts bytes to text without a check; the chunk could not be read again."""
    array = frazil.create_array(MemoryStore(), shape=(3,), dtype="string", fill_value="old")
    for elements, wrong in (
        ([b"a", b"\xff", b""], 1),
        ([b"\xc3", b"", b"\xa9"], 0),  # halves of a character
        (["é".encode(), b"old", b"\xa9"], 2),
        ([b"a", b"\xe2\x82", b"old"], 1),
    ):
        for value in (np.array(elements), np.array(elements).astype(T)):
            with pytest.raises(InvalidInputError, match=f"element {wrong} is not UTF-8"):
                array[...] = value
    assert array[...].tolist() == ["old", "old", "old"]
    array[...] = np.array([b"a", b"", "é".encode()])
    assert array[...].tolist() == ["a", "", "é"]
