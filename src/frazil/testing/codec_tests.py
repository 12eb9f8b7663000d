"""The requirements of every codec, as a class of tests that a codec's own test class inherits:

    class TestMyCodec(CodecTests):
        registry = frazil.codecs.DEFAULT_REGISTRY.with_codec(MyCodec)

        def make_cases(self) -> Iterable[tuple[Codec, ChunkSpec]]:
            return [(MyCodec(level=1), chunk_spec("uint16", (4, 3)))]

pytest finds the tests by their names. Other runners call the `test_` methods of a new instance."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from types import EllipsisType
from typing import ClassVar

import numpy as np

from frazil.array.array import Array as StoredArray
from frazil.array.creation.array_creation import new_array
from frazil.array.hierarchy.nodes import NodeLocation
from frazil.codecs import ArrayToArray, ArrayToBytes, Bytes, BytesToBytes, ChunkSpec, Codec, Crc32c
from frazil.codecs.codec import Array
from frazil.codecs.registry import DEFAULT_REGISTRY, Registry
from frazil.errors import DataError, InvalidInputError, MetadataError
from frazil.metadata.extensions import Extension, parse_extensions
from frazil.metadata.registry import CORE_EXTENSIONS
from frazil.stores.memory import MemoryStore
from frazil.testing.checks import refusal


def chunk_spec(dtype: object, shape: tuple[int, ...], fill: object = None) -> ChunkSpec:
    """A chunk of a core data type."""
    data_type = CORE_EXTENSIONS.data_type_from_user(dtype)
    return ChunkSpec(shape, data_type.dtype, data_type.swaps, data_type.fill_from_user(fill).data)


def random_chunk(spec: ChunkSpec, seed: int = 0) -> Array:
    """A chunk of random bits (including NaN payloads and negative zeros), with a third of its elements the fill value."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (*spec.shape, spec.dtype.itemsize), np.uint8)
    if spec.dtype.kind == "b":
        raw &= 1
    raw[rng.random(spec.shape) < 0.3] = np.frombuffer(spec.fill, np.uint8)
    return np.ascontiguousarray(raw).view(spec.dtype).reshape(spec.shape)


