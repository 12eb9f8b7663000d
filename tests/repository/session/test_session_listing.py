"""A session's keys in order: compared with a plain store, and for repositories that another library wrote."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.archives import NAMES
from tests.repository.archived_repositories import archive
from tests.repository.plain_nodes import array, group, plain_session

import frazil
from frazil.errors import ReadOnlyError, UnknownExtensionError
from frazil.metadata.v3.documents import parse_node
from frazil.stores import ABSENT, MemoryStore, Store
from frazil.stores.keys.listing import first_level
from frazil.stores.values import pieces_of

parts = st.sampled_from(["a", "a!", "b", "c", "0", "7", "z", "zz", "é", "\U0001f600", "a b", "d", "0!"])


@st.composite
def hierarchies(draw: st.DrawFn) -> dict[str, bytes]:
    """Documents and chunks by their keys."""
    values: dict[str, bytes] = {}
    arrays: set[str] = set()
    for path in sorted({"/".join(draw(st.lists(parts, max_size=3))) for _ in range(draw(st.integers(0, 6)))}):
        if any(f"{path}/".startswith(f"{above}/") or not above for above in arrays):
            continue
        prefix = f"{path}/" if path else ""
        if draw(st.booleans()):
            ndim = draw(st.integers(0, 2))
            values[f"{prefix}zarr.json"] = array(*[12] * ndim)
            arrays.add(path)
            for at in draw(st.sets(st.tuples(*[st.integers(0, 11)] * ndim), max_size=8)):
                values[prefix + "/".join(["c", *map(str, at)])] = b""
        else:
            values[f"{prefix}zarr.json"] = group()
    return values


@given(hierarchies(), st.data())
def test_keys_are_in_order(values: dict[str, bytes], data: st.DataObject) -> None:
    plain = MemoryStore()
    store = plain_session(plain)
    store.put_many(list(values), pieces_of(list(values.values())), [ABSENT] * len(values))
    assert store.list() == plain.list(), "which has the groups above, too"
    prefixes = sorted(
        {key[: at + 1] for key in plain.list() for at, sign in enumerate(key) if sign == "/"} | {"", "c/", "a/"}
    )
    for prefix in prefixes:
        assert store.list_dir(prefix) == plain.list_dir(prefix)
        assert store.list_prefix(prefix) == plain.list_prefix(prefix)
        assert store.is_empty(prefix) == plain.is_empty(prefix)
    keys = st.sampled_from([*plain.list(), "a", "a/c", "a/c/", "b/c0", "c", "zarr.json"])
    prefix, after, limit = data.draw(st.sampled_from(prefixes)), data.draw(keys), data.draw(st.integers(0, 4))
    assert list(store.list_page(prefix, after, limit=limit).keys) == plain.list_page(prefix, after, limit=limit).keys
    erased = data.draw(st.sampled_from(prefixes))
    store.erase_prefix(erased)
    assert store.list() == plain.list() == sorted(plain.list(), key=str.encode)
    assert not [key for key in plain.list() if key.startswith(erased)]


@given(hierarchies(), st.data())
def test_keys_of_a_repository_are_those_of_a_plain_store(values: dict[str, bytes], data: st.DataObject) -> None:
    model = plain_session()
    session = frazil.Repository.create(MemoryStore()).writable_session("main")
    for store in (model, session.store):
        store.put_many(list(values), pieces_of(list(values.values())), [ABSENT] * len(values))
    if data.draw(st.booleans()):
        session.commit("all of it", allow_empty=True)
    assert_same_keys(session.store, model)
    keys = [*values, "", "a/", "b/c/"]
    for key in data.draw(st.lists(st.sampled_from(keys), max_size=3)):
        for store in (model, session.store):
            if key in values:
                store.erase(key)
            else:
                store.erase_prefix(key)
        assert_same_keys(session.store, model)
    session.commit("less", allow_empty=True)
    assert_same_keys(session.store, model)


def assert_same_keys(store: Store, model: Store) -> None:
    keys = model.list()
    assert store.list() == keys
    for prefix in {key[: at + 1] for key in keys for at, sign in enumerate(key) if sign == "/"} | {""}:
        assert store.list_dir(prefix) == model.list_dir(prefix)
    for key in keys:
        assert store.get(key) == model.get(key)


@pytest.mark.parametrize("name", NAMES)
def test_keys_of_repositories_of_the_library(name: str) -> None:
    """Each document can be read, except those with data types of no fixed size; the number of chunks matches the document."""
    repo = frazil.Repository.open(archive(name).store)
    for branch in repo.branches:
        store = repo.readonly_session(branch=branch).store
        keys = store.list()
        assert keys == sorted(keys, key=str.encode)
        assert len(keys) > 10
        for prefix in ["", *{key[: key.rindex("/") + 1] for key in keys if "/" in key}]:
            assert sorted(itertools.chain(*store.list_dir(prefix))) == list(
                first_level(store.list_prefix(prefix), prefix)
            )
        read = 0
        for key in keys:
            if key.endswith("zarr.json"):
                with contextlib.suppress(UnknownExtensionError):
                    assert parse_node(store.get(key) or b"") is not None
                    read += 1
            else:
                assert store.sizes([key])[0] >= 0
        assert read > 2
        with pytest.raises(ReadOnlyError):
            store.erase(keys[0])
