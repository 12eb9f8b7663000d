"""The codecs of the extensions registry: they pass the suite of all codecs, and produce the bytes of their specifications."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil.codecs import (
    DEFAULT_REGISTRY,
    BitRound,
    Bytes,
    CastValue,
    Codec,
    Conditional,
    Crc32c,
    Gdeflate,
    N5Default,
    PackBits,
    Reshape,
    ScaleOffset,
    Shuffle,
    Squeeze,
    Transpose,
    Zlib,
    Zstd,
)
from frazil.codecs.array_to_array.filters import ZarrsDelta
from frazil.codecs.array_to_array.morton import Morton
from frazil.codecs.codec import Array, ChunkSpec
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError
from frazil.metadata.extensions import Extension
from frazil.testing import CodecTests, chunk_spec, random_chunk

Cases = Iterable[tuple[Codec, ChunkSpec]]
SPEC = chunk_spec("uint16", (4, 3), fill=7)


class TestReshape(CodecTests):
    def make_cases(self) -> Cases:
        yield Reshape([12]), SPEC
        yield Reshape([-1]), SPEC
        yield Reshape([[0], [1]]), SPEC
        yield Reshape([[0, 1], 1]), SPEC
        yield Reshape([2, -1, [1]]), SPEC
        yield Reshape([[0, 1], [2]]), chunk_spec("float64", (2, 3, 4))


class TestSqueeze(CodecTests):
    def make_cases(self) -> Cases:
        yield Squeeze(), SPEC
        yield Squeeze(), chunk_spec("float32", (1, 3, 1))
        yield Squeeze(), chunk_spec("bool", (1, 1))


class TestMorton(CodecTests):
    def make_cases(self) -> Cases:
        for shape in ((), (1,), (3, 3), (2, 4, 8), (1, 5, 7, 2)):
            yield Morton(), chunk_spec("uint16", shape)
        yield Morton(), chunk_spec("complex128", (600, 500))


def test_morton_order_as_its_specification_has_it() -> None:
    spec = chunk_spec("uint8", (3, 3))
    assert Morton().encode(np.arange(9, dtype="u1").reshape(3, 3), spec).tolist() == [0, 1, 3, 4, 2, 5, 6, 7, 8]
    spec = chunk_spec("uint8", (2, 4, 8))
    stored = Morton().encode(np.arange(64, dtype="u1").reshape(2, 4, 8), spec)
    # from the highest bit: z2, y1, z1, x0, y0, z0
    at = [
        stored.tolist().index(np.ravel_multi_index(one, (2, 4, 8)))
        for one in ((0, 0, 4), (0, 2, 0), (0, 0, 2), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    assert at == [32, 16, 8, 4, 2, 1]


def test_morton_order_of_text() -> None:
    words = np.array([["a", "bb", ""], ["dddd", "é", "f"]], object)
    array = frazil.create_array(
        frazil.stores.MemoryStore(), data=words, dtype="string", chunks=(2, 2), codecs=["zarrs.morton", "vlen-utf8"]
    )
    assert array[...].tolist() == words.tolist()


class TestZarrsDelta(CodecTests):
    def make_cases(self) -> Cases:
        for dtype in ("int8", "uint8", "int16", "uint32", "int64", "uint64"):
            yield ZarrsDelta(), chunk_spec(dtype, (4, 3))

    def test_differences_are_those_of_neighbours_in_c_order(self) -> None:
        array = np.array([[100, 102], [50, 250]], "u1")
        spec = chunk_spec("uint8", (2, 2))
        assert ZarrsDelta().encode(array, spec).tolist() == [[100, 2], [204, 200]]
        floats = np.array([1, 1.5, -2], "f4")
        assert ZarrsDelta().encode(floats, chunk_spec("float32", (3,))).tolist() == [1, 0.5, -3.5]

    def test_other_elements_are_refused(self) -> None:
        for dtype in ("bool", "complex64", "float16", "datetime64[s]", "string"):
            with pytest.raises(MetadataError, match="integers and floats"):
                frazil.create_array(
                    frazil.stores.MemoryStore(), shape=(4,), dtype=dtype, codecs=["zarrs.delta", "bytes"]
                )


class TestPackBits(CodecTests):
    def make_cases(self) -> Cases:
        for dtype in ("bool", "uint8", "int16", "uint32", "int64", "float16", "float64", "complex64", "complex128"):
            for padding in ("none", "first_byte", "last_byte"):
                yield PackBits(padding), chunk_spec(dtype, (3, 3))

    def test_documents_say_all(self) -> None:
        super().test_documents_say_all()
        assert DEFAULT_REGISTRY.parse_codecs([Extension("packbits")]) == (PackBits(),)

    def test_zarrs_leaves_the_padding_byte_out_for_whole_bytes(self) -> None:
        store: dict[str, bytes] = {}
        codecs = [PackBits("first_byte"), "crc32c"]
        array = frazil.create_array(store, shape=(4,), dtype="int16", codecs=codecs, fill_value=7)
        plain = Bytes("little"), chunk_spec("int16", (4,))
        values = np.arange(4, dtype=np.int16)
        store["c/0"] = Crc32c().encode(plain[0].encode(values, plain[1]))
        assert (array[...] == values).all()
        array[...] = values
        assert len(store["c/0"]) == 1 + 8 + 4
        for codec, data in (
            (PackBits(), bytes(9)),
            (PackBits("last_byte"), bytes(7)),
            (PackBits("last_byte"), bytes(10)),
        ):
            with pytest.raises(ChunkDecodeError):
                codec.decode(data, plain[1])


class TestPackedBits(CodecTests):
    def make_cases(self) -> Cases:
        yield PackBits("first_byte", 3, 13), SPEC
        yield PackBits(last_bit=6), chunk_spec("int8", (5, 5))
        yield PackBits(first_bit=10), chunk_spec("float32", (5, 5))
        yield PackBits("last_byte", 50), chunk_spec("complex128", (3,))

    def kept(self, codec: Codec, array: Array) -> Array:
        assert isinstance(codec, PackBits)
        number = array.view(f"f{array.itemsize // 2}") if array.dtype.kind == "c" else array
        first, last = codec.first_bit or 0, codec.last_bit
        width = 8 * number.itemsize
        bits = number.view(f"u{number.itemsize}").astype(object)
        if last is not None:
            bits &= (1 << (last + 1)) - 1
            if array.dtype.kind == "i":
                bits = np.where(bits >> last, bits | (1 << width) - (1 << last), bits)
        kept: Array = (bits >> first << first).astype(f"u{number.itemsize}").view(number.dtype).view(array.dtype)
        return kept


class TestGdeflate(CodecTests):
    def make_cases(self) -> Cases:
        return ((Gdeflate(level), SPEC) for level in (0, 1, 6, 12))


class TestConditional(CodecTests):
    def make_cases(self) -> Cases:
        yield Conditional([Zstd(1)]), SPEC
        yield Conditional([Shuffle(2), Zlib(9), Zstd(1)]), SPEC
        yield Conditional([], 16), SPEC
        yield Conditional([Zstd(1)], 24), SPEC


class TestBitRound(CodecTests):
    def make_cases(self) -> Cases:
        for dtype in ("float16", "float64", "complex64", "int8", "uint16", "int64"):
            for keepbits in (1, 5, 60):
                yield BitRound(keepbits), chunk_spec(dtype, (4, 3))

    def kept(self, codec: Codec, array: Array) -> Array:
        spec = ChunkSpec(array.shape, array.dtype, (), bytes(array.itemsize))
        return codec.encode(array, spec)  # type: ignore[attr-defined, no-any-return]


class TestN5Default(CodecTests):
    def make_cases(self) -> Cases:
        order = Transpose([1, 0])
        yield N5Default([order, Bytes("big")]), SPEC
        yield N5Default([order, Bytes("big"), Zstd(1)]), chunk_spec("float64", (4, 3), 2.5)
        yield N5Default([order, Bytes(), Zlib(1)]), chunk_spec("uint8", (5, 2))
        yield N5Default([Transpose([2, 1, 0]), Bytes("big")]), chunk_spec("int32", (2, 3, 4))


class TestScaleOffset(CodecTests):
    def make_cases(self) -> Cases:
        yield ScaleOffset(), SPEC
        yield ScaleOffset(0, 1), chunk_spec("uint64", (4, 3))
        yield ScaleOffset(scale=-1.0), chunk_spec("float64", (4, 3))

    def test_in_arrays(self) -> None:
        """NaNs lose their payload."""

    test_in_shards = test_decoding_undoes_encoding = test_arrays_of_any_layout_in_memory = test_in_arrays

    @pytest.mark.parametrize("dtype", ["float32", "float64", "uint64", "int16"])
    def test_one_element_without_dimensions(self, dtype: str) -> None:
        """Of which NumPy's arithmetic makes a scalar."""
        a = frazil.create_array({}, shape=(), dtype=dtype, codecs=[ScaleOffset(1, 2), "bytes"], fill_value=1)
        a[...] = 7
        assert frazil.open_array(a.store)[()] == 7


