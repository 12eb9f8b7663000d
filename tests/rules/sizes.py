"""How long a file and a function body may be, in Python and in Rust. Rust is read by a small scanner: it knows comments, strings and braces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tests.rules.syntax import functions

FILE_LINES = 500
BODY_LINES = 60

Exceptions = Mapping[str, str]  # "path" or "path function" -> the reason


def long_files(sources: Mapping[str, str], exceptions: Exceptions) -> list[str]:
    return [
        f"{path}: {lines} lines, more than {FILE_LINES}"
        for path, text in sources.items()
        if (lines := len(text.splitlines())) > FILE_LINES and path not in exceptions
    ]


def long_bodies(sources: Mapping[str, str], exceptions: Exceptions) -> list[str]:
    return [
        f"{path}: the body of {name} has {lines} lines, more than {BODY_LINES}"
        for path, text in sources.items()
        for name, lines in (rust_bodies if path.endswith(".rs") else python_bodies)(text)
        if lines > BODY_LINES and f"{path} {name}" not in exceptions
    ]


def python_bodies(text: str) -> Iterator[tuple[str, int]]:
    """Every function and the lines of its body, without its docstring."""
    for node in functions(text):
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        yield node.name, (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


_RUST_TEXTS = re.compile(
    r"""//[^\n]*                                # a comment up to the line's end
      | /\*.*?\*/                               # a comment (nested ones are not used)
      | b?r(?P<hashes>\#*)".*?"(?P=hashes)      # a raw string
      | b?"(?:\\.|[^"\\])*"                     # a string
      | b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\])'   # a character; a lifetime has no second quote
    """,
    re.VERBOSE | re.DOTALL,
)
_RUST_TEST_MODULE = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?mod\s+\w+\s*\{")
_RUST_FUNCTION = re.compile(r"\bfn\s+(\w+)")


def rust_bodies(text: str) -> Iterator[tuple[str, int]]:
    """Every function and the lines between its braces; test modules are left out."""
    text = _RUST_TEXTS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    while test := _RUST_TEST_MODULE.search(text):
        text = text[: test.start()] + text[_end_of_block(text, test.end() - 1) :]
    for found in _RUST_FUNCTION.finditer(text):
        opening = _opening_brace(text, found.end())
        if opening is not None:
            body = text[opening : _end_of_block(text, opening)]
            yield found[1], max(body.count("\n") - 1, 0)


def _opening_brace(text: str, start: int) -> int | None:
    """The position of the opening brace of the function whose signature continues at `start`; None if it has no body."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "([":
            depth += 1
        elif text[at] in ")]":
            depth -= 1
        elif text[at] == ";" and depth == 0:
            return None
        elif text[at] == "{" and depth == 0:
            return at
    return None


def _end_of_block(text: str, opening: int) -> int:
    """The position after the brace that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)
