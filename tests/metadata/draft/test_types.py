"""Data types of the draft, both dialects: every known spelling, the written form, and fallbacks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata import data_types_of_all_kinds as kinds
from tests.metadata.refusals import refused

import frazil
from frazil.errors import FallbackWarning, InvalidInputError, UnknownExtensionError
from frazil.metadata.draft.types import emit_type, parse_type, states_order
from frazil.metadata.json_text import Json
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType, raw_type

PURL = "https://purl.org/zarr/spec/extensions/data-types/"
DOCUMENTS = "https://zarr-specs.readthedocs.io/en/"
DEC2022, OLD = False, True
BOTH = pytest.mark.parametrize("old", [DEC2022, OLD], ids=["dec2022", "old"])


def read(value: Json, old: bool = False) -> tuple[DataType, bool]:
    """The type, and whether it is big-endian. No warning may be raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return parse_type(value, old=old, extensions=CORE_EXTENSIONS)


def typed(dtype: object, big: bool = False) -> tuple[DataType, bool]:
    return CORE_EXTENSIONS.from_numpy(dtype), big


def entry(uri: str, kind: Json, **others: Json) -> dict[str, Json]:
    return {"extension": uri, "type": kind, **others}


# --- the core ----------------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.rule("D11", "D14", "X2", "X3")
@pytest.mark.parametrize("name", [*kinds.CORE, *kinds.COMPLEX])
def test_names_of_the_core(name: str, old: bool) -> None:
    assert read(name, old) == typed(name)
    assert emit_type(CORE_EXTENSIONS.from_numpy(name), False, old=False) == name
    assert emit_type(CORE_EXTENSIONS.from_numpy(name), True, old=False) == name  # an `endian` codec defines the rest


@BOTH
@pytest.mark.rule("D13", "D11")
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_raw_bytes(size: int, old: bool) -> None:
    assert read(f"r{8 * size}", old) == typed(f"V{size}")
    assert emit_type(raw_type(size), True, old=False) == f"r{8 * size}"


@BOTH
@pytest.mark.rule("D12", "X2", "Z3")
@pytest.mark.parametrize("kind", [np.dtype(name).str[1:] for name in (*kinds.CORE, *kinds.COMPLEX)])
def test_spellings_of_numpy(kind: str, old: bool) -> None:
    big = kind[1:] != "1"
    for order in ("", "<", "|"):
        assert read(order + kind, old) == typed(kind)
    assert read(">" + kind, old) == typed(kind, big)


@pytest.mark.rule("Z3")
@pytest.mark.parametrize("spelt", ["bool", "i1", "u1", "<i2", ">i2", "<u4", ">u8", "<f2", ">f4", "<f8", "<i8", "<u8"])
def test_the_old_dialect_as_zarr_python_spelt_it(spelt: str) -> None:
    assert emit_type(*read(spelt, OLD), old=True) == spelt


@BOTH
@pytest.mark.rule("D16")
@pytest.mark.parametrize(
    "name", ["float128", "f16", "<i3", "b2", "int", "", "r", "bfloat16", "<", "i", "i01", "i１", "<V", "O4"]
)
def test_unknown_names_are_refused(name: str, old: bool) -> None:
    with refused("data_type", "float64, complex64", kind=UnknownExtensionError):
        read(name, old)


@BOTH
@pytest.mark.parametrize("name", ["r7", "r0", "r12", "r99999999999999999999"])
def test_bad_raw_types_are_refused(name: str, old: bool) -> None:
    with refused("data_type", "a multiple of 8", name):
        read(name, old)


@BOTH
@pytest.mark.parametrize("value", [None, 3, True, [], ["<i4"], 1.5])
def test_invalid_data_types_are_refused(value: Json, old: bool) -> None:
    with refused("data_type", "an object with extension and type"):
        read(value, old)


@pytest.mark.parametrize("value", ["|O", "O", entry(PURL + "struct", [["a", "|O"]])])
@BOTH
def test_python_objects_are_refused_by_name(value: Json, old: bool) -> None:
    with pytest.raises(UnknownExtensionError, match="Python objects"):
        read(value, old)
    with pytest.raises(UnknownExtensionError, match="Python objects"):
        read(entry("TODO: object array protocol URL", "|O", fallback=None), OLD)


def test_the_strict_dialect_has_extensions_as_objects() -> None:
    for name in ("<M8[ns]", "S4", "|S4", "<U3", "|V4"):
        if name != "|V4":
            with refused("data_type", "an object with extension and type", name):
                read(name, DEC2022)
        assert read(name, OLD) == typed(name)


