"""The tables of docs/conformance are what their tool generates from the current rules and tests."""

from __future__ import annotations

from pathlib import Path

from tools import conformance

ROOT = Path(__file__).parent.parent.parent
PAGES = conformance.read_pages(
    """
[[page]]
file = "a.md"
title = "A"
text = "Of a."
[page.rules]
A1 = "One."
A2 = "Two."
"""
)
SOURCE = """
@pytest.mark.rule("A1")
@pytest.mark.rule("A2", "A9")
def test_both(): ...

@pytest.mark.parametrize("x", [1])
def test_none(): ...

@pytest.mark.rule("A1")
class TestAll: ...
"""


def test_the_tables_are_up_to_date() -> None:
    pages, wrong = conformance.page_texts(ROOT)
    assert wrong == []
    assert len(pages) == 5
    for path, text in pages.items():
        assert (ROOT / path).read_text() == text, f"{path} is not what the tests say: run `make conformance`"


def test_markers_are_read_from_the_text_of_tests() -> None:
    tests = list(conformance.marked_tests("tests/a.py", SOURCE))
    assert tests == [("tests/a.py", "test_both", ("A1", "A2", "A9")), ("tests/a.py", "TestAll", ("A1",))]
    assert conformance.mistakes(PAGES, tests) == [
        "tests/a.py: test_both is marked with A9, which docs/conformance/rules.toml does not have"
    ]
    assert conformance.mistakes(PAGES, tests[1:]) == ["rule A2 has no test"]
    still = [PAGES[0]._replace(open=True)]
    assert conformance.mistakes(still, tests[1:]) == []
    assert conformance.table(still[0], tests[1:]).endswith("| A2 | Two. | open |\n")
    assert conformance.table(PAGES[0], tests).splitlines()[-2:] == [
        "| A1 | One. | [a.py](../../tests/a.py): `test_both`, `TestAll` |",
        "| A2 | Two. | [a.py](../../tests/a.py): `test_both` |",
    ]
