"""Rules on the content of a source file: docstrings, exceptions, lists of names, functions of NumPy, Any in public signatures."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping

from tests.rules.syntax import nodes, parsed

BUILTIN_ERRORS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)
# Protocols of the language require these by name; a test suite (frazil.testing) raises AssertionError.
MAY_BE_RAISED = frozenset({"AttributeError", "TypeError", "StopIteration", "KeyboardInterrupt", "SystemExit"})
HOME_OF_ERRORS = "/errors.py"
TEST_SUITES = "/testing/"
SETS = frozenset({"unique", "isin", "in1d", "union1d", "intersect1d", "setdiff1d", "setxor1d"})
SHORT = frozenset({"return_index", "return_inverse", "return_counts"})  # with them np.unique imports nothing
PUBLIC_MODULE_PARTS = 3  # src/frazil/NAME.py: a module of the public API


def missing_docstrings(sources: Mapping[str, str]) -> list[str]:
    """Files that do not begin with a docstring."""
    return [f"{path}: no docstring" for path, text in sources.items() if not ast.get_docstring(parsed(text))]


def stray_exceptions(sources: Mapping[str, str]) -> list[str]:
    """Exceptions defined outside errors.py."""
    return [
        f"{path}:{node.lineno}: {node.name} is an exception; those live in errors.py"
        for path, text in sources.items()
        if not path.endswith(HOME_OF_ERRORS)
        for node in nodes(text)
        if isinstance(node, ast.ClassDef) and any(_is_error(_last_name(base)) for base in node.bases)
    ]


def bare_raises(sources: Mapping[str, str]) -> list[str]:
    """Built-in exceptions raised to the user, mainly NotImplementedError, if errors.py has a more specific one."""
    return [
        f"{path}:{node.lineno}: raises {name}; errors.py has what callers can act upon"
        for path, text in sources.items()
        for node in nodes(text)
        if isinstance(node, ast.Raise) and (name := _raised(node)) in BUILTIN_ERRORS - MAY_BE_RAISED
        if not (name == "AssertionError" and TEST_SUITES in path)
    ]


def late_imports_of_numpy(sources: Mapping[str, str]) -> list[str]:
    """Calls of the functions of NumPy that import numpy.ma at their first call: in a child that was forked meanwhile, the next one hangs."""
    return [
        f"{path}:{node.lineno}: np.{node.func.attr} imports numpy.ma; frazil.base.arrays has distinct and among"
        for path, text in sources.items()
        for node in nodes(text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SETS
        if getattr(node.func.value, "id", "") == "np" and not {key.arg for key in node.keywords} & SHORT
    ]


def repeated_names(sources: Mapping[str, str]) -> list[str]:
    """Modules with an `__all__` that lists only their own names, which a leading underscore already tells apart."""
    return [
        f"{path}: __all__ lists only names of this module"
        for path, text in sources.items()
        if not path.endswith("/__init__.py") and len(path.split("/")) > PUBLIC_MODULE_PARTS
        if (listed := _listed_names(text)) and not listed & _imported_names(text)
    ]


def _listed_names(text: str) -> set[str]:
    """The names in `__all__`; none if there is none, or it is computed."""
    for node in parsed(text).body:
        if isinstance(node, ast.Assign) and any(_last_name(target) == "__all__" for target in node.targets):
            return {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
    return set()


def _imported_names(text: str) -> set[str]:
    return {
        alias.asname or alias.name
        for node in nodes(text)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def public_any(sources: Mapping[str, str]) -> list[str]:
    """Functions of public classes and modules with Any in their signature."""
    return [
        f"{path}:{function.lineno}: {function.name} has Any in its signature"
        for path, text in sources.items()
        if not any(_private(part) for part in path.removesuffix(".py").split("/"))
        for function in _public_functions(parsed(text))
        if any(_says_any(annotation) for annotation in _annotations(function))
    ]


def _last_name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _is_error(name: str) -> bool:
    return name in BUILTIN_ERRORS or name.endswith(("Error", "Exception"))


def _raised(node: ast.Raise) -> str:
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return _last_name(raised) if raised is not None else ""


def _private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _public_functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _private(child.name):
                yield child
        elif not (isinstance(child, ast.ClassDef) and _private(child.name)):
            yield from _public_functions(child)


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (argument.annotation for argument in every if argument is not None and argument.annotation is not None)
    if function.returns is not None:
        yield function.returns


def _says_any(annotation: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Name | ast.Attribute) and _last_name(node) == "Any" for node in ast.walk(annotation)
    )
