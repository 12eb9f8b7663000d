"""Chunk key encodings: coordinates to keys and back, one and many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.refusals import refused

from frazil.errors import UnknownExtensionError
from frazil.metadata.draft.chunk_keys import DraftKeys
from frazil.metadata.extensions import Extension, NamedExtension
from frazil.metadata.grids.chunk_keys import DefaultKeys, SuffixedKeys, V2Keys
from frazil.metadata.registry import CORE_EXTENSIONS

ENCODINGS = [DefaultKeys(), DefaultKeys("."), V2Keys(), V2Keys("/")]
SUFFIXED = [SuffixedKeys(".tiff"), SuffixedKeys("_x0", "."), SuffixedKeys("")]
encodings = st.sampled_from([*ENCODINGS, *SUFFIXED])
lengths = st.integers(0, 2**63 - 1) | st.integers(0, 20)
numbers = lengths | st.sampled_from([2**63, 10**19 - 1, 10**19])
prefixes = st.sampled_from(["", "a/", "100%/%d/", "{x}/", "line\nbreak/", "é/"])


@pytest.mark.rule("K3")
@pytest.mark.parametrize(
    ("encoding", "coordinates", "key"),
    [
        (DefaultKeys(), (1, 23, 45), "c/1/23/45"),
        (DefaultKeys("."), (1, 23, 45), "c.1.23.45"),
        (DefaultKeys(), (0,), "c/0"),
        (DefaultKeys(), (), "c"),
        (DefaultKeys("."), (), "c"),
        (V2Keys(), (1, 23, 45), "1.23.45"),
        (V2Keys("/"), (1, 23, 45), "1/23/45"),
        (V2Keys(), (7,), "7"),
        (V2Keys(), (), "0"),
        (V2Keys("/"), (), "0"),
        (SuffixedKeys(".tiff"), (1, 23, 45), "c/1/23/45.tiff"),
        (SuffixedKeys(".tiff", "."), (1, 23, 45), "c.1.23.45.tiff"),
        (SuffixedKeys(".tiff"), (), "c.tiff"),
    ],
)
def test_keys_of_the_specification(encoding, coordinates, key):
    assert encoding.encode_one(coordinates) == key
    assert encoding.encode_one(coordinates, "a/b/") == f"a/b/{key}"
    assert encoding.decode(key, len(coordinates)) == coordinates


@given(
    encodings,
    st.integers(0, 4).flatmap(lambda n: st.lists(st.tuples(*[lengths] * n), max_size=20).map(lambda c: (n, c))),
    prefixes,
)
def test_encoding_many_keys_equals_encoding_each(encoding, given_coordinates, prefix):
    ndim, coordinates = given_coordinates
    columns = np.array(coordinates, np.int64).reshape(len(coordinates), ndim)
    keys = encoding.encode_all(columns, prefix)
    assert keys == [encoding.encode_one(one, prefix) for one in coordinates]
    assert [encoding.decode(key.removeprefix(prefix), ndim) for key in keys] == coordinates


@given(
    st.sampled_from([*ENCODINGS, DraftKeys(), DraftKeys(".")]),
    st.integers(0, 3),
    st.lists(st.text("c0129/.é\n\0", max_size=8) | st.lists(numbers, max_size=4).map(tuple), max_size=30),
    prefixes,
)
def test_decoding_many_keys_equals_decoding_each(encoding, ndim, given_keys, prefix):
    keys = [prefix + (one if isinstance(one, str) else encoding.encode_one(one)) for one in given_keys]
    rows, coordinates = encoding.decode_all(keys, ndim, len(prefix))
    found = [encoding.decode(key[len(prefix) :], ndim) for key in keys]
    assert rows.tolist() == [row for row, at in enumerate(found) if at is not None]
    assert list(map(tuple, coordinates.tolist())) == [at for at in found if at is not None]
    assert coordinates.shape == (len(rows), ndim)


@given(encodings, st.integers(1, 1000))
def test_many_take_any_layout(encoding, count):
    columns = np.arange(4 * count, dtype=np.int64).reshape(2, 2 * count).T
    assert encoding.encode_all(columns[::-2]) == [encoding.encode_one(tuple(row)) for row in columns[::-2].tolist()]


@pytest.mark.parametrize(
    ("encoding", "key", "ndim"),
    [
        (DefaultKeys(), "c/01/2", 2), (DefaultKeys(), "c/-1", 1), (DefaultKeys(), "c1/2", 2), (DefaultKeys(), "c//1", 2), (DefaultKeys(), "c//1", 1),
        (DefaultKeys(), "c/1", 2), (DefaultKeys(), "c/1/2", 1), (DefaultKeys(), "c/1/2/", 2), (DefaultKeys(), "c.1.2", 2), (DefaultKeys(), "/c/1/2", 2),
        (DefaultKeys(), "c", 1), (DefaultKeys(), "c/", 1), (DefaultKeys(), "c/0", 0), (DefaultKeys(), "0", 0), (DefaultKeys(), "", 0),
        (DefaultKeys(), "c/+1", 1), (DefaultKeys(), "c/1_0", 1), (DefaultKeys(), "c/ 1", 1), (DefaultKeys(), "c/²", 1), (DefaultKeys(), "c/١", 1),
        (DefaultKeys(), "c/1.0", 1), (DefaultKeys(), "c/9223372036854775808", 1), (DefaultKeys(), "c/" + "1" * 5000, 1), (DefaultKeys(), "c/1\n", 1),
        (DefaultKeys(), "zarr.json", 1), (DefaultKeys("."), "c.1", 2), (DefaultKeys("."), "c/1", 1), (DefaultKeys("."), "c..1", 2),
        (DefaultKeys(), "c/0x1", 1), (DefaultKeys(), "c/00", 1), (V2Keys(), "00", 1), (V2Keys(), "c.1", 1), (V2Keys(), "1.", 2), (V2Keys(), ".1", 2),
        (V2Keys(), "c", 0), (V2Keys(), "1", 0), (V2Keys(), "", 1), (V2Keys(), "1/2", 2), (V2Keys("/"), "1.2", 2), (V2Keys(), "-1.0", 2),
    ],
)  # fmt: skip
def test_other_keys_decode_to_none(encoding, key, ndim):
    assert encoding.decode(key, ndim) is None


@given(encodings, st.text("c/.0123-+ ", max_size=8), st.integers(0, 3))
def test_only_keys_that_would_be_written_decode(encoding, key, ndim):
    coordinates = encoding.decode(key, ndim)
    if coordinates is not None:
        assert encoding.encode_one(coordinates) == key


@pytest.mark.parametrize(
    ("name", "configuration", "encoding"),
    [
        ("default", {}, DefaultKeys("/")),
        ("default", {"separator": "."}, DefaultKeys(".")),
        ("v2", {}, V2Keys(".")),
        ("v2", {"separator": "/"}, V2Keys("/")),
    ],
)
def test_configurations(name, configuration, encoding):
    assert CORE_EXTENSIONS.chunk_key_encoding(Extension(name, configuration)) == encoding


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_the_separator_is_always_written(encoding):
    written = encoding.extension().to_json()
    assert written == {"name": encoding.name, "configuration": {"separator": encoding.separator}}
    assert CORE_EXTENSIONS.chunk_key_encoding(encoding.extension()) == encoding


@pytest.mark.parametrize("name", ["default", "v2"])
@pytest.mark.parametrize("separator", ["", "-", "//", None, 1, True])
def test_other_separators_are_refused(name, separator):
    with refused("chunk_key_encoding.configuration.separator", '"/"', '"."'):
        CORE_EXTENSIONS.chunk_key_encoding(Extension(name, {"separator": separator}))


def test_bad_encodings_are_refused():
    with refused("chunk_key_encoding.configuration.prefix", "separator"):
        CORE_EXTENSIONS.chunk_key_encoding(Extension("default", {"prefix": "c"}))
    with refused("chunk_key_encoding.configuration.separator"):
        DefaultKeys("-")
    with refused("chunk_key_encoding", "registered: default, v2", kind=UnknownExtensionError):
        CORE_EXTENSIONS.chunk_key_encoding(Extension("suffix"))


def test_other_encodings_can_be_registered():
    extensions = CORE_EXTENSIONS.with_chunk_key_encoding(NamedExtension("suffix", lambda extension, path: V2Keys()))
    assert extensions.chunk_key_encoding(Extension("suffix")) == V2Keys()


def test_documents_of_suffixed_keys():
    for keys in SUFFIXED:
        assert CORE_EXTENSIONS.chunk_key_encoding(keys.extension()) == keys
    read = CORE_EXTENSIONS.chunk_key_encoding
    assert read(Extension("zarrs.default_suffix", {"suffix": ".tiff"})) == SuffixedKeys(".tiff")
    with refused("chunk_key_encoding.configuration.suffix"):
        read(Extension("zarrs.default_suffix"))
    with refused("chunk_key_encoding.configuration.suffix"):
        read(Extension("zarrs.default_suffix", {"suffix": "./x"}))
    for suffix in ("0", ".", ". x", "x"):
        with refused("chunk_key_encoding.configuration.suffix"):
            read(Extension("zarrs.default_suffix", {"suffix": suffix}))
    with refused("chunk_key_encoding.configuration.suffix"):
        read(Extension("zarrs.default_suffix", {"suffix": 1}))