# --- extensions --------------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D102", "X9")
@pytest.mark.parametrize(
    "uri",
    [PURL + "complex/1.0", PURL + "complex", PURL.replace("https", "http") + "complex/1.0",
     DOCUMENTS + "core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html"],
)  # fmt: skip
@BOTH
def test_complex_numbers_as_an_extension(uri: str, old: bool) -> None:
    assert read(entry(uri, "<c8"), old) == typed("c8")
    assert read(entry(uri, ">c16"), old) == typed("c16", True)
    assert read(entry(uri, "complex64"), old) == typed("c8")


@pytest.mark.rule("D103")
@BOTH
@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_datetimes(kind: str, unit: str, old: bool) -> None:
    for order in "<>":
        value = entry(PURL + "datetime/1.0", f"{order}{kind}[{unit}]", fallback="int64")
        assert read(value, old) == typed(f"{kind}[{unit}]", order == ">")
        emitted = emit_type(*typed(f"{kind}[{unit}]", order == ">"), old=False)
        assert emitted == {**value, "fallback": "int64" if order == "<" else "r64"}


@pytest.mark.rule("D103", "D15")
@pytest.mark.parametrize(
    "kind", ["M8[ns]", "|M8[ns]", "<M8", "<M8[25s]", "<M8[]", "<M8[x]", "<M8[generic]", "<M4[s]", "<i8", 5, None, {}]
)
def test_identifiers_of_datetimes_are_strict(kind: Json) -> None:
    with refused("data_type.type", '"<" or ">"', "datetime", kind=UnknownExtensionError):
        read(entry(PURL + "datetime/1.0", kind))
    with pytest.warns(FallbackWarning, match="int64"):
        assert parse_type(entry(PURL + "datetime/1.0", kind, fallback="int64"), old=False, extensions=CORE_EXTENSIONS)[
            :2
        ] == typed("int64")


@pytest.mark.rule("Z4", "Z4b")
@pytest.mark.parametrize(
    ("uri", "kind", "dtype", "big"),
    [
        (DOCUMENTS + "latest/extensions/data-types/datetime/v1.0.html", "<M8[ns]", "M8[ns]", False),
        (
            DOCUMENTS + "core-protocol-v3.0-dev/protocol/extensions/datetime-dtypes/v1.0.html",
            ">m8[25s]",
            "m8[25s]",
            True,
        ),
        (DOCUMENTS + "latest/extensions/data-types/datetime/v1.0.html", "<M8", "M8", False),
        (DOCUMENTS + "core-protocol-v3.0-dev/protocol/extensions/complex-dtypes/v1.0.html", ">c8", "c8", True),
        ("TODO: bytestring array protocol URL", "|S4", "S4", False),
        ("TODO: unicode array protocol URL", "<U4", "U4", False),
        ("TODO: unicode array protocol URL", ">U4", "U4", True),
        ("TODO: structured array protocol URL", [["", "|V3"]], "V3", False),
        ("TODO: structured array protocol URL", [["a", "<U3"], ["b", "|i1"]], [("a", "U3"), ("b", "i1")], False),
        ("nothing in particular", "<i4", "i4", False),
    ],
)
def test_the_old_dialect_goes_by_the_type_alone(uri: str, kind: Json, dtype: object, big: bool) -> None:
    value = entry(uri, kind, fallback=None)
    assert read(value, OLD) == typed(dtype, big)
    assert read({**value, "more": 1}, OLD) == typed(dtype, big)
    if dtype not in ("m8[25s]", "M8", "i4"):
        emitted = emit_type(*typed(dtype, big), old=True)
        assert emitted == value
        assert list(emitted) == sorted(emitted)


@pytest.mark.rule("D104", "X31")
@BOTH
def test_strings(old: bool) -> None:
    uri = PURL + "string/1.0"
    assert read(entry(uri, "S4"), old) == read(entry(uri, "|S4"), old) == typed("S4")
    assert read(entry(uri, "<U10"), old) == typed("U10")
    assert read(entry(uri, ">U10"), old) == typed("U10", True)
    assert emit_type(*typed("S4"), old=False) == entry(uri, "S4", fallback="r32")
    assert emit_type(*typed("U2", True), old=False) == entry(uri, ">U2", fallback="r64")


