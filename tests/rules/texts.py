"""What no file of the project may name: the machine it was written on, and the addresses of package registries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

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
    """Every file that is not made by a tool. Asks no version control, so that it works in an unpacked archive too."""
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
    """Lines that name what no file may name."""
    return [
        f"{path}:{number}: {what}: {found[0]}"
        for path, text in sources.items()
        for number, line in enumerate(_judged(path, text).splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if (found := pattern.search(line))
    ]
