"""The codec chain of the draft when it is read, both dialects: the result for each codec, and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.draft_chains import (
    BIG,
    BLOSC,
    DEC2022,
    DELTA,
    GZIP,
    LITTLE,
    MINE,
    OLD,
    Document,
    Kinds,
    blosc,
    codec,
    compressor,
    entry,
)

from frazil.errors import FrazilError, MetadataError, UnknownExtensionError
from frazil.metadata.draft.codec_chain import parse_chain
from frazil.metadata.extensions import Extension

# --- December 2022 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("D32")
@pytest.mark.parametrize("codecs", [None, []])
def test_without_codecs_elements_are_little_endian(codecs: object) -> None:
    assert Document(codecs).chain() == [LITTLE]
    assert Document(codecs, swaps=False, itemsize=1).chain() == ["bytes"]


@pytest.mark.rule("D27")
def test_layout_f_is_a_transposition_before_all() -> None:
    assert Document([entry("gzip", level=1)], reverse_axes=3).chain() == [
        codec("transpose", order=[2, 1, 0]),
        LITTLE,
        GZIP,
    ]
    assert Document(reverse_axes=1).chain() == [LITTLE]


@pytest.mark.rule("D29")
def test_arrays_become_bytes_where_a_codec_of_bytes_comes() -> None:
    assert Document([entry("gzip", level=1)]).chain() == [LITTLE, GZIP]
    assert Document([{"type": MINE[0]}, entry("gzip", level=1)]).chain() == [MINE[0], LITTLE, GZIP]
    assert Document([{"type": MINE[1]}, entry("gzip", level=1)]).chain() == [MINE[1], GZIP]


@pytest.mark.rule("D29")
def test_bytes_become_an_array_where_a_codec_of_arrays_comes() -> None:
    made = Document([entry("gzip", level=1), {"type": MINE[0], "configuration": {"a": 1}}]).chain()
    assert made == [LITTLE, GZIP, codec("frazil.on_bytes", codec=codec(MINE[0], a=1))]
    made = Document([{"type": MINE[1]}, {"type": MINE[1]}]).chain()
    assert made == [MINE[1], codec("frazil.on_bytes", codec={"name": MINE[1]})]


@pytest.mark.rule("D29")
def test_elements_that_a_codec_changed_are_little_endian_too() -> None:
    assert Document([{"type": MINE[0]}], swaps=False, itemsize=1).chain() == [MINE[0], LITTLE]


@pytest.mark.rule("D100")
@pytest.mark.parametrize("endian", ["little", "big"])
def test_endian(endian: str) -> None:
    made = Document([entry("endian", endian=endian), entry("gzip", level=1)]).chain()
    assert made == [codec("bytes", endian=endian), GZIP]


@pytest.mark.rule("X4a")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("place", ["codec", "codecs"])
@pytest.mark.parametrize("version", ["", "/1.0", "/1.12"])
def test_spellings_of_a_uri(scheme: str, place: str, version: str) -> None:
    uri = f"{scheme}://purl.org/zarr/spec/{place}/gzip{version}"
    assert Document([{"type": uri, "configuration": {"level": 1}}]).chain() == [LITTLE, GZIP]
    assert Document(compressor={"codec": uri, "configuration": {"level": 1}}, old=True).chain() == [LITTLE, GZIP]


@pytest.mark.rule("X11", "D99")
@pytest.mark.parametrize("itemsize", [1, 2, 8])
def test_blosc_takes_its_item_size_from_the_data_type(itemsize: int) -> None:
    for shuffle, meant in ((0, "noshuffle"), (1, "shuffle"), (2, "bitshuffle")):
        made = Document([entry("blosc", **{**BLOSC, "shuffle": shuffle})], itemsize=itemsize).chain()
        assert made[1] == blosc(meant, itemsize)
    made = Document([entry("blosc", **{**BLOSC, "shuffle": -1})], itemsize=itemsize).chain()
    assert made[1] == blosc("bitshuffle" if itemsize == 1 else "shuffle", itemsize)


@pytest.mark.rule("D33")
def test_a_codec_under_its_uri() -> None:
    assert Document([{"type": MINE[2], "configuration": {"a": [None]}}]).chain() == [LITTLE, codec(MINE[2], a=[None])]


def test_zstd_by_a_uri_is_read() -> None:
    made = Document([entry("zstd", level=3, checksum=True)]).chain()
    assert made == [LITTLE, codec("zstd", level=3, checksum=True)]


def refused(document: Document) -> FrazilError:
    with pytest.raises((MetadataError, UnknownExtensionError)) as caught:
        document.chain()
    return caught.value


@pytest.mark.rule("X28")
@pytest.mark.parametrize("first", [entry("gzip", level=1), entry("endian", endian="big"), {"type": MINE[1]}])
def test_endian_behind_bytes_is_refused(first: object) -> None:
    error = refused(Document([first, entry("endian", endian="little")]))
    assert error.path == "codecs[1]"
    assert "must come before all codecs that make bytes" in str(error)


@pytest.mark.rule("X2", "X10")
@pytest.mark.parametrize("endian", ["little", "big"])
def test_two_byte_orders_are_refused(endian: str) -> None:
    error = refused(Document([entry("endian", endian=endian)], big=True))
    assert error.path == "codecs[0]"
    assert "spelled big-endian" in str(error)


@pytest.mark.rule("X2")
def test_a_big_endian_type_makes_big_endian_bytes() -> None:
    assert Document([entry("gzip", level=1)], big=True).chain() == [BIG, GZIP]
    assert Document(big=True, old=True).chain() == [BIG]


@pytest.mark.parametrize(
    ("codecs", "path"),
    [
        ("gzip", "codecs"),
        ({"type": f"{DEC2022}gzip/1.0"}, "codecs"),
        (["gzip"], "codecs[0]"),
        ([{"configuration": {"level": 1}}], "codecs[0].type"),
        ([{"type": 1}], "codecs[0].type"),
        ([{"type": "gzip", "configuration": {"level": 1}}], "codecs[0].type"),
        ([{"type": f"{DEC2022}gzip/2.0"}], "codecs[0].type"),
        ([{"type": f"{DEC2022}gzip/1.0/x"}], "codecs[0].type"),
        ([{"type": DEC2022}], "codecs[0].type"),
        ([{"type": f"{DEC2022}nothing/1.0"}], "codecs[0].type"),
        ([{"type": "https://example.org/spec/codecs/gzip/1.0"}], "codecs[0].type"),
        ([{"type": f"{DEC2022}gzip/1.0", "configuration": 1}], "codecs[0].configuration"),
        ([{"type": f"{DEC2022}gzip/1.0", "configuration": {"level": 1}, "more": 1}], "codecs[0].more"),
        ([entry("gzip")], "codecs[0].configuration.level"),
        ([entry("gzip", level=10)], "codecs[0].configuration.level"),
        ([entry("gzip", level=-1)], "codecs[0].configuration.level"),
        ([entry("gzip", level=True)], "codecs[0].configuration.level"),
        ([entry("gzip", level=1, more=1)], "codecs[0].configuration.more"),
        ([entry("endian")], "codecs[0].configuration.endian"),
        ([entry("endian", endian="middle")], "codecs[0].configuration.endian"),
        ([entry("endian", endian="big", more=1)], "codecs[0].configuration.more"),
        ([entry("blosc", cname="lz4", clevel=5, shuffle=1)], "codecs[0].configuration.blocksize"),
        ([entry("blosc", **{**BLOSC, "shuffle": 3})], "codecs[0].configuration.shuffle"),
        ([entry("blosc", **{**BLOSC, "shuffle": "shuffle"})], "codecs[0].configuration.shuffle"),
        ([entry("blosc", **{**BLOSC, "clevel": 10})], "codecs[0].configuration.clevel"),
        ([entry("blosc", **{**BLOSC, "cname": "lzma"})], "codecs[0].configuration.cname"),
        ([entry("blosc", **{**BLOSC, "typesize": 4})], "codecs[0].configuration.typesize"),
    ],
)
def test_chains_that_the_strict_dialect_refuses(codecs: object, path: str) -> None:
    assert refused(Document(codecs)).path == path


def test_an_unknown_codec_is_one_to_register() -> None:
    assert isinstance(refused(Document([{"type": "https://example.org/unknown"}])), UnknownExtensionError)


# --- the older dialect -------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("Z5")
@pytest.mark.parametrize(
    ("name", "configuration", "made"),
    [
        ("gzip", {"level": 0}, codec("gzip", level=0)),
        ("gzip", {"level": -1}, codec("gzip", level=6)),
        ("gzip", {}, codec("gzip", level=1)),
        ("zlib", {"level": 9}, codec("numcodecs.zlib", level=9)),
        ("bz2", {"level": 1}, codec("numcodecs.bz2", level=1)),
        ("lz4", {"acceleration": 1}, codec("numcodecs.lz4", acceleration=1)),
        (
            "lzma",
            {"check": -1, "filters": None, "format": 1, "preset": 1},
            codec("numcodecs.lzma", check=-1, filters=None, format=1, preset=1),
        ),
        ("zstd", {"level": 1}, codec("zstd", level=1, checksum=False)),
        ("zstd", {"level": -5, "checksum": True}, codec("zstd", level=-5, checksum=True)),
        ("blosc", BLOSC, blosc("shuffle", 4)),
        ("blosc", {"cname": "zstd", "clevel": 5, "shuffle": -1}, blosc("shuffle", 4, "zstd")),
        ("blosc", {**BLOSC, "shuffle": 2, "typesize": None}, blosc("bitshuffle", 4)),
    ],
)
def test_compressors(name: str, configuration: dict[str, object], made: object) -> None:
    assert Document(compressor=compressor(name, **configuration), old=True).chain() == [LITTLE, made]


def test_chains_without_a_compressor() -> None:
    assert Document(compressor=None, old=True).chain() == [LITTLE]


@pytest.mark.rule("X8")
def test_the_old_dialect_tolerates_more_members() -> None:
    assert Document([{**entry("gzip", level=1, more=1), "more": 1}], old=True).chain() == [LITTLE, GZIP]
    assert Document(compressor={**compressor("gzip", level=1), "more": 1}, old=True).chain() == [LITTLE, GZIP]


@pytest.mark.rule("Z5b")
def test_zstd_without_a_name_is_guessed_with_a_warning() -> None:
    nameless = {"codec": OLD, "configuration": {"level": 3, "checksum": False}}
    with pytest.warns(UserWarning, match="zstd"):
        assert Document(compressor=nameless, old=True).chain() == [LITTLE, codec("zstd", level=3, checksum=False)]
    other = {"codec": OLD, "configuration": {"level": 3, "cname": "zstd"}}
    assert refused(Document(compressor=other, old=True)).path == "compressor.codec"


def test_codecs_and_compressor_are_refused() -> None:
    assert refused(Document([], compressor("gzip", level=1), old=True)).path == "compressor"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("gzip", "compressor"),
        ([], "compressor"),
        ({}, "compressor.codec"),
        ({"codec": f"{OLD}pickle/1.0"}, "compressor.codec"),
        ({"codec": "gzip"}, "compressor.codec"),
        (compressor("gzip", level=10), "compressor.configuration.level"),
        (compressor("zlib", level="1"), "compressor.configuration.level"),
        (compressor("zstd", level=1, checksum=1), "compressor.configuration.checksum"),
        (compressor("blosc", cname="x"), "compressor.configuration.cname"),
    ],
)
def test_compressors_that_are_refused(value: object, path: str) -> None:
    assert refused(Document(compressor=value, old=True)).path == path


@pytest.mark.rule("Z6")
def test_filters_stand_before_the_compressor() -> None:
    document = Document(
        compressor=compressor("gzip", level=1), attributes={"filters": [DELTA], "units": "m"}, reverse_axes=2, old=True
    )
    assert document.chain() == [
        codec("transpose", order=[1, 0]),
        codec("numcodecs.delta", dtype="<i4", astype="<i4"),
        LITTLE,
        GZIP,
    ]
    made = parse_chain(**document._asdict(), kinds=Kinds())  # type: ignore[arg-type]
    assert (made.attributes, made.filters) == ({"units": "m"}, [DELTA])


@pytest.mark.rule("Z6")
@pytest.mark.parametrize(
    "value", [None, [], "delta", {"id": "delta"}, ["delta"], [DELTA, 1], [{"id": 3}], [{"name": "x"}]]
)
def test_other_things_named_filters_are_attributes(value: object) -> None:
    document = Document(attributes={"filters": value}, old=True)
    made = parse_chain(**document._asdict(), kinds=Kinds())  # type: ignore[arg-type]
    assert made == ((Extension("bytes", {"endian": "little"}),), {"filters": value}, None)
    assert Document(attributes={"filters": [DELTA]}).chain() == [LITTLE], "in the strict dialect they always are"


def filtered(*filters: dict[str, object], **more: object) -> Document:
    return Document(attributes={"filters": list(filters)}, old=True, **more)  # type: ignore[arg-type]


@pytest.mark.rule("Z6")
def test_the_last_filter_has_the_byte_order() -> None:
    big = {"id": "delta", "dtype": ">i4", "astype": ">i4"}
    assert filtered(big, big=True).chain()[-1] == BIG
    assert filtered({**big, "astype": "<i2"}, big=True).chain()[-1] == LITTLE
    scale = {"id": "fixedscaleoffset", "scale": 10, "offset": 0, "dtype": ">f8", "astype": "|u1"}
    assert filtered(scale, big=True, itemsize=8).chain()[-1] == BIG, "it says nothing for single bytes"
    assert filtered({"id": "packbits"}, swaps=False, itemsize=1).chain()[-1] == LITTLE
    assert filtered({"id": "astype", "encode_dtype": ">i2", "decode_dtype": "<f8"}, itemsize=8).chain()[-1] == BIG


def test_filters_that_make_bytes() -> None:
    shuffle, u1 = {"id": "shuffle", "elementsize": 4}, {"id": "delta", "dtype": "|u1", "astype": "|u1"}
    assert filtered(shuffle, u1, {"id": "crc32c", "location": "end"}).chain() == [
        LITTLE,
        codec("numcodecs.shuffle", elementsize=4),
        codec("frazil.on_bytes", codec=codec("numcodecs.delta", dtype="|u1", astype="|u1")),
        "crc32c",
    ]
    made = filtered(shuffle, compressor=compressor("blosc", **{**BLOSC, "shuffle": -1})).chain()
    assert made[-1] == blosc("bitshuffle", 1), "blosc gets single bytes"
    made = filtered({"id": "zlib", "level": 1}, compressor=compressor("gzip", level=1)).chain()
    assert made == [LITTLE, codec("numcodecs.zlib", level=1), GZIP]


def test_blosc_takes_its_item_size_from_the_last_filter() -> None:
    made = filtered({**DELTA, "astype": "<i2"}, compressor=compressor("blosc", **BLOSC)).chain()
    assert made[-1] == blosc("shuffle", 2)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (filtered({"id": "pickle"}), "attributes.filters[0].id"),
        (filtered(DELTA, {"id": "vlen-utf8"}), "attributes.filters[1].id"),
        (filtered({"id": "imagecodecs_jpeg2k"}), "attributes.filters[0].id"),
        (filtered(DELTA, big=True), "attributes.filters[0]"),
        (filtered(DELTA, itemsize=8), "attributes.filters[0]"),
        (filtered({**DELTA, "dtype": "nothing"}), "attributes.filters[0]"),
        (filtered({**DELTA, "dtype": 4}), "attributes.filters[0]"),
        (filtered({**DELTA, "astype": ">i4"}, DELTA), "attributes.filters[1]"),
    ],
)
def test_filters_that_are_refused(document: Document, path: str) -> None:
    error = refused(document)
    assert error.path == path
    assert isinstance(error, UnknownExtensionError) == path.endswith("id")
    assert error.hint is not None or not path.endswith("id")


# --- anything ----------------------------------------------------------------------------------------------------------------------

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=5)
)
WORDS = st.sampled_from(
    ["lz4", "<i4", ">f8", "|u1", "O", "S9999999999999999999", "f4,f4", ",", "(2,)i4", "M8", "big", "little", "end"]
)
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
MEMBERS = st.sampled_from(
    [
        "level",
        "cname",
        "clevel",
        "shuffle",
        "blocksize",
        "checksum",
        "endian",
        "dtype",
        "astype",
        "encode_dtype",
        "decode_dtype",
    ]
)
URIS = st.sampled_from(["gzip", "zlib", "blosc", "bz2", "zstd", "endian", ""]).map(lambda name: f"{OLD}{name}/1.0")
CONFIGURATIONS = st.dictionaries(MEMBERS, VALUES, max_size=4)
ENTRIES = VALUES | st.fixed_dictionaries(
    {"type": URIS | st.sampled_from(MINE) | VALUES}, optional={"configuration": CONFIGURATIONS | VALUES, "more": VALUES}
)
COMPRESSORS = VALUES | st.fixed_dictionaries(
    {"codec": URIS | VALUES}, optional={"configuration": CONFIGURATIONS | VALUES}
)
IDS = st.sampled_from(
    ["delta", "astype", "quantize", "packbits", "bitround", "zlib", "blosc", "shuffle", "crc32c", "pickle"]
)
FILTERS = VALUES | st.lists(
    st.builds(lambda name, more: {**more, "id": name}, IDS | VALUES, CONFIGURATIONS), min_size=1, max_size=3
)


@given(
    codecs=st.none() | VALUES | st.lists(ENTRIES, max_size=3),
    compressor=st.none() | COMPRESSORS,
    filters=FILTERS,
    more=st.builds(
        Document,
        reverse_axes=st.sampled_from([0, 1, 3]),
        big=st.booleans(),
        swaps=st.booleans(),
        itemsize=st.integers(1, 300),
        old=st.booleans(),
    ),
)
@pytest.mark.filterwarnings("ignore:compressor.codec names no codec")
def test_anything_is_a_chain_or_refused(codecs: object, compressor: object, filters: object, more: Document) -> None:
    document = more._replace(codecs=codecs, compressor=compressor, attributes={"filters": filters})
    made, path = None, ""
    try:
        made = parse_chain(**document._asdict(), kinds=Kinds())  # type: ignore[arg-type]
    except (MetadataError, UnknownExtensionError) as error:
        path = str(error.path)
    if made is None:
        assert path.startswith(("codecs", "compressor", "attributes.filters"))
    else:
        assert made.codecs
        assert made.attributes == ({} if made.filters else {"filters": filters})
