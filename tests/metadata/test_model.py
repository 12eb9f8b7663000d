"""The metadata values: parts that fit together, copies with a change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frazil.metadata.extensions import Extension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.grids.chunk_keys import DefaultKeys
from frazil.metadata.model import ArrayMetadata, GroupMetadata
from frazil.metadata.registry import CORE_EXTENSIONS
from tests.metadata.refusals import refused

FLOAT32 = CORE_EXTENSIONS.from_numpy("float32")


def metadata(**changes):
    parts: dict[str, Any] = {
        "shape": (10, 20),
        "data_type": FLOAT32,
        "fill_value": FLOAT32.zero,
        "chunk_grid": RegularGrid((4, 5)),
        "chunk_key_encoding": DefaultKeys(),
        "codecs": [Extension("bytes", {"endian": "little"})],
        "attributes": {"a": [1]},
        "dimension_names": ("y", None),
    }
    return ArrayMetadata(**(parts | changes))


def test_users_numbers_become_plain():
    made = metadata(shape=np.array([10, 20]), attributes={"a": (np.int64(1),)}, dimension_names=["y", None])
    assert made == metadata()
    assert all(type(length) is int for length in made.shape)
    assert metadata(shape=10, chunk_grid=RegularGrid(5), dimension_names=None).shape == (10,)


def test_metadata_knows_its_rank_dtype_and_grid():
    made = metadata()
    assert (made.ndim, made.dtype, made.grid_shape) == (2, np.dtype("float32"), (3, 4))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"shape": (10, -1)}, "shape[1]"),
        ({"shape": (10, 1.5)}, "shape[1]"),
        ({"shape": (10, 2**63)}, "shape[1]"),
        ({"shape": "10"}, "shape"),
        ({"shape": (10,)}, "chunk_grid.configuration.chunk_shape"),
        ({"fill_value": CORE_EXTENSIONS.from_numpy("float64").zero}, "fill_value"),
        ({"codecs": []}, "codecs"),
        ({"attributes": {"a": {1}}}, "attributes.a"),
        ({"attributes": {"a": float("nan")}}, "attributes.a"),
        ({"attributes": [1]}, "attributes"),
        ({"dimension_names": ("y",)}, "dimension_names"),
        ({"dimension_names": "yx"}, "dimension_names"),
        ({"dimension_names": 3}, "dimension_names"),
        ({"dimension_names": ("y", 1)}, "dimension_names[1]"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, path):
    with refused(path):
        metadata(**changes)


def test_with_shape_checks_and_replaces_the_shape():
    grown = metadata().with_shape([np.int64(11), 0])
    assert grown == metadata(shape=(11, 0))
    assert grown.grid_shape == (3, 0)
    with refused("shape", "2 lengths"):
        metadata().with_shape((11,))
    with refused("shape[0]"):
        metadata().with_shape((-1, 3))


def test_with_shape_keeps_all_else_and_asks_the_grid():
    class Even(RegularGrid):
        __slots__ = ()

        def check(self, shape, path="chunk_grid"):
            if shape[0] % 2:
                raise ValueError("odd")

    made = metadata(chunk_grid=Even((4, 5)))
    grown = made.with_shape((12, 20))
    assert grown.differs_in_shape_alone(made) and not made.differs_in_shape_alone(made)
    assert grown.attributes == made.attributes and grown.attributes["a"] is not made.attributes["a"]
    with refused("chunk_grid", "odd"):
        made.with_shape((11, 20))
    for other in (metadata(shape=(12, 20)), grown.with_members(codecs=[Extension("bytes")]), GroupMetadata()):
        assert not made.differs_in_shape_alone(other), "these parts are others, be they equal"


def test_with_attributes_checks_and_copies_the_attributes():
    given = {"b": [1]}
    changed = metadata().with_attributes(given)
    given["b"].append(2)
    assert changed == metadata(attributes={"b": [1]})
    assert metadata().attributes == {"a": [1]}
    with refused("attributes.b"):
        metadata().with_attributes({"b": object()})


@pytest.mark.parametrize("dialect", [3, "draft", "draft-2021", 2])
def test_every_dialect_has_the_same_value(dialect):
    made = metadata(
        zarr_format=dialect, storage_transformers=[Extension("indexed")], unknown={"x": {"must_understand": False}}
    )
    changed = made.with_shape((1, 1)).with_attributes({})
    assert (changed.zarr_format, changed.storage_transformers, changed.unknown) == (
        dialect,
        made.storage_transformers,
        made.unknown,
    )


def test_groups():
    group = GroupMetadata(
        attributes={"a": 1},
        consolidated={"kind": "inline"},
        zarr_format="draft",
        unknown={"x": {"must_understand": False}},
    )
    changed = group.with_attributes({"b": 2})
    assert changed.attributes == {"b": 2}
    assert (changed.consolidated, changed.zarr_format, changed.unknown) == (group.consolidated, "draft", group.unknown)
    assert changed.without_consolidated().consolidated is None
    assert GroupMetadata().attributes == {}
    with refused("attributes"):
        GroupMetadata(attributes="a")  # type: ignore[arg-type]
