"""Data types: names, NumPy dtypes, byte order; and types that a user adds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.refusals import refused
from tests.metadata.v3.test_documents import array_document

from frazil.errors import InvalidInputError, UnknownExtensionError
from frazil.metadata.extensions import Extension
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import DataType
from frazil.metadata.v3.documents import emit_node, parse_node

PLAIN = ("bool", "int8", "uint8")
SWAPPED = ("int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64")


@pytest.mark.rule("K18")
@pytest.mark.parametrize("name", [*PLAIN, *SWAPPED, "complex64", "complex128"])
@pytest.mark.parametrize("order", ["<", ">", "="])
def test_core_types(name, order):
    kind = CORE_EXTENSIONS.data_type(Extension(name))
    assert (kind.name, kind.dtype, kind.itemsize) == (name, np.dtype(name), np.dtype(name).itemsize)
    assert kind.dtype.isnative
    assert kind.to_json() == name
    assert CORE_EXTENSIONS.from_numpy(np.dtype(name).newbyteorder(order)) is kind
    assert CORE_EXTENSIONS.data_type_from_user(name) is kind
    assert CORE_EXTENSIONS.data_type_from_user(Extension(name)) is kind
    assert CORE_EXTENSIONS.data_type_from_user({"name": name}) is kind
    assert CORE_EXTENSIONS.data_type_from_user(kind) is kind


def test_byte_order_of_items():
    for name in PLAIN:
        assert CORE_EXTENSIONS.from_numpy(name).swaps == ()
    for name in SWAPPED:
        assert CORE_EXTENSIONS.from_numpy(name).swaps == ((0, np.dtype(name).itemsize, 1),)
    assert CORE_EXTENSIONS.from_numpy("complex64").swaps == ((0, 4, 2),)
    assert CORE_EXTENSIONS.from_numpy("complex128").swaps == ((0, 8, 2),)
    assert CORE_EXTENSIONS.from_numpy("V4").swaps == ()


@given(st.sampled_from([*SWAPPED, "complex64", "complex128"]), st.data())
def test_swaps_turn_an_element_into_the_other_byte_order(name, data):
    kind = CORE_EXTENSIONS.from_numpy(name)
    element = data.draw(st.binary(min_size=kind.itemsize, max_size=kind.itemsize))
    turned = bytearray(element)
    for offset, width, count in kind.swaps:
        for at in range(offset, offset + width * count, width):
            turned[at : at + width] = turned[at : at + width][::-1]
    assert bytes(turned) == np.frombuffer(element, kind.dtype).byteswap().tobytes()


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        (float, "float64"), (int, "int64"), (bool, "bool"), (complex, "complex128"), (np.uint8, "uint8"), ("f4", "float32"), (">i2", "int16"),
        ("?", "bool"), ("b", "int8"), ("q", "int64"), (np.longlong, "int64"), ("V3", "r24"), ("r24", "r24"), (np.dtype("V1"), "r8"), ("c8", "complex64"),
        ("single", "float32"), ("half", "float16"),
    ],
)  # fmt: skip
def test_spellings_of_users(spelling, name):
    assert CORE_EXTENSIONS.data_type_from_user(spelling).name == name


@pytest.mark.parametrize("size", [1, 2, 3, 13, 1000])
def test_raw_types(size):
    kind = CORE_EXTENSIONS.data_type(Extension(f"r{8 * size}"))
    assert (kind.name, kind.dtype, kind.swaps) == (f"r{8 * size}", np.dtype(f"V{size}"), ())
    assert CORE_EXTENSIONS.from_numpy(f"V{size}") == kind


def test_zeros_complete_raw_bytes_of_users():
    kind = CORE_EXTENSIONS.data_type(Extension("r24"))
    assert kind.fill_from_user(b"ab").data == b"ab\0"
    for wrong in (b"abcd", [1, 2]):
        with refused("fill_value", "3"):
            kind.fill_from_user(wrong)


@pytest.mark.parametrize("name", ["r0", "r4", "r08", "r12", "r17179869184", "r9" + "9" * 5000])
def test_bad_raw_types_are_refused(name):
    with refused("data_type", "a multiple of 8"):
        CORE_EXTENSIONS.data_type(Extension(name))


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        (object, "Python objects"),
        (np.dtype((np.int32, (2,))), "dimensions of the array"),
        ("V", "a length"),
    ],
)
def test_unknown_numpy_types_come_with_a_hint(dtype, hint):
    with pytest.raises(UnknownExtensionError, match="no registered data type") as caught:
        CORE_EXTENSIONS.from_numpy(dtype)
    assert ("float32" in caught.value.message) == (dtype is not object)  # for which the hint says it all
    assert hint in str(caught.value.hint)


@pytest.mark.skipif(np.dtype("longdouble").itemsize == 8, reason="a long double is a float64 here")
def test_long_doubles_are_unknown():
    for dtype in ("longdouble", "clongdouble"):
        with refused("data_type", kind=UnknownExtensionError):
            CORE_EXTENSIONS.from_numpy(dtype)


@pytest.mark.parametrize("dtype", [None, 3, "nothing at all", ["i4", "x"]])
def test_invalid_dtypes_are_refused(dtype):
    with refused("data_type", "must be a data type", kind=InvalidInputError):
        CORE_EXTENSIONS.from_numpy(dtype)


def test_errors_for_unknown_names_list_known_names():
    for name in ("text", "numpy.complex256", "urn:example:datetime"):
        with refused(
            "data_type",
            name,
            "registered: bool, int8",
            "complex128, r*, raw_bytes, numpy.datetime64",
            "struct",
            kind=UnknownExtensionError,
        ):
            CORE_EXTENSIONS.data_type(Extension(name))
    with refused("data_type", "bfloat8", kind=UnknownExtensionError):
        CORE_EXTENSIONS.data_type_from_user("bfloat8")


@pytest.mark.parametrize("name", ["float32", "r24"])
def test_core_types_take_no_configuration(name):
    with refused("data_type.configuration.endian", "no configuration", '"big"'):
        CORE_EXTENSIONS.data_type(Extension(name, {"endian": "big"}))
    assert CORE_EXTENSIONS.data_type(Extension(name, {})).name == name


# --- a type that a user adds -------------------------------------------------------------------------------------------------------


class Scaled(DataType):
    """Bytes that represent multiples of a step; the step is its configuration."""

    __slots__ = ("step",)

    def __init__(self, step):
        super().__init__("example.scaled", np.dtype("int16"), ((0, 2, 1),))
        self.step = step

    def extension(self):
        return Extension(self.name, {"step": self.step})

    def parse_bytes(self, value, path):
        return np.int16(value / self.step).tobytes()

    def emit_bytes(self, data):
        return int(np.frombuffer(data, self.dtype)[0]) * self.step

    def user_bytes(self, value, path):
        return self.parse_bytes(value, path)


class ScaledFamily:
    names = ("example.scaled",)

    def matches(self, name):
        return name == "example.scaled"

    def parse(self, extension, path):
        return Scaled(extension.configuration["step"])

    def from_numpy(self, dtype):
        return None


def test_a_user_can_add_a_type():
    extensions = CORE_EXTENSIONS.with_data_type(ScaledFamily())
    document = array_document(data_type={"name": "example.scaled", "configuration": {"step": 0.5}}, fill_value=2.5)
    metadata = parse_node(document, extensions)
    assert metadata.fill_value.scalar == 5
    assert metadata.data_type == Scaled(0.5)
    assert metadata.data_type != Scaled(0.25)
    assert parse_node(emit_node(metadata), extensions) == metadata
    assert b'"step": 0.5' in emit_node(metadata)
    with refused("data_type", "example.scaled", kind=UnknownExtensionError):
        parse_node(document)


def test_the_newest_family_goes_first():
    class Mine(ScaledFamily):
        def matches(self, name):
            return name == "float32"

        def parse(self, extension, path):
            return Scaled(1.0)

    assert CORE_EXTENSIONS.with_data_type(Mine()).data_type(Extension("float32")) == Scaled(1.0)
    assert CORE_EXTENSIONS.data_type(Extension("float32")).name == "float32"
