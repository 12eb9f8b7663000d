"""No file of the project names the machine it was written on, or where packages are downloaded from."""

from __future__ import annotations

from pathlib import Path

from tests.rules.texts import forbidden_texts, project_files

ROOT = Path(__file__).parent.parent


def test_no_file_names_what_it_may_not() -> None:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(errors="replace") for path in project_files(ROOT)}
    assert "Makefile" in sources
    assert forbidden_texts(sources) == []
