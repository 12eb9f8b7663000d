"""Keys, prefixes, and the level below a prefix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.stores.keys.names import check_key, check_prefix

COMPONENTS = st.text("ab.é/\U0001f600", min_size=1, max_size=4)


@given(st.text(max_size=12) | st.lists(COMPONENTS, max_size=4).map("/".join))
def test_a_key_is_components_that_name_something(key: str) -> None:
    good = all(part not in {"", ".", ".."} for part in key.split("/")) and "\0" not in key
    for text, check in ((key, check_key), (key + "/", check_prefix)):
        if good:
            check(text)
        else:
            with pytest.raises(InvalidInputError):
                check(text)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "empty"),
        ("a\0", "NUL"),
        ("/a", "slash"),
        ("a/", "slash"),
        ("a//b", "empty component"),
        ("../a", r"\.\."),
        ("a\ud800", "UTF-8"),
    ],
)
def test_the_error_names_the_key_and_a_hint(key: str, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says) as caught:
        check_key(key)
    assert caught.value.key in {key, ascii(key)}
    assert caught.value.hint is not None
    str(caught.value).encode()


@pytest.mark.parametrize("wrong", [b"a", 5, None, ["a"]])
def test_keys_are_text(wrong: object) -> None:
    for check in (check_key, check_prefix):
        with pytest.raises(InvalidInputError, match=type(wrong).__name__):
            check(wrong)  # type: ignore[arg-type]


def test_the_empty_prefix_is_everything_and_a_slash_is_nothing() -> None:
    check_prefix("")
    for wrong in ("/", "a", "a//"):
        with pytest.raises(InvalidInputError):
            check_prefix(wrong)
