"""The registry as users extend it: each kind of extension, in documents and through the plan that all arrays share."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.codecs.user_codecs import REGISTRY, Delta, Flatten, Hexadecimal, Invert, Runs, Widen
from tests.conformance.shards import document, stored
from tests.slow_properties import search
from tests.strategies import basic_selections, same, values

import frazil
from frazil.codecs import DEFAULT_REGISTRY, Bytes, Codec, Crc32c, Gzip, Registry, ShardingIndexed, Transpose, Zstd
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError, UnknownExtensionError
from frazil.metadata.extensions import Extension, NamedExtension
from frazil.metadata.grids.chunk_grids import RegularGrid
from frazil.metadata.json_text import Json
from frazil.metadata.types.core import DataType
from frazil.metadata.types.fill_values import FillValue
from frazil.metadata.value import Value
from frazil.stores import MemoryStore
from frazil.stores.store import Store
from frazil.stores.values import Changed, Columns, Fetched, Page, Pieces, Version
from frazil.stores.wrappers import WrappedStore
from frazil.testing import CountingStore
from frazil.testing.checks import refusal

LITTLE = Bytes("little")


# --- codecs ------------------------------------------------------------------------------------------------------------------------------

# A codec of each kind within shards, before them, after them, and at all of these places at once.
CHAINS: dict[str, list[Codec]] = {
    "alone": [Delta(1), Hexadecimal(), Runs()],
    "between native codecs": [Transpose([1, 0]), Delta(), LITTLE, Invert(), Zstd(1), Crc32c()],
    "in shards": [ShardingIndexed([2, 3], [Delta(1), Hexadecimal(), Runs(), Gzip(1)])],
    "behind shards": [ShardingIndexed([2, 3], [LITTLE, Crc32c()]), Runs(), Invert()],
    "between codecs behind shards": [ShardingIndexed([2, 3], [LITTLE]), Zstd(1), Runs(), Gzip(1)],
    "before shards": [Delta(), ShardingIndexed([2, 3], [LITTLE, Zstd(1)])],
    "before and behind transposed shards": [Transpose([1, 0]), Delta(), ShardingIndexed([3, 2], [LITTLE]), Runs()],
    "before shards of another shape": [Flatten(), Delta(), ShardingIndexed([6], [LITTLE, Crc32c()])],
    "in the index": [ShardingIndexed([2, 3], [LITTLE], [Delta(2), LITTLE, Invert(), Crc32c()], "start")],
    "in nested shards": [
        ShardingIndexed([2, 6], [Transpose([1, 0]), ShardingIndexed([3, 2], [Hexadecimal(), Invert()]), Runs()])
    ],
    "between nested shards": [
        ShardingIndexed([2, 6], [Delta(1), ShardingIndexed([1, 3], [Delta(), LITTLE], [LITTLE], "start"), Crc32c()])
    ],
    "before nested shards": [Delta(), ShardingIndexed([2, 6], [ShardingIndexed([2, 3], [LITTLE, Runs()]), Runs()])],
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
@search(slowness=4)
@given(st.sampled_from(["int8", "uint16", "float64"]), st.integers(0, 2**32), st.integers(1, 2), st.data())
def test_codecs_of_users_go_through_the_same_plan(
    chain: list[Codec], dtype: str, seed: int, threads: int, data: st.DataObject
) -> None:
    shape = (11, 7)
    array = frazil.create_array(
        MemoryStore(), shape=shape, dtype=dtype, chunks=(4, 6), codecs=chain, fill_value=1, registry=REGISTRY,
        runtime=frazil.Runtime(threads=threads),
    )  # fmt: skip
    expected = np.ones(shape, array.dtype)
    for turn in range(2):
        selection = data.draw(basic_selections(shape))
        new = values(seed + turn, expected[selection].shape, array.dtype)
        array[selection], expected[selection] = new, new
    assert same(array[...], expected)
    again = frazil.open_array(array.store, registry=REGISTRY)
    assert [type(codec) for codec in again.codecs] == [type(codec) for codec in array.codecs]
    selection = data.draw(basic_selections(shape))
    assert same(again[selection], expected[selection])
    points = tuple(np.random.default_rng(seed).integers(0, n, 5) for n in shape)
    assert same(again.vindex[points], expected[points])


def test_untouched_inner_chunks_are_carried_over_as_bytes() -> None:
    """Also with Python codecs: a chunk that no codec could decode is unchanged, while its neighbour is written."""
    store = MemoryStore()
    array = frazil.create_array(
        store, shape=(4,), dtype="uint8", chunks=(2,), shards=(4,), codecs=[Hexadecimal()], registry=REGISTRY,
    )  # fmt: skip
    array[...] = [1, 2, 3, 4]
    store.set("c/0", (store.get("c/0") or b"").replace(b"1\n2", b"zzz"))
    array[2:] = 9
    assert (store.get("c/0") or b"").startswith(b"zzz9\n9")


def test_a_codec_of_the_user_replaces_ours_of_that_name() -> None:
    class Backwards(Bytes):
        __slots__ = ()

        def encode(self, array: NDArray[np.generic], spec: frazil.codecs.ChunkSpec) -> bytes:
            return super().encode(array, spec)[::-1]

        def decode(self, data: bytes, spec: frazil.codecs.ChunkSpec) -> NDArray[np.generic]:
            return super().decode(data[::-1], spec)

    store = MemoryStore()
    registry = DEFAULT_REGISTRY.with_codec(Backwards)
    array = frazil.create_array(store, shape=(4,), dtype="uint8", codecs=["bytes"], registry=registry)
    array[...] = [1, 2, 3, 4]
    assert store.get("c/0") == bytes([4, 3, 2, 1])
    assert frazil.open_array(store, registry=registry)[...].tolist() == [1, 2, 3, 4]
    assert frazil.open_array(store)[...].tolist() == [4, 3, 2, 1]


def test_a_codec_under_another_name() -> None:
    registry = DEFAULT_REGISTRY.with_codec(Zstd, "https://example.org/zstd")
    assert registry.parse_codecs([Extension("https://example.org/zstd", {"level": 3})]) == (Zstd(3),)


def test_errors_name_unregistered_extensions_and_their_path() -> None:
    with pytest.raises(UnknownExtensionError, match=r"test\.delta.*registered: bytes, zstd") as caught:
        frazil.create_array(MemoryStore(), shape=(4,), dtype="uint8", codecs=["test.delta", "bytes"])
    assert caught.value.path == "codecs[0]"
    store = MemoryStore()
    frazil.create_array(
        store, shape=(4,), dtype="uint8", codecs=[ShardingIndexed([2], [Bytes(), Runs()])], registry=REGISTRY
    )
    with pytest.raises(UnknownExtensionError) as caught:
        frazil.open_array(store)
    assert caught.value.path == "codecs[0].configuration.codecs[1]"


@pytest.mark.parametrize(
    "codecs, path",
    [
        ("zstd", "codecs"),
        ({"name": "zstd"}, "codecs"),
        (7, "codecs"),
        ([Bytes(), {"name": "zstd", "configuration": {"level": 99}}], "codecs[1].configuration.level"),
        ([Bytes(), {"name": "zstd", "configuration": {"quality": 1}}], "codecs[1].configuration.quality"),
        ([{"name": "transpose"}, Bytes()], "codecs[0].configuration.order"),
        ([7], "codecs[0]"),
    ],
)
def test_invalid_codecs_are_refused(codecs: object, path: str) -> None:
    with pytest.raises(MetadataError) as caught:
        frazil.create_array(MemoryStore(), shape=(4,), dtype="uint8", codecs=codecs)
    assert caught.value.path == path


def test_codecs_that_misbehave() -> None:
    """An error of a user's codec is reported as such, and nothing is stored."""

    class Wrong(Invert):
        __slots__ = ()

        def encode(self, data: bytes) -> bytes:
            raise RuntimeError("out of luck")

        def decode(self, data: bytes, limit: int) -> bytes:
            return bytes(10**6)

    class Misshapen(Delta):
        __slots__ = ()

        def encode(self, array: NDArray[np.generic], spec: frazil.codecs.ChunkSpec) -> NDArray[np.generic]:
            return array[:1]

    for codec, text in ((Wrong(), "out of luck"), (Misshapen(), "instead of")):
        store = MemoryStore()
        chain = [codec, Bytes()] if isinstance(codec, Delta) else [Bytes(), codec]
        registry = REGISTRY.with_codec(type(codec))
        array = frazil.create_array(store, shape=(4,), dtype="uint8", codecs=chain, registry=registry)
        with pytest.raises(InvalidInputError, match=text):
            array[...] = 1
        assert store.list() == ["zarr.json"]
    store, registry = MemoryStore(), REGISTRY.with_codec(Wrong)
    array = frazil.create_array(store, shape=(4,), dtype="uint8", codecs=[Bytes(), Wrong()], registry=registry)
    store.set("c/0", b"1234")
    with pytest.raises(ChunkDecodeError, match="1000000 bytes"):
        array[...]


