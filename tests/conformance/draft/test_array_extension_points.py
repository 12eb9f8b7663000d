"""The extension points of arrays (draft of 2022, Extensions): generic extensions, data type, chunk grid, memory layout, storage transformer, each registered by
a user and used, and what happens to unknown ones. The extensions themselves are in user_extensions.py."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import frazil
from frazil import Registry
from frazil.errors import (
    FallbackWarning,
    InvalidInputError,
    MetadataError,
    UnknownExtensionError,
)
from frazil.extensions import ChunkGrid, Extension, NamedExtension
from frazil.stores import MemoryStore, Store
from tests.conformance.draft.points import (
    SHARDING,
    UNKNOWN,
    VALUES,
    document,
    got,
    one,
    refused,
    works,
)
from tests.conformance.draft.user_extensions import (
    AXES,
    FIXED,
    MASK,
    MORTON,
    REGISTRY,
    TILES,
    FixedPoint,
    masked,
    morton_order,
)


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else frazil.stores.LocalStore(tmp_path / "a.zr3")


# --- generic extensions of arrays -------------------------------------------------------------------------------------------------------


NAMED = {"extension": AXES, "must_understand": False, "configuration": {"names": ["y", "x"]}}


@pytest.mark.rule("D45")
def test_a_generic_extension_of_an_array(store: Store) -> None:
    one(store, extensions=[NAMED])
    array = works(store)
    assert array.dimension_names == ("y", "x")
    assert got(store, "meta/x.array.json") == document(shape=[9, 8], extensions=[NAMED], attributes={"units": "m"})
    unnamed = frazil.open_array(store, path="x")
    assert unnamed.dimension_names is None
    assert unnamed[5, 3] == 43
    made = frazil.open_group(store, "r+", registry=REGISTRY).create_array(
        "y", shape=(6, 8), dtype="i4", document={"extensions": [NAMED]}
    )
    assert made.dimension_names == ("y", "x")
    assert got(store, "meta/y.array.json")["extensions"] == [NAMED]


@pytest.mark.rule("D45", "D38")
def test_an_unknown_extension_of_an_array(store: Store) -> None:
    ignored = {"extension": UNKNOWN, "must_understand": False, "configuration": {"foo": "bar"}}
    one(store, extensions=[ignored])
    works(store)
    assert got(store, "meta/x.array.json")["extensions"] == [ignored], "and it is kept"
    one(store, extensions=[ignored, {**NAMED, "must_understand": True}])
    error = refused(store)
    assert (error.key, error.path) == ("meta/x.array.json", "extensions[1]")
    assert "must_understand is true" in str(error)
    assert "with_array_extension" in (error.hint or "")


@pytest.mark.rule("D45")
def test_wrong_results_of_array_extensions_are_refused() -> None:
    store = MemoryStore()
    one(store, extensions=[NAMED])
    registry = REGISTRY.with_array_extension(AXES, lambda entry, metadata: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(MetadataError, match="made NoneType instead of ArrayMetadata") as caught:
        frazil.open_array(store, path="x", registry=registry)
    assert caught.value.path == "extensions[0]"


# --- data type --------------------------------------------------------------------------------------------------------------------------


FIXED_2 = {"extension": FIXED, "type": "fixed32", "places": 2, "fallback": "int32"}


@pytest.mark.rule("D15", "D43", "D57")
def test_a_data_type(store: Store) -> None:
    one(store, data_type=FIXED_2, fill_value="-1.25")
    array = frazil.open_array(store, "r+", path="x", registry=REGISTRY)
    assert array.metadata.data_type == FixedPoint(2)
    assert array[0, 0] == array.fill_value == -125
    array[0] = 250
    array.attrs["a"] = 1
    assert pickle.loads(pickle.dumps(array)).metadata == array.metadata
    stored = document(data_type=FIXED_2, fill_value="-1.25", attributes={"a": 1})
    assert got(store, "meta/x.array.json") == stored
    made = frazil.create_array(
        store, path="y", shape=4, dtype=FixedPoint(3), fill_value=0.5, shards=4, chunks=2, registry=REGISTRY
    )
    made[0] = 7
    assert made[...].tolist() == [7, 500, 500, 500]
    stored = got(store, "meta/y.array.json")
    assert stored["data_type"] == {**FIXED_2, "places": 3}
    assert stored["fill_value"] == "0.500"
    again = frazil.open_array(store, path="y", registry=REGISTRY.without_fallbacks())
    assert again.metadata.data_type == FixedPoint(3)
    other = {**FIXED_2, "places": 3, "fallback": ["<i4", "r32"]}
    frazil.create_array(store, path="z", shape=4, dtype=FixedPoint(3), document={"data_type": other}, registry=REGISTRY)
    assert got(store, "meta/z.array.json")["data_type"] == other, "a user may choose another fallback"


@pytest.mark.rule("D15", "D16")
def test_an_unknown_data_type_with_a_fallback(store: Store) -> None:
    one(store, data_type=FIXED_2, fill_value=-125)
    with pytest.warns(FallbackWarning, match=FIXED):
        array = frazil.open_array(store, "r+", path="x")
    assert array.dtype == np.int32
    assert array[0, 0] == -125
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        array.attrs["a"] = 1
        array[0] = 7
    assert got(store, "meta/x.array.json")["data_type"] == FIXED_2, "and it is kept"
    with pytest.raises(UnknownExtensionError, match=FIXED) as caught:
        frazil.open_array(store, path="x", registry=frazil.codecs.DEFAULT_REGISTRY.without_fallbacks())
    assert "without_fallbacks" in (caught.value.hint or "")


@pytest.mark.rule("D15", "D16")
@pytest.mark.parametrize("fallback", [None, [], [{"extension": UNKNOWN, "type": 1}], "int31", "absent"])
def test_an_unknown_data_type_without_a_fallback(fallback: object) -> None:
    store = MemoryStore()
    one(
        store,
        data_type={"extension": FIXED, "type": "fixed32", **({} if fallback == "absent" else {"fallback": fallback})},
    )
    error = refused(store)
    assert (error.key, error.path) == ("meta/x.array.json", "data_type")
    assert FIXED in str(error)


# --- chunk grid -------------------------------------------------------------------------------------------------------------------------


TILED = {"extension": TILES, "type": "tiles", "tile": [4, 4]}


@pytest.mark.rule("D44")
def test_a_chunk_grid_with_keys_of_its_own(store: Store) -> None:
    one(store, chunk_grid=TILED)
    array = works(store)
    assert array.chunks == (4, 4)
    assert [key for key in store.list() if key.startswith("data")] == [
        f"data/x/tile-{at}" for at in ("0-0", "0-1", "1-0")
    ]
    assert got(store, "meta/x.array.json")["chunk_grid"] == TILED
    frazil.create_array(
        store, path="y", shape=(6, 8), dtype="i4", chunks=(4, 4), document={"chunk_grid": TILED}, registry=REGISTRY
    )
    assert works(store, "y").metadata.document == {
        **got(store, "meta/y.array.json"),
        "chunk_grid": TILED,
    }


@pytest.mark.rule("D44")
def test_shards_of_a_chunk_grid(store: Store) -> None:
    transformer = {"extension": SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": [2, 1]}}
    one(store, chunk_grid=TILED, storage_transformers=[transformer])
    array = frazil.open_array(store, "r+", path="x", registry=REGISTRY)
    array[...] = VALUES
    assert (array.chunks, array.shards) == ((4, 4), (8, 4))
    assert [key for key in store.list() if key.startswith("data")] == ["data/x/tile-0-0", "data/x/tile-0-1"]
    assert frazil.open_array(store, path="x", registry=REGISTRY)[...].tolist() == VALUES.tolist()


PLAIN_TILES = "https://example.org/zarr/plain-tiles/1.0"


class PlainTiles:
    """A chunk grid that implements the port without a base class: {"extension": PLAIN_TILES, "type": "tiles", "tile": [4, 4]}"""

    def __init__(self, tile: Sequence[int], chunks: int | None = None) -> None:
        self.chunk_shape, self.chunks = tuple(tile), chunks

    def extension(self) -> Extension:
        return Extension(PLAIN_TILES, {"type": "tiles", "tile": list(self.chunk_shape)})

    def check(self, shape: tuple[int, ...], path: str) -> None:
        if len(shape) != len(self.chunk_shape):
            raise MetadataError("tiles have as many dimensions as the array", path=path)

    def grid_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        counts = (-(-n // tile) for n, tile in zip(shape, self.chunk_shape, strict=True))
        return tuple(count if self.chunks is None else self.chunks for count in counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainTiles) and self.chunk_shape == other.chunk_shape

    __hash__ = None  # type: ignore[assignment] # a grid need not have one


def plain_tiles(extension: Extension, path: str) -> PlainTiles:
    return PlainTiles(extension.configuration["tile"])  # type: ignore[arg-type] # of a test


def with_grid(make: Callable[[Extension, str], ChunkGrid]) -> Registry:
    return REGISTRY.with_chunk_grid(NamedExtension[ChunkGrid](PLAIN_TILES, make))


@pytest.mark.rule("D44")
@pytest.mark.parametrize("sharded", [False, True])
def test_a_chunk_grid_that_derives_from_no_other(store: Store, sharded: bool) -> None:
    transformer = {"extension": SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": [2, 1]}}
    grid = {"extension": PLAIN_TILES, "type": "tiles", "tile": [4, 4]}
    one(store, chunk_grid=grid, storage_transformers=[transformer] if sharded else [])
    registry = with_grid(plain_tiles)
    array = frazil.open_array(store, "r+", path="x", registry=registry)
    array[...] = VALUES
    array.resize((9, 8))
    array.attrs["units"] = "m"
    assert got(store, "meta/x.array.json")["chunk_grid"] == grid
    again = pickle.loads(pickle.dumps(frazil.open_array(store, path="x", registry=registry)))
    assert again[:6].tolist() == VALUES.tolist()
    assert again[1:3, 2:7].tolist() == VALUES[1:3, 2:7].tolist()
    assert not again[6:].any()
    assert (again.chunks, again.metadata) == ((4, 4), array.metadata)
    assert frazil.open_group(store, registry=registry)["x"][5, 7] == 47  # type: ignore[index]
    assert again.nchunks_initialized == 4


@pytest.mark.rule("D44")
def test_a_chunk_grid_of_unequal_chunks_is_refused_by_name(store: Store) -> None:
    one(store, chunk_grid={"extension": PLAIN_TILES, "type": "tiles", "tile": [4, 4]})

    class Irregular(PlainTiles):
        chunk_shape = None  # type: ignore[assignment]

        def __init__(self) -> None:
            pass

        def check(self, shape: tuple[int, ...], path: str) -> None: ...

    for make, words in (
        (lambda *_: PlainTiles((4, 4), chunks=5), "has \\[5, 5\\] chunks"),
        (lambda *_: PlainTiles((4, 0)), "at least 1"),
        (lambda *_: Irregular(), "no chunk_shape"),
    ):
        with pytest.raises(MetadataError, match=words) as caught:
            frazil.open_array(store, path="x", registry=with_grid(make))
        assert (caught.value.path or "").startswith("chunk_grid")


@pytest.mark.rule("D44")
def test_an_unknown_chunk_grid() -> None:
    store = MemoryStore()
    one(store, chunk_grid=TILED)
    error = refused(store)
    assert (error.key, error.path) == ("meta/x.array.json", "chunk_grid")
    assert TILES in str(error)
    assert "with_chunk_grid" in (error.hint or "")
    for grid in ({"extension": TILES, "tile": [4, 4]}, {"extension": "tiles", "type": "tiles"}, {"type": "tiles"}):
        one(store, chunk_grid=grid)
        assert (refused(store, MetadataError).path or "").startswith("chunk_grid.")


# --- memory layout ----------------------------------------------------------------------------------------------------------------------


Z_ORDER = {"extension": MORTON, "type": "z"}


@pytest.mark.rule("D26")
@pytest.mark.parametrize("sharded", [False, True])
def test_a_memory_layout(store: Store, sharded: bool) -> None:
    transformer = {"extension": SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": [2, 2]}}
    one(store, chunk_memory_layout=Z_ORDER, storage_transformers=[transformer] if sharded else [])
    works(store)
    assert got(store, "meta/x.array.json")["chunk_memory_layout"] == Z_ORDER
    array = frazil.create_array(
        store,
        path="y",
        shape=(6, 8),
        dtype="i4",
        chunks=(4, 4),
        codecs=[],
        shards=(8, 8) if sharded else None,
        document={"chunk_memory_layout": Z_ORDER},
        registry=REGISTRY,
    )
    array[...] = VALUES
    chunk = (store.get("data/y/c0/0") or b"")[: 16 * 4]
    if not sharded:
        assert np.frombuffer(chunk, "<i4").tolist() == VALUES[:4, :4].reshape(-1)[morton_order(4)].tolist()
    assert frazil.open_array(store, path="y", registry=REGISTRY)[...].tolist() == VALUES.tolist()
    assert got(store, "meta/y.array.json")["chunk_memory_layout"] == Z_ORDER


@pytest.mark.rule("D26")
def test_an_unknown_memory_layout() -> None:
    store = MemoryStore()
    one(store, chunk_memory_layout=Z_ORDER)
    error = refused(store)
    assert (error.key, error.path) == ("meta/x.array.json", "chunk_memory_layout")
    assert MORTON in str(error)
    assert "with_memory_layout" in (error.hint or "")
    for layout in ({"extension": MORTON}, {"type": "z"}, {"extension": "z", "type": "z"}, "Z", None):
        one(store, chunk_memory_layout=layout)
        assert (refused(store, MetadataError).path or "").startswith("chunk_memory_layout")
    one(store, chunk_memory_layout=Z_ORDER, chunk_grid={"type": "regular", "chunk_shape": [4, 8], "separator": "/"})
    with pytest.raises(MetadataError, match="no squares"):
        frazil.open_array(store, path="x", registry=REGISTRY)


# --- storage transformer ----------------------------------------------------------------------------------------------------------------


MASKED = {"extension": MASK, "type": "xor", "configuration": {"mask": 90}}


def sharding(*counts: int) -> dict[str, object]:
    return {"extension": SHARDING, "type": "indexed", "configuration": {"chunks_per_shard": list(counts)}}


@pytest.mark.rule("D48", "D77", "D79")
@pytest.mark.parametrize(
    "stack",
    [
        [MASKED],
        [MASKED, {**MASKED, "configuration": {"mask": 1}}],
        [MASKED, sharding(2, 2)],
        [sharding(2, 2), MASKED],
        [sharding(1, 2), MASKED, sharding(2, 1)],
        [sharding(2, 1), sharding(1, 2), MASKED],
        [MASKED, sharding(2, 1), sharding(1, 2)],
    ],
    ids=lambda stack: "-".join("S" if entry["extension"] == SHARDING else "M" for entry in stack),
)
def test_storage_transformers(store: Store, stack: list[dict[str, object]]) -> None:
    one(store, storage_transformers=stack)
    works(store)
    assert got(store, "meta/x.array.json")["storage_transformers"] == stack
    made = frazil.create_array(
        store, path="y", shape=(6, 8), dtype="i4", chunks=(4, 4), storage_transformers=stack, registry=REGISTRY
    )
    assert got(store, "meta/y.array.json")["storage_transformers"] == stack
    assert made.metadata == frazil.open_array(store, path="y", registry=REGISTRY).metadata
    works(store, "y")


@pytest.mark.rule("D79")
def test_the_order_of_storage_transformers() -> None:
    """From the array to the store: chunks are masked and then put into shards, or shards are masked whole."""
    stored: dict[bool, bytes] = {}
    for inside in (True, False):
        store = MemoryStore()
        one(store, storage_transformers=[MASKED, sharding(2, 2)] if inside else [sharding(2, 2), MASKED])
        frazil.open_array(store, "r+", path="x", registry=REGISTRY)[...] = VALUES
        assert [key for key in store.list() if key.startswith("data")] == ["data/x/c0/0"]
        stored[inside] = store.get("data/x/c0/0") or b""
    index = np.frombuffer(stored[True][-64:], "<u8").reshape(4, 2)
    assert index[:, 1].tolist() == [64] * 4, "the index of shards with masked chunks is not masked"
    assert np.frombuffer(masked(stored[False], 90)[-64:], "<u8").reshape(4, 2)[:, 1].tolist() == [64] * 4
    first = int(index[0, 0])
    assert (
        np.frombuffer(masked(stored[True][first : first + 64], 90), "<i4").tolist() == VALUES[:4, :4].ravel().tolist()
    )


@pytest.mark.rule("D48")
def test_an_unknown_storage_transformer() -> None:
    for stack, at in (([MASKED], 0), ([sharding(2, 2), MASKED], 1), ([sharding(2, 2), sharding(1, 1), MASKED], 2)):
        store = MemoryStore()
        one(store, storage_transformers=stack)
        error = refused(store)
        assert (error.key, error.path) == ("meta/x.array.json", f"storage_transformers[{at}]")
        assert MASK in str(error)
        assert "with_storage_transformer" in (error.hint or "")
        with pytest.raises(UnknownExtensionError):
            frazil.create_array(store, path="y", shape=(2, 2), dtype="u1", storage_transformers=stack)
        assert store.get("meta/y.array.json") is None


@pytest.mark.rule("D48", "D80", "D82")
@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (MASK, "[0]"),
        ({"type": "xor"}, "[0].extension"),
        ({"extension": "mask", "type": "xor"}, "[0].extension"),
        ({"extension": MASK}, "[0].type"),
        ({"extension": MASK, "type": "xor", "configuration": None}, "[0].configuration"),
        ({"extension": MASK, "type": "xor", "must_understand": False}, "[0].must_understand"),
        ({**sharding(2, 2), "type": "other"}, "[0].type"),
        (sharding(2), "[0].configuration.chunks_per_shard"),
        (sharding(2, 0), "[0].configuration.chunks_per_shard[1]"),
    ],
)
def test_transformers_of_another_form(entry: object, path: str) -> None:
    store = MemoryStore()
    one(store, storage_transformers=[entry])
    assert refused(store, MetadataError).path == f"storage_transformers{path}"
    one(store, storage_transformers=[MASKED, entry])
    with pytest.raises(MetadataError) as caught:
        frazil.open_array(store, path="x", registry=REGISTRY)
    assert caught.value.path == f"storage_transformers[1]{path[3:]}"


@pytest.mark.rule("D48")
def test_wrong_results_of_storage_transformers_are_refused() -> None:
    store = MemoryStore()
    one(store, storage_transformers=[MASKED])
    with pytest.raises(InvalidInputError, match="made int, which is not a store"):
        frazil.open_array(store, path="x", registry=REGISTRY.with_storage_transformer(MASK, lambda entry, store: 1))


# --- requesting them --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", ["draft", "draft-2021"])
def test_all_extension_points_work_together(zarr_format: str) -> None:
    root = frazil.create_group(MemoryStore(), zarr_format=zarr_format, path="in/here", registry=REGISTRY)
    requested = {"extensions": [NAMED], "chunk_grid": TILED, "chunk_memory_layout": Z_ORDER}
    array = pickle.loads(pickle.dumps(root)).create_array(
        "x",
        shape=(6, 8),
        dtype=FixedPoint(1),
        chunks=(4, 4),
        storage_transformers=[MASKED, sharding(2, 2), MASKED],
        document=requested,
    )
    array[...] = VALUES
    assert pickle.loads(pickle.dumps(array))[...].tolist() == VALUES.tolist()
    assert (array.dimension_names, array.chunks, array.shards) == (("y", "x"), (4, 4), None)
    stored = array.metadata.document
    assert stored is not None
    assert {name: stored[name] for name in requested} == requested


@pytest.mark.parametrize(
    ("zarr_format", "arguments", "words"),
    [
        (3, {"document": {}}, "only for the draft of 2022"),
        ("draft", {"document": 5}, "must be an object"),
        ("draft", {"document": {"shape": [1]}}, "shape cannot be given"),
        ("draft", {"document": {"extensions": {1}}}, "must be JSON"),
        ("draft", {"document": {"extensions": [NAMED]}, "shape": (4,)}, "2 names|one for each dimension"),
        ("draft", {"document": {"chunk_memory_layout": Z_ORDER}, "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}]}, "transposition"),
        ("draft", {"document": {"chunk_grid": {"extension": UNKNOWN, "type": "x"}}}, "is not registered"),
    ],
)  # fmt: skip
def test_arguments_that_are_refused(zarr_format: object, arguments: dict[str, object], words: str) -> None:
    store = MemoryStore()
    given: dict[str, object] = {"shape": (4, 4), "dtype": "i4", "registry": REGISTRY, **arguments}
    with pytest.raises(InvalidInputError, match=words):
        frazil.create_array(store, zarr_format=zarr_format, **given)  # type: ignore[arg-type]
    assert store.list() == []