class CodecTests:
    """Subclasses define make_cases. registry: a registry with the codec."""

    registry: ClassVar[Registry] = DEFAULT_REGISTRY

    def make_cases(self) -> Iterable[tuple[Codec, ChunkSpec]]:
        """Codecs in the form of documents (with all arguments given), each with a chunk that it can encode."""
        raise AssertionError(f"{type(self).__name__} does not define make_cases")

    def kept(self, codec: Codec, array: Array) -> Array:
        """A chunk after encoding and decoding; lossy codecs override it."""
        return array

    # --- as a value and in documents -------------------------------------------------------------------------------------------------

    def test_documents_say_all(self) -> None:
        for codec, _ in self.make_cases():
            text = json.dumps([codec.extension().to_json()], allow_nan=False)
            extensions = parse_extensions(json.loads(text), "codecs")
            assert self.registry.parse_codecs(extensions) == (codec,)
            assert json.dumps([codec.extension().to_json()]) == text, "a configuration is the same every time"

    def test_codecs_are_values(self) -> None:
        codecs = [codec for codec, _ in self.make_cases()]
        for codec, again in zip(codecs, (codec for codec, _ in self.make_cases()), strict=True):
            assert codec == again
            assert hash(codec) == hash(again)
            assert pickle.loads(pickle.dumps(codec)) == codec
            assert type(codec).__name__ in repr(codec)
        for codec, spec in self.make_cases():
            assert codec.resolved(spec) == codec, "what a document says is settled"

    def test_members_of_a_configuration(self) -> None:
        for codec, _ in self.make_cases():
            configuration = codec.configuration() or {}
            assert set(codec.required) <= set(configuration) <= {*codec.required, *codec.optional}
            self._refused(codec, {**configuration, "no_such_member": 1}, "no_such_member")
            for member in codec.required:
                without = {name: value for name, value in configuration.items() if name != member}
                self._refused(codec, without, member)

    def _refused(self, codec: Codec, configuration: dict[str, object], member: str) -> None:
        extension = Extension(codec.name, configuration)
        error = refusal(MetadataError, lambda: self.registry.parse_codecs([extension]))
        assert error.path == f"codecs[0].configuration.{member}"

    # --- encoding and decoding -------------------------------------------------------------------------------------------------------

    def test_decoding_undoes_encoding(self) -> None:
        for codec, spec in self.make_cases():
            for seed in range(3):
                array = random_chunk(spec, seed)
                before = array.tobytes()
                assert _same(self._round_trip(codec, spec, array), self.kept(codec, array))
                assert array.tobytes() == before, "what is encoded stays as it was"
            empty = np.full(spec.shape, np.frombuffer(spec.fill, spec.dtype)[0], spec.dtype)
            assert _same(self._round_trip(codec, spec, empty), self.kept(codec, empty))

    def test_arrays_of_any_layout_in_memory(self) -> None:
        for codec, spec in self.make_cases():
            array = random_chunk(spec)
            for view in _views(array):
                assert _same(view, array)
                assert _same(self._round_trip(codec, spec, view), self.kept(codec, array))

    def test_encoded_values_match_the_declared_spec(self) -> None:
        for codec, spec in self.make_cases():
            array = random_chunk(spec)
            if isinstance(codec, ArrayToArray):
                encoded, expected = codec.encode(array, spec), codec.encoded_spec(spec, "codecs[0]")
                assert (encoded.shape, encoded.dtype) == (expected.shape, expected.dtype)
                assert len(expected.fill) == expected.dtype.itemsize
            elif isinstance(codec, ArrayToBytes):
                codec.check(spec, "codecs[0]")
                data = codec.encode(array, spec)
                assert len(data) <= codec.bound(spec)
                assert codec.encoded_size(spec) in {None, len(data)}
            elif isinstance(codec, BytesToBytes):
                for plain in (b"", b"a", array.tobytes(), bytes(10_000)):
                    data = codec.encode(plain)
                    assert isinstance(data, bytes)
                    assert len(data) <= codec.bound(len(plain))
                    assert codec.encoded_size(len(plain)) in {None, len(data)}
                    assert codec.decode(data, len(plain)) == plain

    def test_damaged_bytes_are_refused_or_of_the_right_size(self) -> None:
        for codec, spec in self.make_cases():
            if isinstance(codec, ArrayToArray):
                continue
            limit = 3 * spec.nbytes + 100
            for data in _damaged(self._encoded(codec, spec)):
                try:
                    if isinstance(codec, ArrayToBytes):
                        array = codec.decode(data, spec)
                        assert (array.shape, array.dtype) == (spec.shape, spec.dtype)
                    elif isinstance(codec, BytesToBytes):
                        assert len(codec.decode(data, limit)) <= limit
                except DataError:
                    pass

    def test_decoding_respects_the_limit(self) -> None:
        for codec, _ in self.make_cases():
            if isinstance(codec, BytesToBytes):
                data = codec.encode(bytes(10_000))
                for limit in (0, 9_999):
                    refusal(DataError, lambda codec=codec, data=data, limit=limit: codec.decode(data, limit))  # type: ignore[misc]

    # --- in arrays -------------------------------------------------------------------------------------------------------------------

    def test_in_arrays(self) -> None:
        for codec, spec in self.make_cases():
            self._check_array(self._array(codec, spec, shards=False), codec, spec)

    def test_in_shards(self) -> None:
        for codec, spec in self.make_cases():
            self._check_array(self._array(codec, spec, shards=True), codec, spec)

    def _array(self, codec: Codec, spec: ChunkSpec, *, shards: bool) -> StoredArray:
        chain = [Crc32c()] if isinstance(codec, ArrayToBytes) else [Bytes("big" if spec.swaps else None), Crc32c()]
        chain.insert(len(chain) if isinstance(codec, BytesToBytes) else 0, codec)  # type: ignore[arg-type]
        return new_array(
            NodeLocation(MemoryStore(), registry=self.registry),
            False,
            None,
            shape=[2 * extent + 1 for extent in spec.shape],
            dtype=spec.dtype,
            chunks=spec.shape,
            shards=[2 * extent for extent in spec.shape] if shards else None,
            codecs=chain,
            fill_value=np.frombuffer(spec.fill, spec.dtype)[0],
        )

    def _check_array(self, array: StoredArray, codec: Codec, spec: ChunkSpec) -> None:
        values = random_chunk(spec._replace(shape=array.shape), 5)
        array[...] = values
        expected = self.kept(codec, values).copy()
        assert _same(array.read(), expected)
        part = tuple(slice(1, None, 2) for _ in array.shape)
        changed = random_chunk(spec._replace(shape=expected[part].shape), 6)
        array[part] = changed
        expected[part] = changed
        assert _same(array.read(), self.kept(codec, expected))
        again: StoredArray = pickle.loads(pickle.dumps(array))
        assert _same(again.read(part), self.kept(codec, expected)[part])

    # --- helpers ---------------------------------------------------------------------------------------------------------------------

    def _encoded(self, codec: Codec, spec: ChunkSpec) -> bytes:
        array = random_chunk(spec)
        if isinstance(codec, ArrayToBytes):
            return codec.encode(array, spec)
        if isinstance(codec, BytesToBytes):
            return codec.encode(array.tobytes())
        raise InvalidInputError(f"{codec!r} makes no bytes")

    def _round_trip(self, codec: Codec, spec: ChunkSpec, array: Array) -> Array:
        if isinstance(codec, ArrayToArray):
            return codec.decode(codec.encode(array, spec), spec)
        if isinstance(codec, ArrayToBytes):
            return codec.decode(codec.encode(array, spec), spec)
        assert isinstance(codec, BytesToBytes), "a codec is of one of three kinds"
        data = codec.decode(codec.encode(array.tobytes()), array.nbytes)
        return np.frombuffer(data, array.dtype).reshape(array.shape)


def _same(left: Array, right: Array) -> bool:
    """Equal in shape, dtype and every bit."""
    return (left.shape, left.dtype) == (right.shape, right.dtype) and left.tobytes() == right.tobytes()


def _views(array: Array) -> Iterator[Array]:
    """The same values in other memory layouts."""
    yield array.copy(order="F")
    backwards: tuple[slice | EllipsisType, ...] = (..., *(slice(None, None, -1),) * array.ndim)
    alternate: tuple[slice | EllipsisType, ...] = (..., *(slice(None, None, 2),) * array.ndim)
    yield array[backwards].copy()[backwards]
    every_other = np.zeros([2 * extent for extent in array.shape], array.dtype)
    every_other[alternate] = array
    yield every_other[alternate]
    fixed = array.copy()
    fixed.flags.writeable = False
    yield fixed


def _damaged(data: bytes) -> Iterator[bytes]:
    """Bytes that were shortened, extended, or changed in one place."""
    yield b""
    yield from (data[:at] for at in range(0, len(data), max(len(data) // 8, 1)))
    yield data + b"\0"
    for at in range(0, len(data), max(len(data) // 16, 1)):
        yield data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