def test_a_codec_is_of_one_of_three_kinds() -> None:
    class Neither(Codec):
        __slots__ = ()
        name = "test.neither"

        def configuration(self) -> None:
            return None

    with pytest.raises(InvalidInputError, match="ArrayToArray, ArrayToBytes or BytesToBytes"):
        DEFAULT_REGISTRY.with_codec(Neither)


def test_registries_are_values() -> None:
    assert DEFAULT_REGISTRY.with_codec(Runs) == DEFAULT_REGISTRY.with_codec(Runs) != DEFAULT_REGISTRY
    assert isinstance(DEFAULT_REGISTRY, Registry)
    assert Widen not in [codec for _, codec in DEFAULT_REGISTRY.codecs], "extending makes a new one"


# --- a data type -------------------------------------------------------------------------------------------------------------------------


class Sample(DataType):
    """A time and a value: a structure whose two fields have different byte orders."""

    __slots__ = ()

    def parse_bytes(self, value: Json, path: str) -> bytes:
        if not isinstance(value, dict) or set(value) != {"t", "v"}:
            raise MetadataError(f"{path} must have t and v, found {value!r}", path=path)
        return struct.pack("=if", value["t"], value["v"])

    def emit_bytes(self, data: bytes) -> Json:
        t, v = struct.unpack("=if", data)
        return {"t": t, "v": v}

    def user_bytes(self, value: object, path: str) -> bytes:
        return self.parse_bytes(value, path)


