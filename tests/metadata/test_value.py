"""Values: frozen, equal by their fields, can be pickled and copied."""

from __future__ import annotations

import copy
import pickle

import pytest

from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import DefaultKeys, V2Keys
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.metadata.types.core import BoolType, FloatType
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.v3.documents import parse_node
from tests.metadata.v3.test_documents import array_document, group_document

VALUES = [
    RegularGrid((2, 3)),
    DefaultKeys("."),
    V2Keys(),
    Extension("zstd", {"level": 3, "more": [1, {"a": None}]}),
    Extension("abc", must_understand=False),
    CORE_EXTENSIONS,
    CORE_EXTENSIONS.from_numpy("complex64"),
    CORE_EXTENSIONS.from_numpy("V3").fill_from_user(b"abc"),
    parse_node(array_document()),
    parse_node(group_document()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_copies_are_equal(value):
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert other == value
        assert hash(other) == hash(value)
        assert repr(other) == repr(value)


def test_fields_are_set_once():
    grid = RegularGrid(4)
    with pytest.raises(AttributeError, match="RegularGrid is frozen: chunk_shape"):
        grid.chunk_shape = (5,)
    with pytest.raises(AttributeError, match="frozen"):
        del grid.chunk_shape
    with pytest.raises(AttributeError):
        grid.other = 1
    assert grid.chunk_shape == (4,)


def test_another_class_is_not_equal():
    dtype = CORE_EXTENSIONS.from_numpy("float32").dtype
    assert DefaultKeys("/") != V2Keys("/")
    assert FloatType("float32", dtype) != BoolType("float32", dtype)
    assert FillValue(b"abcd", dtype) != b"abcd"
    assert Extension("zstd", {"level": 1}) != Extension("zstd", {"level": 2})