class TestCastValue(CodecTests):
    def make_cases(self) -> Cases:
        yield CastValue("int64"), SPEC
        yield CastValue("float64"), chunk_spec("uint32", (4, 3))
        yield CastValue("uint8", out_of_range="wrap"), chunk_spec("int8", (4, 3))
        yield CastValue("int64", "towards-zero", "wrap"), chunk_spec("uint64", (4, 3))
        yield CastValue("int32", scalar_map={"encode": [[3, 70000]], "decode": [[70000, 3]]}), SPEC


# --- bytes ---------------------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1, max_size=50), st.integers(1, 16))
def test_rounded_integers_keep_their_highest_bits(numbers: list[int], keepbits: int) -> None:
    array = np.array(numbers, np.int16)
    made = BitRound(keepbits).encode(array, chunk_spec("int16", array.shape))
    for number, rounded in zip(numbers, made.tolist(), strict=True):
        dropped = max(abs(number).bit_length() - keepbits, 0) if number >= 0 else 16
        assert abs(rounded - number) <= 1 << dropped
        if number >= 0:
            assert rounded >= 0
            assert not rounded & ((1 << dropped) - 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bitround_keeps_nan(dtype: str) -> None:
    """For any bits: the largest would be rounded up to -0.0, the smallest down to an infinity."""
    bits = np.array([-1, 0], f"i{np.dtype(dtype).itemsize}")
    bits[1] = np.array(np.inf, dtype).view(bits.dtype) + 1
    for keepbits in (1, 5):
        assert np.isnan(BitRound(keepbits).encode(bits.view(dtype), chunk_spec(dtype, (2,)))).all()


def test_bits_are_packed_from_the_lowest() -> None:
    array = np.array([True, False, True, True, False, False, False, False, True])
    spec = chunk_spec("bool", (9,))
    assert PackBits().encode(array, spec) == bytes([0b1101, 1])
    assert PackBits("first_byte").encode(array, spec) == bytes([7, 0b1101, 1])
    assert PackBits("last_byte").encode(array, spec) == bytes([0b1101, 1, 7])
    two = np.array([1, 2, 3, 0, 1], np.uint8)
    assert PackBits(last_bit=1).encode(two, chunk_spec("uint8", (5,))) == bytes([0b00111001, 1])
    signed = np.array([-1, 1, -4], np.int8)
    three = PackBits(last_bit=2)
    assert three.decode(three.encode(signed, chunk_spec("int8", (3,))), chunk_spec("int8", (3,))).tolist() == [
        -1,
        1,
        -4,
    ]


def test_wrong_padding_is_refused() -> None:
    for padding, data in (("first_byte", b"\x06\x01\x01"), ("last_byte", b"\x01\x01\x08")):
        with pytest.raises(ChunkDecodeError, match="unused"):
            PackBits(padding).decode(data, chunk_spec("bool", (9,)))


def test_a_chunk_that_does_not_shrink_is_not_compressed() -> None:
    codec = Conditional([Zstd(1), Zlib(1)])
    noise = np.random.default_rng(1).bytes(500)
    assert codec.encode(noise) == b"\0" + noise
    assert codec.encode(bytes(500))[0] == 1
    assert codec.decode(b"\0" + noise, 500) == noise
    assert codec.decode(b"\2" + Zlib(1).encode(noise), 500) == noise, "others apply what they like"
    with pytest.raises(ChunkDecodeError, match="names a codec"):
        codec.decode(b"\4" + noise, 500)


NUMBERS = [0.5, 1.5, 2.5, -0.5, -1.5, 2.4, 2.6, -2.4, -2.6]


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("nearest-even", [0, 2, 2, 0, -2, 2, 3, -2, -3]),
        ("towards-zero", [0, 1, 2, 0, -1, 2, 2, -2, -2]),
        ("towards-positive", [1, 2, 3, 0, -1, 3, 3, -2, -2]),
        ("towards-negative", [0, 1, 2, -1, -2, 2, 2, -3, -3]),
        ("nearest-away", [1, 2, 3, -1, -2, 2, 3, -2, -3]),
    ],
)
def test_roundings(rounding: str, expected: list[int]) -> None:
    """As listed in the specification: to integers, and to floating-point numbers of fewer bits, where 1 bit is treated as in integers."""
    array, spec = np.array(NUMBERS), chunk_spec("float64", (9,))
    assert CastValue("int8", rounding).encode(array, spec).tolist() == expected
    narrow = CastValue("float32", rounding).encode(array + np.copysign(2.0**23, array), spec).astype(np.float64)
    assert (narrow - np.copysign(2.0**23, array)).tolist() == expected
    wide = CastValue("float64", rounding).encode(np.array([2**53 + 1, 2**63 - 1]), chunk_spec("int64", (2,)))
    up = rounding in {"towards-positive", "nearest-away"}
    nearest = rounding.startswith("nearest")
    assert wide.tolist() == [2**53 + 2 * up, 2.0**63 if up or nearest else 2.0**63 - 1024]


