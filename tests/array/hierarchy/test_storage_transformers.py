"""The store of an array's chunks: the storage transformers of its document and of its user, in their order."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.draft.user_extensions import MASK, REGISTRY, Masked
from tests.faults.concurrent_calls import in_threads

import frazil
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.array.hierarchy.root import locate
from frazil.array.hierarchy.storage_transformers import transformed
from frazil.codecs import DEFAULT_REGISTRY
from frazil.errors import InvalidInputError, UnknownExtensionError
from frazil.extensions import Extension
from frazil.metadata.model import ArrayMetadata
from frazil.stores import MemoryStore, ShardingStore, adapt
from frazil.stores.store import Store

SHARDING = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"
DIALECTS = pytest.mark.parametrize("dialect", ["draft", "draft-2021"])


def foreign(mask: int) -> dict[str, object]:
    return {"extension": MASK, "type": "xor", "configuration": {"mask": mask}}


def sharding(*counts: int) -> dict[str, object]:
    return {"extension": SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": list(counts)}}


def stored_array(
    stack: list[dict[str, object]], dialect: str = "draft", rank: int = 1, **more: object
) -> tuple[NodeLocation, ArrayMetadata]:
    store = MemoryStore()
    frazil.create_array(
        store,
        shape=(8,) * rank,
        dtype="i4",
        chunks=(2,) * rank,
        codecs=[],
        storage_transformers=stack,
        zarr_format=dialect,
        registry=REGISTRY,
        **more,  # type: ignore[arg-type]
    )
    location, metadata = locate(NodeLocation(store, registry=REGISTRY), "")
    assert isinstance(metadata, ArrayMetadata)
    return location, metadata


def layers(store: object) -> list[int]:
    """The stores from the array to the last one: the user's masks, and 0 for one of shards."""
    found = []
    while not isinstance(store, MemoryStore):
        if isinstance(store, Masked):
            found.append(store.mask)
        elif isinstance(store, ShardingStore):
            found.append(0)
        store = store.inner  # type: ignore[attr-defined]
    return found


@DIALECTS
def test_without_transformers_the_store_is_not_wrapped(dialect: str) -> None:
    location, metadata = stored_array([], dialect)
    assert transformed(location, metadata) is location.store
    location, metadata = stored_array([sharding(2), sharding(2)], dialect)
    assert transformed(location, metadata) is location.store, "the engine plans shards"
    assert [codec.name for codec in metadata.codecs] == ["sharding_indexed"]


@DIALECTS
@pytest.mark.rule("D79")
def test_transformers_are_stacked_in_the_order_of_the_document_above_those_of_the_user(dialect: str) -> None:
    location, metadata = stored_array([foreign(1), foreign(2)], dialect)
    assert layers(transformed(location, metadata)) == [1, 2]
    user: tuple[Callable[[Store], Store], ...] = (
        lambda store: adapt(Masked(store, 3)),
        lambda store: adapt(Masked(store, 4)),
    )
    location = location._replace(transformers=user)
    assert layers(transformed(location, metadata)) == [3, 4, 1, 2]


@DIALECTS
@pytest.mark.rule("D79", "D80")
@pytest.mark.parametrize(
    ("stack", "expected", "shards"),
    [
        ([foreign(1), sharding(2)], [1, 0], None),
        ([sharding(2), foreign(1)], [1], (4,)),
        ([sharding(2), foreign(1), sharding(2)], [1, 0], (4,)),
        ([foreign(1), sharding(2), foreign(2), sharding(2)], [1, 0, 2, 0], None),
    ],
)
def test_behind_a_foreign_one_shards_run_as_a_store(
    dialect: str, stack: list[dict[str, object]], expected: list[int], shards: tuple[int, ...] | None
) -> None:
    location, metadata = stored_array(stack, dialect)
    store = transformed(location, metadata)
    assert layers(store) == expected
    again = pickle.loads(pickle.dumps(store))
    assert layers(again) == expected
    array = frazil.open_array(location.store, "r+", registry=REGISTRY)
    assert array.shards == shards
    array[:] = range(8)
    array[3] = 30
    assert frazil.open_array(location.store, registry=REGISTRY)[:].tolist() == [0, 1, 2, 30, 4, 5, 6, 7]
    assert (
        len([key for key in location.store.list() if key.startswith("data")])
        == {1: 2, 2: 1}[len([entry for entry in stack if entry["extension"] == SHARDING])]
    )


