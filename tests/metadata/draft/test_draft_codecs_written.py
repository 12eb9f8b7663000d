"""The codec chain of the draft when it is written, both dialects: a written chain reads as the same chain, and an unsupported one is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.draft_chains import (
    BIG,
    BLOSC,
    DELTA,
    GZIP,
    LITTLE,
    MINE,
    Kinds,
    blosc,
    codec,
    compressor,
    entry,
)

from frazil.errors import MetadataError
from frazil.metadata.draft.codec_chain import EmittedChain, emit_chain, parse_chain
from frazil.metadata.extensions import Extension

LEVEL = st.integers(0, 9)
ENDIAN = st.sampled_from(["little", "big"])
BLOSCS = st.builds(
    lambda cname, clevel, shuffle, blocksize: Extension(
        "blosc", {"cname": cname, "clevel": clevel, "shuffle": shuffle, "typesize": 4, "blocksize": blocksize}
    ),
    st.sampled_from(["lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib"]),
    LEVEL,
    st.sampled_from(["noshuffle", "shuffle", "bitshuffle"]),
    st.integers(0, 2**31 - 1),
)
GZIPS = st.builds(lambda level: Extension("gzip", {"level": level}), LEVEL)
USERS = [Extension(uri, {"a": 1}) for uri in MINE]
LAYOUTS = st.sampled_from([(), (Extension("transpose", {"order": [2, 1, 0]}),)])


def on_bytes(inner: Extension) -> Extension:
    return Extension("frazil.on_bytes", {"codec": inner.to_json()})


def emitted(chain: list[Extension], old: bool) -> EmittedChain:
    made = emit_chain(chain, ndim=3, itemsize=4, old=old)
    assert json.loads(json.dumps(made)) == list(made), "plain JSON"
    return made


@st.composite
def dec2022_chains(draw: st.DrawFn) -> list[Extension]:
    before = draw(st.lists(st.just(USERS[0]), max_size=2))
    serializer = draw(st.one_of(st.builds(lambda e: Extension("bytes", {"endian": e}), ENDIAN), st.just(USERS[1])))
    behind = st.sampled_from([USERS[2], on_bytes(USERS[0]), on_bytes(USERS[1])])
    after = draw(st.lists(st.one_of(BLOSCS, GZIPS, behind), max_size=3))
    return [*draw(LAYOUTS), *before, serializer, *after]


@given(dec2022_chains())
@pytest.mark.rule("D30")
def test_documents_of_december_2022_are_read_as_the_same_chain(chain: list[Extension]) -> None:
    made = emitted(chain, old=False)
    assert (made.compressor, made.filters, made.big) == (None, None, False)
    again = parse_chain(
        codecs=made.codecs,
        compressor=None,
        attributes={},
        reverse_axes=3 if made.layout == "F" else 0,
        big=False,
        swaps=True,
        itemsize=4,
        old=False,
        kinds=Kinds(),
    )
    assert list(again.codecs) == chain


NUMCODECS_BYTES = st.sampled_from(
    [
        Extension("numcodecs.zlib", {"level": 3}),
        Extension("numcodecs.bz2", {"level": 9}),
        Extension("numcodecs.lz4", {"acceleration": 1}),
        Extension("numcodecs.lzma", {"format": 1, "check": -1, "preset": 1, "filters": None}),
        Extension("zstd", {"level": 1, "checksum": True}),
        Extension("numcodecs.shuffle", {"elementsize": 4}),
        Extension("numcodecs.crc32", {"location": "end"}),
        Extension("numcodecs.adler32"),
        Extension("crc32c"),
        on_bytes(Extension("numcodecs.delta", {"dtype": "|u1", "astype": "|u1"})),
    ]
)


@st.composite
def old_chains(draw: st.DrawFn) -> list[Extension]:
    order = draw(st.sampled_from(["<", ">"]))
    before, size = [], 4
    for _ in range(draw(st.integers(0, 2))):
        taken, size = f"{order}i{size}", draw(st.sampled_from([2, 4, 8]))
        order = draw(st.sampled_from(["<", ">"]))
        before.append(Extension("numcodecs.delta", {"dtype": taken, "astype": f"{order}i{size}"}))
    after = draw(st.lists(st.one_of(GZIPS, NUMCODECS_BYTES), max_size=3))
    if after and after[0].name == "frazil.on_bytes":
        after.insert(0, draw(GZIPS))
    if after and after[-1].name.startswith("numcodecs.") and draw(st.booleans()):
        after.append(draw(BLOSCS))
        after[-1] = Extension("blosc", {**after[-1].configuration, "typesize": 1})
    return [*draw(LAYOUTS), *before, Extension("bytes", {"endian": "big" if order == ">" else "little"}), *after]


@given(old_chains())
@pytest.mark.rule("Z16")
def test_documents_of_the_old_dialect_are_read_as_the_same_chain(chain: list[Extension]) -> None:
    made = emitted(chain, old=True)
    assert made.codecs == []
    again = parse_chain(
        codecs=None,
        compressor=made.compressor,
        attributes={"filters": made.filters, "a": 1} if made.filters else {"a": 1},
        reverse_axes=3 if made.layout == "F" else 0,
        big=made.big,
        swaps=True,
        itemsize=4,
        old=True,
        kinds=Kinds(),
    )
    assert list(again.codecs) == chain
    assert (again.attributes, again.filters) == ({"a": 1}, made.filters)


def extension(value: object) -> Extension:
    return Extension(value["name"], value["configuration"]) if isinstance(value, dict) else Extension(str(value))


@pytest.mark.rule("X2", "X4a")
def test_december_2022_as_written() -> None:
    chain = [extension(value) for value in (BIG, blosc("bitshuffle", 4), GZIP)]
    made = emitted(chain, old=False)
    assert made.codecs == [
        entry("endian", endian="big"),
        entry("blosc", **{**BLOSC, "shuffle": 2}),
        entry("gzip", level=1),
    ]
    assert emit_chain([extension(LITTLE)], ndim=1, itemsize=4, old=False) == ([], None, None, "C", False)
    named = emit_chain([extension(BIG)], ndim=1, itemsize=8, old=False, endian_codec=False)
    assert named == ([], None, None, "C", True), "the data type's name says the byte order"


@pytest.mark.rule("Z5", "Z6")
def test_the_old_dialect_as_written() -> None:
    delta = codec("numcodecs.delta", dtype="<i4", astype="<i4")
    made = emitted([extension(value) for value in (delta, LITTLE, blosc("shuffle", 4))], old=True)
    assert made == ([], compressor("blosc", **BLOSC), [DELTA], "C", False)
    chain = [extension(value) for value in (codec("transpose", order=[2, 1, 0]), BIG)]
    assert emitted(chain, old=True) == ([], None, None, "F", True)
    assert emitted([extension(LITTLE), extension("crc32c")], old=True).filters == [{"id": "crc32c", "location": "end"}]


def test_byte_orders_of_filters_are_made_to_fit() -> None:
    """In final Zarr v3 a filter's byte order means nothing, but numcodecs follows it."""
    delta = codec("numcodecs.delta", dtype="<i4", astype="<i2")
    made = emitted([extension(value) for value in (delta, BIG)], old=True)
    assert (made.filters, made.big) == ([{"id": "delta", "dtype": ">i4", "astype": ">i2"}], True)