SAMPLE = Sample("test.sample", np.dtype([("t", "i4"), ("v", "f4")]), ((0, 4, 1), (4, 4, 1)))


class Samples(Value):
    """The family of that one type."""

    __slots__ = ()
    names: ClassVar[tuple[str, ...]] = ("test.sample",)

    def matches(self, name: str) -> bool:
        return name == SAMPLE.name

    def parse(self, extension: Extension, path: str) -> DataType:
        return SAMPLE

    def from_numpy(self, dtype: np.dtype[np.generic]) -> DataType | None:
        return SAMPLE if dtype == SAMPLE.dtype else None


@pytest.mark.rule("trap 5")
@pytest.mark.parametrize("shards", [None, (4,)])
@pytest.mark.parametrize("endian", ["little", "big"])
def test_a_data_type_of_the_user(endian: str, shards: tuple[int, ...] | None) -> None:
    store = MemoryStore()
    registry = DEFAULT_REGISTRY.with_data_type(Samples())
    array = frazil.create_array(
        store, shape=(6,), dtype=SAMPLE.dtype, chunks=(2,), shards=shards, codecs=[Bytes(endian), Zstd(1)],
        fill_value={"t": 0, "v": 0.0}, registry=registry,
    )  # fmt: skip
    expected = np.zeros(6, SAMPLE.dtype)
    expected[0] = (7, -1.5)
    array[0] = expected[0]
    assert same(array[...], expected)
    expected[3] = (0, -0.0)  # equal to the fill value, but not the same bits
    array[3] = expected[3]
    again = frazil.open_array(store, registry=registry)
    assert same(again[...], expected)
    assert again.nchunks_initialized == 2
    assert same(again.fill_value, FillValue(bytes(8), SAMPLE.dtype).scalar)
    with pytest.raises(UnknownExtensionError, match=r"test\.sample"):
        frazil.open_array(store)


@pytest.mark.rule("trap 33")
def test_bytes_of_a_data_type_of_the_user() -> None:
    store = MemoryStore()
    registry = DEFAULT_REGISTRY.with_data_type(Samples())
    array = frazil.create_array(store, shape=(1,), dtype="test.sample", codecs=[Bytes("big")], registry=registry)
    array[0] = np.array((1, 2.5), SAMPLE.dtype)
    assert store.get("c/0") == struct.pack(">if", 1, 2.5)


