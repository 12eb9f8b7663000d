"""Locations: two spellings of one file are one, and what may lead elsewhere than it reads is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.repository.virtual_locations import VirtualLocation, file_location, parse_location

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).filter(
    lambda name: name not in {".", ".."}
)


@given(st.lists(names, min_size=1))
def test_paths_become_locations_and_come_back(parts: list[str]) -> None:
    location = file_location("/" + "/".join(parts))
    assert location.isascii()
    assert parse_location(location) == VirtualLocation("file", "", tuple(parts), False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("file:///a/b", ("file", "", ("a", "b"), False)),
        ("FILE://localhost//a///b", ("file", "", ("a", "b"), False)),
        ("file:///a%2Db/", ("file", "", ("a-b",), True)),
        ("file:///", ("file", "", (), True)),
        ("s3://Bucket/a%20b//c", ("s3", "Bucket", ("a%20b", "c"), False)),
        ("s3://bucket", ("s3", "bucket", (), True)),
        ("https://host:80/a?b#c", ("https", "host:80", ("a?b#c",), False)),
        ("gs://b/100%", ("gs", "b", ("100%",), False)),
    ],
)
def test_parts(text: str, wanted: tuple[object, ...]) -> None:
    assert tuple(parse_location(text)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "/a/b", "file:/a", "c:\\a", "a://b", "file:///a\0b", "file:///a\nb", "file://host/a", "s3:///a"),
        *("file:///a/../b", "file:///a/./b", "file:///..", "file:///%2e%2e/b", "file:///%2E./b", "file:///a%2fb"),
        *("file:///a%00", "file:///a%", "file:///a%zz", "file:///a%ff", "file:///a?b", "file:///a#b", "file:///\ud800"),
        *("s3://b/../c", "s3://b/%2e%2e/c", "s3://b/./c", "s3://b/%00", "s3://b/\x7f"),
    ],
)
def test_what_may_lead_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not the location of a virtual chunk") as caught:
        parse_location(text)
    assert caught.value.key is not None and caught.value.key.isascii()


@pytest.mark.parametrize("path", ["a/b", "", "/\ud800"])
def test_paths_without_a_location(path: str) -> None:
    with pytest.raises(InvalidInputError):
        file_location(path)


@pytest.mark.parametrize(
    ("text", "folder", "below"),
    [
        ("file:///data/a", "file:///data/", True),
        ("file:///data/a/b", "file:///data/", True),
        ("file:///data", "file:///data/", False),
        ("file:///data/", "file:///data/", False),
        ("file:///data/a/", "file:///data/", False),
        ("file:///database", "file:///data/", False),
        ("file:///d%61ta/a", "file:///data/", True),
        ("file:///x", "file:///", True),
        ("s3://data/a", "file:///data/", False),
        ("s3://b/a", "s3://B/", False),
    ],
)
def test_below(text: str, folder: str, below: bool) -> None:
    assert parse_location(text).is_below(parse_location(folder)) is below