def test_out_of_range() -> None:
    array, spec = np.array([127.0, 128.0, -129.0, 1e300]), chunk_spec("float64", (4,))
    assert CastValue("int8", out_of_range="clamp").encode(array, spec).tolist() == [127, 127, -128, 127]
    assert CastValue("int8", out_of_range="wrap").encode(array[:3], spec).tolist() == [127, -128, 127]
    assert CastValue("float32", out_of_range="clamp").encode(array, spec).tolist() == [127, 128, -129, np.inf]
    for target in ("int8", "float32", "uint64"):
        with pytest.raises(InvalidInputError, match="cannot be a number"):
            CastValue(target).encode(array, spec)
    integers, spec = np.array([32768, 32769, -32769]), chunk_spec("int64", (3,))
    assert CastValue("int16", out_of_range="wrap").encode(integers, spec).tolist() == [-32768, -32767, 32767]
    with pytest.raises(InvalidInputError, match="nan"):
        CastValue("int8", out_of_range="clamp").encode(np.array([np.nan]), chunk_spec("float64", (1,)))


def test_numpy_as_the_specification_models_it() -> None:
    every = {"encode": [["NaN", 0], ["Infinity", 0], ["-Infinity", 0]]}
    codec = CastValue("uint8", "towards-zero", "wrap", every)
    array = np.array([np.nan, np.inf, -np.inf, 3.7, 258.9, -1.0])
    assert codec.encode(array, chunk_spec("float64", (6,))).tolist() == [0, 0, 0, 3, 2, 255]


