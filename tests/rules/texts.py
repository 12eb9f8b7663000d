"""Names that no file of the project may contain: the machine it was written on, the addresses of package registries, and missing files of the project."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.rules.syntax import nodes

NOT_OURS = {".git", "target", "build", "dist", "__pycache__"}  # made by tools, never committed
NOT_OURS_PATTERN = re.compile(
    r"\.venv.*|\.servers|\.[a-z]+_cache|\.hypothesis|.*\.egg-info|.*\.(?:so|pyd|pyc|png|npy|whl)"
)

FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.}])/(?:root|work|tmp|mnt|Users)/|(?<![\w.}])/home/\w"),
    "a package registry": re.compile(
        r"pypi\.org|pythonhosted\.(?:org|com)|crates\.io|npmjs\.(?:org|com)|proxy\.golang|anaconda\.org|--(?:extra-)?index-url|find[-]links"
    ),
    "a page of notes that is not part of the project": re.compile(r"\b(?:notes|shared|brief)/[\w-]+\.md\b"),
}
# Cargo writes the name of its index into its lock file, and refuses the file without it.
ALLOWED = {"rust/Cargo.lock": re.compile(r"registry\+https://github\.com/rust-lang/crates\.io-index")}


def project_files(root: Path) -> Iterator[Path]:
    """Every file that is not made by a tool. Uses no version control, so that it works in an unpacked archive too."""
    for path in sorted(root.iterdir()):
        if path.name in NOT_OURS or NOT_OURS_PATTERN.fullmatch(path.name) or path.is_symlink():
            continue
        if path.is_dir():
            yield from project_files(path)
        else:
            yield path


def _judged(path: str, text: str) -> str:
    return ALLOWED[path].sub("", text) if path in ALLOWED else text


def forbidden_texts(sources: Mapping[str, str]) -> list[str]:
    """Lines with a forbidden name."""
    return [
        f"{path}:{number}: {what}: {found[0]}"
        for path, text in sources.items()
        for number, line in enumerate(_judged(path, text).splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if (found := pattern.search(line))
    ]


# In docstrings: "codecs/codec.py", "codec.py", "rust/src/lib.rs", "array/io/".
NAMED = re.compile(r"(?<![\w/.:$<{\"'`-])((?:[a-z0-9_]+/)*[a-z0-9_]+\.(?:py|rs|md)|(?:[a-z0-9_]+/)+)(?![\w/<$*{\"'])")
ROOTS = ("", "src/frazil/", "rust/src/", "docs/")
KEYS = frozenset(
    {"refs/", "meta/", "data/", "gc/", "gc/condemned/", "gc/marks/", "gc/pins/"}
)  # of stores and repositories


def missing_files(sources: Mapping[str, str], files: Iterable[str]) -> list[str]:
    """Missing files and folders that docstrings name.

    files  all paths of the project. A name is relative to the root, to one of the ROOTS, to the folder of the file that names it, or to one folder above or
    below"""
    there = {part for path in files for part in _with_folders(path)}
    return [
        f"{path}: {name} is not there"
        for path, text in sources.items()
        for docstring in _docstrings(text)
        for name in NAMED.findall(docstring)
        if name not in KEYS and not any(root + name in there for root in (*ROOTS, *_beside(path, there)))
    ]


def _with_folders(path: str) -> list[str]:
    parts = path.split("/")
    return [path, *("/".join(parts[:count]) + "/" for count in range(1, len(parts)))]


def _beside(path: str, there: set[str]) -> list[str]:
    folder = path.rpartition("/")[0] + "/"
    above = folder.rstrip("/").rpartition("/")[0] + "/"
    inner = [other for other in there if other.startswith(folder) and other.count("/") == folder.count("/") + 1]
    return [folder, above, *(other for other in inner if other.endswith("/"))]


def _docstrings(text: str) -> Iterator[str]:
    for node in nodes(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (docstring := ast.get_docstring(node)):
            yield docstring
