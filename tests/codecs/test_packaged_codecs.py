"""Codecs that use other packages: they pass the suite of all codecs, and name the extra that installs the package."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from frazil.base import optional_package
from frazil.codecs import DEFAULT_REGISTRY, Codec, Pcodec, Zfp
from frazil.codecs.array_to_bytes.zfp import NumcodecsZfpy
from frazil.codecs.codec import Array, ChunkSpec
from frazil.errors import ChunkDecodeError, InvalidInputError, MetadataError, UnknownExtensionError
from frazil.metadata.extensions import Extension
from frazil.testing import CodecTests, chunk_spec, random_chunk

pytest.importorskip("zfpy")
pcodec = pytest.importorskip("pcodec")

Cases = Iterable[tuple[Codec, ChunkSpec]]


class TestPcodec(CodecTests):
    def make_cases(self) -> Cases:
        for dtype in ("uint16", "int32", "float16", "float64", "complex64"):
            yield Pcodec(), chunk_spec(dtype, (4, 3))
        yield Pcodec(0, "classic", "none", equal_pages_up_to=5), chunk_spec("int64", (4, 3))
        yield Pcodec(delta_spec="try_consecutive", delta_encoding_order=2), chunk_spec("int64", (4, 3))
        yield Pcodec(delta_spec="try_lookback"), chunk_spec("int64", (4, 3))


class TestZfp(CodecTests):
    def make_cases(self) -> Cases:
        for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64"):
            yield Zfp(), chunk_spec(dtype, (5, 3))
        for shape in ((), (9,), (2, 3, 4), (2, 1, 3, 5)):
            yield Zfp(), chunk_spec("float64", shape)


def test_zfp_of_float16_keeps_numbers() -> None:
    spec = chunk_spec("float16", (7, 5))
    values = np.linspace(-100, 100, 35, dtype=np.float16).reshape(7, 5)
    assert (Zfp().decode(Zfp().encode(values, spec), spec) == values).all()


@pytest.mark.parametrize(
    "codec",
    [Zfp("fixed_accuracy", tolerance=1e-3), Zfp("fixed_rate", rate=24), Zfp("fixed_precision", precision=30)],
    ids=repr,
)
def test_lossy_modes_of_zfp(codec: Zfp) -> None:
    spec = chunk_spec("float64", (9, 10))
    values = np.sin(np.arange(90.0)).reshape(9, 10)
    data = codec.encode(values, spec)
    assert len(data) <= codec.bound(spec)
    made = codec.decode(data, spec)
    assert np.abs(made - values).max() < 1e-2  # type: ignore[operator]
    for cut in range(0, len(data), 7):  # reads no memory behind the data; the output has the right size
        assert codec.decode(data[:cut] or b"\0", spec).shape == (9, 10)


@pytest.mark.parametrize(
    "codec",
    [
        NumcodecsZfpy(4, tolerance=1e-3), NumcodecsZfpy(2, rate=24), NumcodecsZfpy(3, precision=30),
        NumcodecsZfpy(), NumcodecsZfpy(2), NumcodecsZfpy(3),  # reversible, as the value of the mode is -1
    ],
    ids=repr,
)  # fmt: skip
def test_zfp_behind_a_header(codec: NumcodecsZfpy) -> None:
    theirs = pytest.importorskip("numcodecs.zfpy").ZFPY(**(codec.configuration() or {}))
    spec = chunk_spec("float32", (9, 10))
    values = np.sin(np.arange(90.0, dtype=np.float32)).reshape(9, 10)
    data = codec.encode(values, spec)
    assert data == theirs.encode(values)
    assert len(data) <= codec.bound(spec)
    assert (codec.decode(data, spec) == theirs.decode(data)).all()
    for other in (chunk_spec("float32", (10, 9)), chunk_spec("float64", (9, 10)), chunk_spec("float32", (90,))):
        with pytest.raises(ChunkDecodeError):
            codec.decode(data, other)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        with suppress(ChunkDecodeError) if at < 20 else nullcontext():  # in the header
            assert codec.decode(bytes(damaged), spec).shape == (9, 10)


@pytest.mark.parametrize("shape", [(24,), (4, 6), (4, 6, 5), (3, 5, 2, 7)], ids=repr)
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "int8"])
def test_zarrs_gives_blocks_of_any_rank_the_bits_of_three_dimensions(shape: tuple[int, ...], dtype: str) -> None:
    spec, codec = chunk_spec(dtype, shape), Zfp("fixed_rate", rate=5.5)
    values = np.arange(spec.nbytes // spec.dtype.itemsize).reshape(shape).astype(dtype)
    theirs = Zfp("fixed_rate", rate=5.5 * 64 / 4 ** len(shape))
    data = theirs.encode(values, spec)
    assert len(data) <= codec.bound(spec)
    assert (codec.decode(data, spec) == theirs.decode(data, spec)).all()
    assert codec.decode(codec.encode(values, spec), spec).shape == shape


def test_zfp_behind_a_header_as_zarrs_writes_it() -> None:
    for dtype in ("int8", "uint16", "float32", "datetime64[s]"):
        spec = chunk_spec(dtype, (9, 10))
        values, codec = np.arange(90).reshape(9, 10).astype(dtype), NumcodecsZfpy(5)
        assert (codec.decode(codec.encode(values, spec), spec) == values).all()


@pytest.mark.parametrize(("dtype", "rate"), [("float32", 2.1), ("float64", 2.8), ("int32", 0.1)])
def test_a_rate_too_low_for_a_block_of_fewer_dimensions_is_that_of_zarrs(dtype: str, rate: float) -> None:
    """The package wrote behind the end of its memory."""
    spec, values = chunk_spec(dtype, (24,)), np.arange(24).astype(dtype)
    bits = int(64 * rate + 0.5)
    for codec, header in (Zfp("fixed_rate", rate=rate), 0), (NumcodecsZfpy(2, rate=rate), 96):
        codec.check(spec, "codecs[0]")
        data = codec.encode(values, spec)
        assert len(data) == -(-(6 * bits + header) // 64) * 8
        expected = Zfp("fixed_rate", rate=bits / 4)
        np.testing.assert_array_equal(codec.decode(data, spec), expected.decode(expected.encode(values, spec), spec))
    assert expected.encode(values, spec) == Zfp("fixed_rate", rate=rate).encode(values, spec)


@pytest.mark.parametrize(("dtype", "rate"), [("float32", 0.13), ("float64", 0.17), ("int32", 0.007)])
def test_rates_too_low_for_any_block_are_refused(dtype: str, rate: float) -> None:
    for codec in (Zfp("fixed_rate", rate=rate), NumcodecsZfpy(2, rate=rate)):
        codec.check(chunk_spec(dtype, (4, 6, 3, 2)), "codecs[0]")
        for shape in (24,), (4, 6), (4, 6, 3):
            with pytest.raises(MetadataError, match="at least") as caught:
                codec.check(chunk_spec(dtype, shape), "codecs[0]")
            assert caught.value.path == "codecs[0].configuration.rate"


def test_zfp_refuses_what_it_does_not_hold() -> None:
    spec = chunk_spec("uint32", (4,))
    assert Zfp().decode(Zfp().encode(np.array([0, 1, 2, 2**31 - 1], np.uint32), spec), spec)[3] == 2**31 - 1
    with pytest.raises(InvalidInputError, match="2147483648"):
        Zfp().encode(np.array([0, 1, 2, 2**31], np.uint32), spec)


@pytest.mark.parametrize(
    ("configuration", "member"),
    [
        ({"mode": "expert", "minbits": 1, "maxbits": 12, "maxprec": 10, "minexp": -2}, "mode"),
        ({"mode": "best"}, "mode"),
        ({"mode": "fixed_rate"}, "rate"),
        ({"mode": "reversible", "rate": 3}, "rate"),
        ({"mode": "fixed_rate", "rate": 1e9}, "rate"),
        ({"mode": "fixed_accuracy", "tolerance": -1}, "tolerance"),
    ],
)
def test_wrong_members_of_zfp(configuration: dict[str, object], member: str) -> None:
    with pytest.raises(MetadataError) as caught:
        DEFAULT_REGISTRY.parse_codecs([Extension("zfp", configuration)])
    assert caught.value.path == f"codecs[0].configuration.{member}"


def test_another_number_of_elements_or_another_type_is_refused() -> None:
    codec, spec = Pcodec(), chunk_spec("int32", (10,))
    for array in (np.arange(9, dtype=np.int32), np.arange(11, dtype=np.int32), np.arange(10, dtype=np.float32)):
        data = pcodec.standalone.simple_compress(array, pcodec.ChunkConfig())
        with pytest.raises(ChunkDecodeError):
            codec.decode(data, spec)


def test_numcodecs_reads_and_writes_the_same() -> None:
    theirs = pytest.importorskip("numcodecs.pcodec").PCodec()
    spec = chunk_spec("float32", (50,))
    values: Array = random_chunk(spec)
    assert theirs.encode(values) == Pcodec().encode(values, spec)
    assert theirs.decode(Pcodec().encode(values, spec)).tobytes() == values.tobytes()


@pytest.mark.parametrize(("name", "extra"), [("zfp", "zfp"), ("numcodecs.pcodec", "pcodec")])
def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, name: str, extra: str) -> None:
    def absent(module: str) -> object:
        raise ImportError(f"No module named {module!r}")

    monkeypatch.setattr(optional_package, "imported", absent)
    with pytest.raises(UnknownExtensionError) as caught:
        DEFAULT_REGISTRY.parse_codecs([Extension(name, {"mode": "reversible"} if name == "zfp" else None)])
    assert f"frazil[{extra}]" in str(caught.value)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32"])
@pytest.mark.parametrize("codec", [Zfp(), NumcodecsZfpy(5)])
def test_zfp_of_one_element(codec: Codec, dtype: str) -> None:
    spec, value = chunk_spec(dtype, ()), np.array(5, dtype)
    decoded = codec.decode(codec.encode(value, spec), spec)  # type: ignore[attr-defined]
    assert isinstance(decoded, np.ndarray)
    assert decoded == value
