"""Repositories for the alpha library (`compatible="alpha-library"`): nothing is written there that it cannot open, drops or misreads.

What the library accepts was tried with the library itself, built from its source; these tests check the bytes that we write against that."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.formats.alpha.nodes import NodeSnapshot
from frazil.formats.alpha.snapshots import decode_snapshot
from frazil.stores import MemoryStore

ALPHA = "alpha-library"


def test_attributes_have_no_files() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match="attributes_file_bytes"):
        frazil.Repository.create(store, compatible=ALPHA, attributes_file_bytes=10)
    assert not frazil.Repository.exists(store)
    frazil.Repository.create(store, compatible=ALPHA)
    repo = frazil.Repository.open(store, attributes_file_bytes=10)
    assert repo.readonly_session().root.attrs == {}
    with pytest.raises(InvalidInputError, match="attributes_file_bytes"):
        repo.writable_session()
    with pytest.raises(InvalidInputError, match="attributes_file_bytes"):
        frazil.Repository.open_or_create(store, compatible=ALPHA, attributes_file_bytes=10)


def test_one_that_is_there_stays_as_it_is() -> None:
    store, other = MemoryStore(), MemoryStore()
    frazil.Repository.open_or_create(store)
    with pytest.raises(InvalidInputError, match=ALPHA):
        frazil.Repository.open_or_create(store, compatible=ALPHA)
    with pytest.raises(InvalidInputError, match="compatible"):
        frazil.Repository.open_or_create(store, compatible="beta")
    first = frazil.Repository.open_or_create(other, compatible=ALPHA)
    assert frazil.Repository.open_or_create(other, compatible=ALPHA).lookup("main") == first.lookup("main")
    assert frazil.Repository.open_or_create(other).lookup("main") == first.lookup("main")


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "f4"])
@pytest.mark.parametrize("codecs", ["auto", [], ["bytes"], [{"name": "bytes"}, "crc32c"]])
def test_every_codec_has_a_configuration(dtype: str, codecs: str | list[str]) -> None:
    """The library writes null into documents where a codec has none, and zarr-python does not open them."""
    store = MemoryStore()
    repo = frazil.Repository.create(store, compatible=ALPHA)
    with repo.transaction(message="one array") as root:
        root.create_array("a", shape=(4,), chunks=(2,), dtype=dtype, codecs=codecs)
    data = store.get(f"snapshots/{repo.lookup('main')}")
    assert data is not None
    node = decode_snapshot(data).nodes.get("/a")
    assert isinstance(node, NodeSnapshot)
    assert node.array is not None
    assert node.array.metadata.codecs
    assert all(codec.configuration is not None for codec in node.array.metadata.codecs)
    assert repo.readonly_session().root["a"].dtype == dtype