TRANSPOSE = codec("transpose", order=[1, 0, 2])


@pytest.mark.parametrize(
    ("chain", "old", "path"),
    [
        ([TRANSPOSE, LITTLE], False, "codecs[0].configuration.order"),
        ([TRANSPOSE, LITTLE], True, "codecs[0].configuration.order"),
        ([codec(MINE[0], a=1), codec("transpose", order=[2, 1, 0]), LITTLE], False, "codecs[1]"),
        ([LITTLE, codec("zstd", level=1, checksum=False)], False, "codecs[1]"),
        ([LITTLE, codec("numcodecs.zlib", level=1)], False, "codecs[1]"),
        ([codec("numcodecs.delta", dtype="<i4"), LITTLE], False, "codecs[0]"),
        ([LITTLE, "crc32c"], False, "codecs[1]"),
        ([LITTLE, LITTLE], False, "codecs[1]"),
        ([codec("sharding_indexed", chunk_shape=[1])], False, "codecs[0]"),
        ([codec("sharding_indexed", chunk_shape=[1])], True, "codecs[0]"),
        ([codec("test.other"), LITTLE], True, "codecs[0]"),
        ([LITTLE, codec("frazil.on_bytes", codec=codec("numcodecs.delta", dtype="|u1"))], True, "codecs[1]"),
        ([LITTLE, codec(MINE[2]), GZIP], True, "codecs[0]"),
        ([codec("numcodecs.delta", dtype="<i2"), LITTLE], True, "codecs[0]"),
    ],
)
def test_values_that_a_dialect_cannot_express(chain: list[object], old: bool, path: str) -> None:
    with pytest.raises(MetadataError) as caught:
        emit_chain([extension(value) for value in chain], ndim=3, itemsize=4, old=old)
    assert caught.value.path == path


def test_errors_name_allowed_compressors() -> None:
    for name in ("zstd", "numcodecs.lz4"):
        with pytest.raises(MetadataError) as caught:
            emit_chain([extension(LITTLE), Extension(name)], ndim=3, itemsize=4, old=False)
        assert "blosc" in str(caught.value.hint)
