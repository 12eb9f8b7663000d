"""JSON text: what is read, what is refused, and that written text is read back."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import MetadataError
from frazil.metadata.json_text import (
    DEPTH_LIMIT,
    ExactFloat,
    Json,
    as_json,
    as_plain,
    dump_json,
    found,
    item,
    member,
    parse_json,
    same_json,
)
from tests.metadata.refusals import refused

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
documents = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def read_list(text: bytes) -> list[Json]:
    value = parse_json(text)
    assert isinstance(value, list)
    return value


@given(documents)
def test_json_round_trips(value):
    text = dump_json(value)
    parsed = parse_json(text)
    assert as_json(parsed, None) == value
    if isinstance(parsed, dict):
        assert repr(as_plain(parsed)) == repr(as_json(value, None))
    assert json.loads(text) == value
    assert text.decode() == json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    assert dump_json(value, None).decode() == json.dumps(value, ensure_ascii=False) + "\n"


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_read_or_refused(data):
    try:
        value = parse_json(data)
    except MetadataError:
        return
    assert value == json.loads(data.decode())


def test_members_keep_their_order():
    assert dump_json({"b": 1, "a": [1.5, None]}) == b'{\n  "b": 1,\n  "a": [\n    1.5,\n    null\n  ]\n}\n'


def test_text_beyond_ascii_stays_readable():
    assert "é".encode() in dump_json({"name": "é"})


def test_half_a_surrogate_pair_is_read_and_written_back():
    value = parse_json(rb'{"a": "\ud800"}')
    assert parse_json(dump_json(value)) == value


def test_numbers_keep_their_values():
    one, float_one, exponent = read_list(b"[1, 1.0, 1e0]")
    assert type(one) is int
    assert isinstance(float_one, ExactFloat)
    assert float_one.text == "1.0"
    assert isinstance(exponent, ExactFloat)
    assert exponent.text == "1e0"
    assert pickle.loads(pickle.dumps(exponent)).text == "1e0"


def test_big_integers_are_exact():
    assert parse_json(str(2**200)) == 2**200


def test_negative_zero_is_an_integer_that_says_so():
    zero, other, five = read_list(b"[-0, 0, -5]")
    assert (zero, other, five) == (0, 0, -5)
    assert found(zero) == "-0"
    assert type(as_json(zero, None)) is int


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (b'{"a": {"b": 1, "b": 2}}', "a.b", ["once", '"b" twice']),
        (b'{"b": 1, "b": 2}', "b", ["once"]),
        (b'[{"a": 1}, {"a": 1, "a": 1}]', "[1].a", ["once"]),
        (b'{"fill_value": NaN}', "fill_value", ["NaN is not JSON"]),
        (b'{"a": [1, -Infinity]}', "a[1]", ["-Infinity is not JSON"]),
        (b'{"a": Infinity}', "a", ["Infinity is not JSON"]),
        (b'{"a": [[1e400]]}', "a[0][0]", ["fit a float64", "1e400"]),
        (b'{"numcodecs.x": -1.5e999}', '["numcodecs.x"]', ["fit a float64"]),
        (b"", None, ["must be JSON", "line 1, column 1"]),
        (b'{"a": 1', None, ["must be JSON"]),
        (b'{"a": 1,}', None, ["must be JSON"]),
        (b'{"a": 01}', None, ["must be JSON"]),
        (b'{"a": 1} x', None, ["must be JSON"]),
        (b"{'a': 1}", None, ["must be JSON"]),
        (b'{"a": "\n"}', None, ["must be JSON"]),
        (b'\xef\xbb\xbf{"a": 1}', None, ["must be JSON", "BOM"]),
        (b'{"a": "\xff"}', None, ["UTF-8", "0xff at 7"]),
        (b'{"a": 1' + b"0" * 5000 + b"}", None, ["more digits"]),
        (b"[" * 100_000, None, ["nest deeper"]),
        (b"[" * (DEPTH_LIMIT + 1) + b"]" * (DEPTH_LIMIT + 1), None, ["nest deeper"]),
        (b'{"a":' * (DEPTH_LIMIT + 1) + b"1" + b"}" * (DEPTH_LIMIT + 1), None, ["nest deeper"]),
    ],
)
def test_bad_text_is_refused(text, path, words):
    with refused(path, *words):
        parse_json(text)


def test_nesting_to_the_limit_is_read_and_written():
    text = b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT
    assert dump_json(as_json(parse_json(text), None)).replace(b" ", b"").replace(b"\n", b"") == text
    assert len(read_list(b"[" + b"[]," * 500 + b"[]]")) == 501


def test_an_empty_document_hints_at_its_writer():
    with pytest.raises(MetadataError, match="interrupted"):
        parse_json(b"")


def test_users_values_become_plain_json():
    given_value = {
        "a": (1, np.int16(2)), "b": np.float32(0.5), "c": np.array([[1, 2]]), "d": np.bool_(True), "e": np.str_("x"),
        "f": parse_json("1.5"),
    }  # fmt: skip
    plain = as_json(given_value, None)
    assert plain == {"a": [1, 2], "b": 0.5, "c": [[1, 2]], "d": True, "e": "x", "f": 1.5}
    assert [type(plain[name]) for name in "bcdef"] == [float, list, bool, str, float]


def test_copies_are_deep():
    inner = [1]
    copied = as_json({"a": inner}, None)
    inner.append(2)
    assert copied == {"a": [1]}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": float("nan")}, "x.a"),
        ({"a": [1, float("inf")]}, "x.a[1]"),
        ({"a": np.float32("nan")}, "x.a"),
        ({"a": np.array([1, np.inf])}, "x.a[1]"),
        ({"a": {1, 2}}, "x.a"),
        ({"a": b"bytes"}, "x.a"),
        ({"a": 1j}, "x.a"),
        ({"a": {1: 2}}, "x.a"),
        ({"a b": object()}, 'x["a b"]'),
    ],
)
def test_values_that_json_cannot_express_are_refused(value, path):
    with refused(path):
        as_json(value, "x")


def test_a_value_that_holds_itself_is_refused():
    value: list[object] = []
    value.append(value)
    with pytest.raises(MetadataError, match="nest deeper"):
        as_json(value, None)


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, {"a": 10**5000}, {"a": object()}])
def test_values_that_json_cannot_express_are_not_written(value):
    with pytest.raises(MetadataError, match="cannot be written"):
        dump_json(value)


def test_paths_of_members():
    assert member(None, "shape") == "shape"
    assert member(item("codecs", 1), "configuration") == "codecs[1].configuration"
    assert member("a", "with-dash") == "a.with-dash"
    assert member("a", 'quote"') == 'a["quote\\""]'


def test_found_values_are_cut_short():
    assert found({"a": [1]}) == '{"a": [1]}'
    assert found("x" * 1000) == f'"{"x" * 59}... (1002 characters)'
    assert found(object()).endswith("of type object")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": [1, {"b": null}]}', '{"a": [1, {"b": null}]}', True),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
        ("1", "true", False),
        ("1", "1.0", False),
        ("1.0", "1.0", True),
        ("1.0", "1e0", False),
        ("[1]", "[1, 1]", False),
        ('{"a": 1}', '{"a": 1, "b": 1}', False),
        ('{"a": "1"}', '{"a": 1}', False),
    ],
)
def test_the_same_json(one: str, other: str, same: bool) -> None:
    assert same_json(parse_json(one), parse_json(other)) is same
