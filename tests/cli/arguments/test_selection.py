"""Text to selections, compared with how Python itself reads the same text."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.cli.arguments.selection import parse_selection
from frazil.errors import SelectionError

integers = st.integers(-(10**20), 10**20)
bounds = st.none() | integers
slices = st.builds(slice, bounds, bounds, bounds)
items = st.one_of(integers, slices, st.lists(integers, max_size=4), st.just(Ellipsis))


def as_text(item: object) -> str:
    if isinstance(item, slice):
        parts = ["" if bound is None else str(bound) for bound in (item.start, item.stop, item.step)]
        return ":".join(parts if parts[2] else parts[:2])
    return "..." if item is Ellipsis else str(item)


@given(st.lists(items, min_size=1, max_size=5), st.sampled_from([",", ", ", " ,  "]), st.sampled_from(["", ",", " , "]))
def test_selections_parse_as_in_python(selection: list[object], comma: str, end: str) -> None:
    text = comma.join(map(as_text, selection)) + end
    assert parse_selection(text) == tuple(selection)
    assert parse_selection(text) == eval(f"np.index_exp[{text}]", {"np": np})


@given(st.text(max_size=12) | st.text("0123456789:,.[]- ex_()", max_size=12))
def test_other_text_is_refused(text: str) -> None:
    with contextlib.suppress(SelectionError):
        selection = parse_selection(text)
        python = re.sub(r"\b0+(?=\d)", "", text.strip())  # 007, which Python refuses, is 7
        assert selection == eval(f"np.index_exp[{python}]", {"np": np})


@pytest.mark.parametrize(
    "text",
    [
        *(
            ",",
            "1,,2",
            "a",
            "1.5",
            "0x10",
            "1_0",
            "1e3",
            "1:2:3:4",
            "....",
            "..",
            "--1",
            "None",
            "True",
            "__import__('os')",
        ),
        *("[1", "1]", "[[1]]", "[1:2]", "[1][2]", "[1]2", "2[1]", "(1,)", "[1,,2]", "[,]"),
        *("", " ", "1 2", ". ..", "1\n2", "9" * 10_000, "٣"),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(SelectionError):
        parse_selection(text)