# --- a chunk key encoding ----------------------------------------------------------------------------------------------------------------


class HexadecimalKeys(Value):
    """`x1f_0a`"""

    __slots__ = ()

    def extension(self) -> Extension:
        return Extension("test.hexadecimal")

    def encode_one(self, coordinates: tuple[int, ...], prefix: str = "") -> str:
        return prefix + "x" + "_".join(f"{at:02x}" for at in coordinates)

    def encode_all(self, coordinates: NDArray[np.int64], prefix: str = "") -> list[str]:
        return [self.encode_one(tuple(row), prefix) for row in coordinates.tolist()]

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        try:
            coordinates = tuple(int(part, 16) for part in key[1:].split("_")) if ndim else ()
        except ValueError:
            return None
        return coordinates if self.encode_one(coordinates) == key and len(coordinates) == ndim else None


def test_a_chunk_key_encoding_of_the_user() -> None:
    keys = NamedExtension("test.hexadecimal", lambda extension, path: HexadecimalKeys())
    registry = DEFAULT_REGISTRY.with_chunk_key_encoding(keys)
    store = MemoryStore()
    array = frazil.create_array(
        store, shape=(40, 3), dtype="uint8", chunks=(2, 2), chunk_key_encoding="test.hexadecimal", registry=registry
    )
    expected = values(3, (40, 3), np.dtype("u1")) | np.uint8(1)
    array[...] = expected
    assert store.list()[:3] == ["x00_00", "x00_01", "x01_00"]
    again = frazil.open_array(store, mode="r+", registry=registry)
    assert same(again[...], expected)
    assert again.nchunks_initialized == again.nchunks == 40
    again.resize((21, 3))
    assert len([key for key in store.list() if key != "zarr.json"]) == 22
    with pytest.raises(UnknownExtensionError) as caught:
        frazil.open_array(store)
    assert caught.value.path == "chunk_key_encoding"


# --- a chunk grid ------------------------------------------------------------------------------------------------------------------------


class SquareGrid(RegularGrid):
    """Chunks of one length along all dimensions. Documents contain only that length."""

    __slots__ = ()

    def extension(self) -> Extension:
        return Extension("test.square", {"side": self.chunk_shape[0]})


@pytest.mark.parametrize("codecs", [[{"name": "bytes"}], [ShardingIndexed([2, 2]).extension().to_json()]])
def test_a_chunk_grid_of_the_user(codecs: list[object]) -> None:
    """Chunks of one shape; only the form in documents is the user's."""
    grid = NamedExtension("test.square", lambda extension, path: SquareGrid([extension.configuration["side"]] * 2))
    registry = DEFAULT_REGISTRY.with_chunk_grid(grid)
    metadata = document([5, 6], [4, 4], codecs)
    metadata["chunk_grid"] = {"name": "test.square", "configuration": {"side": 4}}
    store = stored(metadata)
    array = frazil.open_array(store, mode="r+", registry=registry)
    expected = values(1, (5, 6), np.dtype("u1"))
    array[...] = expected
    array.resize((7, 6))
    array.attrs["a"] = 1
    again = frazil.open_array(store, registry=registry)
    assert same(again[:5], expected)
    assert (again.shards or again.chunks) == (4, 4)
    assert again.metadata.chunk_grid.extension() == grid_entry(store)
    with pytest.raises(UnknownExtensionError) as caught:
        frazil.open_array(store)
    assert caught.value.path == "chunk_grid"


def grid_entry(store: MemoryStore) -> Extension:
    entry = json.loads(store.get("zarr.json") or b"")["chunk_grid"]
    return Extension(entry["name"], entry["configuration"])


# --- a storage transformer ---------------------------------------------------------------------------------------------------------------


