"""Hierarchies with user extensions: their meaning is preserved, or they are refused by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.conformance.draft.user_extensions import AXES, FIXED, FOLDER, MASK, MORTON, PACKED, REGISTRY, TILES
from tests.operations.convert.test_convert_differences import ENTRY, array, document, hierarchy

import frazil
from frazil.errors import ConversionError, FrazilError, UnknownExtensionError
from frazil.operations.convert.hierarchy_keys import JOURNAL_NAME
from frazil.stores import MemoryStore
from frazil.testing import Fault, FaultPlan, FaultyStore

VALUES = np.arange(24, dtype="i4").reshape(4, 6)


def written(**members: Any) -> MemoryStore:
    store = hierarchy(a=array(**members))
    frazil.open_array(store, "r+", path="a", registry=REGISTRY)[...] = VALUES[: members.get("shape", [4])[0]]
    return store


def final(store: MemoryStore) -> tuple[dict[str, Any], np.ndarray]:
    to = MemoryStore()
    frazil.convert(store, to, registry=REGISTRY)
    return document(to, "a/zarr.json"), frazil.open_array(to, path="a", registry=REGISTRY)[...]


def test_an_array_extension_that_is_understood() -> None:
    entry = {"extension": AXES, "must_understand": False, "configuration": {"names": ["y", "x"]}}
    store = written(extensions=[entry])
    found, values = final(store)
    assert found["dimension_names"] == ["y", "x"]
    np.testing.assert_array_equal(values, VALUES)
    with pytest.raises(ConversionError) as caught:
        frazil.convert(store, MemoryStore())
    assert [refusal[:2] for refusal in caught.value.refusals] == [("a", "extensions[0]")], "unknown, it would be lost"


def test_a_data_type() -> None:
    kind = {"extension": FIXED, "type": "fixed32", "places": 2, "fallback": "int32"}
    found, values = final(written(data_type=kind, fill_value="0.50"))
    assert found["data_type"]["name"] == FIXED
    assert found["fill_value"] == "0.50"
    np.testing.assert_array_equal(values, VALUES)


def test_a_chunk_grid_that_is_regular_but_for_its_keys() -> None:
    store = written(chunk_grid={"extension": TILES, "type": "tiles", "tile": [2, 3]})
    assert "data/a/tile-1-1" in store.list()
    found, values = final(store)
    assert found["chunk_grid"] == {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}
    assert found["chunk_key_encoding"]["name"] == "default"
    np.testing.assert_array_equal(values, VALUES)


def test_a_memory_layout_is_a_codec() -> None:
    grid = {"type": "regular", "chunk_shape": [2, 2], "separator": "/"}
    found, values = final(written(chunk_grid=grid, chunk_memory_layout={"extension": MORTON, "type": "z"}))
    assert found["codecs"][0]["name"] == "example.morton"
    np.testing.assert_array_equal(values, VALUES)


def test_a_storage_transformer_is_refused() -> None:
    store = written(storage_transformers=[{"extension": MASK, "type": "xor", "configuration": {"mask": 90}}])
    with pytest.raises(ConversionError) as caught:
        frazil.convert(store, MemoryStore(), registry=REGISTRY)
    assert [refusal[:2] for refusal in caught.value.refusals] == [("a", "storage_transformers[0]")]


def test_an_extension_of_the_hierarchy_is_refused() -> None:
    store = MemoryStore()
    entry = {"extension": FOLDER, "must_understand": True, "configuration": {"name": "deep"}}
    store.set("zarr.json", json.dumps({**ENTRY, "extensions": [entry]}).encode())
    with pytest.raises(ConversionError, match=r"extensions of zarr\.json"):
        frazil.convert(store, MemoryStore(), registry=REGISTRY)
    with pytest.raises(UnknownExtensionError):
        frazil.convert(store, MemoryStore())


def test_a_metadata_encoding_in_place_and_interrupted() -> None:
    encoding = {"extension": PACKED, "type": "packed", "metadata_key_suffix": ".bin"}
    for call in range(1, 16):
        store = MemoryStore()
        store.set("zarr.json", json.dumps({**ENTRY, "metadata_encoding": encoding}).encode())
        group = frazil.open_group(store, "r+", registry=REGISTRY)
        group.create_array("g/a", data=VALUES, chunks=(2, 3), codecs=[], attributes={"units": "m"})
        assert "meta/g/a.array.bin" in store.list()
        faulty = FaultyStore(store, FaultPlan([Fault("put_many" if call < 8 else "erase_many", call % 8)]))
        try:
            frazil.convert(faulty, registry=REGISTRY)
        except FrazilError:
            frazil.convert(store, registry=REGISTRY)
        assert JOURNAL_NAME not in store.list()
        assert not [key for key in store.list() if key.startswith(("meta", "data"))]
        found = frazil.open_array(store, path="g/a")
        assert (found.metadata.zarr_format, found.attrs["units"]) == (3, "m")
        np.testing.assert_array_equal(found[...], VALUES)