@pytest.mark.rule("D104")
@pytest.mark.parametrize("kind", ["U4", "S0", "S", "<S4", "<M8[s]", "<U0", "T4", [["a", "<i4"]], 4])
def test_identifiers_of_strings_are_strict(kind: Json) -> None:
    with refused("data_type.type", "string", kind=UnknownExtensionError):
        read(entry(PURL + "string/1.0", kind))


DOGS: list[Json] = [["name", "<U10"], ["age", "<i4"], ["weight", "<f4"]]


@pytest.mark.rule("D105", "X30")
@BOTH
def test_structs(old: bool) -> None:
    uri = PURL + "struct/1.0"
    dogs = np.dtype([("name", "U10"), ("age", "i4"), ("weight", "f4")])
    assert read(entry(uri, DOGS), old) == typed(dogs)
    assert read(entry(uri, DOGS), old)[0].itemsize == 48
    assert emit_type(*typed(dogs), old=False) == entry(uri, DOGS, fallback="r384")
    big: list[Json] = [["name", ">U10"], ["age", ">i4"], ["weight", ">f4"]]
    assert read(entry(uri, big), old) == typed(dogs, True)
    assert emit_type(*typed(dogs, True), old=False) == entry(uri, big, fallback="r384")
    nested: list[Json] = [
        ["id", "uint8"],
        ["dog", DOGS],
        ["at", "<M8[s]"],
        ["xy", "<f8", [2, 3]],
        ["", "|V5"],
        ["z", "<c8", 2],
    ]
    dtype = np.dtype(
        {
            "names": ["id", "dog", "at", "xy", "z"],
            "formats": ["u1", dogs, "M8[s]", ("f8", (2, 3)), ("c8", (2,))],
            "offsets": [0, 1, 49, 57, 110],
            "itemsize": 126,
        }
    )
    assert read(entry(uri, nested), old) == typed(dtype)
    assert read(emit_type(*typed(dtype), old=old), old) == typed(dtype)


@pytest.mark.rule("D105")
def test_fields_may_be_of_the_core_and_of_extensions() -> None:
    fields: list[Json] = [
        ["a", "int32"],
        ["b", entry(PURL + "string", "<U3")],
        ["c", entry(PURL + "struct", [["d", "<f8"]])],
    ]
    assert read(entry(PURL + "struct", fields)) == typed([("a", "i4"), ("b", "U3"), ("c", [("d", "f8")])])
    fields = [["a", "int32"], ["b", "int8"]]
    assert read(entry(PURL + "struct", fields)) == typed([("a", "i4"), ("b", "i1")])


def test_structs_of_both_byte_orders_are_in_memory_as_they_are_stored() -> None:
    fields: list[Json] = [["a", ">i4"], ["b", "<f8"], ["c", [["d", ">u2"], ["e", "|S3"]]], ["f", "|u1"]]
    data_type, big = read(entry(PURL + "struct", fields))
    assert data_type.dtype == np.dtype([("a", ">i4"), ("b", "<f8"), ("c", [("d", ">u2"), ("e", "S3")]), ("f", "u1")])
    assert (data_type.swaps, big) == ((), False)
    for old in (DEC2022, OLD):
        emitted = emit_type(data_type, False, old=old)
        assert isinstance(emitted, dict)
        assert emitted["type"] == fields
        assert read(emitted, old) == (data_type, False)
    with refused("data_type", "both byte orders"):
        data_type.to_json()
    inner: list[Json] = [["x", ">i4"], ["s", fields]]  # the inner one decides
    outer, big = read(entry(PURL + "struct", inner))
    assert outer.dtype["x"] == np.dtype(">i4")
    assert (outer.swaps, big) == ((), False)
    assert read(emit_type(outer, False, old=True), OLD) == (outer, False)
    core: list[Json] = [["a", "int32"], ["b", ">i4"]]  # names of the core are little-endian
    assert read(entry(PURL + "struct", core))[0].dtype == np.dtype([("a", "<i4"), ("b", ">i4")])


