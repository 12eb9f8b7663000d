"""Checks of files: the differences of a file, and one location for each of its states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats.manifests import FileCheck
from frazil.repository.virtual.file_checks import (
    distinct_location,
    plain_location,
    what_differs,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
checks = st.builds(FileCheck, st.integers(-1, 2**63 - 1), st.integers(-(2**63) + 1, 2**63 - 1), texts, texts)


@given(st.lists(st.tuples(st.sampled_from(["s3://b/a", "file:///b"]), st.none() | checks), max_size=6))
def test_one_location_has_one_file_state(given: list[tuple[str, FileCheck | None]]) -> None:
    known: dict[str, FileCheck | None] = {}
    for location, check in given:
        checks = {text: one for text, one in known.items() if one is not None}
        made = distinct_location(location, check, known, checks)
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
def test_differences_of_file_states(check: FileCheck, seen: FileCheck, differs: bool) -> None:
    assert bool(what_differs(check, seen)) is differs