class Renamed(WrappedStore):
    """Chunks under other keys: `c/0/1` is kept under `c/0/1<suffix>`."""

    __slots__ = ("suffix",)

    def __init__(self, inner: Store, suffix: str) -> None:
        super().__init__(inner)
        self.suffix = suffix

    def _named(self, names: Sequence[str]) -> list[str]:
        return [name + self.suffix for name in names]

    def fetch(
        self,
        names: Sequence[str],
        spans: Columns,
        *,
        expect: Sequence[Version | None] | None = None,
        continue_from: Fetched | None = None,
        single_read: bool = False,
    ) -> Fetched:
        return self.inner.fetch(
            self._named(names), spans, expect=expect, continue_from=continue_from, single_read=single_read
        )

    def put_many(
        self, names: Sequence[str], pieces: Pieces, expect: Sequence[Version | None]
    ) -> list[Version | Changed]:
        return self.inner.put_many(self._named(names), pieces, expect)

    def erase_many(self, names: Sequence[str], expect: Sequence[Version | None]) -> list[Changed | None]:
        return self.inner.erase_many(self._named(names), expect)

    def list_page(self, prefix: str = "", after: str = "", **named: object) -> Page:  # type: ignore[override]
        page = self.inner.list_page(prefix, after + self.suffix if after else "", **named)  # type: ignore[arg-type]
        return Page([key.removesuffix(self.suffix) for key in page.keys if key.endswith(self.suffix)], page.next)


def renamed(extension: Extension, store: object) -> Store:
    assert isinstance(store, Store)
    return Renamed(store, str(extension.configuration.get("suffix", ".chunk")))


@pytest.mark.parametrize("shards", [None, (4,)])
def test_storage_transformers_of_the_user(shards: tuple[int, ...] | None) -> None:
    registry = DEFAULT_REGISTRY.with_storage_transformer("test.renamed", renamed)
    store = CountingStore(MemoryStore())
    array = frazil.create_array(
        store, shape=(8,), dtype="int16", chunks=(2,), shards=shards, registry=registry,
        storage_transformers=["test.renamed", {"name": "test.renamed", "configuration": {"suffix": ".b"}}],
    )  # fmt: skip
    array[...] = np.arange(1, 9)
    array[3] = 0
    keys = [key for key in store.list() if key != "zarr.json"]
    assert len(keys) == (4 if shards is None else 2)
    assert all(key.endswith(".chunk.b") for key in keys), "the first stands at the array's side"
    again = frazil.open_array(store, registry=registry)
    assert again[...].tolist() == [1, 2, 3, 0, 5, 6, 7, 8]
    assert again.nchunks_initialized == 4
    for registry, text in ((DEFAULT_REGISTRY, "registered: none"),):
        with pytest.raises(UnknownExtensionError, match=text) as caught:
            frazil.open_array(store, registry=registry)
        assert caught.value.path is not None
        assert caught.value.path.startswith("storage_transformers[")
    with pytest.raises(UnknownExtensionError) as caught:
        frazil.create_array(MemoryStore(), shape=1, dtype="u1", storage_transformers=["test.renamed"])
    assert caught.value.path == "storage_transformers[0]"


def test_an_unknown_codec_in_place_of_a_list_is_an_error_with_a_hint() -> None:
    for name, hint in (("zsdt", "did you mean 'zstd'?"), ("atuo", "did you mean 'auto'?"), ("nothing", "auto")):
        error = refusal(
            MetadataError, lambda name=name: frazil.create_array(MemoryStore(), shape=4, dtype="u1", codecs=name)
        )  # type: ignore[misc]
        assert hint in (error.hint or "")


@pytest.mark.parametrize(
    "name", ["vlen", "vlen_v2", "vlen_array", "vlen_bytes", "vlen_utf8", "zfp", "pcodec", "optional"]
)
def test_addresses_that_zarrs_wrote_as_names_are_known(name: str) -> None:
    kind = DEFAULT_REGISTRY.codec_kind(f"https://codec.zarrs.dev/array_to_bytes/{name}")
    assert kind == DEFAULT_REGISTRY.codec_kind("bytes")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("zarrs.bitround", "bitround"),
        ("zfpy", "numcodecs.zfpy"),
        ("numcodecs.vlen-utf8", "vlen-utf8"),
        ("numcodecs.vlen-array", "vlen-array"),
    ],
)
def test_other_names_that_zarrs_reads(name: str, other: str) -> None:
    codecs = dict(DEFAULT_REGISTRY.codecs)
    assert codecs[name] is codecs[other]
