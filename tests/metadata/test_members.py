"""Checks of members: every refusal names the member, the found value, and the allowed ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from frazil.metadata.json_text import parse_json
from frazil.metadata.members import Members, check_integer, check_integers, lengths_from_user
from tests.metadata.refusals import refused

PATH = "codecs[1].configuration"


def members(text: str) -> Members:
    value = parse_json(text)
    assert isinstance(value, dict)
    return Members(value, PATH)


def test_members_are_read():
    given = members(
        '{"level": 3, "order": [1, 0], "on": true, "cname": "lz4", "text": "x", "items": [1, "a"], "inner": {"b": 1}}'
    )
    assert given.integer("level", 0, 9) == 3
    assert given.integers("order", 0, 1, length=2) == (1, 0)
    assert given.boolean("on") is True
    assert given.choice("cname", ("lz4", "zstd")) == "lz4"
    assert given.string("text") == "x"
    assert given.array("items") == [1, "a"]
    assert given.object("inner") == {"b": 1}
    given.finish()


def test_defaults_stand_for_absent_members():
    given = members("{}")
    assert given.integer("level", default=5) == 5
    assert given.boolean("checksum", default=False) is False
    assert given.string("text", default="") == ""
    assert given.choice("cname", ("lz4",), default="lz4") == "lz4"
    assert given.array("items", default=[]) == []
    assert given.object("inner", default={}) == {}
    assert not given.has("other")
    given.finish()


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        ('{"level": 10}', lambda m: m.integer("level", 0, 9), "level must be an integer from 0 to 9, found 10"),
        ('{"level": -1}', lambda m: m.integer("level", 0), "level must be an integer of at least 0, found -1"),
        ('{"level": 4}', lambda m: m.integer("level", None, 3), "level must be an integer up to 3, found 4"),
        ('{"level": 1.0}', lambda m: m.integer("level"), "level must be an integer, found 1.0"),
        ('{"level": 1e2}', lambda m: m.integer("level"), "level must be an integer, found 1e2"),
        ('{"level": true}', lambda m: m.integer("level"), "level must be an integer, found true"),
        ('{"level": "1"}', lambda m: m.integer("level"), 'level must be an integer, found "1"'),
        ('{"level": null}', lambda m: m.integer("level", default=1), "level must be an integer, found null"),
        ("{}", lambda m: m.integer("level"), "level is required, found no members"),
        ('{"lvl": 1}', lambda m: m.integer("level"), "level is required, found only 'lvl'"),
        ('{"level": 1}', lambda m: m.boolean("level"), "level must be true or false, found 1"),
        ('{"level": 1}', lambda m: m.string("level"), "level must be a string, found 1"),
        ('{"level": {}}', lambda m: m.array("level"), "level must be an array, found {}"),
        ('{"level": []}', lambda m: m.object("level"), "level must be an object, found []"),
        ('{"level": "x"}', lambda m: m.choice("level", ("a", "b")), 'level must be one of "a", "b", found "x"'),
        ('{"level": []}', lambda m: m.choice("level", ("a",)), 'level must be "a", found []'),
        ('{"level": 3}', lambda m: m.integers("level"), "level must be an array of integers, found 3"),
        ('{"level": [3]}', lambda m: m.integers("level", length=2), "level must be an array of 2 integers, found [3]"),
        ('{"level": 3}', lambda m: m.finish(), "level is not known here (allowed: no members), found 3"),
    ],
)
def test_errors_name_the_member_its_value_and_the_allowed_values(
    text: str, ask: Callable[[Members], object], message: str
):
    with refused(f"{PATH}.level", message):
        ask(members(text))


def test_unknown_members_are_refused_with_the_known_ones():
    given = members('{"level": 3, "levl": 4}')
    given.integer("level")
    given.boolean("checksum", default=True)
    assert given.rest() == {"levl": 4}
    with refused(f"{PATH}.levl", "allowed: level, checksum", "found 4"):
        given.finish()


def test_items_are_named_by_their_place():
    with refused("shape[1]", "shape[1] must be an integer of at least 0, found -2"):
        check_integers([1, -2], "shape", 0)
    with refused("shape[0]", "below 2^63", "found 9223372036854775808"):
        check_integers([2**63], "shape", 0)
    assert check_integer(2**63 - 1, "shape", 0) == 2**63 - 1
    assert check_integer(2**64, "count", 0, None) == 2**64


@pytest.mark.parametrize(
    ("value", "lengths"),
    [
        (5, (5,)),
        (np.int64(5), (5,)),
        ((2, np.uint8(3)), (2, 3)),
        ([4], (4,)),
        (np.array([1, 2]), (1, 2)),
        (np.array(7), (7,)),
        ((), ()),
        (range(1, 3), (1, 2)),
    ],
)
def test_lengths_of_users(value, lengths):
    result = lengths_from_user(value, "shape", low=0)
    assert result == lengths
    assert all(type(length) is int for length in result)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (-1, "shape[0]"),
        ((3, -1), "shape[1]"),
        ((3, 2.0), "shape[1]"),
        ((True,), "shape[0]"),
        ((2**63,), "shape[0]"),
        ((None,), "shape[0]"),
        ((np.array([1, 2]),), "shape[0]"),
        (np.array([[1, 2]]), "shape[0]"),
        (True, "shape"),
        (3.0, "shape"),
        (None, "shape"),
        ("12", "shape"),
        ({"a": 1}, "shape"),
    ],
)
def test_bad_lengths_are_refused(value, path):
    with refused(path, "integer"):
        lengths_from_user(value, "shape", low=0)
