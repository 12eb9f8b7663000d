"""Repositories that the library of the alpha can use: nothing is promised or written there that it would drop or misread."""

from __future__ import annotations

import pytest

import frazil
from frazil.errors import InvalidInputError
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
