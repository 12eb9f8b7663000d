"""Locations: two spellings of one file are one, and a misleading location is refused."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.repository.virtual.locations import VirtualLocation, file_location, parse_location
from frazil.repository.virtual.virtual_fetch import open_containers

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).filter(
    lambda name: name not in {".", ".."}
)


@given(st.lists(names, min_size=1))
def test_paths_become_locations_and_come_back(parts: list[str]) -> None:
    location = file_location("/" + "/".join(parts))
    assert location.isascii()
    assert parse_location(location) == VirtualLocation("file", "", tuple(parts), False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("file:///a/b", ("file", "", ("a", "b"), False)),
        ("FILE://localhost//a///b", ("file", "", ("a", "b"), False)),
        ("file:///a%2Db/", ("file", "", ("a-b",), True)),
        ("file:///", ("file", "", (), True)),
        ("s3://Bucket/a%20b//c", ("s3", "Bucket", ("a%20b", "c"), False)),
        ("s3://bucket", ("s3", "bucket", (), True)),
        ("s3://b/a?b#c@d:e", ("s3", "b", ("a?b#c@d:e",), False)),
        ("https://Host:80/a%3Fb%20c", ("https", "host:80", ("a?b c",), False)),
        ("HTTPS://host:443/", ("https", "host", (), True)),
        ("http://[::1]:8000/a", ("http", "[::1]:8000", ("a",), False)),
        ("http://host:80/a", ("http", "host", ("a",), False)),
        ("gs://b/100%", ("gs", "b", ("100%",), False)),
    ],
)
def test_parts(text: str, expected: tuple[object, ...]) -> None:
    assert tuple(parse_location(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "/a/b", "file:/a", "c:\\a", "a://b", "file:///a\0b", "file:///a\nb", "file://host/a", "s3:///a"),
        *("file:///a/../b", "file:///a/./b", "file:///..", "file:///%2e%2e/b", "file:///%2E./b", "file:///a%2fb"),
        *("file:///a%00", "file:///a%", "file:///a%zz", "file:///a%ff", "file:///a?b", "file:///a#b", "file:///\ud800"),
        *("s3://b/../c", "s3://b/%2e%2e/c", "s3://b/./c", "s3://b/%00", "s3://b/\x7f"),
        *("https://h/a?b", "https://h/a#b", "https://h/a%2fb", "https://h/%", "https://h\\@e/a", "https://h:x/a"),
        *("https://ü/a", "https://h/%2e%2e/a", "s3://b\\c/a", "s3://b?c/a", "s3://b#c/a", "s3://b%2fc/a", "s3://a b/c"),
    ],
)
def test_ambiguous_urls_are_refused(text: str) -> None:
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
def test_is_below_compares_locations(text: str, folder: str, below: bool) -> None:
    assert parse_location(text).is_below(parse_location(folder)) is below


SECRET = "OPENSESAME"


@pytest.mark.parametrize(
    "text",
    [
        *(f"{scheme}://key:{SECRET}@host/a" for scheme in ("s3", "gs", "az", "abfs", "http", "https", "file", "ftp")),
        *(f"s3://{SECRET}@bucket/a", f"s3://key:{SECRET}/more@bucket/a", f"https://key:{SECRET}@ho@st/a@b"),
        *(f"https://host/a?sig={SECRET}", f"https://host/a?b@c={SECRET}#d", f"https://{SECRET}@host/a?{SECRET}"),
    ],
)
def test_messages_hide_secrets(text: str) -> None:
    for make in (
        parse_location,
        lambda text: open_containers([text]),
        open_containers,
        lambda text: open_containers({"s3://b/": text}),
    ):
        with pytest.raises(InvalidInputError) as caught:
            make(text)
        assert SECRET not in str(caught.value) + repr(caught.value.__context__)


web_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda name: name not in {".", ".."}
)


@given(st.sampled_from(["http", "https"]), st.lists(web_names, min_size=1, max_size=4), st.data())
def test_spellings_of_one_page_are_one_location(scheme: str, parts: list[str], data: st.DataObject) -> None:
    """Letters may be encoded or not, except those with a meaning in a URL, and control characters."""
    spellings = []
    for _ in range(2):
        plain = data.draw(st.sets(st.sampled_from("abcxyz -_~+:@&=")))
        spellings.append(f"{scheme}://Host/" + "/".join(quote(part, safe="".join(plain - {" "})) for part in parts))
    found = {parse_location(text) for text in spellings}
    assert found == {VirtualLocation(scheme, "host", tuple(parts), False)}
    assert parse_location(found.pop().folder_url) == VirtualLocation(scheme, "host", tuple(parts), True)


@given(st.text(max_size=12), st.text("abc./%25Ee\\@:?#", max_size=20))
def test_a_location_is_refused_or_stays_below_its_bucket(bucket: str, path: str) -> None:
    for scheme in ("s3", "https", "abfs"):
        try:
            location = parse_location(f"{scheme}://{bucket}/{path}")
        except InvalidInputError:
            continue
        assert not {"", ".", ".."} & set(location.parts)
        assert not any("/" in part or unquote(part) in {".", ".."} for part in location.parts)
        assert not set("/\\?#@ ") & set(location.host)
