"""Elements of datetimes, strings and structs as text, CSV, JSON and .npy."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.test_formats import written
from tests.metadata import data_types_of_all_kinds as kinds

import frazil
from frazil.cli import elements, formats
from frazil.errors import InvalidInputError
from frazil.operations.view.overview import overview
from frazil.operations.window import Window, window
from frazil.stores import MemoryStore

DOGS = np.array(
    [("Rex", 9, (1.5, "2020-01-01"), [b"a,", b"\xff"]), ("", -1, (np.nan, "NaT"), [b"", b"x\n"])],
    [("name", "U5"), ("age", "i2"), ("last, seen", [("at", "f4"), ("on", "M8[D]")]), ("tags", "S2", (2,))],
)


def stored(data: np.ndarray) -> Window:
    """In a dialect with sub-arrays if there are any."""
    dialect = "draft" if data.dtype == DOGS.dtype else 3
    return window(frazil.create_array(MemoryStore(), data=data, zarr_format=dialect))


def rows(data: np.ndarray) -> list[list[str]]:
    text = written(formats.write_csv, stored(data)).decode("utf-8", "surrogateescape")
    return list(csv.reader(io.StringIO(text, newline="")))


def document(data: np.ndarray) -> object:
    return json.loads(written(formats.write_json, stored(data)))["values"]


@given(st.data())
def test_every_type_in_every_form(data: st.DataObject) -> None:
    dtype = data.draw(kinds.scalars | kinds.nested(kinds.scalars))
    kind = kinds.CORE_EXTENSIONS.from_numpy(dtype)
    elements = b"".join(kinds.bits(data.draw, kind) for _ in range(data.draw(st.integers(0, 3))))
    values = np.frombuffer(elements, kind.dtype)
    assert len(rows(values)) == len(values) + (dtype.names is not None)
    made = document(values)
    assert isinstance(made, list)
    assert len(made) == len(values)
    assert formats.abbreviated(stored(values)).startswith("[")
    read = np.load(io.BytesIO(written(formats.write_npy, stored(values))))
    assert (read.dtype, read.tobytes()) == (values.dtype, values.tobytes())


@given(st.lists(st.integers(-(2**57), 2**57)), st.sampled_from(["s", "ms", "us", "ns", "25s", "as"]))
def test_times_read_back_exactly(counts: list[int], unit: str) -> None:
    for kind in ("M8", "m8"):
        values = np.array([*counts, -(2**63)], np.int64).view(f"{kind}[{unit}]")
        for cells in ([row[0] for row in rows(values)], document(values)):
            assert isinstance(cells, list)
            read = (
                np.array(cells, values.dtype)
                if kind == "M8"
                else np.array([-(2**63) if cell == "NaT" else int(cell) for cell in cells]).view(values.dtype)
            )
            assert read.tobytes() == values.tobytes()


def test_datetimes_without_a_unit_are_numbers() -> None:
    values = np.array([5, -(2**63)], np.int64).view("M8")
    assert rows(values) == [["5"], ["NaT"]]
    assert document(values) == [5, "NaT"]
    assert "5" in formats.abbreviated(stored(values))
    inside = np.zeros(2, [("a", "M8"), ("b", "M8", (2,)), ("c", [("d", "M8[s]")])])
    assert "1970" in elements.as_text(inside)


def test_dates_too_far_away_for_numpy_are_dates_or_numbers() -> None:
    values = np.array([2**62, 50, -(2**63)], np.int64).view("M8[2Y]")
    assert [row[0] for row in rows(values)][1:] == ["2070", "NaT"]
    assert formats.abbreviated(stored(values)).startswith("[")
    pair = np.zeros(2, [("a", "M8[2Y]")])
    pair["a"] = values[:2]
    assert formats.abbreviated(stored(pair)).startswith("[(")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4), min_size=1))
def test_text_reads_back_exactly(texts: list[str]) -> None:
    values = np.array(texts, "U4")
    assert [row[0] for row in rows(values)] == texts
    assert document(values) == texts


@given(st.lists(st.binary(max_size=4), min_size=1))
def test_byte_strings_read_back_exactly(strings: list[bytes]) -> None:
    values = np.array(strings, "S4")
    assert [row[0].encode("utf-8", "surrogateescape") for row in rows(values)] == values.tolist()
    made = document(values)
    assert isinstance(made, list)
    assert [text.encode("utf-8", "surrogateescape") for text in made] == values.tolist()


def test_halves_of_surrogate_pairs_do_not_stop_it() -> None:
    values = np.array(["\ud800", "a"], "U1")
    assert written(formats.write_csv, stored(values)) == b"\xed\xa0\x80\na\n"
    assert document(values) == ["\ud800", "a"]


def test_structs_have_a_column_for_each_field() -> None:
    assert rows(DOGS) == [
        ["name", "age", "last, seen.at", "last, seen.on", "tags.0", "tags.1"],
        ["Rex", "9", "1.5", "2020-01-01", "a,", "\udcff"],
        ["", "-1", "nan", "NaT", "", "x\n"],
    ]
    assert rows(DOGS[:1].reshape(()))[1:] == [["Rex", "9", "1.5", "2020-01-01", "a,", "\udcff"]]
    with pytest.raises(InvalidInputError, match="one dimension of structs"):
        rows(DOGS.reshape(1, 2))


def test_structs_are_objects() -> None:
    rex = {"name": "Rex", "age": 9, "last, seen": {"at": 1.5, "on": "2020-01-01"}, "tags": ["a,", "\udcff"]}
    other = {"name": "", "age": -1, "last, seen": {"at": "NaN", "on": "NaT"}, "tags": ["", "x\n"]}
    assert document(DOGS) == [rex, other]
    assert document(DOGS.reshape(2, 1)) == [[rex], [other]]
    assert document(DOGS[:1].reshape(())) == rex


def test_npy_with_names_that_need_a_later_version() -> None:
    for names in (["é", "\u65e5\u672c"], [f"a{i}" for i in range(9000)]):
        values = np.ones(2, [(name, "i1") for name in names])
        array = frazil.create_array(MemoryStore(), data=values)
        read = np.load(io.BytesIO(written(formats.write_npy, window(array))), max_header_size=10**6)
        assert (read.dtype, read.tobytes()) == (values.dtype, values.tobytes())


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", "S3", "U3", "V3", [("a", "f4")]])
def test_only_numbers_are_drawn(dtype: object) -> None:
    array = frazil.create_array(MemoryStore(), data=np.zeros((3, 3), dtype))
    with pytest.raises(InvalidInputError, match="only numbers") as caught:
        overview(window(array), 3)
    assert "frazil get" in str(caught.value)


def test_elements_of_any_length_and_of_few_bits() -> None:
    text = np.array([["a", 'q"'], ["", None]], np.dtypes.StringDType(na_object=None))
    assert elements.json_values(text) == [["a", 'q"'], ["", None]]
    assert elements.cells(text.reshape(-1)) == ["a", '"q"""', '""', ""]
    raw = np.array([b"a", b"\xff", None], object)
    assert elements.json_values(raw) == ["a", "\udcff", None]
    few = pytest.importorskip("ml_dtypes")
    assert elements.json_values(np.array([0.5, np.inf, -2], few.bfloat16)) == [0.5, "Infinity", -2.0]
    assert elements.json_values(np.array([-8, 7], few.int4)) == [-8, 7]
    assert elements.cells(np.array([-8, 7], few.int4)) == ["-8", "7"]
