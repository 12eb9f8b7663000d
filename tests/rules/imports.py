"""Which modules may import which: layers, cycles, hidden imports. Sizes and contents have their own files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from tests.rules.syntax import parsed

PACKAGE = "frazil"
ROOT = "__init__"  # the room of frazil/__init__.py

# ARCHITECTURE.md draws this. A room is a module or package directly in frazil.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "base", "runtime", "_kernel"}),
    frozenset({"metadata", "indexing", "formats"}),
    frozenset({"codecs", "stores"}),
    frozenset({"array", "repository", "dtype", "extensions", "storage"}),
    frozenset({"api", "operations", "testing", ROOT}),
    frozenset({"integrations", "dask", "xarray", "zarr", "cli", "__main__"}),
)
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}

# A room imports its own modules and lower layers; within a layer, only these arrows.
SIDEWAYS = frozenset(
    {
        ("base", "errors"),
        ("runtime", "errors"),
        ("runtime", "base"),
        ("stores", "codecs"),
        ("operations", "api"),
        ("testing", "api"),  # the simulation drives repositories
        ("cli", "integrations"),
        ("dask", "integrations"),  # its public name
        ("xarray", "integrations"),  # its public name
        ("zarr", "integrations"),  # its public name
        ("__main__", "cli"),
        (ROOT, "api"),
        (ROOT, "operations"),
        (ROOT, "dask"),  # late: nothing of it is loaded before it is used
        (ROOT, "xarray"),  # late, too
        (ROOT, "integrations"),  # late: import_file, export_file
        (ROOT, "zarr"),  # late, too
    }
)
# Sub-packages of one package, the lowest first: each imports its own modules and those before it.
ORDERED: dict[str, tuple[str, ...]] = {
    "repository": (
        "format",
        "replaced_files",
        "synced_tips",
        "virtual",
        "manifests",
        "maintenance",
        "verification",
        "repair",
        "session",
        "commit",
        "merge",
        "inspection",
        "alpha",
    ),
}
ALONE = frozenset({"errors"})  # imports nothing of the project
# Modules and packages of one repository format, and the only other ones that import them.
OWN: dict[str, tuple[str, ...]] = {
    "frazil.formats.alpha": ("frazil.repository.alpha",),
    "frazil.repository.alpha": (
        "frazil.api.repository_arguments",  # detects the format of a location
        "frazil.operations.copy",  # copies files of repositories in an order that never leaves a broken one
        "frazil.testing.memory_format",  # has snapshots as the alpha has them
    ),
}
# calls that import a module of the project on first use, by the names between their parentheses
LATE_CALLS = frozenset({"LateModule", "LateCodec", "LateTypes", "late_modules", "late_names"})


class Import(NamedTuple):
    """One import of a module of the project by another."""

    path: str
    line: int
    source: str
    target: str
    hidden: bool  # inside a function
    late: bool  # by one of LATE_CALLS


def module_of(path: str) -> str:
    """'src/frazil/array/reading.py' -> 'frazil.array.reading'; a package's __init__ is the package."""
    parts = path.rsplit(".", 1)[0].split("/")
    parts = parts[parts.index(PACKAGE) :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ROOT


def find_imports(sources: Mapping[str, str]) -> list[Import]:
    """Every import between the project's modules, those for type checking included."""
    modules = {module_of(path) for path in sources}
    found: list[Import] = []
    for path, text in sources.items():
        source = module_of(path)
        package = source if path.endswith(("/__init__.py", "/__init__.pyi")) else source.rpartition(".")[0]
        for node, hidden in _imports_of(text):
            late = isinstance(node, ast.Call) and _called(node) in LATE_CALLS
            found += [
                Import(path, node.lineno, source, target, hidden, late) for target in _targets(node, package, modules)
            ]
    return found


@cache
def _imports_of(text: str) -> tuple[tuple[ast.Import | ast.ImportFrom | ast.Call, bool], ...]:
    return tuple(_import_nodes(parsed(text), hidden=False))


def _import_nodes(node: ast.AST, *, hidden: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom | ast.Call, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom) or (isinstance(child, ast.Call) and _imports_by_name(child)):
            yield child, hidden
        inside = hidden or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _import_nodes(child, hidden=inside)


def _imports_by_name(call: ast.Call) -> bool:
    return _called(call) in {"import_module", "__import__", *LATE_CALLS}


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _targets(node: ast.Import | ast.ImportFrom | ast.Call, package: str, modules: set[str]) -> list[str]:
    if isinstance(node, ast.Call):
        parts = [part.value for argument in node.args for part in ast.walk(argument) if isinstance(part, ast.Constant)]
        inside = f"{package}." if _called(node) == "late_modules" else ""
        names = [inside + part for part in parts if isinstance(part, str)]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        base = node.module or ""
        if node.level:
            base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1], *filter(None, [base])])
        names = [_module_or_its_parent(base, alias.name, modules) for alias in node.names]
    return [name for name in names if name.split(".")[0] == PACKAGE]


