"""Sources as syntax trees. Many rules use the same source, so trees and walks are cached; no rule changes a tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache


@cache
def parsed(text: str) -> ast.Module:
    """The tree of a source."""
    return ast.parse(text)


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Every node of a source, in the order of ast.walk."""
    return tuple(ast.walk(parsed(text)))


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a source, inner ones too. Visits only statements, of which a tree has far fewer than expressions; caches nothing."""
    left: list[ast.AST] = [ast.parse(text)]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, field, None)
            if isinstance(below, list):  # the body of a conditional expression has none
                left += below
