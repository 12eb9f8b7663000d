"""The rule on texts, on lines that are composed here so that this file does not break it itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.texts import forbidden_texts, missing_files, project_files

INDEX = "registry+https://github.com/rust-lang/" + "crates" + ".io-index"


@pytest.mark.parametrize(
    "parts",
    [
        ("/", "work/main"),
        ("cd /", "tmp/x"),
        ('"/', 'root/.cargo"'),
        ("/", "home/me"),
        ("pypi", ".org"),
        ("static.crates", ".io"),
        ("notes", "/a.md"),
    ],
)
def test_forbidden_texts_are_found(parts: tuple[str, str]) -> None:
    assert forbidden_texts({"a": "".join(parts)})
    assert forbidden_texts({"a": "fine\n" + "".join(parts)})[0].startswith("a:2: ")


@pytest.mark.parametrize(
    "text", ["c/0/1", "a/tmp/b", "$HOME/work/", "${x}/tmp/", "homework/x", "https://docs.rs", "tmp_path / 'x'"]
)
def test_other_texts_pass(text: str) -> None:
    assert forbidden_texts({"a": text}) == []


def test_the_lock_of_cargo_may_name_its_index() -> None:
    assert forbidden_texts({"rust/Cargo.lock": f'source = "{INDEX}"'}) == []
    assert forbidden_texts({"other": f'source = "{INDEX}"'})


def test_project_files(tmp_path: Path) -> None:
    for name in (
        "a.py",
        ".ci/run",
        ".git/config",
        ".venv-bench/x/y",
        "rust/target/z",
        "src/k.so",
        "src/__pycache__/b.pyc",
        ".gitignore",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert {str(path.relative_to(tmp_path)) for path in project_files(tmp_path)} == {"a.py", ".ci/run", ".gitignore"}


def test_files_that_docstrings_name() -> None:
    files = ["src/frazil/codecs/codec.py", "src/frazil/codecs/kinds/one.py", "rust/src/lib.rs", "docs/cli.md"]

    def missing(text: str) -> list[str]:
        return missing_files({"src/frazil/codecs/leaf.py": f'"""{text}"""'}, files)

    good = "codec.py, one.py, kinds/, codecs/, codecs/codec.py, src/frazil/, rust/src/lib.rs, lib.rs, cli.md, refs/, bytes/s, a/b"
    assert missing(f"See {good}.") == []
    for name in ("leaf2.py", "codecs/kinds.py", "codec/", "rust/src/chunks.rs", "docs/page.md"):
        assert missing(f"It is in {name}.") == [f"src/frazil/codecs/leaf.py: {name} is not there"]