@DIALECTS
@pytest.mark.rule("X26")
@pytest.mark.parametrize("counts", [(), (1,)])
def test_arrays_without_dimensions_are_written_and_read_through_transformers(
    dialect: str, counts: tuple[int, ...]
) -> None:
    location, _ = stored_array([foreign(1), sharding(*counts)], dialect, rank=0)
    array = frazil.open_array(location.store, "r+", registry=REGISTRY)
    array[...] = 7
    assert frazil.open_array(location.store, registry=REGISTRY)[()] == 7
    (key,) = (key for key in location.store.list() if key.startswith("data"))
    assert key.removeprefix("data/").removeprefix("root/") == ("c0" if dialect == "draft-2021" else "c")
    assert len(location.store.get(key) or b"") == 4 + 16


@DIALECTS
@given(data=st.data())
def test_any_stack_reads_written_values(dialect: str, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 2))
    entries = st.sampled_from([1, 2]).map(foreign) | st.tuples(*[st.integers(1, 3)] * rank).map(
        lambda counts: sharding(*counts)
    )
    location, metadata = stored_array(data.draw(st.lists(entries, max_size=4)), dialect, rank)
    array, expected = frazil.Array(location, metadata), np.zeros((8,) * rank, "i4")
    for turn in range(1, data.draw(st.integers(1, 4)) + 1):
        box = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, 8)] * 2)))) for _ in range(rank))
        array[box] = expected[box] = data.draw(st.sampled_from([0, turn]))
    assert array[...].tolist() == expected.tolist()
    again = frazil.open_array(location.store, registry=REGISTRY)
    assert again[...].tolist() == expected.tolist()
    stored = {tuple(at) for at in np.argwhere(expected)}
    assert array.nchunks_initialized >= len({tuple(i // 2 for i in at) for at in stored})


def test_writers_at_once() -> None:
    location, metadata = stored_array([foreign(1), sharding(4)])
    array = frazil.Array(location, metadata)

    def write(number: int) -> None:
        for _ in range(20):
            array[number] = number + 1

    in_threads(8, write)
    assert array[:].tolist() == list(range(1, 9))


@pytest.mark.parametrize("stack", [[foreign(1)], [foreign(1), sharding(2), foreign(2)]], ids=["one", "three"])
@pytest.mark.parametrize("shared", ["store", "group", "folder", "pickle"])
def test_writers_at_once_through_handles_of_their_own(
    stack: list[dict[str, object]], shared: str, tmp_path: Path
) -> None:
    """Also if the transformer does not support versions, and each handle has created its own."""
    registry = DEFAULT_REGISTRY.with_storage_transformer(MASK, plainly_masked)
    store = MemoryStore() if shared in ("store", "group") else tmp_path / "a.zr3"
    root = frazil.create_group(store, zarr_format="draft", registry=registry)
    root.create_array("x", shape=8, dtype="i4", chunks=8, codecs=[], storage_transformers=stack)

    def write(number: int) -> None:
        if shared in ("group", "pickle"):
            node = pickle.loads(pickle.dumps(root))["x"] if shared == "pickle" else root["x"]
            assert isinstance(node, frazil.Array)
            array = node
        else:
            array = frazil.open_array(store, "r+", path="x", registry=registry)
        for turn in range(1, 16):
            array[number] = turn

    in_threads(4, write)
    assert root["x"][:].tolist() == [15] * 4 + [0] * 4  # type: ignore[index]


def plainly_masked(entry: Extension, store: Store) -> Masked:
    return Masked(store, 1)


@pytest.mark.rule("D48")
def test_invalid_transformers_are_refused() -> None:
    location, metadata = stored_array([sharding(2), foreign(1), sharding(2)])
    unknown = location._replace(registry=DEFAULT_REGISTRY)
    with pytest.raises(UnknownExtensionError, match=MASK) as caught:
        transformed(unknown, metadata)
    assert caught.value.path == "storage_transformers[1]", "counted as in the document"
    for maker in (lambda entry, store: None, lambda entry, store: object()):
        registry = DEFAULT_REGISTRY.with_storage_transformer(MASK, maker)
        with pytest.raises(InvalidInputError, match=r"the storage transformer .* made .* not a store"):
            transformed(location._replace(registry=registry), metadata)
    with pytest.raises(InvalidInputError, match="a storage transformer made int"):
        transformed(location._replace(transformers=(lambda store: 1,)), metadata)


@pytest.mark.rule("K20", "D48")
def test_the_final_version_has_no_sharding_transformer() -> None:
    with pytest.raises(UnknownExtensionError, match=SHARDING):
        frazil.create_array(MemoryStore(), shape=8, dtype="i4", storage_transformers=[Extension(SHARDING)])


@DIALECTS
def test_the_url_of_shards_behind_others_may_be_any_of_theirs(dialect: str) -> None:
    other = {**sharding(2), "extension": "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0"}
    location, metadata = stored_array([foreign(1), other], dialect)
    assert layers(transformed(location, metadata)) == [1, 0]
