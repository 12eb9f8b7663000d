"""Names and paths of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.metadata.paths import ancestors, check_name, join, normalise, split


@pytest.mark.rule("K16")
@pytest.mark.parametrize(
    "name",
    [
        "a",
        "A-1_.b",
        ".hidden",
        "a..",
        "c",
        "c0",
        "é",
        "日本",
        "with space",
        "_a",
        "a__",
        "zarr.jso",
        "ZARR.JSON",
        "\\",
        "..a",
    ],
)
def test_good_names(name):
    assert check_name(name) == name
    assert normalise(name) == name


@pytest.mark.rule("K16")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"), ("a/b", "'/'"), (".", "periods"), ("..", "periods"), ("...", "periods"), ("__", "'__'"), ("__zarr", "'__'"),
        ("zarr.json", "metadata document"), ("\ud800", "surrogate"),
    ],
)  # fmt: skip
def test_bad_names(name, reason):
    with pytest.raises(InvalidInputError, match=reason):
        check_name(name)


@pytest.mark.parametrize(
    ("given_path", "path"),
    [
        ("", ""),
        ("/", ""),
        ("a", "a"),
        ("/a", "a"),
        ("a/", "a"),
        ("/a/b", "a/b"),
        ("a/b/", "a/b"),
        ("/a/b/", "a/b"),
        (None, ""),
        ("//", ""),
        ("///", ""),
        ("a//b", "a/b"),
        ("//a", "a"),
        ("a//", "a"),
    ],
)
def test_paths_are_made_plain(given_path, path):
    assert normalise(given_path) == path


@pytest.mark.parametrize("path", ["a/../b", "//a/../b", "..", "./a", "a/.", "a/zarr.json", "a/__b/c", "zarr.json/a"])
def test_bad_paths_are_refused(path):
    with pytest.raises(InvalidInputError, match="the name of a node must not") as caught:
        normalise(path)
    assert caught.value.path == path


def test_paths_other_than_strings_are_refused():
    with pytest.raises(InvalidInputError, match="must be a string"):
        normalise(3)  # type: ignore[arg-type]


names = st.text(min_size=1).filter(
    lambda name: "/" not in name and name.strip(".") and not name.startswith("__") and name != "zarr.json"
)


@given(st.lists(names.filter(lambda name: name.isprintable()), max_size=4))
def test_paths_are_put_together_and_taken_apart(parts):
    path = ""
    for part in parts:
        longer = join(path, part)
        assert split(longer) == (path, part)
        path = longer
    assert path == "/".join(parts)
    assert normalise(path) == path
    assert join(path, "") == path
    assert ancestors(path) == ["/".join(parts[:n]) for n in range(len(parts))]


def test_the_root_has_no_parent():
    assert split("") == ("", "")
    assert ancestors("") == []
    assert ancestors("a") == [""]
    assert join("", "a/b") == "a/b"
    assert join("a", "b/c") == "a/b/c"
