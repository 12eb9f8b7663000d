"""No file of the project names the machine it was written on, or where packages are downloaded from; and its references to other files are valid."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rules.texts import forbidden_texts, missing_files, project_files

ROOT = Path(__file__).parent.parent


def test_files_contain_no_forbidden_words() -> None:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(errors="replace") for path in project_files(ROOT)}
    assert "Makefile" in sources
    assert forbidden_texts(sources) == []


def test_files_that_are_named_are_there() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in project_files(ROOT)]
    sources = {name: (ROOT / name).read_text() for name in files if name.startswith("src/") and name.endswith(".py")}
    assert missing_files(sources, files) == []
    pages = re.compile(r"docs/[a-z-]+(?:/[a-z0-9-]+)*\.md")
    for name in files:
        if name.endswith((".py", ".md", ".rs", ".toml", "Makefile")) and not name.startswith("tests/"):
            assert {page for page in pages.findall((ROOT / name).read_text()) if page not in files} == set(), name
