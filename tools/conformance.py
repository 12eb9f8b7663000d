"""Writes the tables of docs/conformance: each rule of rules.toml with the tests that hold it, as their `rule` markers say.

Tests are read as text, not run. A rule without a test, and a marker that names no rule, are errors."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDER = Path("docs/conformance")


class Marked(NamedTuple):
    """One test with the rules that it holds."""

    path: str
    name: str
    rules: tuple[str, ...]


class Page(NamedTuple):
    """One table: rules by number, in order. open: some of them have no test yet, and the table says so."""

    file: str
    title: str
    text: str
    rules: Mapping[str, str]
    open: bool = False


def marked_tests(path: str, source: str) -> Iterator[Marked]:
    """The tests of a file that have markers: functions, and classes, whose marker is for all that is in them."""
    if "pytest.mark.rule" not in source:  # most files: parsing all of them takes seconds
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            rules = tuple(rule for decorator in node.decorator_list for rule in _rules(decorator))
            if rules:
                yield Marked(path, node.name, rules)


def _rules(decorator: ast.expr) -> Iterator[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
        yield from (str(argument.value) for argument in decorator.args if isinstance(argument, ast.Constant))


def read_pages(text: str) -> list[Page]:
    """What rules.toml says."""
    return [
        Page(page["file"], page["title"], page["text"].strip(), page["rules"], page.get("open", False))
        for page in tomllib.loads(text)["page"]
    ]


def mistakes(pages: list[Page], tests: list[Marked]) -> list[str]:
    """Rules without a test, where a page is not open, and markers without a rule."""
    rules = {rule for page in pages for rule in page.rules}
    held = {rule for test in tests for rule in test.rules}
    found = [f"rule {rule} has no test" for page in pages if not page.open for rule in page.rules if rule not in held]
    return found + [
        f"{test.path}: {test.name} is marked with {rule}, which {FOLDER}/rules.toml does not have"
        for test in tests
        for rule in test.rules
        if rule not in rules
    ]


def table(page: Page, tests: list[Marked]) -> str:
    """The text of one page."""
    lines = [
        f"# {page.title}",
        "",
        *page.text.splitlines(),
        "",
        "Made by `make conformance` from `rules.toml` and the tests; edit those.",
        "",
        "| rule | what it says | tests |",
        "|---|---|---|",
    ]
    for rule, text in page.rules.items():
        lines.append(f"| {rule} | {text} | {'<br>'.join(_links(rule, tests)) or 'open'} |")
    return "\n".join(lines) + "\n"


def _links(rule: str, tests: list[Marked]) -> Iterator[str]:
    """A line for each file, with its tests."""
    names: dict[str, list[str]] = {}
    for test in tests:
        if rule in test.rules:
            names.setdefault(test.path, []).append(f"`{test.name}`")
    for path, of_file in names.items():
        yield f"[{Path(path).name}](../../{path}): {', '.join(of_file)}"


def made(root: Path) -> tuple[dict[Path, str], list[str]]:
    """What each page should hold, by its path below root, and what is wrong."""
    pages = read_pages((root / FOLDER / "rules.toml").read_text())
    paths = sorted((root / "tests").rglob("*.py"))
    tests = [test for path in paths for test in marked_tests(str(path.relative_to(root)), path.read_text())]
    return {FOLDER / page.file: table(page, tests) for page in pages}, mistakes(pages, tests)


def main() -> int:
    pages, wrong = made(ROOT)
    for line in wrong:
        print(f"conformance: {line}", file=sys.stderr)
    if wrong:
        return 1
    for path, text in pages.items():
        (ROOT / path).write_text(text)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
