"""Shared by the tests of the extension points: documents by hand, and an array that is used in every way."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

import frazil
from frazil.errors import FrazilError, UnknownExtensionError
from frazil.stores import Store
from tests.conformance.draft.user_extensions import REGISTRY

CORE = "https://purl.org/zarr/spec/core/3.0"
SHARDING = "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
JSON_ENCODING = {"type": "json", "metadata_key_suffix": ".json"}
VALUES = np.arange(48, dtype="i4").reshape(6, 8)
UNKNOWN = "https://example.org/zarr/nobody/1.0"


def entry_point(**members: object) -> dict[str, object]:
    return {"zarr_format": CORE, "metadata_encoding": JSON_ENCODING, "extensions": [], **members}


def document(**members: object) -> dict[str, object]:
    made: dict[str, object] = {
        "shape": [6, 8],
        "data_type": "int32",
        "chunk_grid": {"type": "regular", "chunk_shape": [4, 4], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 0,
        "extensions": [],
        "attributes": {},
    }
    return {**made, **members}


def put(store: Store, key: str, value: Mapping[str, object]) -> None:
    store.set(key, json.dumps(value).encode())


def got(store: Store, key: str) -> dict[str, object]:
    value = store.get(key)
    assert value is not None, store.list()
    found = json.loads(value)
    assert isinstance(found, dict)
    return found


def one(store: Store, **members: object) -> dict[str, object]:
    """A hierarchy with the array x, of this document."""
    put(store, "zarr.json", entry_point())
    put(store, "meta/x.array.json", made := document(**members))
    return made


def works(store: Store, path: str = "x") -> frazil.Array:
    """Writes and reads an array, through handles of all kinds; the document keeps its members."""
    array = frazil.open_array(store, "r+", path=path, registry=REGISTRY)
    assert not array[...].any()
    array[...] = VALUES
    array[1, 2:7] = 7
    expected = VALUES.copy()
    expected[1, 2:7] = 7
    array.attrs["units"] = "m"
    array.resize((9, 8))
    for handle in (array, pickle.loads(pickle.dumps(array)), frazil.open_array(store, path=path, registry=REGISTRY)):
        assert handle.metadata == array.metadata
        assert handle.shape == (9, 8)
        assert handle[:6].tolist() == expected.tolist()
        assert handle[5, 3] == 43
        assert not handle[6:].any()
        assert dict(handle.attrs) == {"units": "m"}
    assert array.nchunks_initialized == 4
    array[4:, 4:] = 0
    assert array.nchunks_initialized == 3
    return array


def refused(store: Store, kind: type[FrazilError] = UnknownExtensionError, path: str = "x") -> FrazilError:
    """The error with a registry without extensions. Nothing is touched."""
    before = {key: store.get(key) for key in store.list()}
    with pytest.raises(kind) as caught:
        frazil.open(store, path=path)
    assert {key: store.get(key) for key in store.list()} == before
    assert isinstance(caught.value, FrazilError)
    return caught.value