def test_missing_values_in_bytes() -> None:
    """The example of the specification: NaN is 0, and the numbers are 1 to 255."""
    chain = [
        ScaleOffset(-10, 0.1),
        CastValue("uint8", scalar_map={"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}),
        Bytes(),
    ]
    array = frazil.create_array({}, shape=6, chunks=4, dtype="float64", fill_value=np.nan, codecs=chain)
    values = np.array([0.0, 10.0, 2540.0, np.nan, 100.0])
    array[:5] = values
    assert np.allclose(array[...], [*values, np.nan], equal_nan=True)


def test_scaling_is_exact_or_refused() -> None:
    spec = chunk_spec("uint16", (2,), 1000)
    codec = ScaleOffset(1000, 3)
    assert codec.encode(np.array([1000, 1255], np.uint16), spec).tolist() == [0, 765]
    assert codec.encoded_spec(spec, "").fill == bytes(2)
    with pytest.raises(InvalidInputError, match="-1 is not a number of uint16"):
        codec.encode(np.array([999, 1255], np.uint16), spec)
    with pytest.raises(ChunkDecodeError, match="divisible"):
        codec.decode(np.array([1, 3], np.uint16), spec)
    with pytest.raises(MetadataError, match="fill value"):
        codec.encoded_spec(chunk_spec("uint16", (2,), 0), "codecs[0]")
    large = ScaleOffset(2**63)
    top = np.array([2**64 - 1], np.uint64)
    spec = chunk_spec("uint64", (1,), 2**63)
    assert large.decode(large.encode(top, spec), spec).tolist() == [2**64 - 1]
    with pytest.raises(InvalidInputError, match="outside float32"):
        ScaleOffset(0, 1e38).encode(np.array([1e3], np.float32), chunk_spec("float32", (1,)))


def test_blocks_of_n5_have_their_own_shape() -> None:
    codec, spec = N5Default([Transpose([1, 0]), Bytes("big")]), chunk_spec("int16", (3, 4), 7)
    whole = np.arange(12, dtype=np.int16).reshape(3, 4)
    data = codec.encode(whole, spec)
    assert data == bytes([0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + whole.T.astype(">i2").tobytes()
    cut = codec.encode(whole[:2, :3], chunk_spec("int16", (2, 3)))
    assert codec.decode(cut, spec).tolist() == [[0, 1, 2, 7], [4, 5, 6, 7], [7, 7, 7, 7]]
    longer = codec.encode(np.ones((4, 5), np.int16), chunk_spec("int16", (4, 5)))
    assert codec.decode(longer, spec).tolist() == [[1] * 4] * 3
    for wrong in (b"\0\1" + data[2:], data[:2] + b"\0\3" + data[4:], data[:4] + b"\xff" * 8 + data[12:], data[:-1]):
        with pytest.raises(ChunkDecodeError):
            codec.decode(wrong, spec)


# --- invalid documents ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "configuration", "member"),
    [
        ("reshape", {"shape": [-1, -1]}, "shape"),
        ("reshape", {"shape": [0]}, "shape"),
        ("reshape", {"shape": [[1], [0]]}, "shape"),
        ("reshape", {"shape": "12"}, "shape"),
        ("packbits", {"padding_encoding": "middle"}, "padding_encoding"),
        ("packbits", {"first_bit": 4, "last_bit": 3}, "last_bit"),
        ("bitround", {"keepbits": 0}, "keepbits"),
        ("conditional", {"codecs": [{"name": "bytes"}]}, "codecs[0]"),
        ("conditional", {"codecs": [], "header_bits": 7}, "header_bits"),
        ("conditional", {"codecs": [{"name": "zstd"}], "header_bits": 0}, "header_bits"),
        ("zarrs.gdeflate", {"level": 13}, "level"),
        ("scale_offset", {"scale": [1]}, "scale"),
        ("cast_value", {"data_type": "complex64"}, "data_type"),
        ("cast_value", {"data_type": "int8", "rounding": "up"}, "rounding"),
        ("cast_value", {"data_type": "int8", "scalar_map": {"encode": [[1]]}}, "scalar_map.encode"),
        ("n5_default", {"codecs": ["bytes"]}, "codecs"),
    ],
)
def test_wrong_members(name: str, configuration: dict[str, object], member: str) -> None:
    with pytest.raises(MetadataError) as caught:
        DEFAULT_REGISTRY.parse_codecs([Extension(name, configuration)])
    assert caught.value.path == f"codecs[0].configuration.{member}"


@pytest.mark.parametrize("shape", [[5], [[0, 1], 2], [3, [1]], [2, [0], 2], [[2]]])
def test_a_shape_that_does_not_fit(shape: list[object]) -> None:
    with pytest.raises(MetadataError) as caught:
        frazil.create_array({}, shape=(8, 6), chunks=(4, 3), dtype="int8", codecs=[Reshape(shape), Bytes()])  # type: ignore[arg-type]
    assert caught.value.path == "codecs[0].configuration.shape"


def test_reshaping_costs_nothing() -> None:
    """The kernel runs chains that have only `reshape` before `bytes`, in shards too."""
    array = frazil.create_array(
        {}, shape=(8, 6), chunks=(4, 3), shards=(8, 6), dtype="int16", codecs=[Reshape([-1]), Bytes("big"), Zstd(1)]
    )
    assert array._compiled.chain.native
    values = random_chunk(chunk_spec("int16", (8, 6)))
    array[...] = values
    assert (array[2:7, 1:5] == values[2:7, 1:5]).all()