@pytest.mark.parametrize(
    ("fields", "path", "word"),
    [
        ([], "type", "one field"),
        ([["a"]], "type[0]", "[name, type]"),
        (["<i4"], "type[0]", "[name, type]"),
        ([["a", "<i4"], ["a", "<i8"]], "type", "twice"),
        ([[["title", "a"], "<i4"]], "type[0][0]", "titles"),
        ([["a", "<i4"], ["", "<i4"]], "type[1][0]", "padding"),
        ([["a", "<i4", [0]]], "type[0][2][0]", "from 1 to"),
        ([["a", "<i4", "x"]], "type[0][2][0]", "an integer"),
        ([["a", 5]], "type[0][1]", "identifier"),
        ([["", "|V4"], ["", "|V4"]], "type", "one field"),
        ([["a", "|S67108864"], ["b", "|S1"]], "type", "together"),
    ],
)
@BOTH
def test_bad_structs_are_refused(fields: list[Json], path: str, word: str, old: bool) -> None:
    with refused(f"data_type.{path}", word):
        read(entry(PURL + "struct", fields), old)


@BOTH
def test_errors_for_unknown_types_of_fields_name_the_field(old: bool) -> None:
    with refused("data_type.type[1][1]", "<x4", kind=UnknownExtensionError):
        read(entry(PURL + "struct", [["a", "<i4"], ["b", "<x4"]]), old)


@pytest.mark.rule("D15")
def test_objects_are_strict_in_december_2022() -> None:
    with refused("data_type.more", "not known"):
        read(entry(PURL + "string", "S4", more=1))
    with refused("data_type.extension", "a URI"):
        read(entry("TODO: bytestring array protocol URL", "|S4"))
    for old in (DEC2022, OLD):
        with refused("data_type.type", "required"):
            read({"extension": PURL + "string"}, old)
        with refused("data_type.extension", "required"):
            read({"type": "S4"}, old)
        with refused("data_type.fallback", "identifier"):
            read(entry(PURL + "string", "S4", fallback=5), old)


@pytest.mark.parametrize(
    "uri", [PURL + "string/2.0", PURL + "strings/1.0", "https://example.org/string/1.0", "ftp:" + PURL[6:] + "string"]
)
@pytest.mark.rule("D16")
def test_unknown_extensions_are_refused(uri: str) -> None:
    with refused("data_type", uri[:40], kind=UnknownExtensionError):
        read(entry(uri, "S4"))


# --- there and back ----------------------------------------------------------------------------------------------------------------

of_both = kinds.typed(kinds.numbers | kinds.raw | kinds.plain_times | kinds.strings)
fields_of_both = kinds.numbers | kinds.raw | kinds.plain_times | kinds.strings


@given(of_both | kinds.typed(kinds.nested(fields_of_both) | kinds.described(fields_of_both)), st.booleans())
def test_december_2022_round_trip(data_type: DataType, big: bool) -> None:
    emitted = emit_type(data_type, big, old=False)
    stated = states_order(emitted)
    assert stated == (isinstance(emitted, dict) and bool(data_type.swaps))
    assert read(emitted) == (data_type, big and stated)


@given(of_both | kinds.typed(kinds.nested(fields_of_both) | kinds.described(fields_of_both)), st.booleans())
def test_the_old_dialect_round_trip(data_type: DataType, big: bool) -> None:
    assert read(emit_type(data_type, big, old=True), OLD) == (data_type, big and bool(data_type.swaps))


@pytest.mark.rule("X10")
def test_identifiers_that_state_a_byte_order() -> None:
    for value in ("<f8", ">i2", entry(PURL, "<M8[s]"), entry(PURL, [["a", "|S2"], ["b", [["c", ">i2"]]]])):
        assert states_order(value)
    for value in ("float64", "u1", "|b1", "r24", entry(PURL, "S4"), entry(PURL, [["a", "|S2"]]), None, 5):
        assert not states_order(value)


@BOTH
@pytest.mark.parametrize("dtype", ["M8[25s]", "m8", [("a", [("b", "m8[10us]")])]])
def test_units_that_the_draft_has_no_words_for(dtype: object, old: bool) -> None:
    group = frazil.create_group({}, zarr_format="draft-2021" if old else "draft")
    with refused("data_type", "one of the units"):
        group.create_array("x", shape=2, dtype=dtype)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["<i4", "|V3", "S4", "", "a", PURL + "struct", "r9"]),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.sampled_from(["extension", "type", "fallback", "x"]), child, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(json_values, st.booleans())
def test_any_json_is_read_or_refused(value: Json, old: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        path, data_type = None, CORE_EXTENSIONS.from_numpy("i4")
        try:
            data_type, _ = parse_type(value, old=old, extensions=CORE_EXTENSIONS)
        except InvalidInputError as error:
            path = str(error.path)
    assert path is None or path.startswith("data_type")
    assert data_type.itemsize > 0
