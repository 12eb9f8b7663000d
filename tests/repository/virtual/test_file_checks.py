"""Checks of files under the flags of a manifest: they come back, other flags stay, and what is no check is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import FormatError
from frazil.formats.manifests import NO_FLAGS
from frazil.formats.msgpack import pack, unpack
from frazil.repository.virtual.file_checks import (
    CHECKS_FLAG,
    FileCheck,
    distinct_location,
    plain_location,
    read_checks,
    what_differs,
    with_checks,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
checks = st.builds(FileCheck, st.integers(-1, 2**63 - 1), st.integers(-(2**63) + 1, 2**63 - 1), texts, texts)
tables = st.dictionaries(texts, checks, max_size=4)
flags = st.dictionaries(texts.filter(lambda name: name != CHECKS_FLAG), st.integers() | texts, max_size=3).filter(
    lambda found: all(not isinstance(value, int) or -(2**63) <= value < 2**64 for value in found.values())
)


@given(flags, tables, tables)
def test_checks_come_back_and_other_flags_stay(
    others: dict[str, object], first: dict[str, FileCheck], second: dict[str, FileCheck]
) -> None:
    once = with_checks(pack(others), first)
    twice = with_checks(once, second)
    assert read_checks(once) == first
    assert read_checks(twice) == second
    assert with_checks(twice, {}) == pack(others)


def test_what_is_not_known_takes_no_room() -> None:
    assert with_checks(NO_FLAGS, {}) == NO_FLAGS
    table = {"a": FileCheck(3, 4), "b": FileCheck(), "c": FileCheck(tag="x")}
    assert unpack(with_checks(NO_FLAGS, table)) == {CHECKS_FLAG: {"a": [3, 4], "b": [], "c": [None, None, "x"]}}


def test_a_text_is_a_tag() -> None:
    assert read_checks(pack({CHECKS_FLAG: {"a": "etag"}})) == {"a": FileCheck(tag="etag")}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xc0", b"\x81", b"\x80\x80", pack({CHECKS_FLAG: 1}), pack({CHECKS_FLAG: {"a": 1}}), pack({CHECKS_FLAG: {"a": [1] * 5}}),
        pack({CHECKS_FLAG: {"a": ["1"]}}), pack({CHECKS_FLAG: {"a": [-2]}}), pack({CHECKS_FLAG: {"a": [2**63]}}),
        pack({CHECKS_FLAG: {"a": [1, 2, 3]}}), pack({CHECKS_FLAG: {"a": [[[]]]}}), pack({"x": 1}) [:-1], b"\x81\xdd\xff\xff\xff\xff",
    ],
)  # fmt: skip
def test_what_is_no_check_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        read_checks(data, "manifests/x")


@given(st.lists(st.tuples(st.sampled_from(["s3://b/a", "file:///b"]), st.none() | checks), max_size=6))
def test_one_location_means_one_state(given: list[tuple[str, FileCheck | None]]) -> None:
    known: dict[str, FileCheck | None] = {}
    for location, check in given:
        told = {text: one for text, one in known.items() if one is not None}
        made = distinct_location(location, check, known, told)
        assert plain_location(made) == location
        assert known.setdefault(made, check) == check or {check, known[made]} == {None, FileCheck()}
        assert distinct_location(made, check, {}, {}) == made


def test_other_fragments_are_names() -> None:
    for text in ("s3://b/a#b", "s3://b/#frazil-12", "s3://b/a#frazil-0123456789abcdef/b"):
        assert plain_location(text) == text


@pytest.mark.parametrize(
    ("check", "seen", "differs"),
    [
        (FileCheck(1, 2), FileCheck(1, 2), False),
        (FileCheck(1, 2), FileCheck(1, 3), True),
        (FileCheck(1, 2), FileCheck(2, 2), True),
        (FileCheck(), FileCheck(2, 2, "x"), False),
        (FileCheck(1, 2), FileCheck(-1, -1), False),
        (FileCheck(1, 2), FileCheck(1, 3, "", "elsewhere"), False),
        (FileCheck(1, 2), FileCheck(2, 2, "", "elsewhere"), True),
        (FileCheck(1, 2, "", "there"), FileCheck(1, 3), False),
        (FileCheck(1, 2, "", "there"), FileCheck(1, 3, "", "there"), True),
        (FileCheck(1, -1, "x"), FileCheck(1, -1, "y"), True),
    ],
)
def test_what_differs(check: FileCheck, seen: FileCheck, differs: bool) -> None:
    assert bool(what_differs(check, seen)) is differs