def _module_or_its_parent(base: str, name: str, modules: set[str]) -> str:
    """`from base import name` imports base.name if that is a module."""
    inner = f"{base}.{name}"
    return inner if inner in modules or (base == PACKAGE and name in LAYER_OF) else base


def layer_breaks(sources: Mapping[str, str]) -> list[str]:
    """Imports upward or sideways, and modules without a layer."""
    breaks = [f"{path}: no layer has it" for path in sources if room_of(module_of(path)) not in LAYER_OF]
    for path, line, source, target, *_ in find_imports(sources):
        here, there = room_of(source), room_of(target)
        if here not in LAYER_OF or (here == there and here not in ALONE):
            continue
        if there not in LAYER_OF:
            breaks.append(f"{path}:{line}: {target} has no layer")
        elif here in ALONE or (LAYER_OF[there] >= LAYER_OF[here] and (here, there) not in SIDEWAYS):
            breaks.append(
                f"{path}:{line}: {source} (layer {LAYER_OF[here]}) imports {target} (layer {LAYER_OF[there]})"
            )
    return breaks


def order_breaks(sources: Mapping[str, str]) -> list[str]:
    """Imports between sub-packages of an ordered package that lead to a later one; and sub-packages without a place in the order."""
    breaks: list[str] = []
    for path, line, source, target, *_ in find_imports(sources):
        order = ORDERED.get(room_of(source), ())
        here, there = sub_package_of(source), sub_package_of(target)
        if not order or room_of(source) != room_of(target) or here in ("", there):  # "": which modules are late
            continue
        if here not in order or there not in order:
            breaks.append(f"{path}:{line}: {target if here in order else source} has no place in the order")
        elif order.index(there) > order.index(here):
            breaks.append(f"{path}:{line}: {source} imports {target}, which comes later")
    return breaks


def foreign_imports(sources: Mapping[str, str]) -> list[str]:
    """Imports of modules of one format by modules that may know only the port."""
    return [
        f"{found.path}:{found.line}: {found.source} imports {found.target}, which belongs to one format"
        for found in find_imports(sources)
        for package, users in OWN.items()
        if _is_in(found.target, package) and not any(_is_in(found.source, user) for user in (package, *users))
    ]


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def sub_package_of(module: str) -> str:
    """'frazil.repository.merge.delta' -> 'merge'; "" for the package itself."""
    return ".".join(module.split(".")[2:3])


def cycles(sources: Mapping[str, str]) -> list[str]:
    """A cycle of imports between modules, if there is one; imports inside functions and for type checking count too."""
    graph: dict[str, set[str]] = {}
    for found in find_imports(sources):
        if found.target != found.source:
            graph.setdefault(found.source, set()).add(found.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["cycle: " + " <- ".join(error.args[1])]
    return []


def hidden_imports(sources: Mapping[str, str]) -> list[str]:
    """Imports of the project inside functions. External packages may be imported where they are needed."""
    return [f"{i.path}:{i.line}: {i.target} is imported inside a function" for i in find_imports(sources) if i.hidden]


def late_imports(sources: Mapping[str, str], allowed: Mapping[str, str]) -> list[str]:
    """Modules that are imported late and are not listed, or that do not exist; and needless entries."""
    modules = {module_of(path) for path in sources}
    late = [found for found in find_imports(sources) if found.late]
    breaks = [f"{i.path}:{i.line}: {i.target} is imported late" for i in late if i.target not in allowed]
    breaks += [f"{i.path}:{i.line}: there is no module {i.target}" for i in late if i.target not in modules]
    return breaks + [f"{name} is not imported late" for name in allowed if name not in {i.target for i in late}]
